package board

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"oneslot/proxy"
	"oneslot/queue"
	"oneslot/queue/line"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// stage is a line that looks as a test wants, and counts who looks.
type stage struct {
	mu    sync.Mutex // guards what follows
	snap  queue.Snapshot
	live  map[string]proxy.Live
	err   error
	takes time.Duration
	looks int
}

func (s *stage) Snapshot(context.Context) (queue.Snapshot, error) {
	s.mu.Lock()
	takes := s.takes
	s.mu.Unlock()
	if takes > 0 {
		<-time.After(takes)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.looks++
	return s.snap, s.err
}

func (s *stage) change(f func(*stage)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(s)
}

// count is how often somebody looked.
func (s *stage) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.looks
}

// board is a Board that shows the stage.
func (s *stage) board() *Board {
	return New(Config{Lines: []Line{s}, Lost: func(slot string) bool { return slot == "lost" }, Live: func(id string) (proxy.Live, bool) {
		s.mu.Lock()
		defer s.mu.Unlock()
		l, ok := s.live[id]
		return l, ok
	}})
}

// waiters are jobs in line, named "id/key".
func waiters(names ...string) (out []queue.Waiter) {
	for i, name := range names {
		id, key, _ := strings.Cut(name, "/")
		out = append(out, queue.Waiter{Job: queue.Job{ID: id, Key: key}, Place: queue.Place{Position: i + 1, Of: len(names)}})
	}
	return out
}

func runs(id, key string) []queue.Slot {
	if id == "" {
		return []queue.Slot{{Name: "spark", State: line.Idle}}
	}
	return []queue.Slot{{Name: "spark", State: line.Busy, ID: id, Key: key}}
}

// told gathers what a viewer gets, one event a line.
type told struct {
	mu    sync.Mutex
	lines []string
	slow  time.Duration
	err   error
}

func (t *told) write(events []byte) error {
	if t.slow > 0 {
		<-time.After(t.slow)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for block := range strings.SplitSeq(strings.TrimSuffix(string(events), "\n\n"), "\n\n") {
		block = strings.ReplaceAll(block, "\n", " ")
		t.lines = append(t.lines, strings.TrimPrefix(strings.Replace(block, " data: ", " ", 1), "event: "))
	}
	return t.err
}

// take returns what has come since the last call.
func (t *told) take() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	got := t.lines
	t.lines = nil
	return got
}

// names are the events without their data.
func names(lines []string) string {
	var out []string
	for _, l := range lines {
		name, _, _ := strings.Cut(l, " ")
		out = append(out, name)
	}
	return strings.Join(out, " ")
}

// audience lets viewers watch a stage, and ends them.
func audience(t *testing.T, b *Board, who ...Viewer) (all []*told, end func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for _, v := range who {
		one := &told{}
		all = append(all, one)
		wg.Go(func() {
			if err := b.Watch(ctx, v, one.write); !errors.Is(err, context.Canceled) && !errors.Is(err, ErrClosed) {
				t.Error(err)
			}
		})
	}
	return all, func() { cancel(); wg.Wait() }
}

func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// TestChanges: what happens in the line, and which events a key and an admin get.
func TestChanges(t *testing.T) {
	steps := []struct {
		name        string
		change      func(*stage)
		mine, admin string
	}{
		{"nothing", func(*stage) {}, "", ""},
		{"mine joins", func(s *stage) { s.snap.Waiting = waiters("m1/me") }, "joined line", "joined line"},
		{"another joins before it", func(s *stage) { s.snap.Waiting = waiters("o1/other", "m1/me") }, "moved line", "joined moved line"},
		{"the other is granted", func(s *stage) { s.snap.Waiting, s.snap.Slots = waiters("m1/me"), runs("o1", "other") }, "moved slot line", "granted moved slot line"},
		{"it is in prefill", func(s *stage) { s.live = map[string]proxy.Live{"o1": {Phase: proxy.PhasePrefill}} }, "", "phase"},
		{"mine is granted", func(s *stage) {
			s.snap.Waiting, s.snap.Slots, s.live = nil, runs("m1", "me"), map[string]proxy.Live{"m1": {Phase: proxy.PhasePrefill}}
		}, "granted slot line", "granted slot line"},
		{"it thinks", func(s *stage) { s.live = map[string]proxy.Live{"m1": {Phase: proxy.PhaseThinking}} }, "phase", "phase"},
		{"it ends", func(s *stage) { s.snap.Slots, s.live = runs("", ""), nil }, "slot line", "slot line"},
		{"paused", func(s *stage) { s.snap.Gate = queue.Paused }, "line", "line"},
		{"mine comes and another", func(s *stage) { s.snap.Waiting = waiters("m2/me", "o2/other") }, "joined line", "joined joined line"},
		{"mine leaves", func(s *stage) { s.snap.Waiting = waiters("o2/other") }, "left line", "left moved line"},
		{"the slot is poisoned", func(s *stage) { s.snap.Slots = []queue.Slot{{Name: "spark", State: line.Poisoned}} }, "slot", "slot"},
		{"draining", func(s *stage) { s.snap.Gate, s.snap.Waiting = queue.Draining, nil }, "line", "left line"},
	}
	synctest.Test(t, func(t *testing.T) {
		s := &stage{snap: queue.Snapshot{Slots: runs("", "")}}
		b := s.board()
		all, end := audience(t, b, Viewer{Key: "me"}, Viewer{Admin: true})
		pass(10 * time.Millisecond)
		for i, who := range []string{"mine", "admin"} {
			if got := names(all[i].take()); got != "snapshot" {
				t.Errorf("%s begins with %q", who, got)
			}
		}
		for _, step := range steps {
			s.change(step.change)
			pass(500 * time.Millisecond)
			mine, admin := all[0].take(), all[1].take()
			if got := names(mine); got != step.mine {
				t.Errorf("%s: I am told %q, want %q", step.name, got, step.mine)
			}
			if got := names(admin); got != step.admin {
				t.Errorf("%s: an admin is told %q, want %q", step.name, got, step.admin)
			}
			if text := strings.Join(mine, " "); strings.Contains(text, "other") || strings.Contains(text, "o1") || strings.Contains(text, "o2") {
				t.Errorf("%s: I am told of another's: %s", step.name, text)
			}
		}
		end()
		b.Close()
	})
}

