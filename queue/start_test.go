package queue

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// starting is a bundle of either store, with a job that has the slot.
func starting(t *testing.T, f func(t *testing.T, b *bundle, first *early)) {
	for name, open := range map[string]func(*testing.T) *bundle{
		"memory": func(t *testing.T) *bundle { return memoryBundle(t, one(Config{})) },
		"shared": func(t *testing.T) *bundle {
			_, b := onShared(t, Config{})
			return b
		},
	} {
		bubble(name, t, func(t *testing.T) {
			b := open(t)
			first := b.early(1, nil)
			pass(time.Second)
			f(t, b, first)
			b.close()
		})
	}
}

// over ends the job that had the slot.
func (e *early) end() {
	close(e.idle)
	close(e.over)
}

// TestStart: what a job begins by itself is begun where the slot is granted, once, and its
// work goes on with it; a job that begins nothing has its work called as ever.
func TestStart(t *testing.T) {
	for _, begins := range []bool{true, false} {
		starting(t, func(t *testing.T, b *bundle, first *early) {
			var slots []string
			var started, worked time.Time
			b.wg.Go(func() {
				turn, err := b.queue.Enter(t.Context(), Job{ID: id(2), Start: func(slot string) bool {
					slots, started = append(slots, slot), time.Now()
					return begins
				}})
				if err != nil {
					t.Error(err)
					return
				}
				<-time.After(time.Minute) // it has other things to do
				err = turn.Take(t.Context(), func(_ context.Context, h *Hold) error {
					worked = time.Now()
					h.Idle()
					return errBroken
				})
				want(t, err, errBroken)
			})
			pass(10 * time.Second)
			first.end()
			pass(2 * time.Minute)
			if len(slots) != 1 || slots[0] != "spark" || worked.Sub(started) != 50*time.Second {
				t.Errorf("begun on %v, the work came %v later", slots, worked.Sub(started))
			}
			if n := b.engine.settlements(); n > 1 { // the first, before any job
				t.Errorf("the engine was made idle %d times", n)
			}
		})
	}
}

// TestBegunIsSeenTo: work that was begun is called whatever has happened to its job since
// then; one that was not is not.
func TestBegunIsSeenTo(t *testing.T) {
	for name, x := range map[string]struct {
		meddle func(b *bundle, leave context.CancelFunc)
		cause  error
	}{
		"left":      {func(_ *bundle, leave context.CancelFunc) { leave() }, ErrLeft},
		"cancelled": {func(b *bundle, _ context.CancelFunc) { b.cancel(2) }, ErrCancelled},
		"closed": {func(b *bundle, _ context.CancelFunc) {
			b.wg.Go(func() {
				ctx, now := context.WithCancel(context.Background())
				now()
				_ = b.queue.Close(ctx)
			})
		}, ErrStopping},
	} {
		for _, begins := range []bool{true, false} {
			t.Run(name, func(t *testing.T) {
				starting(t, func(t *testing.T, b *bundle, first *early) {
					ctx, leave := context.WithCancel(t.Context())
					defer leave()
					turn, err := b.queue.Enter(ctx, Job{ID: id(2), Start: func(string) bool { return begins }})
					if err != nil {
						t.Fatal(err)
					}
					first.end()
					pass(time.Second)
					settled := b.engine.settlements()
					x.meddle(b, leave)
					synctest.Wait()
					called := false
					err = turn.Take(ctx, func(ctx context.Context, _ *Hold) error {
						called = true
						if x.cause != ErrLeft { //nolint:errorlint // it is that very one
							want(t, context.Cause(ctx), x.cause)
						}
						return errBroken
					})
					if called != begins || !begins && !errors.Is(err, x.cause) || begins && !errors.Is(err, errBroken) {
						t.Errorf("work was called: %t, and the end is %v", called, err)
					}
					pass(time.Minute)
					if n := b.engine.settlements() - settled; begins != (n == 1) {
						t.Errorf("the engine was made idle %d times", n)
					}
				})
			})
		}
	}
}

// TestStartPanics: the panic is that of the job whose Start it is, not of the one that
// gave the slot back, and the slot is made idle.
func TestStartPanics(t *testing.T) {
	starting(t, func(t *testing.T, b *bundle, first *early) {
		thrown := make(chan any, 1)
		b.wg.Go(func() {
			defer func() { thrown <- recover() }()
			_ = b.queue.Do(t.Context(), Job{ID: id(2), Start: func(string) bool { panic("start") }}, func(context.Context, *Hold) error {
				t.Error("work was called")
				return nil
			})
		})
		pass(time.Second)
		settled := b.engine.settlements()
		first.end()
		if err := <-first.done; err != nil {
			t.Errorf("the first ended with %v", err)
		}
		if p := <-thrown; p != "start" {
			t.Errorf("thrown was %v", p)
		}
		pass(time.Minute)
		if n := b.engine.settlements() - settled; n != 1 || b.states() != "idle" {
			t.Errorf("the engine was made idle %d times, the slot is %s", n, b.states())
		}
	})
}
