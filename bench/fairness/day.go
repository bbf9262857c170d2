package main

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"oneslot/queue/eta"
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
	long  float64       // how long his answers are, compared with others'
}

// result is what a day came to.
type result struct {
	policy string
	users  []tally

	arriving, waiting tallies
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
	job  job
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
	told   *prophet
	now    time.Duration
}

// job is what a user asks for.
type job struct {
	key  uint64
	size uint8 // class of its prompt
	slot time.Duration
}

// asked is the job as package eta knows it.
func (j job) asked() eta.Job { return eta.Job{Key: j.key, Bytes: 1 << (2*j.size - 1)} }

// simulate plays a day of the given length.
func simulate(p policy, users []user, length time.Duration, seed uint64) result {
	d := &day{policy: p, users: users, asked: map[string]event{}, told: newProphet(seed), line: line.New(line.Rules{
		Slots: []string{"slot"}, MaxWaiting: 1000, MaxWaitingPerKey: 1000, Crowd: 32, StarvationAfter: p.starve,
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
		d.told.heartbeats(d.now, e.at, d.line)
		d.now = e.at
		d.play(e)
	}
	for i := range d.tally {
		slices.Sort(d.tally[i].waits)
	}
	return result{policy: p.name, users: d.tally, arriving: d.told.arriving, waiting: d.told.waiting}
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
		d.told.runs = eta.Running{}
		d.told.book.Add(eta.Sample{Key: e.job.key, Size: e.job.size, Slot: e.job.slot})
		d.take(e.at, line.Free{Slot: d.grant.Slot, Fence: d.grant.Fence, Clean: true})
		d.think(e.user, e.at)
		return
	}
	d.made++
	id, u := fmt.Sprint(d.made), d.users[e.user]
	e.job = d.job(e.user)
	j := line.Join{ID: id, Cost: d.told.book.Expect(e.job.asked()).Microseconds()}
	if d.policy.keys {
		j.Key = u.name
	}
	if d.policy.classes {
		j.Class = u.class
	}
	d.asked[id] = e
	r := d.take(e.at, j)
	d.told.join(e.at, id, d.told.ask(e.at, j.Class, r.At))
}

// job draws what a user asks for: one in four has a prompt four times as large, and
// takes twice as long.
func (d *day) job(user int) job {
	r := d.rand[user]
	j := job{key: uint64(user), size: 5, slot: time.Duration(float64(slotTime(r)) * d.users[user].long)}
	if r.IntN(4) == 0 {
		j.size, j.slot = 6, 2*j.slot
	}
	return j
}

// think lets a loop of a user ask again after a while.
func (d *day) think(user int, now time.Duration) {
	pause := time.Duration(d.rand[user].ExpFloat64() * float64(d.users[user].think))
	d.events = append(d.events, event{at: now + pause, user: user})
}

// take lets the line take a step, and starts the job that gets the slot by it.
func (d *day) take(now time.Duration, s line.Step) line.Reply {
	r := d.line.Apply(moment(now), line.Caller{Owner: "day"}, s)
	for _, g := range r.Grants {
		d.grant = g
		e, runs := d.asked[g.ID]
		if !runs {
			continue
		}
		delete(d.asked, g.ID)
		d.told.granted(now, g.ID, d.told.book.Expect(e.job.asked()))
		t := &d.tally[e.user]
		t.waits = append(t.waits, now-e.at)
		t.slot += e.job.slot
		d.events = append(d.events, event{at: now + e.job.slot, user: e.user, done: true, job: e.job})
	}
	return r
}

// moment is a time of the day by the line's clock.
func moment(now time.Duration) time.Time { return time.Unix(1, 0).Add(now) }

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
