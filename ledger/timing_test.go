package ledger_test

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"oneslot/ledger"
	"oneslot/ledger/sqlite"
	"oneslot/usage"
)

// onDisk counts the rows another process would see.
func onDisk(t *testing.T, db *sql.DB) (n int) {
	t.Helper()
	must(t, db.QueryRowContext(t.Context(), "SELECT count(*) FROM usage").Scan(&n))
	return n
}

// pass lets time go by and everything happen that is due.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// TestRowsGather shows when rows reach the disk: together, cfg.Every after the
// first one of them.
func TestRowsGather(t *testing.T) {
	for _, tc := range []struct {
		name  string
		every time.Duration
		waits time.Duration // the longest time after which nothing is on disk yet
		then  time.Duration
	}{
		{"by default", 0, 49 * time.Millisecond, 2 * time.Millisecond},
		{"as configured", time.Second, 990 * time.Millisecond, 20 * time.Millisecond},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dir := t.TempDir()
				l := open(t, ledger.Config{Dir: dir, Every: tc.every})
				db := raw(t, dir)
				must(t, l.Begin(queued(1)))
				pass(tc.waits / 2)
				must(t, l.Begin(queued(2)))
				pass(tc.waits - tc.waits/2)
				if n := onDisk(t, db); n != 0 {
					t.Errorf("%d rows on disk after %v", n, tc.waits)
				}
				pass(tc.then)
				if n := onDisk(t, db); n != 2 {
					t.Errorf("%d rows on disk after %v, want 2", n, tc.waits+tc.then)
				}
			})
		})
	}
}

// TestFlushDoesNotWait writes at once, however long rows would gather.
func TestFlushDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		l := open(t, ledger.Config{Dir: dir, Every: time.Hour})
		db := raw(t, dir)
		began := time.Now()
		must(t, l.Flush(t.Context())) // nothing to do
		for n := range 2500 {
			must(t, l.Finish(served(n)))
		}
		must(t, l.Flush(t.Context()))
		if n := onDisk(t, db); n != 2500 {
			t.Errorf("%d rows on disk, want 2500", n)
		}
		if waited := time.Since(began); waited > 0 {
			t.Errorf("it took %v", waited)
		}
	})
}

// TestManyRowsDoNotGather writes before the time when there are enough of them.
func TestManyRowsDoNotGather(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		l := open(t, ledger.Config{Dir: dir, Every: time.Hour})
		db := raw(t, dir)
		for n := range 1000 {
			must(t, l.Begin(queued(n)))
		}
		synctest.Wait()
		if n := onDisk(t, db); n != 1000 {
			t.Errorf("%d rows on disk, want 1000", n)
		}
	})
}

// TestFailedWriteIsTriedAgain heals a broken file without anybody asking. The
// times between the tries grow to five seconds.
func TestFailedWriteIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		l := open(t, ledger.Config{Dir: dir})
		db := raw(t, dir)
		run(t, db, "ALTER TABLE usage RENAME TO away")
		must(t, l.Begin(queued(1)))
		pass(time.Minute)
		if l.Err() == nil {
			t.Fatal("no error after a minute")
		}
		must(t, l.Finish(served(1)))
		run(t, db, "ALTER TABLE away RENAME TO usage")
		pass(6 * time.Second)
		if err := l.Err(); err != nil {
			t.Errorf("six seconds after healing: %v", err)
		}
		if got := get(t, l, 1).Outcome; got != ledger.Served || onDisk(t, db) != 1 {
			t.Errorf("the row is %s, %d on disk", got, onDisk(t, db))
		}
	})
}

// TestRetentionWhileIdle deletes by age although nothing is written.
func TestRetentionWhileIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		l := open(t, ledger.Config{Dir: dir, Retention: 90 * time.Minute})
		db := raw(t, dir)
		r := served(1)
		r.Created = time.Now()
		must(t, l.Finish(r))
		pass(time.Hour + time.Second)
		if n := onDisk(t, db); n != 1 {
			t.Errorf("%d rows after an hour, want 1", n)
		}
		pass(time.Hour)
		if n := onDisk(t, db); n != 0 {
			t.Errorf("%d rows after two hours, want none", n)
		}
	})
}

// TestCloseWhileFlushing answers everybody who waits for the disk.
func TestCloseWhileFlushing(t *testing.T) {
	l, err := sqlite.Open(t.Context(), ledger.Config{Dir: t.TempDir(), Every: time.Hour})
	must(t, err)
	var all sync.WaitGroup
	for n := range 20 {
		must(t, l.Begin(queued(n)))
		all.Go(func() {
			if err := l.Flush(t.Context()); err != nil && !errors.Is(err, ledger.ErrClosed) {
				t.Error(err)
			}
		})
	}
	must(t, l.Close())
	all.Wait()
	if err := l.Flush(t.Context()); err != nil && !errors.Is(err, ledger.ErrClosed) {
		t.Error(err)
	}
}

// TestOrderOfEqualTimes pages through rows admitted in the same millisecond in
// the order of their admission.
func TestOrderOfEqualTimes(t *testing.T) { each(t, onOrderOfEqualTimes) }

func onOrderOfEqualTimes(t *testing.T, p place) {
	t.Helper()
	l := at(t, p, ledger.Config{})
	for n := range 7 {
		r := served(n)
		r.Created = start
		must(t, l.Finish(r))
	}
	q, want := ledger.Query{Limit: 2}, 6
	for {
		rows, next, err := l.List(t.Context(), q)
		must(t, err)
		for _, r := range rows {
			if r.ID != id(want) {
				t.Errorf("row %s, want %s", r.ID, id(want))
			}
			want--
		}
		if next == "" {
			break
		}
		q.After = next
	}
	if want != -1 {
		t.Errorf("%d rows are missing", want+1)
	}
}

