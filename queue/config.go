package queue

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"oneslot/queue/line"
)

// Config is how a line is kept and how long its parties are waited for. All
// processes that share a line in Redis must agree on Slots and Name.
type Config struct {
	// Slots names the engine slots of the line in order of preference. At least
	// one is needed; names are unique and hold no line break. Zero means none.
	Slots []string
	// Name tells lines in one Redis apart. Zero means "default".
	Name string
	// Owner names this process in snapshots. A random part is added, so that a
	// process never inherits the holds of one that died. Zero means "proxy".
	Owner string
	// MaxWaiting is how many may wait in all. Zero means 64.
	MaxWaiting int
	// MaxWaitingPerKey is how many of one key may wait. Jobs without a key are
	// not counted. Zero means 16.
	MaxWaitingPerKey int
	// MaxWait is how long a job may wait before ErrWaited. Zero means 2 h.
	MaxWait time.Duration
	// StarvationAfter is how long a key waits without having a slot before its
	// oldest job goes first, whatever its class. Zero means 10 min.
	StarvationAfter time.Duration
	// Lease is how long a process may be silent before the others take its slots
	// and its places. Only Redis needs it. Zero means 15 s.
	Lease time.Duration
	// Margin is how long before the end of its lease a process stops trusting
	// it. Zero means 2 s.
	Margin time.Duration
	// Poll is how often a process renews its lease and heals lost messages, if
	// Lease/3 is not shorter. Zero means 1 s.
	Poll time.Duration
	// CallTimeout bounds one call to Redis. Zero means 2 s.
	CallTimeout time.Duration
	// AbortBound bounds one try to make an engine idle; then its slot is
	// poisoned. Zero means 15 s.
	AbortBound time.Duration
	// PoisonGrace is how long newcomers still get a place while every slot is
	// poisoned or down. Zero means 60 s.
	PoisonGrace time.Duration
	// MaxOutage is how long waiting jobs outlive a Redis that does not answer.
	// Zero means 1 min.
	MaxOutage time.Duration

	crowd int // keys or users in line beyond which joins are told no place; zero means 32
}

// WithDefaults returns a copy of c whose zero fields have their meaning.
func (c Config) WithDefaults() Config {
	c.Name = cmp.Or(c.Name, "default")
	c.Owner = cmp.Or(c.Owner, "proxy")
	c.MaxWaiting = cmp.Or(c.MaxWaiting, 64)
	c.MaxWaitingPerKey = cmp.Or(c.MaxWaitingPerKey, 16)
	c.MaxWait = cmp.Or(c.MaxWait, 2*time.Hour)
	c.StarvationAfter = cmp.Or(c.StarvationAfter, 10*time.Minute)
	c.Lease = cmp.Or(c.Lease, 15*time.Second)
	c.Margin = cmp.Or(c.Margin, 2*time.Second)
	c.Poll = cmp.Or(c.Poll, time.Second)
	c.CallTimeout = cmp.Or(c.CallTimeout, 2*time.Second)
	c.AbortBound = cmp.Or(c.AbortBound, 15*time.Second)
	c.PoisonGrace = cmp.Or(c.PoisonGrace, time.Minute)
	c.MaxOutage = cmp.Or(c.MaxOutage, time.Minute)
	return c
}

// Validate reports every fault of c at once. Zero fields are no faults, but for
// Slots.
func (c Config) Validate() error {
	c = c.WithDefaults()
	faults := []error{c.validateNames()}
	for _, f := range []struct {
		name  string
		value int64
	}{
		{"max_waiting", int64(c.MaxWaiting)},
		{"max_waiting_per_key", int64(c.MaxWaitingPerKey)},
		{"max_wait", int64(c.MaxWait)},
		{"starvation_after", int64(c.StarvationAfter)},
		{"lease", int64(c.Lease)},
		{"margin", int64(c.Margin)},
		{"poll", int64(c.Poll)},
		{"call_timeout", int64(c.CallTimeout)},
		{"abort_bound", int64(c.AbortBound)},
		{"poison_grace", int64(c.PoisonGrace)},
		{"max_outage", int64(c.MaxOutage)},
	} {
		if f.value < 0 {
			faults = append(faults, fmt.Errorf("queue: %s is negative; leave it out for the default", f.name))
		}
	}
	if least := c.Margin + c.CallTimeout + c.every(); c.Lease < least {
		faults = append(faults, fmt.Errorf(
			"queue: lease %v is too short to be renewed in time: make it at least %v (margin %v + call_timeout %v + renewal every %v)",
			c.Lease, least, c.Margin, c.CallTimeout, c.every()))
	}
	return errors.Join(faults...)
}

func (c Config) validateNames() error {
	var faults []error
	if len(c.Slots) == 0 {
		faults = append(faults, errors.New("queue: no slots: name at least one engine"))
	}
	for i, name := range c.Slots {
		switch {
		case name == "" || strings.ContainsAny(name, "\r\n"):
			faults = append(faults, fmt.Errorf("queue: slot %d: name %q is empty or has a line break", i+1, name))
		case slices.Contains(c.Slots[:i], name):
			faults = append(faults, fmt.Errorf("queue: slot %d: name %q is taken; names must be unique", i+1, name))
		}
	}
	for _, name := range []string{c.Name, c.Owner} {
		if strings.ContainsAny(name, "{}:; \t\r\n") {
			faults = append(faults, fmt.Errorf("queue: the name %q of the line or the owner holds a blank or one of {}:;", name))
		}
	}
	return errors.Join(faults...)
}

