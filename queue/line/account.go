package line

import "math"

// This part of the policy is about who shares with whom: keys in each class, and
// under a key its users, if they are told apart.

// Purse is whose slot time is counted together: that of one key in one class.
type Purse struct {
	Class Class
	Key   string
}

// account counts the slot time of a purse, or of one user of it. It is active while
// a job of it waits or runs.
type account struct {
	Purse
	User   string
	group  *group   // among whom it has its turn
	within *account // the key's whose user it is; nil: it is a key's

	used    int64 // without what runs
	last    int64 // when a slot last ended a job of it
	came    int64 // arrival of its first ticket since it became active
	cost    int64 // of its tickets in line
	waiting int   // how many these are

	queue tree[*entry] // they, unless there are users
	users *group       // nil: they are not told apart

	ready, hungry, idle *node[*account] // where it is filed in its group
}

func (a *account) name() string {
	if a.within != nil {
		return a.User
	}
	return a.Key
}

// since is when the account last had the slot, or came.
func (a *account) since() int64 { return max(a.came, a.last) }

// group is accounts that take turns: the keys of a class, or the users of a key. Those
// that wait and do not run are filed by what they have used and by how long they have
// gone without, those that are not active by what they have used.
type group struct {
	class     Class
	of        *account // whose users they are; nil: they are keys
	members   map[string]*account
	claimants int // how many have tickets in line
	waiting   int // their tickets

	ready, hungry, idle tree[*account]
}

func newGroup(class Class, of *account) *group {
	return &group{class: class, of: of, members: map[string]*account{}}
}

// runner is the member whose job a slot runs, nil if it runs none of the group's.
func (g *group) runner(s *Berth) *account {
	switch {
	case s.State != Busy, s.Class != g.class, g.of != nil && s.Key != g.of.Key:
		return nil
	case g.of != nil:
		return g.members[s.User]
	}
	return g.members[s.Key]
}

// serves reports whether a slot runs a job of the account.
func (s *Berth) serves(a *account) bool {
	return s.State == Busy && s.Purse == a.Purse && (a.within == nil || s.User == a.User)
}

func (l *Line) account(p Purse) *account { return l.classes[p.Class].members[p.Key] }

// runs reports whether a slot runs a job of the account.
func (l *Line) runs(a *account) bool {
	for _, s := range l.slots {
		if s.serves(a) {
			return true
		}
	}
	return false
}

func (l *Line) active(a *account) bool { return a.waiting > 0 || l.runs(a) }

// level is what the account has used, with what runs.
func (l *Line) level(a *account) int64 {
	used := a.used
	for _, s := range l.slots {
		if s.serves(a) {
			used += s.spent(l.now)
		}
	}
	return used
}

// file puts an account that has changed where it belongs.
func (l *Line) file(a *account) {
	a.unfile()
	switch g := a.group; {
	case l.runs(a): // few do, and their levels move: they are looked at one by one
	case a.waiting > 0:
		a.ready = g.ready.add(place{a.used, a.since(), a.name()}, a)
		a.hungry = g.hungry.add(place{a.since(), 0, a.name()}, a)
	default:
		a.idle = g.idle.add(place{a.used, 0, a.name()}, a)
		if a.users != nil {
			l.left = append(l.left, a)
		}
	}
}

func (a *account) unfile() {
	if a.ready != nil {
		a.group.ready.remove(a.ready)
		a.group.hungry.remove(a.hungry)
	}
	if a.idle != nil {
		a.group.idle.remove(a.idle)
	}
	a.ready, a.hungry, a.idle = nil, nil, nil
}

// refile files those whose job a slot has begun or ended.
func (l *Line) refile(p Purse, user string) {
	for _, a := range l.payers(p, user) {
		l.file(a)
	}
}

// payers are the accounts that count a user's slot time: his key's, and his own if
// users are told apart.
func (l *Line) payers(p Purse, user string) []*account {
	a := l.account(p)
	switch {
	case a == nil:
		return nil
	case a.users == nil || a.users.members[user] == nil:
		return []*account{a}
	}
	return []*account{a, a.users.members[user]}
}

// enter opens an account. Who was not active starts at no less than the least
// counter of those who are in the group, so that idleness earns nothing. Accounts
// that this rule would lift anyway are forgotten. The caller files the account.
func (l *Line) enter(g *group, name string, arrival int64) *account {
	a := g.members[name]
	if a != nil && l.active(a) {
		a.came = min(a.came, arrival)
		return a
	}
	if a == nil {
		a = &account{Purse: Purse{g.class, name}, group: g, within: g.of}
		if g.of != nil {
			a.Key, a.User = g.of.Key, name
		}
		g.members[name] = a
	}
	a.unfile()
	a.came = arrival
	least := l.least(g)
	for n := g.idle.first(); n != nil && n.first <= least; n = g.idle.first() {
		g.idle.remove(n)
		delete(g.members, n.value.name())
	}
	if a.used = max(a.used, least); least == math.MaxInt64 {
		a.used = 0
	}
	return a
}

// least is the least counter of the active members: the greatest number if none
// is, so that all start anew.
func (l *Line) least(g *group) int64 {
	least := int64(math.MaxInt64)
	if n := g.ready.first(); n != nil {
		least = n.first
	}
	for _, s := range l.slots {
		if a := g.runner(s); a != nil {
			least = min(least, l.level(a))
		}
	}
	return least
}

// part tells the users of a key apart or no more, as its first ticket in line says.
func (a *account) part(user string) {
	switch {
	case a.waiting > 0:
	case user == "":
		a.users = nil
	case a.users == nil:
		a.users = newGroup(a.Class, a)
	}
}

// disband forgets the users of keys that are not active any more.
func (l *Line) disband() {
	for _, a := range l.left {
		if !l.active(a) {
			a.users = nil
		}
	}
	l.left = l.left[:0]
}

// spent is how long a slot has been running its job.
func (s *Berth) spent(now int64) int64 {
	if s.State != Busy {
		return 0
	}
	return max(0, now-s.Since)
}

// charge books what a job has run until till on its accounts.
func (l *Line) charge(s *Berth, till int64) (ran int64) {
	ran = s.spent(till)
	if s.State == Busy {
		for _, a := range l.payers(s.Purse, s.User) {
			a.used, a.last = a.used+ran, max(a.last, till)
		}
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
