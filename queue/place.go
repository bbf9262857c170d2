package queue

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"oneslot/queue/eta"
	"oneslot/queue/forecast"
	"oneslot/queue/job"
	"oneslot/queue/line"
)

// Place is where a waiting job stands.
type Place struct {
	Position int // 1 is next; 0: not known yet
	Of       int // how many wait
	Waited   time.Duration
	ETA      *Band      // until it gets a slot; nil while too little is known
	Gate     Gate       // ETA is nil unless it is open
	Ill      line.State // Poisoned or Down if all slots are, else 0; ETA is nil then
}

// Band is an estimate: half of such jobs take no longer than P50, nine in ten no
// longer than P90.
type Band = eta.Band

// Snapshot is the whole line at one moment.
type Snapshot struct {
	Gate             Gate
	MaxWaiting       int // the limits
	MaxWaitingPerKey int
	Waiting          []Waiter // in order
	Slots            []Slot   // in the order of Config.Slots
	Recent           *Band    // how long slots were held, in Redis by jobs of all processes; nil below 5 jobs
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

// told is where a job stood when the store last told it.
type told struct {
	at      line.Standing
	of      int
	running []line.Run
	when    time.Time
	rough   bool // too many keys wait for the place to be told at once
}

// asked is what was to be predicted, and when.
type asked struct {
	question eta.Question
	at       time.Time
}

// Place reports where the job id stands, false if it does not wait in this
// process. It does no I/O. With Redis, or many keys, its position may be a few seconds old.
func (q *Queue) Place(id string) (Place, bool) {
	now := time.Now()
	m, near := q.store.(*memory)
	var fresh told
	if near {
		fresh = m.stand(id, now)
	}
	q.mu.Lock()
	q.asked = now
	s := q.jobs[id]
	if s == nil || s.hold != nil {
		q.mu.Unlock()
		return Place{}, false
	}
	t, class, since := s.told, s.job.Class, s.since
	if near {
		t = fresh
	}
	if t.at.Place == 0 && !t.rough { // between line and slot
		t.at.Place, t.of = 1, max(1, t.of)
	}
	gate, ill := q.keep.news.gate, q.keep.news.ill
	if near {
		gate, ill = m.news()
	}
	s.asks++
	counts := rand.IntN(s.asks) == 0 // so that any moment of its wait is as likely
	q.mu.Unlock()
	p := Place{Position: t.at.Place, Of: t.of, Waited: now.Sub(since), Gate: gate, Ill: ill}
	what := forecast.Question(class, t.at, t.running, now.Sub(t.when)).Again()
	if gate == Open && ill == 0 && !t.rough {
		p.ETA = q.forecast.Band(what)
	}
	if counts && !t.rough {
		q.note(s, asked{what.Answered(p.ETA), now})
	}
	return p, true
}

// note keeps what somebody in line was told last, for when his wait is over.
func (q *Queue) note(s *seat, told asked) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if s.hold == nil && s.cause == nil {
		s.late = told
	}
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
	q.place(ids, now)
}

// place asks where jobs stand, of all at once: for many the store reads the whole line.
func (q *Queue) place(ids []string, now time.Time) {
	reply, err := q.apply(line.Rank{IDs: ids})
	if err != nil || len(reply.Ranks) != len(ids) {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for i, id := range ids {
		if s := q.jobs[id]; s != nil && reply.Ranks[i].Place > 0 {
			s.told = told{at: reply.Ranks[i], of: reply.Waiting, running: reply.Running, when: now}
		}
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
	q.wanted(reply.Asks)
	v := reply.View
	stands, running := v.Stands(), v.Runs()
	s := Snapshot{Gate: v.Gate, MaxWaiting: q.cfg.MaxWaiting, MaxWaitingPerKey: q.cfg.MaxWaitingPerKey}
	floors := forecast.Floors{}
	for i, t := range v.Tickets {
		w := Waiter{Job: Job{ID: t.ID, Key: t.Key, Class: t.Class}, Self: t.Owner == by.Owner}
		w.Place = Place{Position: i + 1, Of: len(v.Tickets), Waited: line.Micros(v.Now - t.Arrival), Gate: v.Gate, Ill: reply.Ill}
		if w.Gate == Open && w.Ill == 0 {
			w.ETA = floors.Raise(t.Class, q.forecast.Band(forecast.Question(t.Class, stands[t.ID], running, 0).Again()))
		}
		s.Waiting = append(s.Waiting, w)
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
			For: line.Micros(v.Now - b.Since), Self: b.Owner == by.Owner,
		})
	}
	s.Recent, s.Jobs = q.forecast.Recent()
	return s, nil
}

// Job is one request for a slot.
type Job = job.Job

// Pace is how fast an engine is.
type Pace = eta.Pace

// Shows names what tells how fast the engine is at the job, now and when it has ended.
// It is asked by those who wait while too little is known of earlier jobs, and must
// not block; a zero Pace tells nothing.
func (h *Hold) Shows(pace func() Pace) {
	if h.watch != nil {
		h.watch(pace)
	}
}

// learn takes in that a job's wait is over, as the answer to what was asked of it.
func (q *Queue) learn(s *seat, now time.Time) {
	q.mu.Lock()
	first, late, cause := s.first, s.late, s.cause
	q.mu.Unlock()
	if cause != nil && !errors.Is(cause, ErrAbandoned) {
		return // it says nothing of the line
	}
	for _, w := range []asked{first, late} {
		q.forecast.Learn(w.question, now.Sub(w.at), cause != nil)
	}
}

// retryAfter is when a place in a full line may be free again.
func (q *Queue) retryAfter(running []line.Run) time.Duration {
	if eta := q.forecast.Band(forecast.Question(Default, line.Standing{Place: 1}, running, 0)); eta != nil {
		return within(eta.P50)
	}
	return 10 * time.Second
}

// sure finds out where a job stands that has been told no place.
func (q *Queue) sure(s *seat) {
	q.mu.Lock()
	rough := s.told.rough
	q.mu.Unlock()
	if rough {
		q.place([]string{s.job.ID}, time.Now())
	}
}
