package queue

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"oneslot/queue/codec"
	"oneslot/queue/line"
)

func (b *bundle) turn(to Gate) {
	b.t.Helper()
	if err := b.queue.Switch(to); err != nil {
		b.t.Fatal(err)
	}
	synctest.Wait()
}

// inBothStores runs a test in one process, and in two that share a store which
// never delivers a message: then everything takes a renewal, 1 s.
func inBothStores(t *testing.T, f func(t *testing.T, a, b *bundle)) {
	t.Helper()
	bubble("memory", t, func(t *testing.T) {
		a := memoryBundle(t, Config{})
		f(t, a, a)
		a.close()
	})
	bubble("shared", t, func(t *testing.T) {
		store, a := onShared(t, Config{})
		b := newBundle(t, store, a.engine, one(Config{}))
		f(t, a, b)
		a.close()
		b.close()
	})
}

// TestPause: what runs goes on, nothing is handed out, who comes waits and is told
// why; until it is resumed.
func TestPause(t *testing.T) {
	inBothStores(t, func(t *testing.T, a, b *bundle) {
		first := a.busy(1)
		a.turn(Paused)
		second := b.inLine(2, 2)[0]
		pass(1100 * time.Millisecond)
		if p, ok := b.queue.Place(id(2)); !ok || p.Gate != Paused || p.Position != 1 || p.ETA != nil {
			t.Errorf("it is told %+v, %v", p, ok)
		}
		first.end(nil)
		want(t, first.result())
		pass(time.Minute)
		if s := b.snapshot(); second.running() || s.Gate != Paused || len(s.Waiting) != 1 {
			t.Errorf("second runs %v, %+v", second.running(), s)
		}
		b.turn(Open)
		pass(1100 * time.Millisecond)
		second.end(nil)
		want(t, second.result())
	})
}

// TestDrain: what runs goes on, who waits and who comes is told, in every process,
// until it is resumed.
func TestDrain(t *testing.T) {
	inBothStores(t, func(t *testing.T, a, b *bundle) {
		first := a.busy(1)
		near, far := a.inLine(2, 2)[0], b.inLine(3, 3)[0]
		began := time.Now()
		a.turn(Draining)
		want(t, near.result(), ErrDraining, ErrRejected)
		if d := time.Since(began); d != 0 {
			t.Errorf("told after %v in this process", d)
		}
		want(t, far.result(), ErrDraining)
		if d := time.Since(began); d > time.Second {
			t.Errorf("told after %v in the other process", d)
		}
		want(t, b.job(4).result(), ErrDraining)
		synctest.Wait() // those who were told leave the store's line beside that
		if s := a.snapshot(); s.Gate != Draining || len(s.Waiting) != 0 || s.Slots[0].State != line.Busy {
			t.Errorf("the line is %+v", s)
		}
		first.end(nil)
		want(t, first.result())
		b.turn(Open)
		last := a.job(5)
		last.end(nil)
		want(t, last.result())
	})
}

// TestGateOutlivesTheData: a paused line is still paused when the store comes back
// without its data.
func TestGateOutlivesTheData(t *testing.T) {
	bubble("paused", t, func(t *testing.T) {
		store, b := onShared(t, Config{})
		pass(1500 * time.Millisecond)
		b.turn(Paused)
		c := b.job(1)
		pass(2 * time.Second)
		store.lose()
		pass(time.Minute)
		if s := b.snapshot(); s.Gate != Paused || c.running() {
			t.Errorf("the gate is %v, the job runs: %v", s.Gate, c.running())
		}
		b.turn(Open)
		c.end(nil)
		want(t, c.result())
		b.close()
	})
}