// TestHostileValues uses values that would end a statement put together as text.
func TestHostileValues(t *testing.T) { each(t, onHostileValues) }

func onHostileValues(t *testing.T, p place) {
	t.Helper()
	l := at(t, p, ledger.Config{})
	hostile := `'; DROP TABLE usage; --"` + "\x00\n"
	r := served(1)
	r.Key, r.Model, r.ClientRequestID = hostile, hostile, hostile
	must(t, l.Finish(r))
	must(t, l.Finish(served(2)))
	rows, _, err := l.List(t.Context(), ledger.Query{Key: hostile, Model: hostile})
	must(t, err)
	if len(rows) != 1 || rows[0].Key != hostile || rows[0].ClientRequestID != hostile {
		t.Errorf("%+v", rows)
	}
	if _, _, err := l.List(t.Context(), ledger.Query{After: hostile}); err != nil {
		t.Error(err)
	}
	sums, err := l.Sum(t.Context(), ledger.Query{Key: hostile}, ledger.ByModel)
	must(t, err)
	if len(sums) != 1 || sums[0].Group != hostile {
		t.Errorf("%+v", sums)
	}
	if _, err := l.Get(t.Context(), hostile); !errors.Is(err, ledger.ErrNotFound) {
		t.Error(err)
	}
}

// TestEveryFigureIsKept writes each source with each figure and reads it back.
func TestEveryFigureIsKept(t *testing.T) { each(t, onEveryFigureIsKept) }

func onEveryFigureIsKept(t *testing.T, p place) {
	t.Helper()
	l := at(t, p, ledger.Config{})
	sources := []usage.Source{
		usage.Engine, usage.Tokenizer, usage.EngineSplit, usage.Predicted,
		usage.EngineSetup, usage.Estimate, usage.DidNotRun, usage.Unknown,
	}
	want := make([]ledger.Row, len(sources))
	for n := range sources {
		count := func(i int) usage.Count {
			s := sources[(n+i)%len(sources)]
			if s == usage.Unknown {
				return usage.Count{Source: s}
			}
			return usage.Count{N: n*10 + i, Source: s}
		}
		r := served(n)
		r.Tokens = usage.Tokens{Prompt: count(0), CachedPrompt: count(1), Thinking: count(2), Answer: count(3), Completion: count(4), DraftsAccepted: count(5)}
		r.EnginePrompt, r.EngineCompletion = count(6), count(7)
		must(t, l.Finish(r))
		want[n] = r
	}
	must(t, l.Flush(t.Context()))
	for n, w := range want {
		got := get(t, l, n)
		if got.Tokens != w.Tokens || got.EnginePrompt != w.EnginePrompt || got.EngineCompletion != w.EngineCompletion {
			t.Errorf("got  %+v\nwant %+v", got, w)
		}
	}
}

// TestSumOfManyWaits checks the percentiles against a hundred known waits.
func TestSumOfManyWaits(t *testing.T) { each(t, onSumOfManyWaits) }

func onSumOfManyWaits(t *testing.T, p place) {
	t.Helper()
	l := at(t, p, ledger.Config{})
	for n := range 100 {
		r := served(n)
		r.QueueWait = time.Duration((n*37)%100+1) * time.Millisecond // 1 to 100, mixed
		must(t, l.Finish(r))
	}
	sums, err := l.Sum(t.Context(), ledger.Query{}, ledger.ByModel)
	must(t, err)
	if want := (ledger.Percentiles{P50: 50, P90: 90, P99: 99}); len(sums) != 1 || sums[0].QueueWait != want {
		t.Errorf("%+v, want %+v", sums, want)
	}
}

// TestGoneContext stops a reader whose client has left.
func TestGoneContext(t *testing.T) { each(t, onGoneContext) }

func onGoneContext(t *testing.T, p place) {
	t.Helper()
	l := at(t, p, ledger.Config{})
	must(t, l.Finish(served(1)))
	must(t, l.Flush(t.Context()))
	ctx := gone(t)
	for name, err := range map[string]error{
		"get":  second(l.Get(ctx, id(1))),
		"list": third(l.List(ctx, ledger.Query{})),
		"sum":  second(l.Sum(ctx, ledger.Query{}, ledger.ByKey)),
	} {
		if err == nil || errors.Is(err, ledger.ErrNotFound) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// slow is a store whose disk takes a while.
type slow struct {
	ledger.Store
	takes  time.Duration
	writes []int // how many rows each has brought
}

func (s *slow) Write(_ context.Context, rows []*ledger.Row, _ ledger.Keep) (bool, error) {
	<-time.After(s.takes)
	s.writes = append(s.writes, len(rows))
	return false, nil
}

func (s *slow) Close() error { return nil }

// TestRowsGatherBehindAWrite: what has come while others were written waits for more
// like the first ones did, unless somebody waits for it.
func TestRowsGatherBehindAWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slow{takes: 5 * time.Millisecond}
		l := ledger.New(s, ledger.Config{Every: 45 * time.Millisecond})
		for n := range 1000 {
			must(t, l.Finish(served(n)))
			pass(time.Millisecond)
		}
		if n := len(s.writes); n < 18 || n > 21 {
			t.Errorf("%d writes in a second of rows, of %v", n, s.writes)
		}
		began := time.Now()
		must(t, l.Finish(served(1000)))
		must(t, l.Flush(t.Context()))
		if took := time.Since(began); took > 15*time.Millisecond {
			t.Errorf("a flush takes %v", took)
		}
		must(t, l.Finish(served(1001)))
		must(t, l.Close())
		all := 0
		for _, n := range s.writes {
			all += n
		}
		if all != 1002 {
			t.Errorf("%d rows were written", all)
		}
	})
}
