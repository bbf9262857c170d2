package queue

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"oneslot/queue/codec"
	"oneslot/queue/line"
)

var errDown = errors.New("connection refused")

// shared is a store that leases, in this process and in the time of the bubble:
// the policy behind a mutex, reached over a line that a test can cut, slow down or
// mute. It never delivers a message.
type shared struct {
	cfg Config

	mu    sync.Mutex // guards what follows
	line  *line.Line
	skew  time.Duration
	fault func(ctx context.Context, by line.Caller, s line.Step) error // before the step
	late  func(s line.Step) error                                      // after the step
	steps map[string]int
}

func newShared(cfg Config) *shared {
	s := &shared{cfg: cfg.WithDefaults(), steps: map[string]int{}}
	s.lose()
	return s
}

// lose makes the store forget everything.
func (s *shared) lose() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.line = line.New(s.cfg.rules(s.cfg.Lease))
}

func (s *shared) set(fault func(ctx context.Context, by line.Caller, s line.Step) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = fault
}

func (s *shared) apply(ctx context.Context, by line.Caller, step line.Step) (line.Reply, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.CallTimeout)
	defer cancel()
	s.mu.Lock()
	fault := s.fault
	s.mu.Unlock()
	if fault != nil {
		if err := fault(ctx, by, step); err != nil {
			return line.Reply{}, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	reply := s.line.Apply(time.Now().Add(s.skew), by, step)
	if s.late != nil {
		if err := s.late(step); err != nil {
			return line.Reply{}, err
		}
	}
	return reply, nil
}

func (s *shared) listen(ctx context.Context, _ string, _ func(codec.Note)) { <-ctx.Done() }
func (s *shared) lease() time.Duration                                     { return s.cfg.Lease }

// steal gives every slot to somebody else, as a failed-over store might.
func (s *shared) steal() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.line = line.New(s.cfg.rules(s.cfg.Lease))
	thief := line.Caller{Owner: "thief"}
	s.line.Apply(time.Now(), thief, line.Join{ID: id(999)})
}

func down(context.Context, line.Caller, line.Step) error { return errDown }

func hangs(ctx context.Context, _ line.Caller, _ line.Step) error {
	<-ctx.Done()
	return ctx.Err()
}

func one(cfg Config) Config {
	cfg.Slots = []string{"spark"}
	return cfg
}

// TestLeaseTrust: work goes on exactly as long as the lease is trusted, which is
// the start of the last successful renewal + 15 s - 2 s. Renewals begin at 0 s,
// 1 s, and so on; the fault begins at 5.5 s.
func TestLeaseTrust(t *testing.T) {
	for _, c := range []struct {
		name  string
		fault func(s *shared)
		lost  time.Duration // 0: never
	}{
		{"renewed", func(*shared) {}, 0},
		{"taken over", func(s *shared) { s.steal() }, 6 * time.Second},
		{"store down", func(s *shared) { s.set(down) }, 18 * time.Second},
		{"store hangs", func(s *shared) { s.set(hangs) }, 18 * time.Second},
		{"slow reply, then down", func(s *shared) {
			n := 0
			s.set(func(ctx context.Context, _ line.Caller, _ line.Step) error {
				if n++; n > 1 { // the renewal at 6 s is answered at 7.9 s, none after it
					return errDown
				}
				pass2(ctx, 1900*time.Millisecond)
				return ctx.Err()
			})
		}, 19 * time.Second},
	} {
		bubble(c.name, t, func(t *testing.T) {
			store := newShared(one(Config{}))
			b := newBundle(t, store, newEngine(t), one(Config{}))
			began := time.Now()
			call := b.busy(1)
			pass(5500 * time.Millisecond)
			c.fault(store)
			if c.lost == 0 {
				pass(10 * time.Minute)
				if call.returned() {
					t.Fatal("lost while renewed:", call.err)
				}
				call.end(nil)
				want(t, call.result())
				b.close()
				return
			}
			want(t, call.result(), ErrSlotLost, ErrAbandoned)
			if got := time.Since(began); got != c.lost {
				t.Errorf("lost after %v, want %v", got, c.lost)
			}
			b.abandon()
		})
	}
}

