package line

import (
	"cmp"
	"slices"
	"time"
)

// Micros is a length of time as the line has it, a number of microseconds.
func Micros(n int64) time.Duration { return time.Duration(n) * time.Microsecond }

// View is the whole line. Times are in microseconds by the store's clock.
type View struct {
	Now      int64
	Gate     Gate
	Tickets  []Ticket  // in the order of service, as Line.Position has it
	Slots    []Berth   // in the order of Config.Slots
	Cutoff   int64     // who has gone without the slot since then starves
	Typical  int64     // the slot time that positions reckon with
	Accounts []Account // by class and key
	Users    []Account // by class, key and user, where users are told apart
}

// Berth is a slot as the store knows it.
type Berth struct {
	Grant // without ID and Owner when idle
	Purse // of the job it was last lent to; zero when idle
	User  string
	Clean bool  // its engine was seen idle since its last use
	Since int64 // when it entered its state
	Came  int64 // arrival of the job it was last lent to; 0 when idle
	Cost  int64 // of that job
	Asked Ask
}

// Account is the slot time that is remembered of a key in a class, or of a user of it.
type Account struct {
	Purse
	User  string // "" of a key's
	Used  int64  // without what runs
	Last  int64  // when a slot last ended a job of it, 0: never
	Came  int64  // when it was last the first of it to be in line
	Apart bool   // its users are told apart
}

// Arrange puts the tickets into the order of service and the accounts into
// theirs.
func (v *View) Arrange() {
	for _, list := range [][]Account{v.Accounts, v.Users} {
		slices.SortFunc(list, func(a, b Account) int {
			return cmp.Or(cmp.Compare(a.Class, b.Class), cmp.Compare(a.Key, b.Key), cmp.Compare(a.User, b.User))
		})
	}
	slices.SortFunc(v.Tickets, func(a, b Ticket) int {
		return cmp.Or(cmp.Compare(a.Arrival, b.Arrival), cmp.Compare(a.ID, b.ID))
	})
	type one struct {
		Purse
		user string
	}
	keys, users := map[Purse]*account{}, map[one]*account{}
	for _, a := range v.Accounts {
		keys[a.Purse] = &account{Purse: a.Purse, used: a.Used, last: a.Last, came: a.Came}
	}
	for _, u := range v.Users {
		users[one{u.Purse, u.User}] = &account{Purse: u.Purse, User: u.User, within: keys[u.Purse], used: u.Used, last: u.Last, came: u.Came}
	}
	key := func(t *Ticket) *account { return cmp.Or(keys[t.purse()], &account{Purse: t.purse()}) }
	v.sort(func(t *Ticket) *account { return cmp.Or(users[one{t.purse(), t.User}], key(t)) }) // under each key
	v.sort(key)
}

// sort puts the tickets, of which those of one account stand in their order, into
// that of their turns.
func (v *View) sort(of func(*Ticket) *account) {
	turns, before := make([]turn, len(v.Tickets)), map[*account]int{}
	index := make([]int, len(v.Tickets))
	for i := range v.Tickets {
		a := of(&v.Tickets[i])
		t := turn{account: a, index: before[a], counter: a.used + int64(before[a])*v.Typical}
		runs := false
		for j := range v.Slots {
			if s := &v.Slots[j]; s.serves(a) {
				t.counter, runs = t.counter+s.spent(v.Now), true
			}
		}
		if before[a] == 0 && !runs && a.since() <= v.Cutoff {
			t.starving = a.since()
		}
		before[a]++
		turns[i], index[i] = t, i
	}
	slices.SortStableFunc(index, func(a, b int) int { return turns[a].compare(turns[b]) })
	sorted := make([]Ticket, len(index))
	for i, at := range index {
		sorted[i] = v.Tickets[at]
	}
	copy(v.Tickets, sorted)
}

// View is the whole line as it is, to be put in order by Arrange.
func (l *Line) View() *View {
	v := &View{Now: l.now, Gate: l.gate, Cutoff: l.cutoff(), Typical: l.typical}
	for _, e := range l.waiting {
		v.Tickets = append(v.Tickets, e.Ticket)
	}
	for _, s := range l.slots {
		v.Slots = append(v.Slots, *s)
	}
	for _, g := range l.classes {
		for _, a := range g.members {
			v.Accounts = append(v.Accounts, a.told())
			if a.users != nil {
				for _, u := range a.users.members {
					v.Users = append(v.Users, u.told())
				}
			}
		}
	}
	return v
}

// told is the account as a view has it.
func (a *account) told() Account {
	return Account{Purse: a.Purse, User: a.User, Used: a.used, Last: a.last, Came: a.came, Apart: a.users != nil}
}

// Stands returns where each ticket stands, as Line.Stand does.
func (v *View) Stands() map[string]Standing {
	cost, many := map[Purse]int64{}, map[Purse]int64{}
	for _, t := range v.Tickets {
		cost[t.purse()] += t.Cost
		many[t.purse()]++
	}
	at := make(map[string]Standing, len(v.Tickets))
	next := Standing{Place: 1}
	for _, t := range v.Tickets {
		at[t.ID] = next
		next.Place++
		next.Work += cost[t.purse()] / many[t.purse()]
	}
	return at
}

// Runs is as Line.Runs.
func (v *View) Runs() []Run {
	var all []Run
	if v.Gate != Open {
		return nil
	}
	for i := range v.Slots {
		all = v.Slots[i].appendRun(all, v.Now)
	}
	return all
}
