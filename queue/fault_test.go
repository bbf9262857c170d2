package queue

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"oneslot/queue/codec"
	"oneslot/queue/line"
)

// onShared is a bundle on a store that leases, in a bubble.
func onShared(t *testing.T, cfg Config) (*shared, *bundle) {
	store := newShared(one(cfg))
	return store, newBundle(t, store, newEngine(t), one(cfg))
}

// inLine puts jobs in line, one after the other.
func (b *bundle) inLine(from, to int) (calls []*call) {
	for n := from; n <= to; n++ {
		calls = append(calls, b.job(n))
		synctest.Wait()
	}
	return calls
}

// TestUntrustedGrant: a process that cannot renew its lease takes no slot, even if
// it is told that it has one.
func TestUntrustedGrant(t *testing.T) {
	bubble("message", t, func(t *testing.T) {
		store, a := onShared(t, Config{})
		b := newBundle(t, store, a.engine, one(Config{}))
		first := a.busy(1)
		second := b.job(2)
		pass(5500 * time.Millisecond)
		store.set(func(_ context.Context, by line.Caller, s line.Step) error {
			if _, renews := s.(line.Renew); renews && by.Owner == b.queue.owner {
				return errDown
			}
			return nil
		})
		pass(13500 * time.Millisecond) // trusted until 18 s, leased until 20 s
		store.mu.Lock()
		fence := store.line.Apply(time.Now(), line.Caller{Owner: a.queue.owner}, line.Free{Slot: "spark", Fence: first.hold.Fence, Clean: true}).Grants[0].Fence
		store.mu.Unlock()
		b.queue.hear(codec.Note{Kind: codec.Granted, Grant: line.Grant{Slot: "spark", Fence: fence, ID: id(2), Owner: b.queue.owner, State: line.Busy}})
		synctest.Wait()
		if second.running() {
			t.Error("runs on a slot that may be another's in a second")
		}
		want(t, first.result(), ErrSlotLost)
		pass(2 * time.Second)
		store.set(nil)
		second.begun(t) // swept, and back in line
		second.end(nil)
		want(t, second.result())
		a.close()
		b.close()
	})
}

// TestStaleMessages: messages about holds of the past move nobody.
func TestStaleMessages(t *testing.T) {
	bubble("a newer grant of the same slot ends the older hold", t, func(t *testing.T) {
		store, b := onShared(t, Config{})
		first, second := b.busy(1), b.inLine(2, 2)[0]
		store.mu.Lock()
		by := line.Caller{Owner: b.queue.owner}
		grants := store.line.Apply(time.Now(), by, line.Free{Slot: "spark", Fence: first.hold.Fence}).Grants
		store.mu.Unlock()
		b.queue.hear(codec.Note{Kind: codec.Granted, Grant: grants[0]})
		want(t, first.result(), ErrSlotLost)
		second.begun(t)
		second.end(nil)
		want(t, second.result())
		b.close()
	})
	bubble("nothing is aborted for a hold that is none", t, func(t *testing.T) {
		_, b := onShared(t, Config{})
		b.busy(1).end(nil)
		pass(time.Second)
		settled := b.engine.settlements()
		b.queue.hear(codec.Note{Kind: codec.Granted, Grant: line.Grant{Slot: "spark", Fence: 1 << 60, Owner: b.queue.owner, State: line.Aborting}})
		pass(time.Second)
		if b.engine.settlements() != settled {
			t.Error("an engine was aborted on hearsay")
		}
		b.close()
	})
	bubble("cancelled between grant and start: never started", t, func(t *testing.T) {
		b := memoryBundle(t, Config{})
		b.busy(1).end(nil)
		synctest.Wait()
		s, err := b.queue.enter(t.Context(), Job{ID: id(2)})
		if err != nil {
			t.Fatal(err)
		}
		if err := b.queue.join(s); err != nil {
			t.Fatal(err)
		}
		b.cancel(2)
		want(t, b.queue.wait(t.Context(), s))
		again, err := b.queue.lend(t.Context(), s, func(context.Context, *Hold) error {
			t.Error("started")
			return nil
		})
		if want(t, err, ErrCancelled); again {
			t.Error("it waits again")
		}
		b.queue.done()
		if got := b.states(); got != "idle" {
			t.Errorf("slots are %s", got)
		}
		b.close()
	})
}

// TestRepeatedFree: the client repeats a call whose reply was lost, so that the
// second finds the slot freed, and the grant was in the first.
func TestRepeatedFree(t *testing.T) {
	bubble("found at once", t, func(t *testing.T) {
		store, b := onShared(t, Config{})
		first, second := b.busy(1), b.inLine(2, 2)[0]
		pass(300 * time.Millisecond)
		store.set(func(_ context.Context, by line.Caller, s line.Step) error {
			if _, frees := s.(line.Free); frees {
				store.mu.Lock()
				defer store.mu.Unlock()
				store.line.Apply(time.Now(), by, s)
			}
			return nil
		})
		began := time.Now()
		first.end(nil)
		second.begun(t)
		if d := time.Since(began); d != 0 {
			t.Errorf("found after %v", d)
		}
		second.end(nil)
		want(t, second.result())
		b.close()
	})
}