// TestOutage: the store is away from 5.5 s on.
func TestOutage(t *testing.T) {
	start := func(t *testing.T) (*shared, *bundle, *call, []*call) {
		store := newShared(one(Config{}))
		b := newBundle(t, store, newEngine(t), one(Config{}))
		running := b.busy(0)
		var waiting []*call
		for n := 1; n < 5; n++ {
			waiting = append(waiting, b.job(n))
			synctest.Wait()
		}
		pass(5500 * time.Millisecond)
		return store, b, running, waiting
	}
	inOrder := func(t *testing.T, calls []*call) {
		t.Helper()
		for i, c := range calls {
			pass(time.Minute)
			if !c.running() {
				t.Fatalf("number %d does not run", i)
			}
			for _, later := range calls[i+1:] {
				if later.running() || later.returned() {
					t.Fatalf("overtaken, or ended: %v", later.err)
				}
			}
			c.end(nil)
			want(t, c.result())
		}
	}

	bubble("short: nothing is lost", t, func(t *testing.T) {
		store, b, running, waiting := start(t)
		store.set(down)
		pass(2 * time.Second)
		want(t, b.job(9).result(), ErrStoreDown, ErrRejected, errDown) // new ones, at once
		pass(8 * time.Second)
		store.set(nil)
		pass(2 * time.Second)
		if running.returned() {
			t.Fatal("a short outage ended the running job:", running.err)
		}
		running.end(nil)
		inOrder(t, waiting)
		b.close()
	})
	bubble("longer than the lease: places are kept, the slot is not", t, func(t *testing.T) {
		store, b, running, waiting := start(t)
		store.set(down)
		want(t, running.result(), ErrSlotLost)
		pass(20 * time.Second)
		store.set(nil)
		inOrder(t, waiting)
		b.close()
	})
	bubble("longer than the bound: those in line are told", t, func(t *testing.T) {
		store, b, _, waiting := start(t)
		began := time.Now()
		store.set(down)
		for _, c := range waiting {
			want(t, c.result(), ErrStoreDown, ErrRejected)
		}
		if d := time.Since(began); d < 59*time.Second || d > 62*time.Second {
			t.Errorf("told after %v", d)
		}
		store.set(nil)
		pass(20 * time.Second)
		if s := b.snapshot(); len(s.Waiting) != 0 {
			t.Errorf("still in line: %+v", s.Waiting)
		}
		b.close()
	})
	bubble("data lost: all is told again", t, func(t *testing.T) {
		store, b, running, waiting := start(t)
		store.set(down)
		pass(5 * time.Second)
		store.lose()
		store.set(nil)
		newcomer := b.job(9) // refused or last, never first
		pass(5 * time.Second)
		if running.returned() {
			t.Fatal("the running job was lost with the data:", running.err)
		}
		if s := b.snapshot(); s.Slots[0].ID != id(0) || s.Slots[0].Fence != running.hold.Fence {
			t.Errorf("the slot was not taken back: %+v", s.Slots)
		}
		running.end(nil)
		inOrder(t, waiting)
		newcomer.end(nil)
		_ = newcomer.result()
		b.close()
	})
	bubble("the slot is given back when the store is back", t, func(t *testing.T) {
		store, b, running, waiting := start(t)
		store.set(down)
		running.end(nil)
		want(t, running.result())
		pass(5 * time.Second)
		store.set(nil)
		inOrder(t, waiting)
		b.close()
	})
}

