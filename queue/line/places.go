package line

import "cmp"

// This part of the policy is about places: who gets one, and who gives it up.

// entry is a ticket and its node in the queue of its account: its user's if the users
// of its key are told apart, else its key's.
type entry struct {
	Ticket
	leaf *account
	node *node[*entry]
}

func (l *Line) join(j Join) {
	if l.present(j.ID) {
		return
	}
	if j.Arrival > 0 {
		l.leave([]string{j.Of})
	}
	if l.out.Verdict = l.admit(j); l.out.Verdict != Done {
		return
	}
	l.arrival = max(l.arrival, j.Arrival)
	if j.Arrival == 0 {
		l.arrival = max(l.arrival+1, l.now)
	}
	l.out.Arrival = cmp.Or(j.Arrival, l.arrival)
	l.insert(Ticket{ID: j.ID, Key: j.Key, User: j.User, Class: j.Class, Arrival: l.out.Arrival, Cost: j.Cost, Prefer: j.Prefer})
}

// present answers a join whose job is there already: a repeated one as the
// first was, another owner's as Duplicate.
func (l *Line) present(id string) bool {
	if n := l.waiting[id]; n != nil {
		l.out.Arrival = n.Arrival
		if n.Owner != l.by.Owner {
			l.out.Arrival, l.out.Verdict = 0, Duplicate
		}
		return true
	}
	s := l.running(id)
	if s == nil {
		return false
	}
	if s.Owner != l.by.Owner {
		l.out.Verdict = Duplicate
	} else {
		l.out.Grants = append(l.out.Grants, s.Grant)
	}
	return true
}

// admit says whether there is room for one more job of the key.
func (l *Line) admit(j Join) Verdict {
	if l.gate == Draining {
		return Closed
	}
	if sick := l.sick(); sick != Done {
		return sick
	}
	if j.Arrival > 0 {
		return Done
	}
	if len(l.waiting) >= l.rules.MaxWaiting {
		return Full
	}
	if l.byKey[j.Key] >= cmp.Or(j.Limit, l.rules.MaxWaitingPerKey) {
		return KeyLimit
	}
	return Done
}

func (l *Line) rejoin(r Rejoin) {
	for _, t := range r.Tickets {
		if l.waiting[t.ID] == nil && l.running(t.ID) == nil {
			l.arrival = max(l.arrival, t.Arrival)
			l.insert(t)
		}
	}
}

func (l *Line) leave(ids []string) {
	for _, id := range ids {
		if n := l.waiting[id]; n != nil {
			l.withdraw(n)
		}
	}
}

// insert puts a ticket of the caller in line.
func (l *Line) insert(t Ticket) {
	t.Owner = l.by.Owner
	l.owner().tickets[t.ID] = struct{}{}
	t.Cost = cmp.Or(t.Cost, l.typical)
	e, a := &entry{Ticket: t}, l.enter(l.classes[t.Class], t.Key, t.Arrival)
	if a.part(t.User); a.users != nil {
		a = l.enter(a.users, t.User, t.Arrival)
	}
	e.leaf, e.node = a, a.queue.add(place{t.Arrival, 0, t.ID}, e)
	l.count(e, 1)
	l.waiting[t.ID] = e
	if t.Key != "" {
		l.byKey[t.Key]++
	}
	l.version++
}

// withdraw takes a ticket out of the line.
func (l *Line) withdraw(n *entry) {
	n.leaf.queue.remove(n.node)
	l.count(n, -1)
	delete(l.waiting, n.ID)
	delete(l.owners[n.Owner].tickets, n.ID)
	if n.Key != "" {
		if l.byKey[n.Key]--; l.byKey[n.Key] == 0 {
			delete(l.byKey, n.Key)
		}
	}
	l.version++
}

// count books one ticket more (n is 1) or less (-1) of an account and of its key's.
func (l *Line) count(e *entry, n int) {
	for a := e.leaf; a != nil; a = a.within {
		if a.waiting == 0 {
			a.group.claimants++
		}
		if a.waiting += n; a.waiting == 0 {
			a.group.claimants--
		}
		a.cost += int64(n) * e.Cost
		a.group.waiting += n
		l.file(a)
	}
}

// Berths is a set of slots, by their index in Rules.Slots.
type Berths uint64

// most is how many slots can be in a set: a double has that many bits.
const most = 53

// With is the set with a slot more. Slots beyond the first 53 are in none.
func (b Berths) With(index int) Berths {
	if index < 0 || index >= most {
		return b
	}
	return b | 1<<index
}

func (b Berths) has(index int) bool { return b>>index&1 == 1 }

// ready finds a clean slot that is free, the first of those preferred or, if there is
// none, the first of all; nil if there is none at all.
func (l *Line) ready(prefer Berths) (first *Berth) {
	for i, s := range l.slots {
		switch {
		case s.State != Idle || !s.Clean:
		case prefer.has(i):
			return s
		case first == nil:
			first = s
		}
	}
	return first
}
