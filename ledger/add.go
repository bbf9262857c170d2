package ledger

import (
	"slices"
	"sort"
)

// An Adder adds up what a Store reads. Create it with NewAdder.
type Adder struct {
	by     By
	groups map[string]*group
}

// group is one sum on its way.
type group struct {
	sum          Sum
	waits, holds []int64
}

// NewAdder returns an Adder without rows.
func NewAdder(by By) *Adder { return &Adder{by: by, groups: map[string]*group{}} }

func (a *Adder) group(name []byte) *group {
	if g, ok := a.groups[string(name)]; ok {
		return g
	}
	g := &group{sum: Sum{By: a.by, Group: string(name), Outcomes: map[Outcome]int{}}}
	a.groups[string(name)] = g
	return g
}

// A Total is what rows of one group and outcome add up to.
type Total struct {
	Outcome  Outcome
	Requests int
	Tokens   SumTokens
	SlotMS   int64
}

// Total adds many rows at once, without their times.
func (a *Adder) Total(name []byte, t *Total) {
	s := &a.group(name).sum
	s.Requests += t.Requests
	s.Outcomes[t.Outcome] += t.Requests
	s.SlotMS += t.SlotMS
	s.Tokens.add(&t.Tokens)
}

// Times are those of one row, in ms.
type Times struct {
	// Wait is counted if Waited, Hold if Held.
	Wait, Hold   int64
	Waited, Held bool
}

// Times adds the times of one row.
func (a *Adder) Times(name []byte, t Times) {
	g := a.group(name)
	if t.Waited {
		g.waits = append(g.waits, t.Wait)
	}
	if t.Held {
		g.holds = append(g.holds, t.Hold)
	}
}

// Row adds a whole row.
func (a *Adder) Row(r *Row) {
	name := []byte(a.by.of(r))
	total := Total{Outcome: r.Outcome, Requests: 1, SlotMS: max(r.Slot, 0).Milliseconds()}
	figures, counts := total.Tokens.figures(), r.Counts()
	for i, f := range figures {
		if counts[i].Known() {
			n := int64(counts[i].N)
			*f = &n
		}
	}
	a.Total(name, &total)
	a.Times(name, Times{
		Wait: r.QueueWait.Milliseconds(), Waited: !r.Outcome.Open() && r.Outcome != Rejected && r.QueueWait >= 0,
		Hold: r.Slot.Milliseconds(), Held: r.Engine != "" && !r.Outcome.Open() && r.Slot >= 0,
	})
}

// Sums are the sums, keys and models in the order of their names, days newest
// first.
func (a *Adder) Sums() []Sum {
	list := make([]Sum, 0, len(a.groups))
	for _, g := range a.groups {
		g.sum.QueueWait, g.sum.Slot = percentiles(g.waits), percentiles(g.holds)
		list = append(list, g.sum)
	}
	sort.Slice(list, func(i, j int) bool {
		return (list[i].Group < list[j].Group) != (a.by == ByDay)
	})
	return list
}

// figures are the sums in the order of Row.Counts.
func (t *SumTokens) figures() [5]**int64 {
	return [5]**int64{&t.Prompt, &t.CachedPrompt, &t.Thinking, &t.Answer, &t.Completion}
}

func (t *SumTokens) add(more *SumTokens) {
	extra := more.figures()
	for i, f := range t.figures() {
		switch n := *extra[i]; {
		case n == nil:
		case *f == nil:
			*f = n
		default:
			**f += *n
		}
	}
}

// percentiles sorts the values.
func percentiles(list []int64) Percentiles {
	if len(list) == 0 {
		return Percentiles{}
	}
	slices.Sort(list)
	return Percentiles{P50: percentile(list, 50), P90: percentile(list, 90), P99: percentile(list, 99)}
}

// percentile is the nearest rank in sorted values.
func percentile(sorted []int64, p int) int64 {
	return sorted[(len(sorted)*p+99)/100-1]
}