// TestCancelKey: all jobs of a key end, whether they wait or run, and no others.
func TestCancelKey(t *testing.T) {
	bubble("here", t, func(t *testing.T) {
		b := memoryBundle(t, Config{})
		running := b.do(Job{ID: id(1), Key: "mine"})
		running.begun(t)
		var calls []*call
		for n, key := range []string{"other", "mine", "", "mine"} {
			calls = append(calls, b.do(Job{ID: id(n + 2), Key: key}))
			synctest.Wait()
		}
		if n, err := b.queue.CancelKey("mine"); n != 3 || err != nil {
			t.Errorf("%d cancelled, %v; want 3", n, err)
		}
		want(t, running.result(), ErrCancelled, context.Canceled)
		want(t, calls[1].result(), ErrCancelled)
		want(t, calls[3].result(), ErrCancelled)
		if n, err := b.queue.CancelKey("nobody"); n != 0 || err != nil {
			t.Errorf("%d cancelled, %v; want none", n, err)
		}
		for _, c := range []*call{calls[0], calls[2]} {
			c.end(nil)
			want(t, c.result())
		}
		b.close()
	})
	bubble("elsewhere", t, func(t *testing.T) {
		store, a := onShared(t, Config{})
		b := newBundle(t, store, a.engine, one(Config{}))
		running := a.do(Job{ID: id(1), Key: "mine"})
		running.begun(t)
		waiting := a.do(Job{ID: id(2), Key: "mine"})
		synctest.Wait()
		if n, err := b.queue.CancelKey("mine"); n != 2 || err != nil {
			t.Errorf("%d found, %v; want 2", n, err)
		}
		a.queue.hear(codec.Note{Kind: codec.Recalled, Key: "mine"})
		want(t, running.result(), ErrCancelled)
		want(t, waiting.result(), ErrCancelled)
		store.set(down)
		if _, err := b.queue.CancelKey("mine"); !errors.Is(err, ErrStoreDown) {
			t.Errorf("without a store: %v", err)
		}
		store.set(nil)
		pass(2 * time.Second)
		a.close()
		b.close()
	})
}

// TestReset: the operator's word hands a poisoned slot on; it moves no slot that
// is idle or busy.
func TestReset(t *testing.T) {
	bubble("here", t, func(t *testing.T) {
		b := memoryBundle(t, Config{})
		b.busy(1).end(nil)
		synctest.Wait()
		reset := func(slot string, was line.State) {
			t.Helper()
			if got, err := b.queue.Reset(t.Context(), slot); got != was || err != nil {
				t.Errorf("reset of %s says %v, %v; want %v", slot, got, err, was)
			}
			synctest.Wait()
		}
		reset("spark", line.Idle)
		reset("nowhere", 0)
		b.engine.settle = func(context.Context, string) error { return errors.New("a ghost") }
		dirty := b.job(2)
		dirty.begun(t)
		reset("spark", line.Busy)
		dirty.clean = false
		dirty.end(nil)
		want(t, dirty.result())
		next := b.job(3)
		pass(time.Minute)
		if got := b.states(); got != "poisoned" || next.running() {
			t.Fatalf("slots are %s", got)
		}
		if p, ok := b.queue.Place(id(3)); !ok || p.Ill != line.Poisoned || p.ETA != nil {
			t.Errorf("who waits is told %+v", p)
		}
		b.engine.end("spark", id(2)) // as the operator says
		reset("spark", line.Poisoned)
		if !next.running() {
			t.Fatal("the slot was not handed on")
		}
		b.engine.settle = nil
		next.end(nil)
		want(t, next.result())
		b.close()
	})
	bubble("elsewhere, by the number of the hold", t, func(t *testing.T) {
		store, a := onShared(t, Config{})
		b := newBundle(t, store, a.engine, one(Config{}))
		a.busy(1).end(nil)
		pass(1500 * time.Millisecond)
		a.engine.settle = func(context.Context, string) error { return errors.New("a ghost") }
		dirty := a.job(2)
		dirty.begun(t)
		dirty.clean = false
		dirty.end(nil)
		want(t, dirty.result())
		pass(30 * time.Second)
		was, err := b.queue.Reset(t.Context(), "spark")
		if was != line.Poisoned || err != nil {
			t.Errorf("it was %v, %v", was, err)
		}
		fence := b.snapshot().Slots[0].Fence
		a.queue.hear(codec.Note{Kind: codec.Vouched, Grant: line.Grant{Slot: "spark", Fence: fence - 1}})
		pass(time.Second)
		if got := b.states(); got != "poisoned" {
			t.Errorf("after a word on an older hold the slot is %s", got)
		}
		a.engine.end("spark", id(2))
		a.queue.hear(codec.Note{Kind: codec.Vouched, Grant: line.Grant{Slot: "spark", Fence: fence}})
		pass(time.Second)
		if got := b.states(); got != "idle" {
			t.Errorf("the slot is %s", got)
		}
		a.engine.settle = nil
		a.close()
		b.close()
	})
}