// TestRhythm: one look serves all, at most every half second and a twentieth of
// the time; nobody watching, nobody looks; silence is broken, progress told.
func TestRhythm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stage{snap: queue.Snapshot{Slots: runs("m1", "me")}, live: map[string]proxy.Live{"m1": {Phase: proxy.PhaseThinking}}}
		b := s.board()
		all, end := audience(t, b, Viewer{Key: "me"}, Viewer{Key: "x"}, Viewer{Key: "x"}, Viewer{Key: "y"})
		pass(20*time.Second + 100*time.Millisecond)
		if s.count() != 41 {
			t.Errorf("%d looks in 20 s for four watchers, want 41", s.count())
		}
		if got := names(all[0].take()); strings.Count(got, "phase") != 10 {
			t.Errorf("who sees the run was told %q, want its progress every 2 s", got)
		}
		if got := all[1].take(); len(got) != 3 || got[1] != ": keep-alive" || got[2] != got[1] {
			t.Errorf("who sees nothing was told %q", got)
		}
		s.change(func(s *stage) { s.takes = time.Second })
		pass(500 * time.Millisecond)
		before := s.count()
		pass(time.Minute)
		if n := s.count() - before; n < 2 || n > 4 {
			t.Errorf("%d looks a minute that take a second each", n)
		}
		end()
		pass(2 * time.Second)
		before = s.count()
		pass(time.Minute)
		if s.count() != before {
			t.Error("somebody looks for nobody")
		}
		all, end = audience(t, b, Viewer{})
		pass(1100 * time.Millisecond)
		if got := names(all[0].take()); got != "snapshot" {
			t.Errorf("who comes later is told %q", got)
		}
		b.Close()
		end()
		if err := b.Watch(t.Context(), Viewer{}, all[0].write); !errors.Is(err, ErrClosed) {
			t.Errorf("a closed board: %v", err)
		}
	})
}

// TestMany: more events than can be read are one snapshot, at most every 2 s.
func TestMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ids []string
		for n := range 5000 {
			ids = append(ids, fmt.Sprintf("%d/k", n))
		}
		s := &stage{snap: queue.Snapshot{Waiting: waiters(ids...), Slots: runs("", "")}}
		b := s.board()
		all, end := audience(t, b, Viewer{Admin: true}, Viewer{Key: "other"})
		pass(100 * time.Millisecond)
		all[0].take()
		all[1].take()
		for range 10 {
			ids = ids[1:]
			s.change(func(s *stage) { s.snap.Waiting = waiters(ids...) })
			pass(500 * time.Millisecond)
		}
		if got := names(all[0].take()); got != "snapshot snapshot" && got != "snapshot snapshot snapshot" {
			t.Errorf("an admin was told %q in 5 s", got)
		}
		if got := names(all[1].take()); got != strings.TrimSpace(strings.Repeat("line ", 10)) {
			t.Errorf("somebody else was told %q", got)
		}
		pass(3 * time.Second)
		last := all[0].take()
		if len(last) > 0 && !strings.Contains(last[len(last)-1], `"waiting":4990`) {
			t.Errorf("the end is %.80s", last[len(last)-1])
		}
		end()
		b.Close()
	})
}

