package queue

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"oneslot/queue/line"
)

// Hold is a slot lent to one job.
type Hold struct {
	Slot   string        // its name in Config.Slots
	Fence  int64         // higher than those of all earlier holds of the slot
	Waited time.Duration // in line, in all

	idle    atomic.Bool
	release func()
	begin   func() bool
	explain func(error) error
	watch   func(func() Pace)
}

// Begin is called by the work before it gives out the first token. If it reports
// false the work has to stop and return the cause of its context, ErrPreempted.
func (h *Hold) Begin() bool { return h.begin == nil || h.begin() }

// Idle says that the work has proof that the engine is idle again, such as a
// stream that ended by itself, and will not use it any more, not even to stop what it
// ran: the slot may be another's before Idle returns, and what is left of the work is
// no part of the hold. Without it the slot is handed on only after the work has
// returned and Settle has seen the engine idle.
func (h *Hold) Idle() {
	if !h.idle.Swap(true) && h.release != nil {
		h.release()
	}
}

// hold is a slot that the store has granted to this process. Its fields but the
// grant are guarded by Queue.mu.
type hold struct {
	line.Grant
	cancel context.CancelCauseFunc // of whoever uses it; nil while nobody does
	cause  error                   // why it must not be used any more
	begun  bool                    // its first token is out
	early  bool                    // it is given back while its work goes on
	ended  bool                    // nobody uses it any more: to be freed
	asking bool                    // the store is being asked to free it
}

// stop tells whoever uses the hold to stop. Call it under Queue.mu.
func (h *hold) stop(cause error) {
	if h.cause == nil || errors.Is(h.cause, ErrPreempted) { // any other end is final
		h.cause = cause
	}
	if h.cancel != nil {
		h.cancel(cause)
	}
}

// use derives the context of whoever uses the hold from now on.
func (q *Queue) use(ctx context.Context, h *hold) (context.Context, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	q.mu.Lock()
	defer q.mu.Unlock()
	h.cancel = cancel
	if h.cause != nil {
		cancel(h.cause)
	}
	return ctx, cancel
}

// accept takes a grant over, once however often it is told: in the reply of the
// step that made it, by message, by poll. It returns whose it is now, or the hold if
// nobody is there for it. While the lease is not trusted it does nothing: the grant is
// told again by the renewal that brings the trust back.
func (q *Queue) accept(g line.Grant) (*hold, *seat) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if g.Fence <= q.fences[g.Slot] || q.life.Err() != nil {
		return nil, nil
	}
	if !q.trusts(time.Now()) {
		q.hurry()
		return nil, nil
	}
	if old := q.holds[g.Slot]; old != nil {
		q.loseLocked(old) // freed just now, or taken away without our knowing
	}
	h := &hold{Grant: g}
	q.fences[g.Slot] = g.Fence
	q.holds[g.Slot] = h
	s := q.jobs[g.ID]
	switch {
	case g.State != line.Busy:
		q.spawn(func() { q.mend(h) })
	case s != nil && s.hold == nil:
		s.hold = h
		if q.wants[g.Slot] == g.Fence { // it was asked for before it was accepted
			q.preemptLocked(h)
		}
		return nil, s
	default:
		return h, nil
	}
	return nil, nil
}

// lend calls work with the job's hold and sees to what is left afterwards. It
// reports whether the job waits again, since its slot went to a better one.
func (q *Queue) lend(ctx context.Context, s *seat, work func(context.Context, *Hold) error) (again bool, err error) {
	began, h := time.Now(), s.hold
	lent := &Hold{Slot: h.Slot, Fence: h.Fence, Waited: began.Sub(s.since) - s.ran}
	held, cancel := q.use(context.WithoutCancel(ctx), h)
	lent.begin = func() bool { return q.begin(h) }
	lent.watch = q.forecast.Watch
	lent.explain = func(err error) error { return q.blame(held, h, err) }
	took, returned := time.Duration(0), false
	lent.release = func() {
		took = time.Since(began)
		q.giveBackEarly(s, h)
	}
	defer func() {
		cancel(nil)
		if returned {
			again, err = q.over(s, h, err)
		}
		if took == 0 {
			took = time.Since(began)
		}
		q.mu.Lock()
		s.ran += took
		early := h.early
		if !again && !early {
			delete(q.jobs, s.job.ID)
		}
		q.mu.Unlock()
		if returned && err == nil && !again { // what failed or was cut says nothing of how long jobs take
			q.served(s.job, took)
		}
		if again {
			q.yield(s, h)
		}
		if !early {
			q.giveBack(h, lent.idle.Load())
		}
	}()
	err = s.use(held, lent, work)
	returned = true
	return false, err
}

