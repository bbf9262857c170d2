package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

var errBroken = errors.New("the engine broke")

// TestDoOutcomes has one case for each way a call of Do can end.
func TestDoOutcomes(t *testing.T) {
	cases := []struct {
		name   string
		cfg    Config
		play   func(b *bundle) *call // returns the call in question
		causes []error
		after  string // states of the slots in the end
	}{
		{name: "served", play: func(b *bundle) *call {
			c := b.job(1)
			c.end(nil)
			return c
		}, after: "idle"},
		{name: "the work's own error passes", play: func(b *bundle) *call {
			c := b.job(1)
			c.end(errBroken)
			return c
		}, causes: []error{errBroken}, after: "idle"},
		{name: "full", cfg: Config{MaxWaiting: 1}, play: func(b *bundle) *call {
			b.busy(1)
			b.job(2)
			synctest.Wait()
			return b.job(3)
		}, causes: []error{ErrFull, ErrRejected}, after: "busy"},
		{name: "key limit", cfg: Config{MaxWaitingPerKey: 1}, play: func(b *bundle) *call {
			b.busy(1)
			b.do(Job{ID: id(2), Key: "team"})
			synctest.Wait()
			return b.do(Job{ID: id(3), Key: "team"})
		}, causes: []error{ErrKeyLimit, ErrRejected}, after: "busy"},
		{name: "a key's own limit", play: func(b *bundle) *call {
			b.busy(1)
			b.do(Job{ID: id(2), Key: "team", Limit: 1})
			synctest.Wait()
			return b.do(Job{ID: id(3), Key: "team", Limit: 1})
		}, causes: []error{ErrKeyLimit, ErrRejected}, after: "busy"},
		{name: "no key, no limit of a key", cfg: Config{MaxWaitingPerKey: 1}, play: func(b *bundle) *call {
			b.busy(1)
			b.job(2)
			synctest.Wait()
			c := b.job(3)
			synctest.Wait()
			c.leave()
			return c
		}, causes: []error{ErrLeft}, after: "busy"},
		{name: "same id twice", play: func(b *bundle) *call {
			b.busy(1)
			return b.job(1)
		}, causes: []error{ErrDuplicate, ErrRejected}, after: "busy"},
		{name: "stopping", play: func(b *bundle) *call {
			b.queue.Drain()
			return b.job(1)
		}, causes: []error{ErrStopping, ErrRejected}, after: "idle"},
		{name: "drained while waiting", play: func(b *bundle) *call {
			b.busy(1)
			c := b.job(2)
			synctest.Wait()
			b.queue.Drain()
			return c
		}, causes: []error{ErrStopping, ErrRejected}, after: "busy"},
		{name: "waited too long", cfg: Config{MaxWait: time.Hour}, play: func(b *bundle) *call {
			b.busy(1)
			c := b.job(2)
			pass(time.Hour)
			return c
		}, causes: []error{ErrWaited, ErrAbandoned}, after: "busy"},
		{name: "left while waiting", play: func(b *bundle) *call {
			b.busy(1)
			c := b.job(2)
			synctest.Wait()
			c.leave()
			return c
		}, causes: []error{ErrLeft, ErrAbandoned}, after: "busy"},
		{name: "left while the engine is made idle", play: func(b *bundle) *call {
			b.engine.settle = func(ctx context.Context, _ string) error { pass2(ctx, 3*time.Second); return nil }
			c := b.job(1)
			synctest.Wait()
			c.leave()
			pass(time.Second)
			if got := b.states(); got != "aborting" {
				b.t.Errorf("the mender gave up with its waiter: %s", got)
			}
			pass(3 * time.Second)
			return c
		}, causes: []error{ErrLeft}, after: "idle"},
		{name: "cancelled while waiting", play: func(b *bundle) *call {
			b.busy(1)
			c := b.job(2)
			synctest.Wait()
			b.cancel(2)
			return c
		}, causes: []error{ErrCancelled, ErrAbandoned}, after: "busy"},
		{name: "cancelled while running", play: func(b *bundle) *call {
			c := b.busy(1)
			b.cancel(1)
			return c
		}, causes: []error{ErrCancelled, context.Canceled}, after: "idle"},
		{name: "closed while running", play: func(b *bundle) *call {
			c := b.busy(1)
			ctx, stop := context.WithTimeout(context.Background(), time.Minute)
			defer stop()
			if err := b.queue.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
				b.t.Error("a late close returned", err)
			}
			return c
		}, causes: []error{ErrStopping, context.Canceled}, after: "idle"},
	}
	for _, c := range cases {
		bubble(c.name, t, func(t *testing.T) {
			b := memoryBundle(t, c.cfg)
			call := c.play(b)
			err := call.result()
			synctest.Wait()
			if len(c.causes) == 0 && err != nil {
				t.Error(err)
			}
			want(t, err, c.causes...)
			if got := b.states(); got != c.after {
				t.Errorf("slots are %s, want %s", got, c.after)
			}
			if n := len(b.queue.holds); n != 0 && c.after == "idle" {
				t.Errorf("%d holds are kept", n)
			}
			b.abandon()
		})
	}
}

