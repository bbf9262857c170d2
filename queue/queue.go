package queue

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"slices"
	"sync"
	"time"

	"oneslot/queue/claims"
	"oneslot/queue/forecast"
	"oneslot/queue/line"
)

// Settler is what the queue asks of the engines: to be quiet. Settle aborts what
// runs on the named slot's engine if it may, and returns nil once the engine has
// been seen idle. It blocks until then or until ctx ends. An error that wraps
// ErrDown says that the engine could not be reached.
type Settler interface {
	Settle(ctx context.Context, slot string) error
}

// Queue is one process' end of the line. It is safe for concurrent use.
//
// Ownership: New starts the keeper and the listener of a store that leases;
// Close ends them. Every hold accepted from the store is in holds until it is
// given back or lost; it belongs to the Do call whose work runs, or to the mender
// spawned for it. Close waits for Do calls and spawned goroutines.
type Queue struct {
	cfg    Config
	owner  string
	store  Store
	engine Settler

	life    context.Context // ends when Close has given everything back
	end     context.CancelFunc
	kick    chan struct{} // asks the keeper to renew now; one is enough
	loops   sync.WaitGroup
	closing chan struct{} // closed by Close: slots known to be ill are given up
	calm    chan struct{} // closed when, after that, nobody is active

	forecast forecast.Forecast
	claims   *claims.Claims // nil: the store is not shared
	mu       sync.Mutex     // guards what follows; never held while calling the store
	active   int            // Do calls and goroutines of spawn
	jobs     map[string]*seat
	holds    map[string]*hold // by slot
	fences   map[string]int64 // the last accepted of each slot
	wants    map[string]int64 // the last fence of each slot by which it was asked for
	gone     []string         // left locally, perhaps not yet in the store
	flushing bool             // somebody is sending gone
	asked    time.Time        // when a position was last asked for
	stopping bool
	stopped  bool
	keep     keeping
}

// New returns a Queue that hands the slots of store to its callers. Close it.
func New(store Store, engine Settler, cfg Config) (*Queue, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.WithDefaults()
	q := &Queue{
		cfg:     cfg,
		owner:   cfg.Owner + "-" + randomHex(6),
		store:   store,
		engine:  engine,
		kick:    make(chan struct{}, 1),
		closing: make(chan struct{}),
		calm:    make(chan struct{}),
		jobs:    map[string]*seat{},
		holds:   map[string]*hold{},
		fences:  map[string]int64{},
		wants:   map[string]int64{},
	}
	q.life, q.end = context.WithCancel(context.Background())
	q.claims = q.newClaims()
	if store.lease() > 0 {
		q.loops.Go(q.keeper)
		q.loops.Go(func() { store.listen(q.life, q.owner, q.hear) })
	}
	return q, nil
}

func randomHex(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}

// Do joins the line, waits for a slot and lends it to work for the length of the
// call. It returns work's error, or one of the causes of this package if work was
// never called; if the hold was lost or cancelled and work failed, both. doc.go says
// what is checked in which order, and what the contexts mean.
func (q *Queue) Do(ctx context.Context, job Job, work func(ctx context.Context, hold *Hold) error) error {
	t, err := q.Enter(ctx, job)
	if err != nil {
		return err
	}
	return t.Take(ctx, work)
}

// Enter is the first part of Do: it joins the line. Without an error the caller owes
// one call of Take.
func (q *Queue) Enter(ctx context.Context, job Job) (*Turn, error) {
	s, err := q.enter(ctx, job)
	if err != nil {
		return nil, err
	}
	if err := q.join(s); err != nil {
		q.done()
		return nil, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.bound(s)
	return &Turn{queue: q, seat: s}, nil
}

// A Turn is a job's wait and what follows. The wait itself needs no goroutine.
type Turn struct {
	queue *Queue
	seat  *seat
}

// Came is closed when the wait is over: the job has a slot, or has to go.
func (t *Turn) Came() <-chan struct{} { return t.seat.bell.Rung() }

// Tell has f called once, when the wait is over; now, if it is. f must neither block
// nor call the Queue.
func (t *Turn) Tell(f func()) {
	t.queue.mu.Lock()
	defer t.queue.mu.Unlock()
	t.seat.bell.Tell(f)
}

// forget takes a job that has its hold off the list of jobs.
func (q *Queue) forget(s *seat) {
	q.mu.Lock()
	delete(q.jobs, s.job.ID)
	q.mu.Unlock()
}

// Drain ends what waits in this process with ErrStopping and rejects what is
// new; what runs goes on.
func (q *Queue) Drain() {
	q.mu.Lock()
	q.stopping = true
	left := q.endWaitingLocked(ErrStopping)
	q.mu.Unlock()
	q.depart(left...)
}

// Close drains, waits for running work and for engines being made idle until ctx
// ends, then cancels them with ErrStopping, gives back what this process holds
// and stops its goroutines. It returns ctx's error if it had to cancel, and
// ErrStoreDown if the slots could not be given back: they are free when the lease
// has run out.
func (q *Queue) Close(ctx context.Context) error {
	q.Drain()
	q.mu.Lock()
	if q.stopped {
		q.mu.Unlock()
		return nil
	}
	q.stopped = true
	close(q.closing)
	var late error
	if q.active == 0 {
		close(q.calm)
	}
	q.mu.Unlock()
	select {
	case <-q.calm:
	case <-ctx.Done():
		late = ctx.Err()
		q.stopAll(ErrStopping)
		q.await()
	}
	q.end()
	q.loops.Wait()
	q.await()
	return errors.Join(late, q.quit())
}

// await waits for what is active, but not for what ignores that it was told to
// stop.
func (q *Queue) await() {
	select {
	case <-q.calm:
	case <-time.After(q.cfg.CallTimeout):
	}
}

// stopAll tells all running work to stop.
func (q *Queue) stopAll(cause error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, h := range q.holds {
		h.stop(cause)
	}
}

// spawn runs f in a goroutine that Close waits for. Call it under mu.
func (q *Queue) spawn(f func()) {
	q.active++
	go func() {
		defer q.done()
		f()
	}()
}

// done is the end of what was counted as active.
func (q *Queue) done() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.active--
	if q.active == 0 && q.stopped {
		select {
		case <-q.calm: // it was calm before
		default:
			close(q.calm)
		}
	}
}

// quit gives everything back, on contexts of its own: the callers' have ended.
func (q *Queue) quit() (err error) {
	for range 3 {
		if _, err = q.store.apply(context.Background(), q.caller(), line.Quit{}); err == nil {
			q.mu.Lock()
			defer q.mu.Unlock()
			clear(q.holds)
			return nil
		}
	}
	return storeDown(err)
}

// prefer is the slots near a job.
func (q *Queue) prefer(j Job) (some line.Berths) {
	for _, name := range j.Near {
		some = some.With(slices.Index(q.cfg.Slots, name))
	}
	return some
}
