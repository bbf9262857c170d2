package queue

import (
	"context"
	"math"
	"slices"
	"time"

	"oneslot/queue/line"
)

// Place is where a waiting job stands.
type Place struct {
	Position int // 1 is next
	Of       int // how many wait
	Waited   time.Duration
	ETA      *Band      // until it gets a slot; nil while too little is known
	Gate     Gate       // ETA is nil unless it is open
	Ill      line.State // Poisoned or Down if all slots are, else 0; ETA is nil then
}

// Band is an estimate: half of such jobs take no longer than P50, nine in ten no
// longer than P90.
type Band struct{ P50, P90 time.Duration }

// Snapshot is the whole line at one moment.
type Snapshot struct {
	Gate             Gate
	MaxWaiting       int // the limits
	MaxWaitingPerKey int
	Waiting          []Waiter // in order
	Slots            []Slot   // in the order of Config.Slots
	Recent           *Band    // how long slots were held by jobs of this process; nil below 5 jobs
	Jobs             int      // how many of them are behind Recent, at most 256
}

// Waiter is one waiting job.
type Waiter struct {
	Job
	Place
	Self bool // its client is connected to this process
}

// Slot is one engine slot.
type Slot struct {
	Name  string
	State line.State
	ID    string        // of the job that has it or had it last; "" if there is none
	Key   string        // whose job it runs; "" also where that is not known
	Fence int64         // of the present or last hold, 0: never held
	For   time.Duration // how long it has been in this state
	Self  bool          // held by this process
	Clean bool          // idle, and its engine was seen idle after its last use
}

// Place reports where the job id stands, false if it does not wait in this
// process. It does no I/O. With Redis the position may be a few seconds old.
func (q *Queue) Place(id string) (Place, bool) {
	now := time.Now()
	q.mu.Lock()
	q.asked = now
	s := q.jobs[id]
	if s == nil || s.hold != nil {
		q.mu.Unlock()
		return Place{}, false
	}
	p := Place{Position: s.position, Of: s.of, Waited: now.Sub(s.since), Gate: q.keep.news.gate, Ill: q.keep.news.ill}
	q.mu.Unlock()
	if m, ok := q.store.(*memory); ok {
		m.place(id, &p)
	}
	if p.Position == 0 { // between line and slot
		p.Position, p.Of = 1, max(1, p.Of)
	}
	if p.Gate == Open && p.Ill == 0 {
		p.ETA = q.eta(p.Position)
	}
	return p, true
}

// rank refreshes the positions in the seats while somebody asks for them, the
// more seldom the more there are.
func (q *Queue) rank(now time.Time) {
	q.mu.Lock()
	ids := make([]string, 0, len(q.jobs))
	for id, s := range q.jobs {
		if s.waits() {
			ids = append(ids, id)
		}
	}
	pause := time.Duration(len(ids)) * time.Millisecond / 2
	idle := q.keep.ranked == q.keep.version || now.Sub(q.asked) > rankFor || now.Sub(q.keep.rankedAt) < pause
	if !idle {
		q.keep.ranked, q.keep.rankedAt = q.keep.version, now
	}
	q.mu.Unlock()
	if idle {
		return
	}
	for part := range slices.Chunk(ids, batch) {
		reply, err := q.apply(line.Rank{IDs: part})
		if err != nil || len(reply.Ranks) != len(part) {
			return
		}
		q.mu.Lock()
		for i, id := range part {
			if s := q.jobs[id]; s != nil && reply.Ranks[i] > 0 {
				s.position, s.of = reply.Ranks[i], reply.Waiting
			}
		}
		q.mu.Unlock()
	}
}

// rankFor is how long after a question positions are kept fresh.
const rankFor = 30 * time.Second

