package main

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"oneslot/queue/line"
)

// policy is one set of rules.
type policy struct {
	name    string
	keys    bool // jobs have keys: the slot is shared by them
	classes bool // jobs have classes
	starve  time.Duration
}

// user asks in loops: he thinks for a random time, asks, waits for the answer, and
// thinks again.
type user struct {
	name  string
	class line.Class
	loops int           // at the same time
	think time.Duration // on average
}

// result is what a day came to.
type result struct {
	policy string
	users  []tally
}

// tally is what a user got: how long his jobs waited, and how long they ran.
type tally struct {
	name  string
	waits []time.Duration // in ascending order
	slot  time.Duration
}

// wait is the q-quantile of the waits, to the second.
func (t tally) wait(q float64) time.Duration {
	if len(t.waits) == 0 {
		return 0
	}
	return t.waits[max(0, int(math.Ceil(q*float64(len(t.waits))))-1)].Round(time.Second)
}

// event is something that happens at a moment: a user asks, or the slot is done.
type event struct {
	at   time.Duration // since the day began
	user int
	done bool
}

// day is a simulation on its way.
type day struct {
	policy policy
	users  []user
	rand   []*rand.Rand // of each user, so that all rules meet the same jobs
	line   *line.Line
	events []event
	asked  map[string]event // who waits, since when
	made   int
	grant  line.Grant
	tally  []tally
}

// simulate plays a day of the given length.
func simulate(p policy, users []user, length time.Duration, seed uint64) result {
	d := &day{policy: p, users: users, asked: map[string]event{}, line: line.New(line.Rules{
		Slots: []string{"slot"}, MaxWaiting: 1000, MaxWaitingPerKey: 1000, StarvationAfter: p.starve,
	})}
	d.mend()
	for i, u := range users {
		d.rand = append(d.rand, rand.New(rand.NewPCG(seed, uint64(i))))
		d.tally = append(d.tally, tally{name: u.name})
		for range u.loops {
			d.think(i, 0)
		}
	}
	for e := d.next(); e.at < length; e = d.next() {
		d.play(e)
	}
	for i := range d.tally {
		slices.Sort(d.tally[i].waits)
	}
	return result{policy: p.name, users: d.tally}
}

// next takes the earliest event out; the loops never run out of them.
func (d *day) next() event {
	i := 0
	for j, e := range d.events {
		if cmp.Compare(e.at, d.events[i].at) < 0 {
			i = j
		}
	}
	e := d.events[i]
	d.events = slices.Delete(d.events, i, i+1)
	return e
}

func (d *day) play(e event) {
	if e.done {
		d.take(e.at, line.Free{Slot: d.grant.Slot, Fence: d.grant.Fence, Clean: true})
		d.think(e.user, e.at)
		return
	}
	d.made++
	id, u := fmt.Sprint(d.made), d.users[e.user]
	j := line.Join{ID: id}
	if d.policy.keys {
		j.Key = u.name
	}
	if d.policy.classes {
		j.Class = u.class
	}
	d.asked[id] = e
	d.take(e.at, j)
}

// think lets a loop of a user ask again after a while.
func (d *day) think(user int, now time.Duration) {
	pause := time.Duration(d.rand[user].ExpFloat64() * float64(d.users[user].think))
	d.events = append(d.events, event{at: now + pause, user: user})
}

// take lets the line take a step, and starts the job that gets the slot by it.
func (d *day) take(now time.Duration, s line.Step) {
	for _, g := range d.line.Apply(time.Unix(1, 0).Add(now), line.Caller{Owner: "day"}, s).Grants {
		d.grant = g
		e, runs := d.asked[g.ID]
		if !runs {
			continue
		}
		delete(d.asked, g.ID)
		t, length := &d.tally[e.user], slotTime(d.rand[e.user])
		t.waits = append(t.waits, now-e.at)
		t.slot += length
		d.events = append(d.events, event{at: now + length, user: e.user, done: true})
	}
}

// mend proves the slot idle, as every line needs it at first.
func (d *day) mend() {
	d.take(0, line.Join{ID: "first"})
	d.take(0, line.Leave{IDs: []string{"first"}})
	d.take(0, line.Free{Slot: d.grant.Slot, Fence: d.grant.Fence, Clean: true})
}

// slotTime draws from a Pareto distribution of exponent 1.1 between 10 s and half
// an hour: most answers are short, one in 150 holds the slot for over 10 min, and
// the mean is three times the median.
func slotTime(r *rand.Rand) time.Duration {
	const exponent, least, most = 1.1, 10.0, 1800.0
	share := 1 - r.Float64()*(1-math.Pow(least/most, exponent))
	return time.Duration(least * math.Pow(share, -1/exponent) * float64(time.Second))
}
