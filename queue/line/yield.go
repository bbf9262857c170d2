package line

// This part of the policy is about batch jobs that make room for better ones.

// Ask is what has been said between the line and the holder of a slot about
// giving it back early.
type Ask uint8

// What was said; the numbers are those of the scripts.
const (
	Unasked Ask = iota
	Asked       // the line wants it for a better job, and waits for Yield or Keep
	Kept        // the holder goes on: its job has given out its first token, or was asked often enough
)

// ask asks for slots that batch jobs have, the latest first, when jobs of better
// classes wait: for as many as would not be free for them soon. A job that would
// starve as soon as it is back in line keeps its slot.
func (l *Line) ask() {
	if l.gate != Open || l.now < l.quiet {
		return
	}
	head := l.next()
	if head == nil || head.Class == Batch {
		return
	}
	for short := l.short(); short > 0; short-- {
		s := l.youngest()
		if s == nil {
			return
		}
		s.Asked = Asked
		l.out.Asks = append(l.out.Asks, s.Grant)
	}
}

// short is how many jobs better than batch wait beyond the slots that are being
// made free.
func (l *Line) short() int {
	many := 0
	for _, g := range l.classes {
		if g.class != Batch {
			many += g.waiting
		}
	}
	for _, s := range l.slots {
		if s.State == Aborting || s.State == Busy && s.Asked == Asked {
			many--
		}
	}
	return many
}

// youngest is the slot that was lent last to a batch job, of those that may be
// asked for; nil if there is none.
func (l *Line) youngest() *Berth {
	var best *Berth
	for _, s := range l.slots {
		if s.State != Busy || s.Class != Batch || s.Asked != Unasked || best != nil && s.Fence < best.Fence {
			continue
		}
		if l.account(s.Purse).since() > l.cutoff() {
			best = s
		}
	}
	return best
}

// yield puts the job of a slot back in line under its first arrival. Nothing is
// charged: it got nothing for its time.
func (l *Line) yield(y Yield) {
	s := l.held(y.Slot, y.Fence)
	switch {
	case s == nil || s.Asked != Asked:
		l.out.Verdict = Stale
	case s.State == Busy: // else it has been put back
		l.insert(Ticket{ID: s.ID, Key: s.Key, User: s.User, Class: s.Class, Arrival: s.Came, Cost: s.Cost})
		l.out.Arrival = s.Came
		whose, user := s.Purse, s.User
		s.State, s.ID, s.Purse, s.User, s.Since, s.Cost = Aborting, "", Purse{}, "", l.now, 0
		l.refile(whose, user)
	}
}

// keep notes that the holder of a slot goes on.
func (l *Line) keep(k Keep) {
	if s := l.held(k.Slot, k.Fence); s != nil && s.Asked == Asked {
		s.Asked = Kept
	} else {
		l.out.Verdict = Stale
	}
}
