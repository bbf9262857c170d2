package proxy

import (
	"context"
	"errors"
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
	id      string          // the engine knows it by this
	bound   time.Duration   // how long aborting may take
	stopped func(err error) // told the cause once

	conn  context.Context // ends when the connection to the engine is closed
	close context.CancelFunc
	life  context.Context // ends with the run
	over  context.CancelFunc
	once  sync.Once
	cause atomic.Pointer[error]
	tasks sync.WaitGroup

	began  time.Time
	limits limits
	watch  *time.Timer
	heard  atomic.Int64 // when the engine last said something, ns after began; 0 is never
	fresh  atomic.Int64 // when it last said something that was waited for, ns after began
	opened atomic.Bool  // the headers have come
	told   atomic.Int64 // when the finish reason came, ns after began; 0 is not yet
}

// newRun begins a run. It outlives ctx, whose values it keeps.
func newRun(ctx context.Context, o *order, bound time.Duration, stopped func(error)) *run {
	r := &run{engine: o.engine, dialect: o.info.Dialect, id: o.id, bound: bound, stopped: stopped, began: time.Now()}
	ctx = context.WithoutCancel(ctx)
	r.life, r.over = context.WithCancel(ctx)
	r.conn, r.close = context.WithCancel(ctx)
	return r
}

// abortTries are the waits between the tries to abort a run. The second comes
// soon, since an abort that overtakes its request is lost; SGLang can also lose
// one that arrives between two batches. From abortAll on everything on the
// engine is aborted.
var abortTries = [...]time.Duration{250 * time.Millisecond, time.Second, 2 * time.Second}

const abortAll = len(abortTries)

// stop ends the run early. The engine is told first and its stream is read on,
// since SGLang forgets a run whose connection closes and then never stops it;
// only when that has not helped within the bound the connection is closed.
// Dialects that stop a run when its connection closes get just that.
func (r *run) stop(cause error) {
	r.once.Do(func() {
		r.cause.Store(&cause)
		if r.dialect.AbortPath == "" {
			r.close()
		} else {
			r.tasks.Go(r.abort)
		}
		r.stopped(cause)
	})
}

func (r *run) abort() {
	ctx, cancel := context.WithTimeout(r.life, r.bound)
	defer cancel()
	defer r.close()
	for try := 0; ctx.Err() == nil; try++ {
		if err := r.tell(ctx, try); errors.Is(err, engine.ErrCannotAbort) {
			return
		}
		wait := time.NewTimer(abortTries[min(try, len(abortTries)-1)])
		select {
		case <-wait.C:
		case <-ctx.Done():
			wait.Stop()
		}
	}
}

// tell asks the engine to stop. Its answer says nothing; the end of the stream
// does.
func (r *run) tell(ctx context.Context, try int) error {
	if try < abortAll {
		return r.engine.Abort(ctx, r.id)
	}
	return r.engine.AbortAll(ctx)
}

// reason returns why the run was stopped, or nil.
func (r *run) reason() error {
	if p := r.cause.Load(); p != nil {
		return *p
	}
	return nil
}

// limits bound the silence of an engine: until its headers, until its first
// token, and between two events after that.
type limits struct {
	headers, first, idle time.Duration
}

// guard stops the run when the engine is silent for too long.
func (r *run) guard(l limits) {
	r.limits = l
	// The timer must be in its field before it can fire.
	r.watch = time.AfterFunc(math.MaxInt64, r.look)
	r.watch.Reset(min(l.headers, l.first, l.idle))
}

// look runs on the watch.
func (r *run) look() {
	if r.life.Err() != nil {
		return
	}
	heard, told := time.Duration(r.heard.Load()), time.Duration(r.told.Load())
	limit, fault := r.limits.first, ErrNoAnswer
	switch {
	case told != 0:
		heard, limit, fault = told, min(r.limits.idle, tailBound), errTail
	case heard != 0:
		limit, fault = r.limits.idle, ErrStalled
	case !r.opened.Load():
		limit = min(limit, r.limits.headers)
	}
	rest := heard + limit - time.Since(r.began)
	if rest <= 0 {
		r.stop(fault)
		return
	}
	r.watch.Reset(rest)
	switch { // hear or finish may have come in between
	case told == 0 && r.told.Load() != 0:
		r.watch.Reset(min(r.limits.idle, tailBound))
	case heard == 0 && r.heard.Load() != 0:
		r.watch.Reset(r.limits.idle)
	}
}

// tailBound is how long an engine may take to end a stream whose finish reason
// has come; the usage comes in this time.
const tailBound = 10 * time.Second

// finish notes that the answer is complete, so that little more is to come.
func (r *run) finish(now time.Time) {
	r.told.Store(max(int64(now.Sub(r.began)), 1))
	r.watch.Reset(min(r.limits.idle, tailBound))
}

// open notes that the headers have come.
func (r *run) open() { r.opened.Store(true) }

// hear notes that the engine said something of the answer.
func (r *run) hear(now time.Time) {
	if r.heard.Swap(max(int64(now.Sub(r.began)), 1)) == 0 {
		r.watch.Reset(r.limits.idle)
	}
}

// forbidStop rules out that the run is stopped from now on, and reports whether it never
// was.
func (r *run) forbidStop() bool {
	r.once.Do(func() {})
	r.watch.Stop()
	return r.reason() == nil
}

// end closes the connection and waits for what stop has started.
func (r *run) end() {
	r.once.Do(func() {})
	r.over()
	r.close()
	if r.watch != nil {
		r.watch.Stop()
	}
	r.tasks.Wait()
}

// others knows the runs on an engine, by slot. The zero others knows none.
type others struct {
	mu   sync.Mutex // guards runs
	runs map[*run]string
}

// enter notes a run on a slot; the result ends it.
func (o *others) enter(slot string, r *run) func() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.runs == nil {
		o.runs = map[*run]string{}
	}
	o.runs[r] = slot
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		delete(o.runs, r)
	}
}

// except returns what proves that a slot is free by the runs on all others.
func (o *others) except(slot string) *witness { return &witness{all: o, slot: slot} }

// witness is an engine.Others.
type witness struct {
	all  *others
	slot string
	seen map[*run]int64 // those that had begun to answer, and for how long they had run at After
}

// Before is of engine.Others.
func (w *witness) Before() {
	w.all.mu.Lock()
	defer w.all.mu.Unlock()
	w.seen = map[*run]int64{}
	for r, slot := range w.all.runs {
		if slot != w.slot && r.heard.Load() != 0 {
			w.seen[r] = 0
		}
	}
}

// After is of engine.Others.
func (w *witness) After() {
	for r := range w.seen {
		w.seen[r] = int64(time.Since(r.began))
	}
}

// GoneOn is of engine.Others.
func (w *witness) GoneOn() int {
	n := 0
	for r, at := range w.seen {
		if r.fresh.Load() > at {
			n++
		}
	}
	return n
}
