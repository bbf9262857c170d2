package queue

import (
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	"oneslot/queue/line"
)

// seat is a job's place, waiting or running. Its fields are guarded by Queue.mu,
// but for wake, which is closed once, when hold or cause is set.
type seat struct {
	job      Job
	since    time.Time
	arrival  int64 // 0: the join has not been answered
	wake     chan struct{}
	hold     *hold
	cause    error
	position int // last told by the store, as is of
	of       int
}

// waits reports whether the store should have the seat's ticket in line.
func (s *seat) waits() bool { return s.arrival != 0 && s.hold == nil }

// enter registers the job in this process, so that a grant finds it however it
// comes. Without an error the caller owes done.
func (q *Queue) enter(ctx context.Context, job Job) (*seat, error) {
	if b, err := hex.DecodeString(job.ID); err != nil || len(b) != 16 {
		return nil, fmt.Errorf("queue: job id %q is not 32 hex digits", job.ID)
	}
	if ctx.Err() != nil {
		return nil, ErrLeft
	}
	s := &seat{job: job, since: time.Now(), wake: make(chan struct{})}
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
	reply, err := q.apply(line.Join{ID: s.job.ID, Key: s.job.Key, Class: s.job.Class, Limit: s.job.Limit})
	if err == nil && reply.Verdict != line.Done {
		q.forget(s)
		return refused(reply.Verdict, q.retryAfter())
	}
	q.mu.Lock()
	s.arrival, s.position, s.of = reply.Arrival, reply.Position, reply.Waiting
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

// wait returns nil when the job has its hold, else the cause of its end.
func (q *Queue) wait(ctx context.Context, s *seat) error {
	patience := time.NewTimer(q.cfg.MaxWait - time.Since(s.since))
	defer patience.Stop()
	select {
	case <-s.wake:
	case <-ctx.Done():
		q.leave(s, ErrLeft)
	case <-patience.C:
		q.leave(s, ErrWaited)
	}
	<-s.wake // by now or soon: leave has closed it, or a grant was faster
	if s.cause == nil && ctx.Err() != nil {
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
	close(s.wake)
	return true
}

// forget takes a job that has its hold off the list of jobs.
func (q *Queue) forget(s *seat) {
	q.mu.Lock()
	delete(q.jobs, s.job.ID)
	q.mu.Unlock()
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

// countLocked compares the store's count of our tickets with ours. They differ
// for a moment whenever somebody comes or goes; if they do so in three renewals
// running, a failed-over Redis may have lost some, or kept some that left.
func (q *Queue) countLocked(there int) {
	here := 0
	for _, s := range q.jobs {
		if s.waits() {
			here++
		}
	}
	q.keep.odd++
	if here == there {
		q.keep.odd = 0
	}
}

// reconcile tells the store what it has forgotten of this process' tickets, in
// their old order, and takes out what it should have forgotten.
func (q *Queue) reconcile() {
	q.mu.Lock()
	all, odd := q.keep.forgotten, q.keep.odd >= 3
	q.mu.Unlock()
	there := map[string]bool{}
	if !all && odd {
		reply, err := q.apply(line.Look{})
		if err != nil {
			return
		}
		for _, t := range reply.View.Tickets {
			there[t.ID] = t.Owner == q.owner
		}
	}
	if !all && !odd {
		return
	}
	missing, strange := q.compare(there)
	q.depart(strange...)
	for part := range slices.Chunk(missing, batch) {
		if _, err := q.apply(line.Rejoin{Tickets: part}); err != nil {
			return
		}
	}
	q.mu.Lock()
	q.keep.forgotten, q.keep.odd = false, 0
	q.mu.Unlock()
}

// compare sets the tickets that the store has against those that wait here.
func (q *Queue) compare(there map[string]bool) (missing []line.Ticket, strange []string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for id, s := range q.jobs {
		if s.waits() && !there[id] {
			missing = append(missing, line.Ticket{ID: id, Key: s.job.Key, Class: s.job.Class, Arrival: s.arrival})
		}
	}
	for id, ours := range there {
		if ours && q.jobs[id] == nil {
			strange = append(strange, id)
		}
	}
	slices.SortFunc(missing, func(a, b line.Ticket) int { return cmp.Compare(a.Arrival, b.Arrival) })
	return missing, strange
}
