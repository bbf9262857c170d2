package line

import (
	"cmp"
	"math"
	"slices"
)

// View is the whole line. Times are in microseconds by the store's clock.
type View struct {
	Now      int64
	Gate     Gate
	Tickets  []Ticket  // in the order of service, as Line.Position has it
	Slots    []Berth   // in the order of Config.Slots
	Cutoff   int64     // who has gone without the slot since then starves
	Typical  int64     // the slot time that positions reckon with
	Accounts []Account // by class and key
}

// Berth is a slot as the store knows it.
type Berth struct {
	Grant       // without ID and Owner when idle
	Purse       // of the job it was last lent to; zero when idle
	Clean bool  // its engine was seen idle since its last use
	Since int64 // when it entered its state
	Came  int64 // arrival of the job it was last lent to; 0 when idle
	Cost  int64 // of that job
	Asked Ask
}

// Account is the slot time that is remembered of a key in a class.
type Account struct {
	Purse
	Used int64 // without what runs
	Last int64 // when a slot last ended a job of it, 0: never
}

// Arrange puts the tickets into the order of service and the accounts into
// theirs.
func (v *View) Arrange() {
	slices.SortFunc(v.Accounts, func(a, b Account) int {
		return cmp.Or(cmp.Compare(a.Class, b.Class), cmp.Compare(a.Key, b.Key))
	})
	counters, last := map[Purse]int64{}, map[Purse]int64{}
	for _, a := range v.Accounts {
		counters[a.Purse], last[a.Purse] = a.Used, a.Last
		for i := range v.Slots {
			counters[a.Purse] += v.Slots[i].spent(a.Purse, v.Now)
		}
	}
	for _, s := range v.Slots {
		if s.State == Busy {
			last[s.Purse] = math.MaxInt64
		}
	}
	slices.SortFunc(v.Tickets, func(a, b Ticket) int { return a.compare(&b) })
	turns := make([]turn, len(v.Tickets))
	for i, t := range v.Tickets {
		p := t.purse()
		turns[i] = turn{Ticket: &t, counter: counters[p]}
		if since := max(t.Arrival, last[p]); since <= v.Cutoff {
			turns[i].starving = since
		}
		counters[p] += v.Typical
		last[p] = math.MaxInt64 // only the first of each starves
	}
	slices.SortFunc(turns, turn.compare)
	for i, t := range turns {
		v.Tickets[i] = *t.Ticket
	}
}

func (t *Ticket) purse() Purse { return Purse{Class: t.Class, Key: t.Key} }

func (l *Line) view() *View {
	v := &View{Now: l.now, Gate: l.gate, Cutoff: l.cutoff(), Typical: l.typical}
	for _, e := range l.waiting {
		v.Tickets = append(v.Tickets, e.Ticket)
	}
	for _, s := range l.slots {
		v.Slots = append(v.Slots, *s)
	}
	for p, a := range l.accounts {
		v.Accounts = append(v.Accounts, Account{Purse: p, Used: a.used, Last: a.last})
	}
	return v
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
