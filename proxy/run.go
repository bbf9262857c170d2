package proxy

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"oneslot/proxy/engine"
	"oneslot/proxy/watchdog"
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

	began time.Time
	watch watchdog.Watch
	fresh atomic.Int64 // when the engine last said something that was waited for, ns after began
}

// newRun begins a run. It outlives ctx, whose values it keeps.
func newRun(ctx context.Context, o *order, bound time.Duration, stopped func(error)) *run {
	r := &run{engine: o.engine, dialect: o.info.Dialect, id: o.id, bound: bound, stopped: stopped, began: time.Now()}
	ctx = context.WithoutCancel(ctx)
	r.life, r.over = context.WithCancel(ctx)
	r.conn, r.close = context.WithCancel(ctx)
	return r
}

// Start sends a call that Ahead made ready to the engine of a slot that is its own from now
// on, without headers of engine.WithHeader, and reports whether it did. It does not wait.
// Serve, or what Ahead returned, is called then by a goroutine that was told since.
func (p *Proxy) Start(call *Call, slot string) bool {
	o := call.ready
	if o == nil || p.targets[slot] != o.target || !o.stands() {
		return false
	}
	o.sent = time.Now()
	o.begun = o.engine.Begin(o.body, o.call.Request.Prompt != "")
	return o.begun != nil
}

// stands reports whether the order would be the same if it were made now.
func (o *order) stands() bool { return o.as == o.engine.Changes() && o.plan == o.newPlan() }

// made is the order that was made ahead, nil if it is of no use. It is good for one run.
func (c *Call) made(t *target) *order {
	o := c.ready
	c.ready = nil
	if o != nil && o.begun == nil && (o.target != t || !o.stands()) {
		return nil
	}
	return o
}

// since is when the run began.
func (o *order) since() time.Time {
	if o.begun != nil {
		return o.sent
	}
	return time.Now()
}

// drop gives up a run that was sent and that nobody goes on with.
func (o *order) drop() {
	if o.begun != nil {
		o.begun.Drop()
	}
}

// send has the engine begin.
func (o *order) send(ctx context.Context, body []byte) (*http.Response, error) {
	if b := o.begun; b != nil {
		o.begun = nil
		return b.Response(ctx)
	}
	if o.call.Request.Prompt != "" {
		return o.engine.Complete(ctx, body)
	}
	return o.engine.Chat(ctx, body)
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

// guard stops the run when the engine is silent for too long.
func (r *run) guard(limits watchdog.Config) {
	limits.Silent = func(s watchdog.Silence) {
		switch s {
		case watchdog.NoAnswer:
			r.stop(ErrNoAnswer)
		case watchdog.Stalled:
			r.stop(ErrStalled)
		case watchdog.NoEnd:
			r.stop(errTail)
		}
	}
	r.watch.Start(r.began, limits)
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
	r.watch.Stop()
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
		if slot != w.slot && r.watch.Heard() {
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