// every is the time between two renewals of the lease.
func (c Config) every() time.Duration { return min(c.Poll, c.Lease/3) }

// rules is what the policy needs of c, when holds outlive their owner by lease.
func (c Config) rules(lease time.Duration) line.Rules {
	return line.Rules{
		Slots:            c.Slots,
		MaxWaiting:       c.MaxWaiting,
		MaxWaitingPerKey: c.MaxWaitingPerKey,
		Lease:            lease,
		PoisonGrace:      c.PoisonGrace,
		StarvationAfter:  c.StarvationAfter,
		Quiet:            2 * c.every(),
		Crowd:            cmp.Or(c.crowd, 32),
	}
}

// Class is how urgent a job is. The zero value is Default.
type Class = line.Class

// The classes.
const (
	Default     = line.Default     // everything that says nothing
	Interactive = line.Interactive // somebody watches
	Batch       = line.Batch       // nobody waits for it
)

// ParseClass is the inverse of Class.String. The empty text is Default.
func ParseClass(text string) (Class, error) { return line.ParseClass(text) }

// Two classes. A rejected job got no place, or lost it through no fault of its
// own. An abandoned one had a place or a slot, and was given up before its work
// had ended by itself. Each cause belongs to one class, so a caller may test
// either: errors.Is(ErrFull, ErrRejected) holds.
var (
	ErrRejected  = errors.New("queue: rejected")
	ErrAbandoned = errors.New("queue: ended early")

	// ErrFull: MaxWaiting jobs wait already. Has a RetryAfter.
	ErrFull = fmt.Errorf("%w: the queue is full", ErrRejected)
	// ErrKeyLimit: MaxWaitingPerKey jobs of this key wait already. Has a RetryAfter.
	ErrKeyLimit = fmt.Errorf("%w: too many jobs of this key are waiting", ErrRejected)
	// ErrHopeless: the wait would be longer than the Patience. It is a *Hopeless.
	ErrHopeless = fmt.Errorf("%w: the client would have left before its turn", ErrRejected)
	// ErrStopping: this process takes no more work.
	ErrStopping = fmt.Errorf("%w: the proxy is stopping", ErrRejected)
	// ErrDraining: the operator lets nobody into the line.
	ErrDraining = fmt.Errorf("%w: the line is being drained", ErrRejected)
	// ErrPoisoned: for longer than PoisonGrace no engine could be made idle.
	ErrPoisoned = fmt.Errorf("%w: the engine cannot be made idle", ErrRejected)
	// ErrDown: for longer than PoisonGrace no engine could be reached. A Settler
	// wraps it to say that it could not reach the engine at all.
	ErrDown = fmt.Errorf("%w: the engine cannot be reached", ErrRejected)
	// ErrStoreDown: Redis does not answer, or did not for longer than MaxOutage.
	ErrStoreDown = fmt.Errorf("%w: the queue's store does not answer", ErrRejected)
	// ErrDuplicate: a job of the same id waits or runs.
	ErrDuplicate = fmt.Errorf("%w: a job of this id is in the queue", ErrRejected)

	// ErrWaited: MaxWait is over.
	ErrWaited = fmt.Errorf("%w: waited too long", ErrAbandoned)
	// ErrLeft: the client's context ended while the job waited.
	ErrLeft = fmt.Errorf("%w: the client left", ErrAbandoned)
	// ErrPreempted is the cause of a context of work whose slot goes to a better job.
	// Work that returns it is called again later; Do never returns it.
	ErrPreempted = fmt.Errorf("%w: the slot goes to a better job", ErrAbandoned)
	// ErrCancelled: Cancel was called, while the job waited or while it ran.
	ErrCancelled = fmt.Errorf("%w: the request was cancelled", ErrAbandoned)
	// ErrSlotLost: the lease on the slot could not be kept while the job ran.
	ErrSlotLost = fmt.Errorf("%w: the lease on the engine slot was lost", ErrAbandoned)
)

// refusal is a cause with a hint when to come back.
type refusal struct {
	cause error
	after time.Duration
}

func (r *refusal) Error() string { return r.cause.Error() }
func (r *refusal) Unwrap() error { return r.cause }

// RetryAfter is when a place may be free again, 1 s to 60 s. Errors of ErrFull
// and ErrKeyLimit have it, found by errors.As with an interface of this method.
func (r *refusal) RetryAfter() time.Duration { return r.after }

// refused is the cause that belongs to a verdict on a join; nil when it went in.
func refused(v line.Verdict, after time.Duration) error {
	switch v {
	case line.Done:
		return nil
	case line.Full:
		return &refusal{ErrFull, after}
	case line.KeyLimit:
		return &refusal{ErrKeyLimit, after}
	case line.AllPoisoned:
		return ErrPoisoned
	case line.AllDown:
		return ErrDown
	case line.Duplicate:
		return ErrDuplicate
	case line.Closed:
		return ErrDraining
	case line.Stale:
	}
	return fmt.Errorf("queue: a join was answered with verdict %d", v)
}

// Hopeless is an ErrHopeless: the foreseen wait, which the client would not have lived.
type Hopeless struct {
	ETA      Band
	Patience time.Duration
}

// Error is ErrHopeless's.
func (h *Hopeless) Error() string { return ErrHopeless.Error() }

// Unwrap returns ErrHopeless.
func (h *Hopeless) Unwrap() error { return ErrHopeless }

// RetryAfter is the foreseen wait, 1 s to 60 s.
func (h *Hopeless) RetryAfter() time.Duration { return within(h.ETA.P50) }
