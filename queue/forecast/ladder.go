package forecast

import (
	"math"
	"math/bits"
	"slices"

	"oneslot/queue/eta"
)

// ladder is what those of each class were told who asked within a moment, by their places,
// so that whatever came of earlier waits from there nobody is told less than one before
// him, as far as the rungs tell places apart. A moment ends when what runs has gone on, or
// something was learned. What guards the Forecast guards it.
type ladder struct {
	running []eta.Running
	slots   int
	rungs   map[uint8]*[rungs]rung // by class
}

// rung is some places next to each other, of which a later one is told no less by itself.
type rung struct{ least, most eta.Band }

// rungs reach to the 65,000th place: one for each of the first 63, then 32 for twice as
// many.
const rungs = 384

func rungOf(place int) int {
	octave := max(0, bits.Len(uint(max(place, 0)))-6)
	return min(octave*32+place>>octave, rungs-1)
}

// forget begins another moment.
func (l *ladder) forget() { l.slots = -1 }

// fit is a band that is no less than what those before were told, and no more than those
// behind.
func (l *ladder) fit(q eta.Question, band eta.Band) eta.Band {
	if l.slots != q.Slots || !slices.Equal(l.running, q.Running) {
		l.running, l.slots = slices.Clone(q.Running), q.Slots
		for _, all := range l.rungs {
			clear(all[:])
		}
	}
	if l.rungs == nil {
		l.rungs = map[uint8]*[rungs]rung{}
	}
	all := l.rungs[q.Class]
	if all == nil {
		all = new([rungs]rung)
		l.rungs[q.Class] = all
	}
	own := rungOf(q.Place)
	least, most := eta.Band{}, eta.Band{P50: math.MaxInt64, P90: math.MaxInt64}
	for _, r := range all[:own] {
		least = eta.Band{P50: max(least.P50, r.most.P50), P90: max(least.P90, r.most.P90)}
	}
	for _, r := range all[own+1:] {
		if r != (rung{}) {
			most = eta.Band{P50: min(most.P50, r.least.P50), P90: min(most.P90, r.least.P90)}
		}
	}
	told := eta.Band{P50: min(max(band.P50, least.P50), most.P50), P90: min(max(band.P90, least.P90), most.P90)}
	r := &all[own]
	if *r == (rung{}) {
		r.least = told
	}
	r.least = eta.Band{P50: min(r.least.P50, told.P50), P90: min(r.least.P90, told.P90)}
	r.most = eta.Band{P50: max(r.most.P50, told.P50), P90: max(r.most.P90, told.P90)}
	return told
}