// use has the work done, unless it must not be begun any more.
func (s *seat) use(held context.Context, lent *Hold, work func(context.Context, *Hold) error) error {
	switch cause := context.Cause(held); {
	case s.thrown != nil:
		panic(s.thrown)
	case cause != nil && !s.started:
		lent.Idle() // it never worked
		return cause
	}
	if err := work(held, lent); err != nil {
		return lent.Explain(err)
	}
	return nil
}

// giveBack ends a use: a clean hold is freed, for an unclean one a mender takes
// over. Nothing is left to do for a lost one.
func (q *Queue) giveBack(h *hold, clean bool) {
	q.mu.Lock()
	mine := q.holds[h.Slot] == h
	near := q.store.lease() == 0
	h.cancel, h.cause = nil, nil
	switch {
	case mine && !clean:
		q.spawn(func() { q.mend(h) })
	case mine && !near: // a round trip that the caller need not wait for
		q.spawn(func() { q.assign(q.free(h)) })
	}
	q.mu.Unlock()
	if mine && clean && near {
		q.assign(q.free(h))
	}
}

// free gives a hold back to the store, its engine being idle, and returns the
// grants that brings. If the store does not answer, the keeper repeats it.
func (q *Queue) free(h *hold) []line.Grant {
	q.mu.Lock()
	h.ended, h.asking = true, true
	gone := q.takeGone() // else the slot may go to one who has left, and come back
	q.mu.Unlock()
	reply, err := q.call(line.Free{Slot: h.Slot, Fence: h.Fence, Clean: true, Gone: gone})
	q.mu.Lock()
	defer q.mu.Unlock()
	h.asking = false
	if err != nil {
		q.gone = append(gone, q.gone...)
		return nil
	}
	if q.holds[h.Slot] == h {
		delete(q.holds, h.Slot)
	}
	if reply.Verdict == line.Stale {
		q.hurry() // perhaps a repeated call whose first reply was lost, with a grant
	}
	return reply.Grants
}

// mend makes the engine idle, however long that takes, and frees the slot. It
// ends early when the hold is lost, and with an engine that is known to be ill
// when the queue closes. That it marks the slot first also proves that the hold
// is a real one, before anything is aborted.
func (q *Queue) mend(h *hold) {
	ctx, cancel := q.use(q.life, h)
	defer cancel(nil)
	q.mark(h, line.Aborting)
	for pause := time.Second; ctx.Err() == nil; pause = min(2*pause, 10*time.Second) {
		err := q.settle(ctx, h.Slot)
		switch {
		case err == nil:
			q.giveBack(h, true)
			return
		case ctx.Err() != nil:
		case errors.Is(err, ErrDown):
			q.mark(h, line.Down)
			pause = time.Second // a look costs nothing, and everybody waits for it to start
		default:
			q.mark(h, line.Poisoned)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		case <-q.closing:
			return
		}
	}
	if errors.Is(context.Cause(ctx), errVouched) {
		q.giveBack(h, true)
	}
}

// settle is one bounded try.
func (q *Queue) settle(ctx context.Context, slot string) error {
	ctx, cancel := context.WithTimeout(ctx, q.cfg.AbortBound)
	defer cancel()
	return q.engine.Settle(ctx, slot)
}
