package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"oneslot/ledger"
	"oneslot/ledger/sqlite"
	"oneslot/usage"
)

func TestRowIsKept(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		l, err := p.open(t.Context(), ledger.Config{})
		must(t, err)
		want := served(1)
		want.ClientRequestID, want.Budget, want.Reason = "their own", "unsupported", "cancelled"
		must(t, l.Begin(queued(1)))
		must(t, l.Finish(want))
		must(t, l.Close())
		must(t, l.Close()) // again

		got := get(t, at(t, p, ledger.Config{}), 1)
		if !got.Created.Equal(want.Created) {
			t.Errorf("created %v, want %v", got.Created, want.Created)
		}
		got.Created = want.Created
		if got != want {
			t.Errorf("got  %+v\nwant %+v", got, want)
		}
	})
}

// TestFolder: it may have any name, and is its owner's alone.
func TestFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "not there yet", "100% odd?#name")
	must(t, at(t, folder{dir}, ledger.Config{}).Finish(served(1)))
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

// TestStepsOfARow looks at a row after each step, in memory and on disk.
func TestStepsOfARow(t *testing.T) {
	for name, onDisk := range map[string]func(step int) bool{
		"in memory":           func(int) bool { return false },
		"on disk":             func(int) bool { return true },
		"every other, from 0": func(step int) bool { return step%2 == 0 },
		"every other, from 1": func(step int) bool { return step%2 == 1 },
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, p place) { stepsOfARow(t, p, onDisk) })
		})
	}
}

func stepsOfARow(t *testing.T, p place, onDisk func(step int) bool) {
	t.Helper()
	every := time.Hour // nothing is written unless asked for
	l := at(t, p, ledger.Config{Every: every})
	running := queued(1)
	running.Outcome, running.Engine = ledger.Running, "spark"
	failed := served(1)
	failed.Outcome = ledger.EngineFailed
	late := queued(1)
	for i, step := range []struct {
		what string
		do   func() error
		want ledger.Outcome
	}{
		{"begin", func() error { return l.Begin(queued(1)) }, ledger.Queued},
		{"run", func() error { return l.Update(running) }, ledger.Running},
		{"finish", func() error { return l.Finish(served(1)) }, ledger.Served},
		{"a late update changes nothing", func() error { return l.Update(late) }, ledger.Served},
		{"nor does a second end", func() error { return l.Finish(failed) }, ledger.Served},
		{"nor a second begin", func() error { return l.Begin(late) }, ledger.Served},
	} {
		must(t, step.do())
		if onDisk(i) {
			must(t, l.Flush(t.Context()))
		}
		if got := get(t, l, 1).Outcome; got != step.want {
			t.Errorf("%s: %s, want %s", step.what, got, step.want)
		}
	}
	rows, _, err := l.List(t.Context(), ledger.Query{})
	must(t, err)
	if len(rows) != 1 || rows[0].Outcome != ledger.Served {
		t.Errorf("%d rows, want one served: %+v", len(rows), rows)
	}
}

func TestRefused(t *testing.T) { each(t, onRefused) }

func onRefused(t *testing.T, p place) {
	t.Helper()
	l := at(t, p, ledger.Config{})
	nameless := served(1)
	nameless.ID = ""
	odd := served(1)
	odd.Outcome = "lost"
	for name, err := range map[string]error{
		"no id":                 l.Finish(nameless),
		"an unknown outcome":    l.Finish(odd),
		"a finish that is none": l.Finish(queued(1)),
		"an update that ends":   l.Update(served(1)),
		"a begin that ends":     l.Begin(served(1)),
		"an unknown grouping":   second(l.Sum(t.Context(), ledger.Query{}, "month")),
		"a huge page":           third(l.List(t.Context(), ledger.Query{Limit: 1001})),
		"a negative page":       third(l.List(t.Context(), ledger.Query{Limit: -1})),
		"an outcome of no row":  third(l.List(t.Context(), ledger.Query{Outcome: "lost"})),
	} {
		if !errors.Is(err, ledger.ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", name, err)
		}
	}
	if _, err := l.Get(t.Context(), id(7)); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("a row that is not there: %v", err)
	}
}

func second[A any](_ A, err error) error        { return err }
func third[A, B any](_ A, _ B, err error) error { return err }

