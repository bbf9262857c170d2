package line

import "slices"

// This part of the policy is about the slots: who holds them, by which number,
// and who is next.

// slot finds a slot by its name, nil if there is none.
func (l *Line) slot(name string) *Berth {
	for _, s := range l.slots {
		if s.Slot == name {
			return s
		}
	}
	return nil
}

// held finds the slot that the caller holds by this very fence, nil if it does
// not. A holder whose slot went to another one by a later number finds nothing.
func (l *Line) held(name string, fence int64) *Berth {
	s := l.slot(name)
	if s == nil || s.State == Idle || s.Fence != fence || s.Owner != l.by.Owner {
		return nil
	}
	return s
}

// running finds the slot that is lent to a job, nil if none is.
func (l *Line) running(id string) *Berth {
	for _, s := range l.slots {
		if s.State == Busy && s.ID == id {
			return s
		}
	}
	return nil
}

func (l *Line) free(f Free) {
	l.leave(f.Gone)
	if s := l.held(f.Slot, f.Fence); s != nil {
		l.bill(s)
		l.release(s, f.Clean)
	} else {
		l.out.Verdict = Stale
	}
}

// release makes a slot free. Its last fence stays, to tell late claims.
func (l *Line) release(s *Berth, clean bool) {
	whose, user := s.Purse, s.User
	s.Grant = Grant{Slot: s.Slot, Fence: s.Fence, State: Idle}
	s.Purse, s.User, s.Clean, s.Since, s.Came, s.Cost, s.Asked = Purse{}, "", clean, l.now, 0, 0, Unasked
	l.refile(whose, user)
}

func (l *Line) mark(m Mark) {
	s := l.held(m.Slot, m.Fence)
	if s == nil {
		l.out.Verdict = Stale
		return
	}
	if m.State != Busy {
		l.bill(s)
	}
	// Poisoned and down are one illness: its age decides over newcomers.
	if s.State != m.State && (!s.State.sick() || !m.State.sick()) {
		s.Since = l.now
	}
	s.State = m.State
	l.refile(s.Purse, s.User)
}

func (l *Line) renew(r Renew) {
	l.out.Known = l.owners[l.by.Owner] != nil
	l.owner().until = l.deadline()
	for _, h := range r.Holds {
		h.Owner = l.by.Owner
		if l.held(h.Slot, h.Fence) == nil && !l.restore(h) {
			l.out.Lost = append(l.out.Lost, h)
		}
	}
	for name, other := range l.owners {
		if left := other.until - l.now; name != l.by.Owner && l.rules.Lease > 0 && (l.out.Due == 0 || left < l.out.Due) {
			l.out.Due = left
		}
	}
}

// restore gives a hold back to the caller that a store without its latest data
// has forgotten: then the claimed number is later than any it knows. Whose job it
// is nobody knows any more; it counts for the key "".
func (l *Line) restore(h Grant) bool {
	s := l.slot(h.Slot)
	if s == nil || s.State != Idle || h.Fence <= s.Fence {
		return false
	}
	if h.State == Busy {
		l.enter(l.classes[Default], "", l.now)
	}
	s.Grant, s.Clean, s.Since = h, false, l.now
	l.refile(s.Purse, s.User)
	l.fence = max(l.fence, h.Fence)
	return true
}

// Runs is what the slots are doing that are not out of order, at the last step;
// nothing while the gate is closed, since nobody knows for how long it is.
func (l *Line) Runs() []Run {
	var all []Run
	if l.gate != Open {
		return nil
	}
	for _, s := range l.slots {
		all = s.appendRun(all, l.now)
	}
	return all
}

func (s *Berth) appendRun(all []Run, now int64) []Run {
	switch {
	case s.State.sick():
		return all
	case s.State == Busy:
		return append(all, Run{For: s.spent(now), Cost: s.Cost})
	default:
		return append(all, Run{})
	}
}