// TestSlowWatcher: who is slow gets what is new when he reads, and holds up nobody;
// who cannot be written to is cut.
func TestSlowWatcher(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stage{snap: queue.Snapshot{Slots: runs("", "")}}
		b := s.board()
		all, end := audience(t, b, Viewer{Key: "x"}, Viewer{Key: "x"})
		pass(time.Millisecond)
		all[0].mu.Lock()
		all[0].slow = 10 * time.Second
		all[0].mu.Unlock()
		for n := range 40 {
			s.change(func(s *stage) { s.snap.Waiting = waiters(slices.Repeat([]string{"1/k"}, n+1)...) })
			pass(500 * time.Millisecond)
		}
		if slow, quick := len(all[0].take()), len(all[1].take()); slow > 4 || quick != 41 {
			t.Errorf("the slow one got %d writes, the other %d", slow, quick)
		}
		pass(time.Minute)
		end()
		broken := errors.New("too slow")
		if err := b.Watch(t.Context(), Viewer{}, func([]byte) error { return broken }); !errors.Is(err, broken) {
			t.Errorf("who cannot be written to: %v", err)
		}
		b.Close()
	})
}

// TestOutage: a store that does not answer is told once, and a snapshot after it.
func TestOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stage{snap: queue.Snapshot{Slots: runs("", "")}}
		b := s.board()
		all, end := audience(t, b, Viewer{})
		pass(time.Second)
		s.change(func(s *stage) { s.err = errors.New("down") })
		pass(3 * time.Second)
		s.change(func(s *stage) { s.err = nil })
		pass(time.Second)
		if got := names(all[0].take()); got != "snapshot unavailable snapshot" {
			t.Errorf("told %q", got)
		}
		if _, err := b.View(t.Context(), Viewer{}); err != nil {
			t.Error(err)
		}
		end()
		b.Close()
	})
}

// TestViews: what a key and an admin see, at one look.
func TestViews(t *testing.T) {
	s := &stage{snap: queue.Snapshot{
		MaxWaiting: 9, Waiting: waiters("m1/me", "o1/other"),
		Slots: []queue.Slot{{Name: "spark", State: line.Busy, ID: "o2", Key: "other"}, {Name: "lost", State: line.Idle}, {Name: "mine", State: line.Aborting, ID: "m2", Key: "me"}, {Name: "off", State: line.Down, ID: "m3", Key: "me"}},
	}}
	b := s.board()
	for _, c := range []struct {
		who  Viewer
		want string
	}{
		{Viewer{Key: "me"}, `spark busy  lost down  mine aborting m2 off down  | m1 1 me, {"position":2}`},
		{Viewer{Admin: true}, `spark busy o2 lost down  mine aborting m2 off down  | m1 1 me, o1 2 other`},
		{Viewer{}, `spark busy  lost down  mine aborting  off down  | {"position":1}, {"position":2}`},
	} {
		v, err := b.View(t.Context(), c.who)
		if err != nil || v.Waiting != 2 || v.Running != 1 || v.Limit != 9 {
			t.Fatalf("%+v, %v", v, err)
		}
		got := ""
		for _, s := range v.Slots {
			got += fmt.Sprintf("%s %s %s ", s.Engine, s.State, s.RequestID)
		}
		got += "| "
		for i, w := range v.Waiters {
			text := fmt.Sprintf("%s %d %s", w.RequestID, w.Position, w.Key)
			if w.RequestID == "" {
				raw, _ := json.Marshal(w)
				text = string(raw)
			}
			got += map[bool]string{true: ", "}[i > 0] + text
		}
		if got != c.want {
			t.Errorf("%+v sees %s, want %s", c.who, got, c.want)
		}
		if _, found, err := b.Find(t.Context(), c.who, "o1"); found != c.who.Admin || err != nil {
			t.Errorf("%+v finds another's: %v, %v", c.who, found, err)
		}
		if _, found, err := b.Find(t.Context(), c.who, "m3"); found || err != nil {
			t.Errorf("%+v finds what has ended: %v, %v", c.who, found, err)
		}
	}
}

// BenchmarkFrame is the price of one look at 5,000 waiters for an admin's feed, in
// which one was granted.
func BenchmarkFrame(b *testing.B) {
	var ids []string
	for n := range 5001 {
		ids = append(ids, fmt.Sprintf("%032x/k", n))
	}
	frames := [2]*frame{
		{lines: []queue.Snapshot{{Waiting: waiters(ids[:5000]...), Slots: runs("", "")}}},
		{lines: []queue.Snapshot{{Waiting: waiters(ids[:4999]...), Slots: runs("", "")}}},
	}
	for _, who := range []Viewer{{Admin: true}, {Key: "other"}} {
		b.Run(fmt.Sprintf("admin=%v", who.Admin), func(b *testing.B) {
			w := watcher{who: who}
			for i := 0; b.Loop(); i++ {
				w.take(frames[i%2], time.Now())
				w.out.Reset()
			}
		})
	}
}