// TestLostReplies: the step is taken, its reply is lost.
func TestLostReplies(t *testing.T) {
	lose := func(step line.Step) func(line.Step) error {
		lost := false
		return func(s line.Step) error {
			if lost {
				return nil
			}
			switch s.(type) {
			case line.Join:
				_, lost = step.(line.Join)
			case line.Free:
				_, lost = step.(line.Free)
			case line.Leave:
				_, lost = step.(line.Leave)
			}
			if lost {
				return errDown
			}
			return nil
		}
	}
	play := func(t *testing.T, step line.Step, f func(b *bundle, running, next *call)) {
		store := newShared(one(Config{}))
		b := newBundle(t, store, newEngine(t), one(Config{}))
		running := b.busy(1)
		next := b.job(2)
		pass(100 * time.Millisecond)
		store.mu.Lock()
		store.late = lose(step)
		store.mu.Unlock()
		f(b, running, next)
		b.close()
	}
	bubble("free", t, func(t *testing.T) {
		play(t, line.Free{}, func(_ *bundle, running, next *call) {
			running.end(nil)
			next.begun(t)
			next.end(nil)
		})
	})
	bubble("join", t, func(t *testing.T) {
		play(t, line.Join{}, func(b *bundle, running, next *call) {
			want(t, b.job(3).result(), ErrStoreDown)
			pass(3 * time.Second)
			if s := b.snapshot(); len(s.Waiting) != 1 {
				t.Errorf("waiting %+v", s.Waiting)
			}
			running.end(nil)
			next.end(nil)
		})
	})
	bubble("leave", t, func(t *testing.T) {
		play(t, line.Leave{}, func(b *bundle, running, next *call) {
			next.leave()
			want(t, next.result(), ErrLeft)
			pass(3 * time.Second)
			if s := b.snapshot(); len(s.Waiting) != 0 {
				t.Errorf("waiting %+v", s.Waiting)
			}
			running.end(nil)
		})
	})
}

// TestForgetfulStore: a store that failed over has lost some tickets, or remembers
// some that have left.
func TestForgetfulStore(t *testing.T) {
	bubble("healed", t, func(t *testing.T) {
		store := newShared(one(Config{}))
		b := newBundle(t, store, newEngine(t), one(Config{}))
		running := b.busy(1)
		second := b.job(2)
		synctest.Wait()
		third := b.job(3)
		pass(100 * time.Millisecond)
		store.mu.Lock()
		me := line.Caller{Owner: b.queue.owner}
		store.line.Apply(time.Now(), me, line.Leave{IDs: []string{id(2)}})
		store.line.Apply(time.Now(), me, line.Join{ID: id(7)})
		store.line.Apply(time.Now(), me, line.Join{ID: id(8)})
		store.mu.Unlock()
		pass(5 * time.Second)
		s := b.snapshot()
		if len(s.Waiting) != 2 || s.Waiting[0].ID != id(2) || s.Waiting[1].ID != id(3) {
			t.Errorf("waiting %+v", s.Waiting)
		}
		running.end(nil)
		second.end(nil)
		third.end(nil)
		want(t, third.result())
		b.close()
	})
}

