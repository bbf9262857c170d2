package queue

import (
	"context"
	"time"

	"oneslot/queue/bell"
	"oneslot/queue/forecast"
	"oneslot/queue/line"
)

// seat is a job's place, waiting or running. It is changed under Queue.mu; once the bell
// has rung, the job's own goroutine reads hold, cause, started and thrown without it.
type seat struct {
	job     Job
	since   time.Time     // when Do was called
	ran     time.Duration // of that, in slots that it gave back
	yields  int           // how often it did
	arrival int64         // 0: the join has not been answered
	bell    *bell.Bell    // rings when cause is set, or hold, and Job.Start has returned
	hold    *hold
	started bool // the work has been begun by Job.Start, or may have been: it panicked
	thrown  any  // by Job.Start
	cause   error
	told    told
	first   asked // when it came
	late    asked // at any time after that
	asks    int   // how often
}

// waits reports whether the store should have the seat's ticket in line.
func (s *seat) waits() bool { return s.arrival != 0 && s.hold == nil }

// enter registers the job, so that a grant finds it. Without an error done is owed.
func (q *Queue) enter(ctx context.Context, job Job) (*seat, error) {
	if err := job.Validate(); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, ErrLeft
	}
	s := &seat{job: job, since: time.Now(), bell: bell.New()}
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.stopping:
		return nil, ErrStopping
	case q.jobs[job.ID] != nil:
		return nil, ErrDuplicate
	case q.keep.failed != nil:
		return nil, q.keep.failed
	}
	q.jobs[job.ID] = s
	q.active++
	return s, nil
}

// join asks the store for a place. On an error the job is out again.
func (q *Queue) join(s *seat) error {
	j, cost := s.job, q.forecast.Came(s.job.Asked()).Microseconds()
	reply, err := q.apply(line.Join{ID: j.ID, Key: j.Key, User: j.User, Class: j.Class, Limit: j.Limit, Cost: cost, Arrival: j.Stead.Arrival, Of: j.Stead.ID, Prefer: q.prefer(j)})
	if err == nil && reply.Verdict != line.Done {
		q.forget(s)
		return refused(reply.Verdict, q.retryAfter(reply.Running))
	}
	q.mu.Lock()
	s.arrival, s.first = reply.Arrival, asked{forecast.Question(s.job.Class, reply.At, reply.Running, 0), time.Now()}
	s.told = told{at: reply.At, of: reply.Waiting, running: reply.Running, when: s.first.at}
	s.told.rough = s.hold == nil && reply.At.Place == 0
	ended := s.cause != nil
	q.mu.Unlock()
	switch {
	case err != nil:
		q.leave(s, err)
	case ended: // while the store was asked: it has let in a job that had left
		q.depart(s.job.ID)
	}
	return q.despair(s)
}

// despair ends a job that has just joined and is likelier than not to wait for
// longer than it can, by what jobs have really taken.
func (q *Queue) despair(s *seat) error {
	if s.job.Patience == 0 {
		return nil
	}
	q.sure(s)
	p, waits := q.Place(s.job.ID)
	if !waits || p.ETA == nil || p.ETA.P50 <= s.job.Patience || q.forecast.Guesses() {
		return nil
	}
	q.leave(s, &Hopeless{ETA: *p.ETA, Patience: s.job.Patience})
	<-s.bell.Rung()
	return s.cause // nil if a grant was faster
}

// bound limits the wait of a seat. Call it under Queue.mu.
func (q *Queue) bound(s *seat) {
	s.bell.Limit(q.cfg.MaxWait-time.Since(s.since), func() { q.leave(s, ErrWaited) })
}

// Take is the second part of Do: it waits until the wait is over, and calls work.
func (t *Turn) Take(ctx context.Context, work func(ctx context.Context, hold *Hold) error) (err error) {
	defer t.queue.done()
	for again := true; again; {
		if again, err = false, t.queue.wait(ctx, t.seat); err == nil {
			again, err = t.queue.lend(ctx, t.seat, work)
		}
	}
	return err
}