// TestRedisOperators: the same by messages, on a real Redis.
func TestRedisOperators(t *testing.T) {
	t.Parallel()
	server, e := startRedis(t), newEngine(t)
	slow := brisk("spark")
	slow.Lease, slow.Poll = time.Hour, 20*time.Minute // no poll will heal anything here
	a, b := server.bundle(t, e, slow), server.bundle(t, e, slow)
	running := a.do(Job{ID: id(1), Key: "mine"})
	running.begun(t)
	other := b.do(Job{ID: id(2), Key: "other"})
	soon(t, "in line", func() bool { return len(a.snapshot().Waiting) == 1 })
	wake := []string{codec.Keys{Name: "default"}.Wake(a.queue.owner), codec.Keys{Name: "default"}.Wake(b.queue.owner)}
	soon(t, "both listen", func() bool {
		n, err := server.client(t).PubSubNumSub(t.Context(), wake...).Result()
		return err == nil && n[wake[0]] == 1 && n[wake[1]] == 1
	})
	if n, err := b.queue.CancelKey("mine"); n != 1 || err != nil {
		t.Errorf("%d found, %v", n, err)
	}
	want(t, running.result(), ErrCancelled)
	other.begun(t)
	waits := a.job(3)
	soon(t, "in line", func() bool { return len(b.snapshot().Waiting) == 1 })
	if err := b.queue.Switch(Draining); err != nil {
		t.Fatal(err)
	}
	want(t, waits.result(), ErrDraining)
	want(t, a.job(4).result(), ErrDraining)
	other.end(nil)
	want(t, other.result())
	if err := a.queue.Switch(Open); err != nil {
		t.Fatal(err)
	}
	e.settle = func(context.Context, string) error { return errors.New("a ghost") }
	dirty := a.job(5)
	dirty.begun(t)
	dirty.clean = false
	dirty.end(nil)
	want(t, dirty.result())
	soon(t, "poisoned", func() bool { return b.states() == "poisoned" })
	e.end("spark", id(5))
	if was, err := b.queue.Reset(t.Context(), "spark"); was != line.Poisoned || err != nil {
		t.Errorf("it was %v, %v", was, err)
	}
	soon(t, "idle", func() bool { return b.states() == "idle" })
	if got := e.order(); !slices.Equal(got, []string{id(1), id(2), id(5)}) {
		t.Errorf("served %v", got)
	}
	a.close()
	b.close()
}

// TestRepliesOvertake: an old reply that comes late closes no gate again; a store
// that has gone back is believed.
func TestRepliesOvertake(t *testing.T) {
	bubble("late", t, func(t *testing.T) {
		b := memoryBundle(t, Config{})
		running, waiting := b.busy(1), b.inLine(2, 2)[0]
		began := time.Now()
		pass(time.Second)
		b.turn(Open)
		b.queue.mu.Lock()
		n := b.queue.keep.news
		b.queue.mu.Unlock()
		old := line.Reply{Epoch: n.epoch, Version: n.version - 1, Gate: line.Draining}
		b.queue.told(began, old)
		synctest.Wait()
		if waiting.returned() {
			t.Fatal("ended by a reply of the past:", waiting.err)
		}
		pass(time.Second)
		b.queue.told(time.Now(), old)
		want(t, waiting.result(), ErrDraining)
		running.end(nil)
		want(t, running.result())
		b.close()
	})
}

// TestLookIsArranged: who looks gets the order of service, also where the line is not
// kept waiting for it.
func TestLookIsArranged(t *testing.T) {
	store, err := NewMemory(one(Config{MaxWaiting: 100, MaxWaitingPerKey: 100}))
	if err != nil {
		t.Fatal(err)
	}
	by := line.Caller{Owner: "me"}
	var ids []string
	for n := range 60 {
		if _, err := store.apply(t.Context(), by, line.Join{ID: id(n), Key: []string{"a", "a", "b"}[n%3], Class: Class(n % 2)}); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id(n))
	}
	ranks, err := store.apply(t.Context(), by, line.Rank{IDs: ids})
	if err != nil {
		t.Fatal(err)
	}
	look, err := store.apply(t.Context(), by, line.Look{})
	if err != nil {
		t.Fatal(err)
	}
	at := look.View.Stands()
	for i, id := range ids {
		if at[id] != ranks.Ranks[i] {
			t.Errorf("ticket %d stands at %v, its rank is %v", i, at[id], ranks.Ranks[i])
		}
	}
}

// TestWords: what a log says of a cancelled job is not the name of another outcome.
func TestWords(t *testing.T) {
	if text := ErrCancelled.Error(); text != "queue: ended early: the request was cancelled" || !errors.Is(ErrCancelled, ErrAbandoned) {
		t.Errorf("it is called %q", text)
	}
}