// TestTwoProcesses: two queues on one store, without any message between them.
func TestTwoProcesses(t *testing.T) {
	bubble("polls heal what messages do not say", t, func(t *testing.T) {
		store, e := newShared(one(Config{})), newEngine(t)
		a, b := newBundle(t, store, e, one(Config{})), newBundle(t, store, e, one(Config{}))
		first := a.busy(1)
		second := b.job(2)
		synctest.Wait()
		first.end(nil)
		pass(time.Second)
		if !second.running() {
			t.Error("not woken within a second")
		}
		second.end(nil)
		a.close()
		b.close()
	})
	bubble("same process: no poll, no message", t, func(t *testing.T) {
		store := newShared(one(Config{}))
		a := newBundle(t, store, newEngine(t), one(Config{}))
		first, second := a.busy(1), a.job(2)
		pass(300 * time.Millisecond)
		began := time.Now()
		first.end(nil)
		second.begun(t)
		if d := time.Since(began); d != 0 {
			t.Errorf("handed over after %v", d)
		}
		second.end(nil)
		a.close()
	})
	bubble("dead owner: slot and places are free when its lease ends", t, func(t *testing.T) {
		store, e := newShared(one(Config{})), newEngine(t)
		a, b := newBundle(t, store, e, one(Config{})), newBundle(t, store, e, one(Config{}))
		first, dead := a.busy(1), a.job(2)
		synctest.Wait()
		second := b.job(3)
		synctest.Wait()
		a.queue.end() // kill -9: nothing is renewed, nothing is given back
		settled := e.settlements()
		pass(14 * time.Second)
		if second.running() {
			t.Error("the slot of a living lease was handed out")
		}
		pass(2 * time.Second)
		if !second.running() || e.settlements() != settled+1 {
			t.Errorf("runs %v after lease + 1 s, settled %d times", second.running(), e.settlements()-settled)
		}
		if s := b.snapshot(); len(s.Waiting) != 0 {
			t.Errorf("the dead wait: %+v", s.Waiting)
		}
		first.end(nil) // late: its fence is old
		want(t, first.result())
		pass(time.Second)
		if s := b.snapshot(); s.Slots[0].ID != id(3) {
			t.Errorf("a late free freed its successor: %+v", s.Slots)
		}
		second.end(nil)
		dead.leave()
		a.abandon()
		b.close()
	})
	bubble("the lease of a dead owner is looked at when it ends", t, func(t *testing.T) {
		store, e := newShared(one(Config{})), newEngine(t)
		a := newBundle(t, store, e, one(Config{}))
		pass(400 * time.Millisecond) // the two renew out of step
		b := newBundle(t, store, e, one(Config{}))
		first, second := a.busy(1), b.job(2)
		pass(200 * time.Millisecond)
		a.queue.end()
		look, _ := store.apply(t.Context(), line.Caller{Owner: "c"}, line.Renew{})
		left := line.Micros(look.Due)
		if left <= 14*time.Second || left > 15*time.Second {
			t.Errorf("the first lease ends in %v", left)
		}
		pass(left - time.Millisecond)
		if second.running() {
			t.Error("the slot of a living lease was handed out")
		}
		if pass(3 * time.Millisecond); !second.running() {
			t.Error("not at once when the lease had ended")
		}
		first.end(nil)
		second.end(nil)
		a.abandon()
		b.close()
	})
	bubble("positions follow while somebody asks", t, func(t *testing.T) {
		store := newShared(one(Config{}))
		a := newBundle(t, store, newEngine(t), one(Config{}))
		first := a.busy(1)
		var calls []*call
		for n := 2; n < 5; n++ {
			calls = append(calls, a.job(n))
			synctest.Wait()
		}
		pass(100 * time.Millisecond)
		if p, _ := a.queue.Place(id(4)); p.Position != 3 || p.Of != 3 {
			t.Errorf("joined at %+v", p)
		}
		calls[0].leave()
		pass(2 * time.Second)
		if p, _ := a.queue.Place(id(4)); p.Position != 2 || p.Of != 2 {
			t.Errorf("place %+v after one left", p)
		}
		first.end(nil)
		calls[1].end(nil)
		calls[2].end(nil)
		a.close()
		a.wg.Wait()
	})
}

// TestFailsBehindALostLease: a process that stood still reads that its engine was
// aborted, by those who took the slot over, before its clock ends the hold.
func TestFailsBehindALostLease(t *testing.T) {
	errAborted := errors.New("aborted")
	for _, c := range []struct {
		name  string
		after time.Duration // of the start; the lease is trusted until 18 s
		err   error
		lost  bool
	}{
		{"work fails", 19 * time.Second, errAborted, true},
		{"work fails in time", 17 * time.Second, errAborted, false},
		{"work succeeds", 19 * time.Second, nil, false},
	} {
		bubble(c.name, t, func(t *testing.T) {
			store, b := onShared(t, Config{})
			call := b.busy(1)
			pass(5500 * time.Millisecond)
			store.set(down)
			b.queue.mu.Lock()
			b.queue.keep.timer.Stop() // it fires when the process goes on, but not first
			b.queue.mu.Unlock()
			pass(c.after - 5500*time.Millisecond)
			call.end(c.err)
			err := call.result()
			if !errors.Is(err, c.err) || errors.Is(err, ErrSlotLost) != c.lost {
				t.Errorf("ended with %v", err)
			}
			b.abandon()
		})
	}
}
