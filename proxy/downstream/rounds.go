package downstream

import (
	"sync"
	"sync/atomic"
	"time"
)

// Rounds has clients break their silences together: all that are due at a moment do so
// one after the other, since a goroutine and a timer for each would cost as much as what
// they say. The zero Rounds is ready for use; it is safe for concurrent use, and has no
// goroutine but while somebody is due.
type Rounds struct {
	mu  sync.Mutex // guards due
	due map[time.Duration]map[*Client]struct{}
}

// stuck is how long a round waits for one client before another goroutine goes on.
const stuck = 50 * time.Millisecond

// add has a client tick after wait, at the same moment as all whose turn is then. It
// returns the moment. The caller holds the client's lock, as for drop.
func (r *Rounds) add(c *Client, now time.Time, wait time.Duration) time.Duration {
	at := time.Duration(now.UnixNano()) + wait
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.due[at]
	if all == nil {
		if r.due == nil {
			r.due = map[time.Duration]map[*Client]struct{}{}
		}
		all = map[*Client]struct{}{}
		r.due[at] = all
		time.AfterFunc(wait, func() { r.begin(at) })
	}
	all[c] = struct{}{}
	return at
}

// drop takes a client out of the round of a moment.
func (r *Rounds) drop(c *Client, at time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.due[at], c)
}

// begin lets those tick whose turn it is.
func (r *Rounds) begin(at time.Duration) {
	r.mu.Lock()
	all := make([]*Client, 0, len(r.due[at]))
	for c := range r.due[at] {
		all = append(all, c)
	}
	delete(r.due, at)
	r.mu.Unlock()
	one := &round{all: all}
	if len(all) > 1 {
		time.AfterFunc(stuck, func() { one.watch(0) })
	}
	one.run()
}

// round is those who are due at a moment.
type round struct {
	all  []*Client
	next atomic.Int64 // of all
}

func (r *round) run() {
	for {
		i := r.next.Add(1) - 1
		if i >= int64(len(r.all)) {
			return
		}
		r.all[i].tick()
	}
}

// watch sees to it that a client that does not read holds up nobody else.
func (r *round) watch(seen int64) {
	n := r.next.Load()
	if n >= int64(len(r.all)) {
		return
	}
	time.AfterFunc(stuck, func() { r.watch(n) })
	if n == seen {
		r.run()
	}
}
