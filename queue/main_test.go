package queue

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"
)

type quietLogger struct{}

func (quietLogger) Printf(context.Context, string, ...any) {}

func TestMain(m *testing.M) {
	if os.Getenv(victimEnv) != "" {
		victim()
		return
	}
	redis.SetLogger(quietLogger{})
	// The Redis client looks once a second for a server that it could not reach, and
	// notices by that only that it was closed.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"))
}

func id(n int) string { return fmt.Sprintf("%032x", n) }

// engine is what stands behind the slots: it knows when it is used by two at once,
// or while it has not been seen idle.
type engine struct {
	t      *testing.T
	settle func(ctx context.Context, slot string) error // nil: idle at once

	mu      sync.Mutex // guards what follows
	user    map[string]string
	settled int
	served  []string
}

func (e *engine) Settle(ctx context.Context, slot string) error {
	if e.settle != nil {
		if err := e.settle(ctx, slot); err != nil {
			return err
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.settled++
	e.user[slot] = ""
	return nil
}

// begin is the dispatch of a job to the engine, end its end by itself.
func (e *engine) begin(slot, job string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if other := e.user[slot]; other != "" {
		e.t.Errorf("slot %s runs %s and %s at once", slot, other, job)
	}
	e.user[slot] = job
	e.served = append(e.served, job)
}

func (e *engine) end(slot, job string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.user[slot] == job {
		e.user[slot] = ""
	}
}

// settlements is how often an engine was made idle.
func (e *engine) settlements() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.settled
}

func (e *engine) order() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]string(nil), e.served...)
}

// bundle is a queue and what a test does to it. Its engine is free to be shared.
type bundle struct {
	t      *testing.T
	queue  *Queue
	engine *engine
	wg     sync.WaitGroup
}

func newEngine(t *testing.T) *engine { return &engine{t: t, user: map[string]string{}} }

func newBundle(t *testing.T, store Store, e *engine, cfg Config) *bundle {
	t.Helper()
	q, err := New(store, e, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return &bundle{t: t, queue: q, engine: e}
}

// memoryBundle is a bundle of one process, which has waited for nothing yet.
func memoryBundle(t *testing.T, cfg Config) *bundle {
	t.Helper()
	if cfg.Slots == nil {
		cfg.Slots = []string{"spark"}
	}
	store, err := NewMemory(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return newBundle(t, store, newEngine(t), cfg)
}

// call is one call of Do in the background.
type call struct {
	id      string
	leave   context.CancelFunc
	started chan struct{} // closed when work begins
	finish  chan error    // what work is to return
	clean   bool          // whether work calls Idle
	hold    *Hold         // after started
	ctx     context.Context
	done    chan struct{} // closed when Do has returned
	err     error         // after done
}

// do starts a job whose work runs until finished or its context ends.
func (b *bundle) do(job Job) *call {
	ctx, leave := context.WithCancel(context.Background())
	c := &call{id: job.ID, leave: leave, started: make(chan struct{}), finish: make(chan error, 1), clean: true, done: make(chan struct{})}
	b.wg.Go(func() {
		defer close(c.done)
		defer leave()
		c.err = b.queue.Do(ctx, job, func(ctx context.Context, h *Hold) error {
			b.engine.begin(h.Slot, job.ID)
			c.hold, c.ctx = h, ctx
			close(c.started)
			select {
			case err := <-c.finish:
				if c.clean {
					b.engine.end(h.Slot, job.ID)
					h.Idle()
				}
				return err
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	})
	return c
}

// job starts job n with no key.
func (b *bundle) job(n int) *call { return b.do(Job{ID: id(n)}) }

func (c *call) end(err error) { c.finish <- err }

// begun waits until work runs.
func (c *call) begun(t *testing.T) {
	t.Helper()
	select {
	case <-c.started:
	case <-c.done:
		if !c.running() {
			t.Fatalf("job %s ended without a slot: %v", c.id, c.err)
		}
	}
}

func (c *call) running() bool {
	select {
	case <-c.started:
		return true
	default:
		return false
	}
}

func (c *call) returned() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// result waits for Do to return.
func (c *call) result() error {
	<-c.done
	return c.err
}

func (b *bundle) close() {
	b.t.Helper()
	if err := b.queue.Close(context.Background()); err != nil {
		b.t.Error("close:", err)
	}
	b.wg.Wait()
	if n := len(b.queue.holds); n != 0 {
		b.t.Errorf("%d holds were not given back", n)
	}
}

func (b *bundle) snapshot() Snapshot {
	b.t.Helper()
	s, err := b.queue.Snapshot(context.Background())
	if err != nil {
		b.t.Fatal(err)
	}
	return s
}

// states lists what the slots are doing.
func (b *bundle) states() string {
	text := ""
	for _, s := range b.snapshot().Slots {
		text += " " + s.State.String()
	}
	return text[1:]
}

func want(t *testing.T, err error, causes ...error) {
	t.Helper()
	for _, cause := range causes {
		if !errors.Is(err, cause) {
			t.Errorf("error %v; want %v", err, cause)
		}
	}
}

// bubble runs a test in which time jumps when nobody has anything to do.
func bubble(name string, t *testing.T, f func(t *testing.T)) {
	t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
}

// pass lets time pass.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}
