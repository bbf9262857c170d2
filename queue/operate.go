package queue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"oneslot/queue/claims"
	"oneslot/queue/codec"
	"oneslot/queue/line"
)

// Cancel ends the job id with the cause ErrCancelled, whether it waits or runs,
// here or in another process that shares the line. It reports whether such a job
// was found; another process is asked, not waited for.
func (q *Queue) Cancel(id string) (bool, error) {
	q.mu.Lock()
	s := q.jobs[id]
	q.mu.Unlock()
	if s != nil {
		q.cancelHere(s)
		return true, nil
	}
	reply, err := q.apply(line.Tell{ID: id})
	return err == nil && reply.Verdict == line.Done, err
}

func (q *Queue) cancelHere(s *seat) {
	q.leave(s, ErrCancelled)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.stopLocked(s)
}

// stopLocked cancels a job that runs.
func (q *Queue) stopLocked(s *seat) {
	if s.hold != nil && q.jobs[s.job.ID] == s { // else its hold may be a mender's
		s.hold.stop(ErrCancelled)
	}
}

// CancelKey cancels all jobs of a key, in every process that shares the line, and
// reports how many there were. Other processes are asked, not waited for.
func (q *Queue) CancelKey(key string) (int, error) {
	if q.store.lease() == 0 {
		return q.cancelKeyHere(key), nil
	}
	by := q.caller()
	reply, err := q.apply(line.Look{})
	if err != nil {
		return 0, err
	}
	n := q.cancelKeyHere(key)
	for _, t := range reply.View.Tickets {
		if t.Key == key && t.Owner != by.Owner {
			n++
		}
	}
	for _, b := range reply.View.Slots {
		if b.State == line.Busy && b.Key == key && b.Owner != by.Owner {
			n++
		}
	}
	_, err = q.apply(line.Call{Text: codec.Recall + key})
	return n, err
}

func (q *Queue) cancelKeyHere(key string) (n int) {
	q.mu.Lock()
	var left []string
	for id, s := range q.jobs {
		if s.job.Key != key {
			continue
		}
		n++
		if q.endLocked(s, ErrCancelled) {
			left = append(left, id)
		} else {
			q.stopLocked(s)
		}
	}
	q.mu.Unlock()
	q.depart(left...)
	return n
}

// Gate is what an operator lets through.
type Gate = line.Gate

// The gates.
const (
	Open     = line.Open     // slots are handed out
	Paused   = line.Paused   // none is, and who comes waits
	Draining = line.Draining // none is, and whoever waits or comes gets ErrDraining
)

// Switch sets the gate of the line, for all processes that share it and until it is
// set again. What runs goes on.
func (q *Queue) Switch(to Gate) error {
	_, err := q.apply(line.Switch{To: to})
	return err
}

// news is what every reply tells of the line, as last told. Guarded by Queue.mu.
type news struct {
	gate           Gate
	ill            line.State // Poisoned or Down if all slots are
	epoch, version int64
	at             time.Time
}

// told takes note of what the reply to a call tells that was begun at began. Replies
// may overtake each other: an older version is taken for true only in the reply to a
// call that was begun after the newer one had come, from a store that has gone back.
func (q *Queue) told(began time.Time, r line.Reply) {
	q.mu.Lock()
	n, out := &q.keep.news, []string(nil)
	if r.Epoch == n.epoch && r.Version < n.version && !began.After(n.at) {
		q.mu.Unlock()
		return
	}
	*n = news{r.Gate, r.Ill, r.Epoch, r.Version, time.Now()}
	if r.Gate == line.Draining {
		out = q.endWaitingLocked(ErrDraining)
	}
	q.mu.Unlock()
	q.depart(out...)
}

// errVouched ends the mending of a slot whose engine the operator says is idle.
var errVouched = errors.New("queue: the operator says that the engine is idle")

// Reset takes the operator's word that the engine of a slot is idle, which nobody
// could see: a slot that is aborting, poisoned or down is handed on at once. If the
// word is wrong, two requests run on the engine. It returns the state in which the
// slot was, 0 if there is none of this name; nothing is done to one that is idle or
// busy. The slot of another process is reset by a message.
func (q *Queue) Reset(ctx context.Context, slot string) (line.State, error) {
	by := q.caller()
	reply, err := q.store.apply(ctx, by, line.Look{})
	if err != nil {
		return 0, storeDown(err)
	}
	q.assign(reply.Grants)
	q.wanted(reply.Asks)
	for _, b := range reply.View.Slots {
		switch {
		case b.Slot != slot:
		case b.State == line.Idle || b.State == line.Busy:
			return b.State, nil
		case b.Owner == by.Owner:
			q.vouch(b.Grant)
			return b.State, nil
		default:
			_, err := q.apply(line.Call{To: b.Owner, Text: fmt.Sprintf("%s%d %s", codec.Vouch, b.Fence, slot)})
			return b.State, err
		}
	}
	return 0, nil
}

// vouch ends the mending of a hold.
func (q *Queue) vouch(g line.Grant) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if h := q.holds[g.Slot]; h != nil && h.Fence == g.Fence && h.State != line.Busy {
		h.stop(errVouched)
	}
}

// hear takes in a message from another process.
func (q *Queue) hear(n codec.Note) {
	switch n.Kind {
	case codec.Granted:
		q.assign([]line.Grant{n.Grant})
	case codec.Asked:
		q.mu.Lock()
		s := q.jobs[n.Grant.ID]
		q.mu.Unlock()
		if s != nil {
			q.cancelHere(s)
		}
	case codec.Recalled:
		q.cancelKeyHere(n.Key)
	case codec.Vouched:
		q.vouch(n.Grant)
	case codec.Wanted:
		q.wanted([]line.Grant{n.Grant})
	case codec.Claimed:
		q.claims.Hear(n.Text)
	case codec.Resync:
		q.hurry()
	}
}

// mark tells the line what is done to the engine. If the store does not answer,
// the next try tells it again.
func (q *Queue) mark(h *hold, state line.State) {
	q.mu.Lock()
	h.State = state
	q.mu.Unlock()
	reply, err := q.apply(line.Mark{Slot: h.Slot, Fence: h.Fence, State: state})
	if err == nil && reply.Verdict == line.Stale {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.loseLocked(h)
	}
}

// Claims sees to it that of all processes of the line one answers a request; nil where
// this is the only one.
func (q *Queue) Claims() *claims.Claims { return q.claims }

// newClaims makes them on a shared store.
func (q *Queue) newClaims() *claims.Claims {
	shared, ok := q.store.(*redisStore)
	if !ok {
		return nil
	}
	return claims.New(claims.Wire{
		Run: func(ctx context.Context, script string, args ...any) ([]any, error) {
			raw, err := shared.run(ctx, q.caller(), script, args...)
			if err != nil {
				err = storeDown(err)
			}
			return raw, err
		},
		Say: func(to, text string) { _, _ = q.apply(line.Call{To: to, Text: text}) },
		Go: func(f func()) {
			q.mu.Lock()
			defer q.mu.Unlock()
			q.spawn(f)
		},
	})
}
