package line

import (
	"cmp"
	"math"
)

// Ticket is one waiting job as the line knows it.
type Ticket struct {
	ID, Key string
	Class   Class
	Owner   string // the process that holds the client's connection
	// Arrival is when the job came, in microseconds since 1970 by the store's
	// clock, made unique. It is kept when a ticket joins again.
	Arrival int64
	Cost    int64 // the slot time it may take, in microseconds; for predictions only
}

// compare is first come, first served. Equal arrivals can only come from two
// stores; the id decides then.
func (t *Ticket) compare(other *Ticket) int {
	return cmp.Or(cmp.Compare(t.Arrival, other.Arrival), cmp.Compare(t.ID, other.ID))
}

func before(a, b *Ticket) bool { return a.compare(b) < 0 }

// turn is a ticket with what the order goes by. Counter is what the ticket's
// account will have used when its turn comes, if each ticket of it that stands
// before it takes the typical slot time. Starving is since when its account has
// gone without the slot, if that is too long and the ticket the first of it.
type turn struct {
	*Ticket
	starving int64 // 0: it does not
	counter  int64
}

// compare is the ordering rule, and this file with lua/order.lua its only home:
// those who starve, the longest first, then by class, by what is used, by arrival.
func (t turn) compare(other turn) int {
	switch {
	case t.starving != 0 && other.starving != 0:
		return cmp.Or(cmp.Compare(t.starving, other.starving), t.Ticket.compare(other.Ticket))
	case t.starving != 0:
		return -1
	case other.starving != 0:
		return 1
	}
	return cmp.Or(
		cmp.Compare(t.Class.urgency(), other.Class.urgency()),
		cmp.Compare(t.counter, other.counter),
		t.Ticket.compare(other.Ticket),
	)
}

// urgency orders classes: the least is served first.
func (c Class) urgency() int {
	switch c {
	case Interactive:
		return 0
	case Batch:
		return 2
	case Default:
	}
	return 1
}

// Purse is whose slot time is counted together: that of one key in one class.
type Purse struct {
	Class Class
	Key   string
}

// account counts the slot time of a purse, and keeps its tickets in line. It is
// active while one of them waits or runs.
type account struct {
	Purse
	used int64 // without what runs
	last int64 // when a slot last ended a job of it
	cost int64 // of its tickets in line
	line tree
}

// level is what the account has used, with what runs.
func (l *Line) level(a *account) int64 {
	used := a.used
	for _, s := range l.slots {
		used += s.spent(a.Purse, l.now)
	}
	return used
}

// turn is that of the ticket which index others of the account stand before.
func (l *Line) turn(a *account, ticket *Ticket, index int) turn {
	t := turn{Ticket: ticket, counter: l.level(a) + int64(index)*l.typical}
	if since := max(ticket.Arrival, a.last); index == 0 && since <= l.cutoff() && !l.runs(a) {
		t.starving = since
	}
	return t
}

// spent is how long a slot has been running a job of p.
func (s *Berth) spent(p Purse, now int64) int64 {
	if s.State != Busy || s.Purse != p {
		return 0
	}
	return max(0, now-s.Since)
}

// runs reports whether a slot runs a job of the account.
func (l *Line) runs(a *account) bool {
	runs := false
	for _, s := range l.slots {
		runs = runs || s.State == Busy && s.Purse == a.Purse
	}
	return runs
}

func (l *Line) active(a *account) bool { return a.line.root != nil || l.runs(a) }

// enter opens the account of p. Who was not active starts at no less than the
// least counter of those who are in the class, so that idleness earns nothing.
// Accounts that this rule would lift anyway are forgotten.
func (l *Line) enter(p Purse) *account {
	a := l.accounts[p]
	if a == nil {
		a = &account{Purse: p}
		l.accounts[p] = a
	} else if l.active(a) {
		return a
	}
	least := int64(math.MaxInt64) // nobody is active: all start anew
	for _, other := range l.accounts {
		if other.Class == p.Class && l.active(other) {
			least = min(least, l.level(other))
		}
	}
	for q, other := range l.accounts {
		if q != p && q.Class == p.Class && other.used <= least && !l.active(other) {
			delete(l.accounts, q)
		}
	}
	if a.used = max(a.used, least); least == math.MaxInt64 {
		a.used = 0
	}
	return a
}

// charge books what a job has run until till on its account.
func (l *Line) charge(s *Berth, till int64) (ran int64) {
	ran = s.spent(s.Purse, till)
	if a := l.accounts[s.Purse]; a != nil && s.State == Busy {
		a.used, a.last = a.used+ran, max(a.last, till)
	}
	return ran
}

// bill charges a job that gave its slot back, and learns from it what slot times
// are typical.
func (l *Line) bill(s *Berth) {
	if s.State == Busy {
		l.typical = max(1, (7*l.typical+min(l.charge(s, l.now), longest))/8)
	}
}

// What is taken for a slot time, in microseconds.
const (
	guess   = 60_000_000    // while none is known
	longest = 3_600_000_000 // at most
)

// cutoff is since when a key has to have gone without the slot in order to starve.
func (l *Line) cutoff() int64 { return l.now - l.rules.StarvationAfter.Microseconds() }

// next is the ticket to be served now, nil when nobody waits.
func (l *Line) next() *Ticket {
	var best turn
	for _, a := range l.accounts {
		if head := a.line.first(); head != nil {
			t := l.turn(a, head.Ticket, 0)
			if best.Ticket == nil || t.compare(best) < 0 {
				best = t
			}
		}
	}
	return best.Ticket
}

// Standing is where a ticket stands: its place, 1 for the next in line and 0 for a
// job that is not in line, and what those before it may cost, each at the mean of
// its account, in microseconds.
type Standing struct {
	Place int
	Work  int64
}

// Stand is where a job stands in the order of service as things stood at the last
// step, if the time stood still, nobody came, and each job before it took the
// typical slot time.
func (l *Line) Stand(id string) Standing {
	e := l.waiting[id]
	if e == nil {
		return Standing{}
	}
	own := l.accounts[e.purse()]
	t, at := l.turn(own, &e.Ticket, own.line.rank(e.node)), Standing{Place: 1}
	for _, a := range l.accounts {
		if head := a.line.first(); head != nil {
			n := l.ahead(a, l.turn(a, head.Ticket, 0), t)
			at.Place += n
			at.Work += int64(n) * (a.cost / int64(a.line.root.len()))
		}
	}
	return at
}

// Position is the place of Stand.
func (l *Line) Position(id string) int { return l.Stand(id).Place }

// ahead is how many tickets of a, the first of which has its turn at head, have
// theirs before t.
func (l *Line) ahead(a *account, head, t turn) int {
	many := a.line.root.len()
	apart := t.counter - head.counter
	switch c := cmp.Compare(a.Class.urgency(), t.Class.urgency()); {
	case head.compare(t) >= 0:
		return 0
	case t.starving != 0, c > 0, c == 0 && apart < 0: // it is only that the first starves
		return 1
	case c < 0 || apart/l.typical >= int64(many):
		return many
	}
	turns := int(apart / l.typical)
	if apart%l.typical > 0 || before(a.line.at(turns), t.Ticket) {
		turns++
	}
	return max(turns, 1)
}