// busy starts job n and waits until it runs.
func (b *bundle) busy(n int) *call {
	b.t.Helper()
	c := b.job(n)
	c.begun(b.t)
	return c
}

func (b *bundle) cancel(n int) {
	if found, err := b.queue.Cancel(id(n)); !found || err != nil {
		b.t.Errorf("cancel found %v, %v", found, err)
	}
}

// abandon closes the queue without waiting for what runs.
func (b *bundle) abandon() {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = b.queue.Close(ctx)
	b.wg.Wait()
}

// pass2 lets time pass unless ctx ends.
func pass2(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

func TestDoRefusesBadJobs(t *testing.T) {
	b := memoryBundle(t, Config{})
	defer b.close()
	for _, bad := range []string{"", "1", id(1)[1:], id(1) + "0", "g" + id(1)[1:]} {
		if err := b.do(Job{ID: bad}).result(); err == nil {
			t.Errorf("id %q was taken", bad)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	want(t, b.queue.Do(ctx, Job{ID: id(1)}, nil), ErrLeft)
}

func TestOrder(t *testing.T) {
	bubble("first come first served", t, func(t *testing.T) {
		b := memoryBundle(t, Config{})
		running := b.busy(0)
		calls := []*call{running}
		for n := 1; n < 20; n++ {
			calls = append(calls, b.job(n))
			synctest.Wait()
		}
		calls[7].leave()
		synctest.Wait()
		for n, c := range calls {
			if n != 7 {
				c.begun(t)
				c.end(nil)
				synctest.Wait()
			}
		}
		var ids []string
		for n := range 20 {
			if n != 7 {
				ids = append(ids, id(n))
			}
		}
		if got := b.engine.order(); !slices.Equal(got, ids) {
			t.Errorf("served %v", got)
		}
		b.close()
	})
	bubble("two slots", t, func(t *testing.T) {
		b := memoryBundle(t, Config{Slots: []string{"one", "two"}})
		first, second, third := b.busy(1), b.busy(2), b.job(3)
		synctest.Wait()
		if third.running() {
			t.Error("three jobs on two slots")
		}
		second.end(nil)
		third.begun(t)
		if third.hold.Slot != second.hold.Slot || third.hold.Fence <= second.hold.Fence {
			t.Errorf("hold %+v after %+v", third.hold, second.hold)
		}
		first.end(nil)
		third.end(nil)
		b.close()
	})
}

// TestLeaveMany lets thousands leave at once: the next one is served, the dead
// never reach the engine.
func TestLeaveMany(t *testing.T) {
	bubble("5000", t, func(t *testing.T) {
		const many = 5000
		b := memoryBundle(t, Config{MaxWaiting: many + 1})
		running := b.busy(0)
		var calls []*call
		for n := range many {
			calls = append(calls, b.job(n+1))
		}
		synctest.Wait()
		last := b.job(many + 1)
		synctest.Wait()
		for _, c := range calls {
			c.leave()
		}
		running.end(nil)
		last.begun(t)
		last.end(nil)
		for _, c := range calls {
			want(t, c.result(), ErrLeft)
		}
		if got := b.engine.order(); len(got) != 2 {
			t.Errorf("%d jobs reached the engine", len(got))
		}
		b.close()
	})
}

func TestDirtySlots(t *testing.T) {
	bubble("unclean start waits for the engine", t, func(t *testing.T) {
		b := memoryBundle(t, Config{})
		b.engine.settle = func(ctx context.Context, _ string) error { pass2(ctx, 2*time.Second); return ctx.Err() }
		c := b.job(1)
		pass(time.Second)
		p, ok := b.queue.Place(id(1))
		if c.running() || !ok || p.Position != 1 || b.states() != "aborting" {
			t.Errorf("running %v, place %+v, slots %s", c.running(), p, b.states())
		}
		pass(time.Second)
		if !c.running() {
			t.Error("the engine is idle, the job does not run")
		}
		c.end(nil)
		b.close()
	})
	bubble("a dirty slot is handed on only when settled", t, func(t *testing.T) {
		b := memoryBundle(t, Config{})
		c := b.busy(1)
		b.engine.settle = func(ctx context.Context, _ string) error { pass2(ctx, 5*time.Second); return ctx.Err() }
		c.clean = false
		next := b.job(2)
		synctest.Wait()
		c.end(errBroken)
		want(t, c.result(), errBroken) // at once, without the mender
		synctest.Wait()
		if next.running() || b.states() != "aborting" {
			t.Errorf("next runs %v, slots %s", next.running(), b.states())
		}
		pass(5 * time.Second)
		if !next.running() {
			t.Error("settled, but not handed on")
		}
		next.end(nil)
		b.close()
	})
	bubble("a late cancel does not stop the mender", t, func(t *testing.T) {
		b := memoryBundle(t, Config{})
		c := b.busy(1)
		c.clean = false
		b.engine.settle = func(ctx context.Context, _ string) error { pass2(ctx, 5*time.Second); return ctx.Err() }
		seat := b.queue.jobs[id(1)]
		c.end(nil)
		pass(time.Second)
		b.queue.cancelHere(seat)
		pass(5 * time.Second)
		if got := b.states(); got != "idle" {
			t.Errorf("slots are %s", got)
		}
		b.close()
	})
	bubble("a panic frees too", t, func(t *testing.T) {
		b := memoryBundle(t, Config{})
		func() {
			defer func() {
				if r := recover(); r != "boom" {
					t.Errorf("recovered %v", r)
				}
			}()
			_ = b.queue.Do(t.Context(), Job{ID: id(1)}, func(context.Context, *Hold) error { panic("boom") })
		}()
		next := b.busy(2)
		if b.engine.settlements() != 2 { // at the start and after the panic
			t.Errorf("handed on after %d settlements", b.engine.settlements())
		}
		next.end(nil)
		b.close()
	})
}

func TestIllEngines(t *testing.T) {
	for _, c := range []struct {
		name   string
		fault  error
		state  string
		cause  error
		within time.Duration
	}{
		{"cannot be made idle", errBroken, "poisoned", ErrPoisoned, 0},
		{"cannot be reached", fmt.Errorf("dial: %w", ErrDown), "down", ErrDown, 0},
		{"never answers", nil, "poisoned", ErrPoisoned, 15 * time.Second},
	} {
		bubble(c.name, t, func(t *testing.T) {
			b := memoryBundle(t, Config{})
			well := make(chan struct{})
			b.engine.settle = func(ctx context.Context, _ string) error {
				select {
				case <-well:
					return nil
				default:
				}
				if c.fault == nil {
					<-ctx.Done()
					return ctx.Err()
				}
				return c.fault
			}
			first := b.job(1)
			pass(c.within + time.Second)
			if got := b.states(); got != c.state {
				t.Fatalf("slots %s, want %s", got, c.state)
			}
			pass(58 * time.Second)
			second := b.job(2)
			synctest.Wait()
			if second.returned() {
				t.Fatal("refused within the grace:", second.err)
			}
			pass(2 * time.Second)
			want(t, b.job(3).result(), c.cause, ErrRejected)
			if first.returned() || second.returned() {
				t.Fatal("those in line lost their place")
			}
			close(well)
			pass(26 * time.Second) // the probe comes at least every 10 s, and may be in one of 15 s
			if !first.running() {
				t.Fatal("well again, but nobody runs")
			}
			first.end(nil)
			second.begun(t)
			second.end(nil)
			b.close()
		})
	}
}

func TestPlaceAndSnapshot(t *testing.T) {
	bubble("memory", t, func(t *testing.T) {
		b := memoryBundle(t, Config{Slots: []string{"one", "two"}})
		for n := range 10 { // slot times 1 s to 10 s
			c := b.busy(n)
			pass(time.Duration(n+1) * time.Second)
			c.end(nil)
			want(t, c.result())
		}
		running := b.busy(10)
		other := b.busy(11)
		for n := 12; n < 16; n++ {
			b.do(Job{ID: id(n), Key: "team", Class: Batch})
			synctest.Wait()
		}
		pass(3 * time.Second)
		p, ok := b.queue.Place(id(14))
		if !ok || p.Position != 3 || p.Of != 4 || p.Waited != 3*time.Second {
			t.Errorf("place %+v", p)
		}
		// Two slots share two jobs before the third in line, of 5.5 s each, and the rests of
		// two that run: of those of ten jobs that took longer than 3 s, 4 s on average.
		if p.ETA == nil || p.ETA.P50.Round(time.Second/2) != 9500*time.Millisecond || p.ETA.P90 < p.ETA.P50+2*time.Second {
			t.Errorf("eta %+v", p.ETA)
		}
		if _, ok := b.queue.Place(id(10)); ok {
			t.Error("a running job has a place in line")
		}
		s := b.snapshot()
		if len(s.Waiting) != 4 || s.Waiting[1].ID != id(13) || s.Waiting[1].Key != "team" || s.Waiting[1].Class != Batch ||
			s.Waiting[1].Position != 2 || !s.Waiting[1].Self || s.Waiting[1].Waited.Round(time.Millisecond) != 3*time.Second {
			t.Errorf("waiting %+v", s.Waiting)
		}
		if len(s.Slots) != 2 || s.Slots[0].ID != id(10) || s.Slots[0].For != 3*time.Second || s.Slots[0].Fence != running.hold.Fence || !s.Slots[0].Self {
			t.Errorf("slots %+v", s.Slots)
		}
		if s.MaxWaiting != 64 || s.MaxWaitingPerKey != 16 || s.Jobs != 10 || *s.Recent != (Band{P50: 5 * time.Second, P90: 9 * time.Second}) {
			t.Errorf("snapshot %+v", s)
		}
		other.end(nil)
		b.abandon()
	})
}

func TestRetryAfter(t *testing.T) {
	bubble("from slot times", t, func(t *testing.T) {
		b := memoryBundle(t, Config{MaxWaiting: 1})
		for n := range 5 {
			c := b.busy(n)
			pass(25 * time.Second)
			c.end(nil)
			want(t, c.result())
		}
		b.busy(10)
		b.job(11)
		synctest.Wait()
		var hint interface{ RetryAfter() time.Duration }
		if err := b.job(12).result(); !errors.As(err, &hint) || hint.RetryAfter() != 25*time.Second {
			t.Errorf("error %v, hint %v", err, hint)
		}
		b.abandon()
	})
}

func TestClose(t *testing.T) {
	bubble("waits for what runs and for the engine", t, func(t *testing.T) {
		b := memoryBundle(t, Config{})
		c := b.busy(1)
		c.clean = false
		b.engine.settle = func(ctx context.Context, _ string) error { pass2(ctx, 4*time.Second); return ctx.Err() }
		closed := make(chan error)
		go func() { closed <- b.queue.Close(context.Background()) }()
		pass(time.Minute)
		began := time.Now()
		c.end(nil)
		if err := <-closed; err != nil || time.Since(began) != 4*time.Second {
			t.Errorf("closed with %v after %v", err, time.Since(began))
		}
		if err := b.queue.Close(context.Background()); err != nil {
			t.Error("second close:", err)
		}
	})
	bubble("gives up a poisoned slot", t, func(t *testing.T) {
		b := memoryBundle(t, Config{})
		b.engine.settle = func(context.Context, string) error { return errBroken }
		c := b.job(1)
		pass(5 * time.Second)
		b.close()
		want(t, c.result(), ErrStopping)
	})
	bubble("does not wait for ever for work that ignores it", t, func(t *testing.T) {
		b := memoryBundle(t, Config{})
		release, started := make(chan struct{}), make(chan struct{})
		go func() {
			_ = b.queue.Do(context.Background(), Job{ID: id(1)}, func(context.Context, *Hold) error {
				close(started)
				<-release
				return nil
			})
		}()
		<-started
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		began := time.Now()
		want(t, b.queue.Close(ctx), context.Canceled)
		if d := time.Since(began); d > 5*time.Second {
			t.Errorf("closed after %v", d)
		}
		close(release)
	})
}

// TestContextOfWork: the values of the client's context reach the work, its end
// does not.
func TestContextOfWork(t *testing.T) {
	b := memoryBundle(t, Config{})
	defer b.close()
	type key struct{}
	ctx, leave := context.WithCancel(context.WithValue(t.Context(), key{}, "v"))
	err := b.queue.Do(ctx, Job{ID: id(1)}, func(work context.Context, h *Hold) error {
		leave()
		if work.Value(key{}) != "v" || work.Err() != nil {
			t.Errorf("value %v, error %v", work.Value(key{}), work.Err())
		}
		h.Idle()
		return ctx.Err()
	})
	want(t, err, context.Canceled)
	if errors.Is(err, ErrAbandoned) {
		t.Error("the work's own error was given a cause of the queue:", err)
	}
}

// TestHopeless: who would most likely have left before its turn is told at once,
// and nobody else is.
func TestHopeless(t *testing.T) {
	bubble("from slot times", t, func(t *testing.T) {
		b := memoryBundle(t, Config{})
		if c := b.do(Job{ID: id(1), Patience: time.Nanosecond}); true {
			c.begun(t) // nothing is known, and the slot is free
			for n := range 5 {
				pass(100 * time.Second)
				c.end(nil)
				want(t, c.result())
				c = b.busy(20 + n)
			}
		}
		err := b.do(Job{ID: id(2), Patience: 99 * time.Second}).result()
		var h *Hopeless
		if want(t, err, ErrHopeless, ErrRejected); !errors.As(err, &h) || h.ETA.P50 != 100*time.Second || h.Patience != 99*time.Second || h.RetryAfter() != time.Minute {
			t.Errorf("the error is %#v", err)
		}
		patient := b.do(Job{ID: id(3), Patience: 101 * time.Second})
		synctest.Wait()
		endless := b.job(4)
		synctest.Wait()
		if s := b.snapshot(); len(s.Waiting) != 2 || patient.returned() || endless.returned() {
			t.Errorf("%d wait, want the two that can", len(s.Waiting))
		}
		b.abandon()
	})
}

// TestGuess: who waits behind the first job of all is told a band as soon as that job
// shows how fast the engine is; nobody is refused for a guess.
func TestGuess(t *testing.T) {
	bubble("by the pace", t, func(t *testing.T) {
		b := memoryBundle(t, Config{})
		running := b.do(Job{ID: id(1), Most: 1000})
		running.begun(t)
		waits := b.do(Job{ID: id(2), Most: 1000, Patience: time.Second})
		synctest.Wait()
		if p, ok := b.queue.Place(id(2)); !ok || p.ETA != nil {
			t.Errorf("nothing is known, and told %+v", p.ETA)
		}
		running.hold.Shows(func() Pace { return Pace{Decode: 10} })
		p, _ := b.queue.Place(id(2))
		if p.ETA == nil || p.ETA.P50 < 20*time.Second || p.ETA.P90 > 100*time.Second || p.ETA.P90 <= p.ETA.P50 {
			t.Errorf("at most 1000 tokens, 10 a second: %+v", p.ETA)
		}
		hasty := b.do(Job{ID: id(3), Most: 1000, Patience: time.Second})
		synctest.Wait()
		if s := b.snapshot(); waits.returned() || hasty.returned() || len(s.Waiting) != 2 || s.Waiting[1].ETA == nil {
			t.Errorf("in line are %+v", s.Waiting)
		}
		(&Hold{}).Shows(nil) // one that was made by hand has nobody to tell
		b.abandon()
	})
}
