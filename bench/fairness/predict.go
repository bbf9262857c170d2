package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"text/tabwriter"
	"time"

	"oneslot/queue/eta"
	"oneslot/queue/line"
)

// told is what somebody in line was told, and when.
type told struct {
	question eta.Question
	band     eta.Band
	known    bool
	at       time.Duration
}

// hits counts waits that were foretold, and how many were no longer than foretold.
type hits struct{ all, p50, p90, unknown int }

func (h *hits) count(t told, waited time.Duration) {
	if !t.known {
		h.unknown++
		return
	}
	h.all++
	if waited <= t.band.P50 {
		h.p50++
	}
	if waited <= t.band.P90 {
		h.p90++
	}
}

// tallies are the hits of each class.
type tallies [line.Batch + 1]hits

// share is n of all in percent.
func (h *hits) share(n int) float64 { return 100 * float64(n) / float64(max(h.all, 1)) }

// prophet foretells the waits of a day by package eta, learning as it goes.
type prophet struct {
	book     eta.Book
	rand     *rand.Rand
	came     map[string]told // of those who wait: when they came
	later    map[string]told // at some heartbeat after that
	runs     eta.Running     // what the slot does
	since    time.Duration
	arriving tallies // what those who came were told
	waiting  tallies // what they were told at the heartbeat
}

// beat is how often those who wait are told anew.
const beat = 10 * time.Second

func newProphet(seed uint64) *prophet {
	return &prophet{rand: rand.New(rand.NewPCG(seed, 1<<32)), came: map[string]told{}, later: map[string]told{}}
}

func (p *prophet) ask(now time.Duration, class line.Class, at line.Standing) eta.Question {
	q := eta.Question{Class: uint8(class), Place: at.Place, Ahead: micro(at.Work), Slots: 1}
	if p.runs.Expect > 0 {
		q.Running = []eta.Running{{For: now - p.since, Expect: p.runs.Expect}}
	}
	return q
}

func (p *prophet) tell(now time.Duration, q eta.Question) told {
	band, known := p.book.Estimate(q)
	q.Told = band
	return told{q, band, known, now}
}

// join foretells the wait of one who has come.
func (p *prophet) join(now time.Duration, id string, q eta.Question) {
	if q.Place > 0 {
		p.came[id] = p.tell(now, q)
	}
}

// heartbeats tells those who wait anew; one of the moments of each counts, any as
// likely.
func (p *prophet) heartbeats(from, to time.Duration, l *line.Line) {
	for now := from.Truncate(beat) + beat; now < to; now += beat {
		l.Apply(moment(now), line.Caller{Owner: "day"}, line.Rank{})
		for _, t := range waiting(l, now) {
			first, ok := p.came[t.ID]
			if !ok {
				continue
			}
			asks := 1 + int((now-first.at)/beat)
			if p.rand.IntN(asks) == 0 {
				q := p.ask(now, t.Class, l.Stand(t.ID))
				q.Late = true
				p.later[t.ID] = p.tell(now, q)
			}
		}
	}
}

// waiting lists who waits, in an order that is the same for the same day.
func waiting(l *line.Line, now time.Duration) []line.Ticket {
	return l.Apply(moment(now), line.Caller{Owner: "day"}, line.Look{}).View.Tickets
}

// granted compares what a job was told with what came.
func (p *prophet) granted(now time.Duration, id string, expect time.Duration) {
	p.runs, p.since = eta.Running{Expect: max(expect, 1)}, now
	for kind, one := range map[*tallies]map[string]told{&p.arriving: p.came, &p.waiting: p.later} {
		if t, ok := one[id]; ok {
			kind[t.question.Class].count(t, now-t.at)
			p.book.Learn(t.question, now-t.at, false)
			delete(one, id)
		}
	}
}

// foretold prints how often the bands held, for each class that asked.
func foretold(out io.Writer, days []result) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "\nrule\ttold\tclass\twaits\twithin p50\twithin p90\tnot told\t")
	for _, d := range days {
		for _, row := range []struct {
			when string
			tallies
		}{{"on arrival", d.arriving}, {"while waiting", d.waiting}} {
			for class, h := range row.tallies {
				if h.all > 0 {
					fmt.Fprintf(w, "%s\t%s\t%v\t%d\t%.0f %%\t%.0f %%\t%d\t\n", d.policy, row.when, line.Class(class), h.all, h.share(h.p50), h.share(h.p90), h.unknown)
				}
			}
		}
	}
	return w.Flush()
}

func micro(n int64) time.Duration { return time.Duration(n) * time.Microsecond }