// sick is other than Done when every slot has been out of order for too long.
func (l *Line) sick() Verdict {
	verdict := AllDown
	for _, s := range l.slots {
		if !s.State.sick() || l.now-s.Since <= l.rules.PoisonGrace.Microseconds() {
			return Done
		}
		if s.State == Poisoned {
			verdict = AllPoisoned
		}
	}
	return verdict
}

// Ill is Poisoned or Down if every slot is one of them, and 0 if one is not.
func (l *Line) Ill() State {
	ill := Down
	for _, s := range l.slots {
		if !s.State.sick() {
			return 0
		}
		if s.State == Poisoned {
			ill = Poisoned
		}
	}
	return ill
}

func (s State) sick() bool { return s == Poisoned || s == Down }

// tell finds the owner of a job. The store passes the word on.
func (l *Line) tell(t Tell) {
	if l.waiting[t.ID] == nil && l.running(t.ID) == nil {
		l.out.Verdict = Stale
	}
}

// grant hands out what is free: clean slots to those who are next, unclean ones
// to the owner of whoever is next then, to make the engine idle. That ticket
// keeps its place meanwhile, so it is not tied to an engine that may stay ill.
func (l *Line) grant() {
	if l.gate != Open || l.now < l.quiet {
		return
	}
	for l.ready(0) != nil {
		head := l.next()
		if head == nil {
			return
		}
		l.withdraw(head)
		l.hand(l.ready(head.Prefer), head.Ticket, Busy)
	}
	head := l.next()
	if head == nil {
		return
	}
	for _, s := range l.slots {
		if s.State == Idle {
			l.hand(s, Ticket{Owner: head.Owner}, Aborting)
		}
	}
}

// hand gives a free slot away under a new number. Numbers follow the clock, so
// that they rise even when the store has lost the last one.
func (l *Line) hand(s *Berth, to Ticket, state State) {
	l.fence = max(l.fence+1, l.now)
	s.Grant = Grant{Slot: s.Slot, ID: to.ID, Owner: to.Owner, Fence: l.fence, State: state}
	s.Purse, s.User, s.Clean, s.Since, s.Came, s.Cost = to.purse(), to.User, false, l.now, to.Arrival, to.Cost
	l.refile(s.Purse, s.User)
	l.out.Grants = append(l.out.Grants, s.Grant)
}

// answer fills in what is read at the end of the step.
func (l *Line) answer(s Step) {
	l.out.Epoch, l.out.Version, l.out.Waiting = l.epoch, l.version, len(l.waiting)
	l.out.Gate, l.out.Ill = l.gate, l.Ill()
	switch s := s.(type) {
	case Join:
		if l.out.Running = l.Runs(); !l.Crowded(s.ID) {
			l.out.At = l.Stand(s.ID)
		}
	case Renew:
		l.out.Mine = len(l.owner().tickets)
		for _, b := range l.slots {
			if b.State != Idle && b.Owner == l.by.Owner {
				l.out.Holds = append(l.out.Holds, b.Grant)
				if b.Asked == Asked && b.State == Busy && !slices.Contains(l.out.Asks, b.Grant) {
					l.out.Asks = append(l.out.Asks, b.Grant)
				}
			}
		}
	case Rank:
		l.out.Running = l.Runs()
		for _, id := range s.IDs {
			l.out.Ranks = append(l.out.Ranks, l.Stand(id))
		}
	case Look:
		if l.out.View = l.View(); !s.AsItIs {
			l.out.View.Arrange()
		}
	}
}

// Crowded reports whether there are too many claimants, among the keys or among the
// users of the job's, for its place to be counted in every join.
func (l *Line) Crowded(id string) bool {
	keys, e := 0, l.waiting[id]
	for _, g := range l.classes {
		keys += g.claimants
	}
	return keys > l.rules.Crowd || e != nil && e.leaf.within != nil && e.leaf.group.claimants > l.rules.Crowd
}
