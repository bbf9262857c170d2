package queue

// This part is about what comes back: slots whose work goes on without them, to the line
// jobs that made room for better ones and those that the store has forgotten, and slot
// times to those who foretell.

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"oneslot/queue/bell"
	"oneslot/queue/codec"
	"oneslot/queue/eta"
	"oneslot/queue/line"
)

// mostYields is how often one job gives its slot back: the engine's work for it is
// lost each time.
const mostYields = 2

// wanted takes in that slots are wanted for better jobs. A job that has begun, or
// has made room often enough, goes on, and the line is told.
func (q *Queue) wanted(asks []line.Grant) {
	if len(asks) == 0 {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, g := range asks {
		if g.Owner != q.owner {
			continue
		}
		q.wants[g.Slot] = g.Fence
		if h := q.holds[g.Slot]; h != nil && h.Fence == g.Fence {
			q.preemptLocked(h)
		}
	}
}

// preemptLocked has the work of a hold stop, or tells the line that it will not.
func (q *Queue) preemptLocked(h *hold) {
	s := q.jobs[h.ID]
	switch {
	case s == nil || s.hold != h: // it ends just now
	case h.begun || q.stopping || s.yields >= mostYields:
		q.spawn(func() { _, _ = q.apply(line.Keep{Slot: h.Slot, Fence: h.Fence}) })
	default:
		h.stop(ErrPreempted)
	}
}

// begin notes that the first token of a job is about to go out; false if the slot
// was given away before.
func (q *Queue) begin(h *hold) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	h.begun = h.begun || !errors.Is(h.cause, ErrPreempted)
	return h.begun
}

// blame adds to the error of work why it had to stop. Work may fail before it is told
// to, when the whole process stood still: others took the slot over and aborted the
// engine, and its end is read before the clock is looked at.
func (q *Queue) blame(held context.Context, h *hold, err error) error {
	if err == nil {
		return nil
	}
	q.mu.Lock()
	trusted, early := q.trusts(time.Now()), h.early
	q.mu.Unlock()
	if early { // what failed then was not the slot's
		return err
	}
	cause := context.Cause(held) // after that: a renewal that restores the trust names what was lost
	if cause == nil && !trusted {
		cause = ErrSlotLost
	}
	if cause == nil || errors.Is(err, cause) || errors.Is(cause, ErrPreempted) {
		return err
	}
	return fmt.Errorf("%w: %w", cause, err)
}

// over decides what follows when work has returned err: a preempted job takes its
// seat again, unless it has ended for another cause meanwhile.
func (q *Queue) over(s *seat, h *hold, err error) (again bool, _ error) {
	if !errors.Is(err, ErrPreempted) {
		return false, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case !errors.Is(h.cause, ErrPreempted):
		return false, h.cause
	case q.stopping:
		return false, ErrStopping
	}
	s.hold, s.started, s.bell, s.told.at.Place = nil, false, bell.New(), 0
	q.bound(s)
	s.first, s.late, s.asks = asked{}, asked{}, 0 // a wait of another kind
	s.yields++
	return true, nil
}

// giveBackEarly gives a hold back whose work has nothing more to do with the slot. One
// that has to stop, or whose lease is in doubt, is seen to when it has returned.
func (q *Queue) giveBackEarly(s *seat, h *hold) {
	q.mu.Lock()
	if h.early = h.cause == nil && q.holds[h.Slot] == h && q.trusts(time.Now()); h.early {
		delete(q.jobs, s.job.ID)
		defer q.giveBack(h, true) // once mu is free
	}
	q.mu.Unlock()
}

// yield puts the job of a hold back in line. If the store does not know, the
// keeper tells it.
func (q *Queue) yield(s *seat, h *hold) {
	reply, err := q.apply(line.Yield{Slot: h.Slot, Fence: h.Fence})
	q.mu.Lock()
	if err != nil || reply.Verdict != line.Done {
		q.keep.forgotten = true
		q.hurry()
	}
	left := s.cause != nil // while the store was asked
	q.mu.Unlock()
	if left {
		q.depart(s.job.ID)
	}
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
			missing = append(missing, line.Ticket{ID: id, Key: s.job.Key, User: s.job.User, Class: s.job.Class, Arrival: s.arrival, Cost: q.forecast.Expect(s.job.Asked()).Microseconds(), Prefer: q.prefer(s.job)})
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

// served takes in how long a job had its slot. In Redis the keeper writes it down for
// all processes: a hand-over waits for nothing that only predictions need.
func (q *Queue) served(j Job, slot time.Duration) {
	q.forecast.Served(j.Asked().Sample(slot), q.store.lease() > 0)
}

// consult writes down the latest slot times of this process and reads those of all.
// Without an answer its own go on to stand.
func (q *Queue) consult(shared *redisStore) {
	fresh := q.forecast.Fresh()
	all, err := shared.times(q.life, fresh)
	if err != nil {
		q.forecast.Untold(fresh)
		return
	}
	q.forecast.Replace(all)
}

// times remembers slot times and returns all that are remembered, the oldest first.
func (r *redisStore) times(ctx context.Context, fresh []eta.Sample) ([]eta.Sample, error) {
	ctx, cancel := context.WithTimeout(ctx, r.cfg.CallTimeout)
	defer cancel()
	args := append([]any{eta.Most}, codec.EncodeTimes(fresh)...)
	list, err := r.scripts["times"].Run(ctx, r.client, []string{r.keys.Of("times")}, args...).StringSlice()
	return codec.DecodeTimes(list), err
}

// pause is how long until the next renewal: shorter where the lease of a process that
// has not renewed it ends before, so that its slot and its places are free at once.
func (q *Queue) pause() time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	if due := q.keep.due; due > 0 && due < q.cfg.every() {
		return due + time.Millisecond
	}
	return q.cfg.every()
}

// within keeps a hint when to come back to what clients obey.
func within(after time.Duration) time.Duration {
	return min(max(after, time.Second), time.Minute).Round(time.Second)
}

// Explain returns what Do will make of an error of the work, for those who are to
// be told before: that the slot was lost, if it was.
func (h *Hold) Explain(err error) error { return h.explain(err) }