func TestDefaults(t *testing.T) { each(t, onDefaults) }

func onDefaults(t *testing.T, p place) {
	t.Helper()
	l := at(t, p, ledger.Config{Now: func() time.Time { return start }})
	must(t, l.Begin(ledger.Row{ID: id(1)}))
	if got := get(t, l, 1); got.Outcome != ledger.Queued || !got.Created.Equal(start) {
		t.Errorf("%+v, want queued now", got)
	}
}

func TestClosed(t *testing.T) { each(t, onClosed) }

func onClosed(t *testing.T, p place) {
	t.Helper()
	l, err := p.open(t.Context(), ledger.Config{})
	must(t, err)
	must(t, l.Close())
	for name, err := range map[string]error{
		"begin":  l.Begin(queued(1)),
		"update": l.Update(queued(1)),
		"finish": l.Finish(served(1)),
	} {
		if !errors.Is(err, ledger.ErrClosed) {
			t.Errorf("%s: %v, want ErrClosed", name, err)
		}
	}
	if _, _, err := l.List(t.Context(), ledger.Query{}); err == nil {
		t.Error("a closed ledger lists rows")
	}
}

// TestLabelsAreCut keeps a client from filling the ledger.
func TestLabelsAreCut(t *testing.T) { each(t, onLabelsAreCut) }

func onLabelsAreCut(t *testing.T, p place) {
	t.Helper()
	l := at(t, p, ledger.Config{})
	r := served(1)
	r.ClientRequestID = strings.Repeat("é", 5000)
	r.Model = "broken\xff"
	must(t, l.Finish(r))
	must(t, l.Flush(t.Context()))
	got := get(t, l, 1)
	if got.ClientRequestID != strings.Repeat("é", 128) || got.Model != "broken\ufffd" {
		t.Errorf("label of %d bytes, model %q", len(got.ClientRequestID), got.Model)
	}
}

// TestNoTextColumn names every column, so that one that could hold a prompt
// does not slip in.
func TestNoTextColumn(t *testing.T) {
	dir := t.TempDir()
	open(t, ledger.Config{Dir: dir})
	rows, err := raw(t, dir).QueryContext(t.Context(), "SELECT name FROM pragma_table_info('usage') WHERE type = 'TEXT' AND name NOT LIKE '%\\_source' ESCAPE '\\' ORDER BY cid")
	must(t, err)
	defer func() { _ = rows.Close() }()
	var names []string
	for rows.Next() {
		var name string
		must(t, rows.Scan(&name))
		names = append(names, name)
	}
	must(t, rows.Err())
	want := "id model engine key class client_request_id route outcome reason finish_reason budget"
	if got := strings.Join(names, " "); got != want {
		t.Errorf("text columns\n got %s\nwant %s", got, want)
	}
}

// TestConcurrentUse drives many requests at once, with readers beside them.
func TestConcurrentUse(t *testing.T) { each(t, onConcurrentUse) }

