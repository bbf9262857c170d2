package queue

import (
	"context"
	"time"

	"oneslot/queue/line"
)

// keeping is what the keeper knows of the store. Guarded by Queue.mu.
type keeping struct {
	epoch     int64       // of the data, 0 before the first renewal
	trusted   time.Time   // holds are ours until then
	timer     *time.Timer // calls distrust then
	failed    error       // the last call had no answer
	since     time.Time   // when that began
	forgotten bool        // the store has to be told of all tickets
	odd       int         // renewals in a row that counted other tickets than we do
	version   int64       // of the line
	ranked    int64       // version of the positions in the seats
	rankedAt  time.Time   // when they were asked for
	news      news
	consulted time.Time     // when the slot times of all processes were read
	due       time.Duration // the first lease of another process ends so long after the last renewal, by its reply
}

// trusts reports whether the holds of this process are its own at the time now.
func (q *Queue) trusts(now time.Time) bool {
	return q.store.lease() == 0 || now.Before(q.keep.trusted)
}

// hurry asks the keeper to renew now.
func (q *Queue) hurry() {
	select {
	case q.kick <- struct{}{}:
	default: // asked for already
	}
}

func (q *Queue) caller() line.Caller {
	q.mu.Lock()
	defer q.mu.Unlock()
	return line.Caller{Owner: q.owner, Epoch: q.keep.epoch}
}

// call takes one step. Its errors wrap ErrStoreDown.
func (q *Queue) call(s line.Step) (line.Reply, error) {
	by, began := q.caller(), time.Now()
	reply, err := q.store.apply(context.Background(), by, s)
	if err != nil {
		err = storeDown(err)
		q.mu.Lock()
		q.failLocked(err, time.Now())
		q.mu.Unlock()
		q.hurry()
		return reply, err
	}
	if reply.Epoch != by.Epoch {
		q.hurry()
	}
	if by.Epoch == 0 || reply.Epoch == by.Epoch { // else the gate may be lost with the data
		q.told(began, reply)
	}
	q.wanted(reply.Asks)
	return reply, nil
}

// apply takes one step and accepts the grants it brings.
func (q *Queue) apply(s line.Step) (line.Reply, error) {
	reply, err := q.call(s)
	if err == nil {
		q.assign(reply.Grants)
	}
	return reply, err
}

// keeper renews the lease until the queue closes.
func (q *Queue) keeper() {
	tick := time.NewTimer(q.cfg.every())
	defer tick.Stop()
	defer func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		if q.keep.timer != nil {
			q.keep.timer.Stop()
		}
	}()
	for {
		if q.renew() {
			q.heal()
		}
		tick.Reset(q.pause())
		select {
		case <-q.life.Done():
			return
		case <-tick.C:
		case <-q.kick:
		}
	}
}

// renew renews the lease of this process and reports whether the store answered.
func (q *Queue) renew() bool {
	began := time.Now()
	q.mu.Lock()
	claims := make([]line.Grant, 0, len(q.holds))
	for _, h := range q.holds {
		claims = append(claims, h.Grant)
	}
	by := line.Caller{Owner: q.owner, Epoch: q.keep.epoch}
	q.mu.Unlock()
	reply, err := q.store.apply(q.life, by, line.Renew{Holds: claims})
	if err != nil {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.failLocked(storeDown(err), began)
		return false
	}
	q.renewed(began, by, reply)
	return true
}

// renewed draws the conclusions from an answered renewal that was begun at began.
func (q *Queue) renewed(began time.Time, by line.Caller, reply line.Reply) {
	q.mu.Lock()
	q.keep.failed = nil
	q.keep.trusted = began.Add(q.store.lease() - q.cfg.Margin)
	q.watchTrust()
	for _, g := range reply.Lost {
		if h := q.holds[g.Slot]; h != nil && h.Fence == g.Fence {
			q.loseLocked(h)
		}
	}
	q.keep.forgotten = q.keep.forgotten || !reply.Known || reply.Epoch != by.Epoch
	if reply.Epoch != by.Epoch { // the numbers begin anew, by a clock that may be behind
		clear(q.fences)
		for slot, h := range q.holds {
			q.fences[slot] = h.Fence
		}
	}
	q.keep.epoch, q.keep.version, q.keep.due = reply.Epoch, reply.Version, line.Micros(reply.Due)
	q.countLocked(reply.Mine)
	var strays []line.Grant
	for _, g := range reply.Holds {
		if g.Fence == q.fences[g.Slot] && q.holds[g.Slot] == nil {
			strays = append(strays, g)
		}
	}
	gate := q.keep.news.gate
	q.mu.Unlock()
	q.reconcile()
	if reply.Gate == line.Open && gate != line.Open && by.Epoch != 0 && reply.Epoch != by.Epoch {
		_ = q.Switch(gate) // lost with the data; on a failure the line is as new
	} else {
		q.told(began, reply)
	}
	for _, g := range strays { // given up here when the trust was gone
		_, _ = q.apply(line.Free{Slot: g.Slot, Fence: g.Fence})
	}
	q.assign(reply.Holds)
	q.assign(reply.Grants)
	q.wanted(reply.Asks)
}

// watchTrust ends all holds when the trust in them does.
func (q *Queue) watchTrust() {
	left := time.Until(q.keep.trusted)
	if q.keep.timer == nil {
		q.keep.timer = time.AfterFunc(left, q.distrust)
		return
	}
	q.keep.timer.Reset(left)
}

// distrust runs in a goroutine of the timer and ends at once.
func (q *Queue) distrust() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.trusts(time.Now()) {
		for _, h := range q.holds {
			q.loseLocked(h)
		}
	}
}

// loseLocked ends a hold that is not ours any more.
func (q *Queue) loseLocked(h *hold) {
	if q.holds[h.Slot] == h {
		delete(q.holds, h.Slot)
		h.stop(ErrSlotLost)
	}
}

// failLocked notes that the store did not answer a call begun at began. Whoever
// waits goes on waiting for MaxOutage.
func (q *Queue) failLocked(err error, began time.Time) {
	if q.keep.failed == nil {
		q.keep.since = began
	}
	q.keep.due = 0
	q.keep.failed = err
	if time.Since(q.keep.since) >= q.cfg.MaxOutage {
		q.gone = append(q.gone, q.endWaitingLocked(err)...)
	}
}

// heal repeats what the store has not been told yet, and refreshes positions.
func (q *Queue) heal() {
	q.mu.Lock()
	var late []*hold
	for _, h := range q.holds {
		if h.ended && !h.asking {
			late = append(late, h)
		}
	}
	flush := len(q.gone) > 0 && !q.flushing
	q.flushing = q.flushing || flush
	q.mu.Unlock()
	for _, h := range late {
		q.assign(q.free(h))
	}
	if flush {
		q.flush()
	}
	q.rank(time.Now())
	q.keepUp(time.Now())
}

// keepUp writes down and reads how long jobs of all processes took: at the start, when
// some of this process have ended, and now and then while somebody asks how long he
// will wait.
func (q *Queue) keepUp(now time.Time) {
	shared, ok := q.store.(*redisStore)
	fresh := q.forecast.Owes()
	q.mu.Lock()
	ago := now.Sub(q.keep.consulted)
	due := ok && (fresh && ago >= q.cfg.every() || now.Sub(q.asked) <= rankFor && ago >= rankFor || q.keep.consulted.IsZero())
	if due {
		q.keep.consulted = now
	}
	q.mu.Unlock()
	if due {
		q.consult(shared)
	}
}
