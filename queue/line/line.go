package line

import (
	"math"
	"time"
)

// Rules are the settings of the policy. They must be whole: no field has a
// default here.
type Rules struct {
	Slots            []string
	MaxWaiting       int
	MaxWaitingPerKey int
	Lease            time.Duration // of owners; 0: they never expire
	PoisonGrace      time.Duration
	StarvationAfter  time.Duration // a key without the slot for so long goes first, and so a user among its key's
	Quiet            time.Duration // without grants after survivors met an empty store
	Crowd            int           // with more keys or users in line than so many a join is told no place
}

// Line is the policy: who waits, in which order, who holds which slot, by which
// number. It does no I/O, has no clock and no goroutine, and is not safe for
// concurrent use. Redis runs the same policy as the scripts in lua/; a test
// drives both with the same steps and demands the same replies.
type Line struct {
	rules   Rules
	slots   []*Berth
	owners  map[string]*party
	waiting map[string]*entry
	byKey   map[string]int

	classes [3]*group // the keys of each
	typical int64     // slot time

	epoch   int64 // when the first step was taken
	quiet   int64 // no grants before
	arrival int64 // last given
	fence   int64 // last given
	version int64
	gate    Gate

	// Of the step at hand.
	now  int64
	by   Caller
	out  Reply
	left []*account // keys whose users may be forgotten at its end
}

// party is an owner: how long its lease runs, and its tickets in line.
type party struct {
	until   int64
	tickets map[string]struct{}
}

// New returns an empty line. Its slots are unclean: nobody has proved yet
// that their engines are idle.
func New(rules Rules) *Line {
	l := &Line{
		rules:   rules,
		owners:  map[string]*party{},
		waiting: map[string]*entry{},
		byKey:   map[string]int{},
		typical: guess,
	}
	for class := range l.classes {
		l.classes[class] = newGroup(Class(class), nil)
	}
	for _, name := range rules.Slots {
		l.slots = append(l.slots, &Berth{Grant: Grant{Slot: name, State: Idle}})
	}
	return l
}

// Now is the time of the last step.
func (l *Line) Now() time.Time { return time.UnixMicro(l.now) }

// Len is how many wait.
func (l *Line) Len() int { return len(l.waiting) }

// Waits reports whether a job is in line.
func (l *Line) Waits(id string) bool { return l.waiting[id] != nil }

// Gate is what the operator lets through.
func (l *Line) Gate() Gate { return l.gate }

// Apply takes one step at the time now, which must not run backwards.
func (l *Line) Apply(now time.Time, by Caller, s Step) Reply {
	l.now, l.by, l.out = now.UnixMicro(), by, Reply{}
	l.begin()
	switch s := s.(type) {
	case Join:
		l.join(s)
	case Rejoin:
		l.rejoin(s)
	case Leave:
		l.leave(s.IDs)
	case Free:
		l.free(s)
	case Mark:
		l.mark(s)
	case Yield:
		l.yield(s)
	case Keep:
		l.keep(s)
	case Renew:
		l.renew(s)
	case Quit:
		l.drop(by.Owner)
	case Switch:
		l.gate = s.To
		l.version++
	case Tell:
		l.tell(s)
	}
	l.grant()
	l.ask()
	l.disband()
	l.answer(s)
	return l.out
}

// begin opens the store's books at the first step and expires dead owners.
func (l *Line) begin() {
	if l.epoch == 0 {
		l.epoch = l.now
		if l.by.Epoch != 0 {
			l.quiet = l.now + l.rules.Quiet.Microseconds()
		}
		for _, s := range l.slots {
			s.Since = l.now
		}
	}
	for name, owner := range l.owners {
		if owner.until <= l.now {
			l.drop(name)
		}
	}
}

// owner returns the caller's entry, made if need be. When nobody else is there,
// nobody has watched the idle engines, so they are to be proved again.
func (l *Line) owner() *party {
	if p := l.owners[l.by.Owner]; p != nil {
		return p
	}
	if len(l.owners) == 0 {
		for _, s := range l.slots {
			s.Clean = false
		}
	}
	p := &party{until: l.deadline(), tickets: map[string]struct{}{}}
	l.owners[l.by.Owner] = p
	return p
}

func (l *Line) deadline() int64 {
	if l.rules.Lease == 0 {
		return math.MaxInt64
	}
	return l.now + l.rules.Lease.Microseconds()
}

// drop ends an owner: its tickets leave, its slots are free and unclean. A dead
// one's jobs are charged to the end of its lease.
func (l *Line) drop(name string) {
	till := l.now
	if p := l.owners[name]; p != nil {
		till = min(till, p.until)
		for id := range p.tickets {
			l.withdraw(l.waiting[id])
		}
		delete(l.owners, name)
	}
	for _, s := range l.slots {
		if s.State != Idle && s.Owner == name {
			l.charge(s, till)
			l.release(s, false)
		}
	}
}
