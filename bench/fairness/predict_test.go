package main

import (
	"fmt"
	"testing"
	"time"

	"oneslot/queue/eta"
	"oneslot/queue/line"
)

// TestForetold: on whole days, under every rule, nine waits in ten of each class are no
// longer than the p90 that was told, give or take five, and about half no longer than
// the p50: what was told on arrival, and at any heartbeat after that. A class that is
// served once in ten minutes may have twice as many.
func TestForetold(t *testing.T) {
	t.Parallel()
	for seed := range uint64(3) {
		for _, p := range policies() {
			t.Run(fmt.Sprintf("%s/%d", p.name, seed), func(t *testing.T) {
				t.Parallel()
				d := simulate(p, crowd(), 24*time.Hour, seed)
				for when, all := range map[string]tallies{"on arrival": d.arriving, "while waiting": d.waiting} {
					for class, h := range all {
						low := 85.0
						if h.all < 250 {
							low = 80
						}
						p50, p90 := h.share(h.p50), h.share(h.p90)
						if h.all > 0 && (p90 < low || p90 > 95 || p50 < 42 || p50 > 58) {
							t.Errorf("%s, %v: of %d waits %.1f %% were within p50 and %.1f %% within p90", when, line.Class(class), h.all, p50, p90)
						}
					}
					if h := all[line.Default]; h.all < 1000 || h.unknown > h.all/50 {
						t.Errorf("%s: %d waits, %d not foretold", when, h.all, h.unknown)
					}
				}
			})
		}
	}
}

// TestGuessed: so it is on boxes of all kinds that have just been started, from the
// pace of the engine alone to the tenth answer; and the middle of what is told is about
// what came, a little above: answers here have more long ones than short ones, which a
// few do not show.
func TestGuessed(t *testing.T) {
	for seed := range uint64(3) {
		for _, served := range []int{1, 5, 10} {
			h, off := cold(400, served, seed)
			p50, p90, middle := h.share(h.p50), h.share(h.p90), off[len(off)/2]
			far := p90 > 95 || p50 > 66
			if served == 1 { // those who meet the first one are more often behind a long one
				far = p90 > 98 || p50 > 75
			}
			if far || p90 < 85 || p50 < 42 || middle < 1./3 || middle > 3 || h.all < 300 || h.unknown > h.all/50 {
				t.Errorf("until answer %d: of %d waits %.1f %% were within p50 and %.1f %% within p90, half of the p50 above %.2f of the wait; %d not foretold", served, h.all, p50, p90, middle, h.unknown)
			}
		}
	}
}

func TestHits(t *testing.T) {
	var h hits
	h.count(told{}, time.Second)
	band := eta.Band{P50: time.Second, P90: 3 * time.Second}
	for n := range 5 {
		h.count(told{band: band, known: true}, time.Duration(n)*time.Second)
	}
	if h != (hits{all: 5, p50: 2, p90: 4, unknown: 1}) || h.share(h.p90) != 80 {
		t.Errorf("counted %+v", h)
	}
}

// TestHeartbeats: who waits is told every ten seconds, of which one moment counts.
func TestHeartbeats(t *testing.T) {
	p, l := newProphet(1), line.New(line.Rules{Slots: []string{"slot"}, MaxWaiting: 9, MaxWaitingPerKey: 9, StarvationAfter: time.Hour})
	l.Apply(moment(0), line.Caller{Owner: "day"}, line.Join{ID: "x"})
	p.join(3*time.Second, "x", eta.Question{Place: 1})
	p.join(3*time.Second, "y", eta.Question{})
	p.heartbeats(5*time.Second, 10*time.Second, l)
	if len(p.came) != 1 || len(p.later) != 0 {
		t.Errorf("told %v and %v", p.came, p.later)
	}
	p.heartbeats(5*time.Second, 41*time.Second, l)
	if at := p.later["x"].at; at%beat != 0 || at < 10*time.Second || !p.later["x"].question.Late {
		t.Errorf("told %+v", p.later)
	}
	p.granted(50*time.Second, "x", time.Second)
	if len(p.came)+len(p.later) != 0 || p.arriving[0].unknown != 1 || p.waiting[0].unknown != 1 {
		t.Errorf("left are %v and %v; %+v, %+v", p.came, p.later, p.arriving, p.waiting)
	}
}