func TestHangingStore(t *testing.T) {
	bubble("new ones are told at once", t, func(t *testing.T) {
		store, b := onShared(t, Config{})
		pass(500 * time.Millisecond)
		store.set(hangs)
		began := time.Now()
		want(t, b.job(1).result(), ErrStoreDown) // the first to notice
		if d := time.Since(began); d > 2500*time.Millisecond {
			t.Errorf("noticed after %v", d)
		}
		began = time.Now()
		want(t, b.job(2).result(), ErrStoreDown)
		if d := time.Since(began); d != 0 {
			t.Errorf("told after %v", d)
		}
		store.set(nil)
		pass(3 * time.Second)
		c := b.job(3)
		c.end(nil)
		want(t, c.result())
		b.close()
	})
}

// TestManyRejoin: more tickets than go into one call keep their order.
func TestManyRejoin(t *testing.T) {
	bubble("order", t, func(t *testing.T) {
		const many = 2*batch + 500
		store, b := onShared(t, Config{MaxWaiting: many})
		running := b.busy(0)
		calls := b.inLine(1, many)
		store.set(down)
		want(t, running.result(), ErrSlotLost)
		pass(5 * time.Second)
		store.set(func(ctx context.Context, _ line.Caller, s line.Step) error {
			if _, slow := s.(line.Rejoin); slow {
				pass2(ctx, time.Second)
			}
			return nil
		})
		for i, c := range calls[:20] {
			pass(2 * time.Second)
			if !c.running() {
				t.Fatalf("number %d was overtaken", i+1)
			}
			c.end(nil)
		}
		for _, c := range calls {
			c.leave()
		}
		pass(2 * time.Second)
		b.abandon()
	})
}

func TestLeaveNotSent(t *testing.T) {
	bubble("sent again", t, func(t *testing.T) {
		store, b := onShared(t, Config{})
		running, second := b.busy(1), b.inLine(2, 2)[0]
		pass(100 * time.Millisecond)
		failed := false
		store.set(func(_ context.Context, _ line.Caller, s line.Step) error {
			if _, leaves := s.(line.Leave); leaves && !failed {
				failed = true
				return errDown
			}
			return nil
		})
		second.leave()
		want(t, second.result(), ErrLeft)
		pass(1200 * time.Millisecond)
		if s := b.snapshot(); !failed || len(s.Waiting) != 0 {
			t.Errorf("still in line: %+v", s.Waiting)
		}
		running.end(nil)
		want(t, running.result())
		b.close()
	})
}

// TestOtherData: the store is another one all of a sudden, without any outage.
func TestOtherData(t *testing.T) {
	bubble("its clock is behind", t, func(t *testing.T) {
		store, b := onShared(t, Config{})
		running := b.busy(1)
		pass(500 * time.Millisecond)
		running.end(nil)
		want(t, running.result())
		synctest.Wait()
		store.mu.Lock()
		store.skew = -time.Hour
		store.mu.Unlock()
		store.lose()
		pass(5 * time.Second)
		c := b.job(2)
		pass(5 * time.Second)
		if !c.running() {
			t.Fatal("the numbers of the new store were taken for old ones")
		}
		c.end(nil)
		want(t, c.result())
		b.close()
	})
	bubble("a newcomer registers before the renewal", t, func(t *testing.T) {
		store, b := onShared(t, Config{})
		running := b.busy(1)
		calls := b.inLine(2, 4)
		pass(300 * time.Millisecond)
		store.lose()
		late := b.job(5)
		pass(1500 * time.Millisecond)
		s := b.snapshot()
		if len(s.Waiting) != 4 || s.Waiting[0].ID != id(2) || s.Waiting[3].ID != id(5) || s.Slots[0].ID != id(1) {
			t.Errorf("line %+v", s)
		}
		running.end(nil)
		for _, c := range append(calls, late) {
			c.end(nil)
			want(t, c.result())
		}
		b.close()
	})
}

// TestShortOfTheLease: the trust is gone, the lease is not, when the store is back:
// the slot that was given up is still in our name.
func TestShortOfTheLease(t *testing.T) {
	bubble("freed", t, func(t *testing.T) {
		store, b := onShared(t, Config{})
		running, next := b.busy(1), b.inLine(2, 2)[0]
		pass(5500 * time.Millisecond)
		store.set(down)
		want(t, running.result(), ErrSlotLost) // at 18 s
		pass(500 * time.Millisecond)
		store.set(nil)
		settled := b.engine.settlements()
		pass(time.Second) // the lease would have ended at 20 s
		if !next.running() || b.engine.settlements() != settled+1 {
			t.Errorf("runs %v, settled %d times", next.running(), b.engine.settlements()-settled)
		}
		next.end(nil)
		want(t, next.result())
		b.close()
	})
}

// TestEndedWhileJoining: a job is ended before the store has answered its join.
func TestEndedWhileJoining(t *testing.T) {
	bubble("out again", t, func(t *testing.T) {
		store, b := onShared(t, Config{})
		running := b.busy(1)
		store.set(func(ctx context.Context, _ line.Caller, s line.Step) error {
			if _, joins := s.(line.Join); joins {
				pass2(ctx, time.Second)
			}
			return nil
		})
		c := b.job(2)
		pass(500 * time.Millisecond)
		b.cancel(2)
		pass(700 * time.Millisecond)
		want(t, c.result(), ErrCancelled)
		if s := b.snapshot(); len(s.Waiting) != 0 {
			t.Errorf("in line: %+v", s.Waiting)
		}
		running.end(nil)
		want(t, running.result())
		b.close()
	})
}