// Snapshot returns the whole line, of all processes that share it. The error
// wraps ErrStoreDown.
func (q *Queue) Snapshot(ctx context.Context) (Snapshot, error) {
	by := q.caller()
	reply, err := q.store.apply(ctx, by, line.Look{})
	if err != nil {
		return Snapshot{}, storeDown(err)
	}
	q.assign(reply.Grants)
	v := reply.View
	s := Snapshot{Gate: v.Gate, MaxWaiting: q.cfg.MaxWaiting, MaxWaitingPerKey: q.cfg.MaxWaitingPerKey}
	for i, t := range v.Tickets {
		s.Waiting = append(s.Waiting, Waiter{
			Job:   Job{ID: t.ID, Key: t.Key, Class: t.Class},
			Place: Place{Position: i + 1, Of: len(v.Tickets), Waited: micros(v.Now - t.Arrival), ETA: q.eta(i + 1)},
			Self:  t.Owner == by.Owner,
		})
	}
	q.mu.Lock()
	for i, b := range v.Slots {
		if job := q.jobs[b.ID]; job != nil { // also after the store has lost its data
			v.Slots[i].Key = job.job.Key
		}
	}
	q.mu.Unlock()
	for _, b := range v.Slots {
		s.Slots = append(s.Slots, Slot{
			Name: b.Slot, State: b.State, ID: b.ID, Key: b.Key, Fence: b.Fence, Clean: b.Clean,
			For: micros(v.Now - b.Since), Self: b.Owner == by.Owner,
		})
	}
	s.Recent, s.Jobs = q.recent()
	return s, nil
}

func micros(n int64) time.Duration { return time.Duration(n) * time.Microsecond }

// ring keeps the last slot times of this process. Guarded by Queue.mu.
type ring struct {
	last []time.Duration
	next int
	band *Band         // of last; nil when it has to be computed again
	mean time.Duration // of last
}

const (
	ringSize = 256
	fewest   = 5 // slot times that make an estimate
)

func (r *ring) add(d time.Duration) {
	r.band = nil
	if len(r.last) < ringSize {
		r.last = append(r.last, d)
		return
	}
	r.last[r.next] = d
	r.next = (r.next + 1) % ringSize
}

// read computes band and mean, and reports whether enough is known.
func (r *ring) read() bool {
	if len(r.last) < fewest {
		return false
	}
	if r.band == nil {
		sorted := slices.Sorted(slices.Values(r.last))
		at := func(p float64) time.Duration { return sorted[int(math.Ceil(p*float64(len(sorted))))-1] }
		r.band = &Band{P50: at(0.5), P90: at(0.9)}
		var sum time.Duration
		for _, d := range sorted {
			sum += d
		}
		r.mean = sum / time.Duration(len(sorted))
	}
	return true
}

// recent is the band of the slot times themselves, and how many there are.
func (q *Queue) recent() (*Band, int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.times.read() {
		return nil, len(q.times.last)
	}
	band := *q.times.band
	return &band, len(q.times.last)
}

// eta estimates when the job at position gets a slot, nil while fewer than 5 slot
// times are known: as many turns of the slots as stand before it, the median of
// their sum near the sum of their means, its spread growing as the root of their
// number. What has run already of the present turn is not taken off.
func (q *Queue) eta(position int) *Band {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.times.read() {
		return nil
	}
	turns := float64((position + len(q.cfg.Slots) - 1) / len(q.cfg.Slots))
	half := q.times.band.P50 + time.Duration((turns-1)*float64(q.times.mean))
	spread := math.Sqrt(turns) * float64(q.times.band.P90-q.times.band.P50)
	return &Band{P50: half, P90: half + time.Duration(spread)}
}

// retryAfter is when a place in a full line may be free again.
func (q *Queue) retryAfter() time.Duration {
	if eta := q.eta(1); eta != nil {
		return within(eta.P50)
	}
	return 10 * time.Second
}

// within keeps a hint when to come back to what clients obey.
func within(after time.Duration) time.Duration {
	return min(max(after, time.Second), time.Minute).Round(time.Second)
}