func onConcurrentUse(t *testing.T, p place) {
	t.Helper()
	l := at(t, p, ledger.Config{Every: time.Millisecond})
	const each, all = 50, 8
	var work sync.WaitGroup
	for g := range all {
		work.Go(func() {
			for i := range each {
				n := g*each + i
				running := queued(n)
				running.Outcome = ledger.Running
				if err := errors.Join(l.Begin(queued(n)), l.Update(running), l.Finish(served(n))); err != nil {
					t.Error(err)
				}
				if r, err := l.Get(t.Context(), id(n)); err != nil || r.Outcome != ledger.Served {
					t.Errorf("row %d: %s, %v", n, r.Outcome, err)
				}
				if i%10 == 0 {
					if _, _, err := l.List(t.Context(), ledger.Query{Limit: 10}); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	work.Wait()
	rows, _, err := l.List(t.Context(), ledger.Query{Limit: 1000, Outcome: ledger.Served})
	must(t, err)
	if len(rows) != each*all {
		t.Errorf("%d rows served, want %d", len(rows), each*all)
	}
}

// TestBrokenDisk makes every write fail, then heals it: rows wait, Begin
// refuses beyond the backlog, Finish never does, and nothing is lost.
func TestBrokenDisk(t *testing.T) {
	dir := t.TempDir()
	l := open(t, ledger.Config{Dir: dir, Backlog: 10})
	db := raw(t, dir)
	run(t, db, "ALTER TABLE usage RENAME TO away")
	for n := range 10 {
		must(t, l.Begin(queued(n)))
	}
	if err := l.Flush(t.Context()); err == nil || !strings.Contains(err.Error(), "no such table") {
		t.Fatalf("flush: %v", err)
	}
	if err := l.Err(); err == nil {
		t.Error("Err() is nil while writes fail")
	}
	if err := l.Begin(queued(10)); !errors.Is(err, ledger.ErrBacklog) {
		t.Errorf("beyond the backlog: %v", err)
	}
	for n := range 10 {
		must(t, l.Finish(served(n)))
	}
	if got := get(t, l, 3).Outcome; got != ledger.Served {
		t.Errorf("a waiting row is %s", got)
	}
	run(t, db, "ALTER TABLE away RENAME TO usage")
	for l.Flush(t.Context()) != nil { // the try under way may still have failed
		must(t, t.Context().Err())
	}
	if err := l.Err(); err != nil {
		t.Errorf("Err() after healing: %v", err)
	}
	rows, _, err := l.List(t.Context(), ledger.Query{Outcome: ledger.Served})
	must(t, err)
	if len(rows) != 10 {
		t.Errorf("%d rows, want 10", len(rows))
	}
}

// TestCloseSaysWhatIsLost closes a ledger whose disk is broken.
func TestCloseSaysWhatIsLost(t *testing.T) {
	dir := t.TempDir()
	l, err := sqlite.Open(t.Context(), ledger.Config{Dir: dir, Every: time.Hour})
	must(t, err)
	run(t, raw(t, dir), "DROP TABLE usage")
	must(t, l.Finish(served(1)))
	if err := l.Close(); err == nil || !strings.Contains(err.Error(), "1 rows are lost") {
		t.Errorf("close: %v", err)
	}
}

func TestFlushHonoursContext(t *testing.T) {
	l := open(t, ledger.Config{Dir: t.TempDir(), Every: time.Hour})
	must(t, l.Finish(served(1)))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.Flush(ctx); err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestReport(t *testing.T) {
	m := usage.NewMeter(usage.Config{})
	totals, _ := usage.ParseTotals(`{"prompt_tokens":5,"completion_tokens":3,"total_tokens":8}`)
	m.Add(usage.Piece{Answer: "a", Totals: &totals})
	m.Finish("stop")
	report := m.Report(t.Context())
	r := queued(1)
	r.Record(&report)
	if r.Tokens != report.Tokens || r.FinishReason != "stop" || !r.AnswerStarted || r.Runs != 1 || r.EngineCompletion.N != 3 || r.EnginePrompt.N != 5 {
		t.Errorf("%+v", r)
	}
}

func BenchmarkBeginFinish(b *testing.B) {
	l := open(b, ledger.Config{Dir: b.TempDir(), Backlog: 1 << 30})
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		must(b, l.Begin(queued(n)))
		must(b, l.Finish(served(n)))
	}
	must(b, l.Flush(context.Background()))
}

// BenchmarkWrite is the price of a row on disk.
func BenchmarkWrite(b *testing.B) {
	l := open(b, ledger.Config{Dir: b.TempDir(), MaxRows: 10_000, Retention: time.Hour})
	n := 0
	for b.Loop() {
		for range 100 {
			must(b, l.Finish(served(n)))
			n++
		}
		must(b, l.Flush(context.Background()))
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(n), "µs/row")
}

func ExampleLedger() {
	dir, _ := os.MkdirTemp("", "ledger")
	defer func() { _ = os.RemoveAll(dir) }()
	ctx := context.Background()

	l, err := sqlite.Open(ctx, ledger.Config{Dir: dir, Retention: 90 * 24 * time.Hour})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = l.Close() }()

	row := ledger.Row{ID: "0af7651916cd43dd8448eb211c80319c", Model: "ripple", Tokens: usage.NotRun()}
	_ = l.Begin(row)
	row.Outcome = ledger.Abandoned
	_ = l.Finish(row)

	got, err := l.Get(ctx, row.ID)
	fmt.Println(got.Outcome, err)
	// Output: abandoned <nil>
}
