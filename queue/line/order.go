package line

import "cmp"

// Ticket is one waiting job as the line knows it.
type Ticket struct {
	ID, Key string
	User    string // of the key, if its users are told apart, else ""; without blanks
	Class   Class
	Owner   string // the process that holds the client's connection
	// Arrival is when the job came, in microseconds since 1970 by the store's
	// clock, made unique. It is kept when a ticket joins again.
	Arrival int64
	Cost    int64 // the slot time it may take, in microseconds; for predictions only
	// Prefer is the slots it is given rather than others, if they are free when its turn
	// comes: it neither waits for them nor comes before anybody.
	Prefer Berths
}

func (t *Ticket) purse() Purse { return Purse{Class: t.Class, Key: t.Key} }

// turn is a ticket's account with what the order goes by. Counter is what the account
// will have used when the ticket's turn comes, if each of the index tickets of it that
// stand before it takes the typical slot time. Starving is since when the account has gone without
// the slot, if that is too long and the ticket the first of it.
type turn struct {
	*account
	index    int
	starving int64 // 0: it does not
	counter  int64
}

// compare is the ordering rule, and this file with lua/order.lua its only home:
// those who starve, the longest first, then by class, by what is used, by who has gone
// without the slot the longest: less long whoever had a turn before this one. Keys have their turns by it, and under a key its users; the tickets of one
// account are served as they arrived.
func (t turn) compare(other turn) int {
	switch {
	case t.starving != 0 && other.starving != 0:
		return cmp.Or(cmp.Compare(t.starving, other.starving), cmp.Compare(t.Class, other.Class), cmp.Compare(t.name(), other.name()))
	case t.starving != 0:
		return -1
	case other.starving != 0:
		return 1
	}
	return cmp.Or(
		cmp.Compare(t.Class.Urgency(), other.Class.Urgency()),
		cmp.Compare(t.counter, other.counter),
		cmp.Compare(t.index, other.index), cmp.Compare(t.since(), other.since()), cmp.Compare(t.name(), other.name()),
	)
}

// Urgency orders classes: the least is served first.
func (c Class) Urgency() int {
	switch c {
	case Interactive:
		return 0
	case Batch:
		return 2
	case Default:
	}
	return 1
}

// turn is that of the ticket which index others of the account stand before.
func (l *Line) turn(a *account, index int) turn {
	t := turn{account: a, index: index, counter: l.level(a) + int64(index)*l.typical}
	if since := a.since(); index == 0 && since <= l.cutoff() && !l.runs(a) {
		t.starving = since
	}
	return t
}

// cutoff is since when an account has to have gone without the slot in order to starve.
func (l *Line) cutoff() int64 { return l.now - l.rules.StarvationAfter.Microseconds() }

// next is the ticket to be served now, nil when nobody waits.
func (l *Line) next() *entry {
	var best turn
	for _, g := range l.classes {
		best = l.foremost(g, best)
	}
	a := best.account
	if a == nil {
		return nil
	}
	if a.users != nil {
		a = l.foremost(a.users, turn{}).account
	}
	return a.queue.first().value
}

// foremost is the first turn of a group, or the given one if that is sooner.
func (l *Line) foremost(g *group, best turn) turn {
	try := func(a *account) {
		if t := l.turn(a, 0); best.account == nil || t.compare(best) < 0 {
			best = t
		}
	}
	if n := g.ready.first(); n != nil {
		try(n.value)
		if n = g.hungry.first(); n.first <= l.cutoff() {
			try(n.value)
		}
	}
	for _, s := range l.slots {
		if a := g.runner(s); a != nil && a.waiting > 0 {
			try(a)
		}
	}
	return best
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
	own, index := e.leaf, e.leaf.queue.rank(e.node)
	if own.within != nil {
		index, _ = l.before(own.group, l.turn(own, index))
		own = own.within
	}
	t, at := l.turn(own, index), Standing{Place: 1}
	for _, g := range l.classes {
		n, work := l.before(g, t)
		at.Place, at.Work = at.Place+n, at.Work+work
	}
	return at
}

// Position is the place of Stand.
func (l *Line) Position(id string) int { return l.Stand(id).Place }

// before is how many tickets of a group have their turn before t, and what they may
// cost.
func (l *Line) before(g *group, t turn) (place int, work int64) {
	for _, a := range g.members {
		if a.waiting > 0 {
			n := l.ahead(a, t)
			place, work = place+n, work+int64(n)*(a.cost/int64(a.waiting))
		}
	}
	return place, work
}

// ahead is how many tickets of a have their turn before t.
func (l *Line) ahead(a *account, t turn) int {
	head := l.turn(a, 0)
	apart := t.counter - head.counter
	switch c := cmp.Compare(a.Class.Urgency(), t.Class.Urgency()); {
	case head.compare(t) >= 0:
		return 0
	case t.starving != 0, c > 0, c == 0 && apart < 0: // it is only that the first starves
		return 1
	case c < 0 || apart/l.typical >= int64(a.waiting):
		return a.waiting
	}
	turns := int(apart / l.typical)
	if tie := (turn{account: a, index: turns}); apart%l.typical > 0 || tie.compare(turn{account: t.account, index: t.index}) < 0 {
		turns++
	}
	return max(turns, 1)
}