// wait returns nil when the job has its hold, else the cause of its end.
func (q *Queue) wait(ctx context.Context, s *seat) error {
	select {
	case <-s.bell.Rung():
	case <-ctx.Done():
		q.leave(s, ErrLeft)
	}
	<-s.bell.Rung() // by now or soon: leave has rung it, or a grant was faster
	q.learn(s, time.Now())
	if s.cause == nil && ctx.Err() != nil && !s.started {
		q.forget(s)
		q.giveBack(s.hold, true)
		return ErrLeft
	}
	return s.cause
}

// leave ends a waiting job for cause. It is too late for one that has its hold
// or has ended already; that is no fault.
func (q *Queue) leave(s *seat, cause error) {
	q.mu.Lock()
	ended := q.endLocked(s, cause)
	q.mu.Unlock()
	if ended {
		q.depart(s.job.ID)
	}
}

func (q *Queue) endLocked(s *seat, cause error) bool {
	if s.hold != nil || s.cause != nil {
		return false
	}
	s.cause = cause
	delete(q.jobs, s.job.ID)
	s.bell.Ring()
	return true
}

// endWaitingLocked ends every waiting job and returns their ids.
func (q *Queue) endWaitingLocked(cause error) (ids []string) {
	for id, s := range q.jobs {
		if q.endLocked(s, cause) {
			ids = append(ids, id)
		}
	}
	return ids
}

// batch is how many tickets go into one call.
const batch = 1000

// depart takes jobs out of the store's line. With a store that is far away, one
// goroutine sends for all who leave at the same time.
func (q *Queue) depart(ids ...string) {
	if len(ids) == 0 {
		return
	}
	if q.store.lease() == 0 {
		_, _ = q.apply(line.Leave{IDs: ids})
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.gone = append(q.gone, ids...)
	if !q.flushing && q.keep.failed == nil {
		q.flushing = true
		q.spawn(q.flush)
	}
}

// flush sends what is gone. What cannot be sent stays for the keeper.
func (q *Queue) flush() {
	var sent []string
	var err error
	for {
		q.mu.Lock()
		if err != nil {
			q.gone = append(sent, q.gone...)
		}
		if err != nil || len(q.gone) == 0 {
			q.flushing = false
			q.mu.Unlock()
			return
		}
		sent = q.takeGone()
		q.mu.Unlock()
		_, err = q.apply(line.Leave{IDs: sent})
	}
}

// takeGone takes over the sending of those who left. Call it under mu.
func (q *Queue) takeGone() []string {
	n := min(len(q.gone), batch)
	taken := q.gone[:n:n]
	q.gone = q.gone[n:]
	return taken
}

// start has a job that got its hold begin, and tells it.
func (q *Queue) start(s *seat) {
	begun, thrown := s.start()
	q.mu.Lock()
	defer q.mu.Unlock()
	s.started, s.thrown = begun, thrown
	s.bell.Ring()
}

// start calls Job.Start. Its panic is the job's own, whoever's goroutine this is.
func (s *seat) start() (begun bool, thrown any) {
	if s.job.Start == nil {
		return false, nil
	}
	defer func() {
		if thrown = recover(); thrown != nil {
			begun = true // perhaps
		}
	}()
	return s.job.Start(s.hold.Slot), nil
}

// assign accepts grants made for this process. A grant whose job has left in the
// meantime goes straight back, which may bring the next one.
func (q *Queue) assign(grants []line.Grant) {
	for len(grants) > 0 {
		g := grants[0]
		grants = grants[1:]
		if g.Owner != q.owner {
			continue
		}
		switch h, s := q.accept(g); {
		case h != nil:
			grants = append(grants, q.free(h)...)
		case s != nil:
			q.start(s)
		}
	}
}
