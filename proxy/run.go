package proxy

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"oneslot/proxy/engine"
)

// A run is one request while the engine works on it: who stopped it, and how.
//
// Ownership: Serve makes it and calls end. The goroutine that stop starts ends
// with the run and is waited for by end.
type run struct {
	engine  *engine.Engine
	dialect *engine.Dialect
	id      string             // the engine knows it by this
	close   context.CancelFunc // closes the connection to the engine
	bound   time.Duration      // how long aborting may take
	stopped func(cause error)  // told once, before the abort

	life  context.Context // ends with the run
	over  context.CancelFunc
	once  sync.Once
	cause atomic.Pointer[error]
	tasks sync.WaitGroup
	watch *time.Timer
	heard atomic.Int64 // when the engine last said something, Unix ns; 0 is never
}

// repeatAbort is how long an abort may take before it is sent again: SGLang can
// lose one that arrives between two batches.
const repeatAbort = 2 * time.Second

// stop ends the run early. The engine is told first and its stream is read on,
// since SGLang forgets a run whose connection closes and then never stops it;
// only when that has not helped within the bound the connection is closed.
// Dialects that stop a run when its connection closes get just that.
func (r *run) stop(cause error) {
	r.once.Do(func() {
		r.cause.Store(&cause)
		if r.stopped != nil {
			r.stopped(cause)
		}
		if r.dialect.AbortPath == "" {
			r.close()
			return
		}
		r.tasks.Go(r.abort)
	})
}

func (r *run) abort() {
	ctx, cancel := context.WithTimeout(r.life, r.bound)
	defer cancel()
	defer r.close()
	for try := 1; ctx.Err() == nil; try++ {
		// The answer to an abort says nothing; the end of the stream does.
		if try <= 2 {
			_ = r.engine.Abort(ctx, r.id)
		} else {
			_ = r.engine.AbortAll(ctx)
		}
		wait := time.NewTimer(repeatAbort)
		select {
		case <-wait.C:
		case <-ctx.Done():
			wait.Stop()
		}
	}
}

// reason returns why the run was stopped, or nil.
func (r *run) reason() error {
	if p := r.cause.Load(); p != nil {
		return *p
	}
	return nil
}

// guard stops the run when the engine says nothing for first after the start,
// or for idle after it has begun.
func (r *run) guard(first, idle time.Duration) {
	began := time.Now()
	// The timer must be in its field before it can fire.
	r.watch = time.AfterFunc(math.MaxInt64, func() {
		heard, limit, fault := began, first, ErrNoAnswer
		if ns := r.heard.Load(); ns != 0 {
			heard, limit, fault = time.Unix(0, ns), idle, ErrStalled
		}
		if rest := limit - time.Since(heard); rest > 0 {
			r.watch.Reset(rest)
			return
		}
		r.stop(fault)
	})
	r.watch.Reset(first)
}

func (r *run) hear(now time.Time) { r.heard.Store(now.UnixNano()) }

// end closes the connection and waits for what stop has started.
func (r *run) end() {
	if r.watch != nil {
		r.watch.Stop()
	}
	r.once.Do(func() {})
	r.over()
	r.close()
	r.tasks.Wait()
}
