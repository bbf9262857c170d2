package queue

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// early is a job whose work is done with the slot before it returns.
type early struct {
	idle, over chan struct{}
	err        error // of its work
	done       chan error
}

func (b *bundle) early(n int, err error) *early {
	e := &early{idle: make(chan struct{}), over: make(chan struct{}), err: err, done: make(chan error, 1)}
	b.wg.Go(func() {
		e.done <- b.queue.Do(context.Background(), Job{ID: id(n)}, func(_ context.Context, h *Hold) error {
			b.engine.begin(h.Slot, id(n))
			<-e.idle
			b.engine.end(h.Slot, id(n))
			h.Idle()
			h.Idle() // once is enough
			<-e.over
			return e.err
		})
	})
	return e
}

// TestIdleHandsOn: whoever says that the engine is idle gives the slot to the next one
// at once, and nothing that comes later is laid to the slot's charge.
func TestIdleHandsOn(t *testing.T) {
	failed := errors.New("failed")
	for name, open := range map[string]func(*testing.T) *bundle{
		"memory": func(t *testing.T) *bundle {
			store, err := NewMemory(one(Config{}))
			if err != nil {
				t.Fatal(err)
			}
			return newBundle(t, store, newEngine(t), one(Config{}))
		},
		"shared": func(t *testing.T) *bundle {
			_, b := onShared(t, Config{})
			return b
		},
	} {
		for _, result := range []error{nil, failed} {
			bubble(name, t, func(t *testing.T) {
				b := open(t)
				first := b.early(1, result)
				pass(time.Second)
				second := b.job(2)
				pass(time.Second)
				third := b.job(3)
				pass(time.Second)
				if second.running() {
					t.Fatal("two jobs have the slot")
				}
				close(first.idle)
				pass(time.Second)
				if !second.running() || third.running() {
					t.Fatalf("the second runs: %t, the third: %t", second.running(), third.running())
				}
				if found, err := b.queue.Cancel(id(1)); found || err != nil {
					t.Errorf("a job without a slot was cancelled: %t, %v", found, err)
				}
				if s := b.snapshot(); s.Slots[0].ID != id(2) {
					t.Errorf("the slot is at %+v", s.Slots)
				}
				pass(time.Minute)
				close(first.over)
				if err := <-first.done; !errors.Is(err, result) || errors.Is(err, ErrSlotLost) {
					t.Errorf("the first ended with %v", err)
				}
				pass(time.Second)
				if third.running() || !second.running() {
					t.Error("the end of the first has freed the slot of the second")
				}
				if _, jobs := b.queue.forecast.Recent(); (jobs == 1) != (result == nil) {
					t.Errorf("%d jobs have taught how long one takes", jobs)
				}
				second.end(nil)
				third.end(nil)
				synctest.Wait()
				if second.result() != nil || third.result() != nil {
					t.Errorf("they ended with %v and %v", second.err, third.err)
				}
				if s := b.snapshot(); s.Jobs != 3 && result == nil || s.Jobs != 2 && result != nil {
					t.Errorf("%d jobs are known", s.Jobs)
				}
				b.close()
			})
		}
	}
}

// TestIdleTeachesTheTimeOfTheSlot, not that of the work.
func TestIdleTeachesTheTimeOfTheSlot(t *testing.T) {
	bubble("once", t, func(t *testing.T) {
		store, err := NewMemory(one(Config{}))
		if err != nil {
			t.Fatal(err)
		}
		b := newBundle(t, store, newEngine(t), one(Config{}))
		var all []*early
		for n := range 5 {
			e := b.early(n+1, nil)
			pass(2 * time.Second)
			close(e.idle)
			all = append(all, e)
		}
		pass(time.Hour)
		for _, e := range all {
			close(e.over)
		}
		b.wg.Wait()
		if s := b.snapshot(); s.Recent == nil || s.Recent.P90 > 3*time.Second {
			t.Errorf("slots are said to be held for %+v", s.Recent)
		}
		b.close()
	})
}

// TestFailsBehindIdle: a lease that ends when the slot is another's explains nothing.
func TestFailsBehindIdle(t *testing.T) {
	failed := errors.New("failed")
	bubble("once", t, func(t *testing.T) {
		store, b := onShared(t, Config{})
		first := b.early(1, failed)
		pass(time.Second)
		close(first.idle)
		pass(time.Second)
		store.set(down)
		pass(time.Minute)
		close(first.over)
		if err := <-first.done; !errors.Is(err, failed) || errors.Is(err, ErrSlotLost) {
			t.Errorf("ended with %v", err)
		}
		b.abandon()
	})
}
