package eta

import (
	"cmp"
	"math/bits"
	"slices"
	"time"
)

// outlook is what those who stand behind the same jobs that run have in common, by the
// guess. Some are kept, since in a crowd many ask at a time, and not all were told of what
// runs by the same answer of a store.
type outlook struct {
	running []Running
	slots   int
	left    [draws]float64 // seconds, of all that run
	weight  [draws]float64 // how likely the box is
	weights float64        // their sum
	bands   map[int]Band   // by how many stand before
}

// guessed is the band by the guess: of several jobs all may be long, since it is one
// box, and one that has run for long says that they are. The draws are the same for
// each place, so that a later one is never told less.
func (b *Book) guessed(q Question) (Band, bool) {
	if b.sums() == nil || q.Slots < 1 || q.Place < 1 || q.Place-1+len(q.Running) < 1 {
		return Band{}, false
	}
	a := b.outlook(q)
	before := q.Place - 1
	grain := 1 << max(0, bits.Len(uint(before))-bits.Len(normal)+1)
	near := before - before%grain
	band := b.foreseen(a, near)
	if near == before {
		return band, true
	}
	far, share := b.foreseen(a, near+grain), float64(before-near)/float64(grain)
	between := func(x, y time.Duration) time.Duration { return x + time.Duration(share*float64(y-x)) }
	return Band{P50: between(band.P50, far.P50), P90: between(band.P90, far.P90)}, true
}

// outlooks is how many are kept.
const outlooks = 8

// outlook finds the one of a question, or makes it.
func (b *Book) outlook(q Question) *outlook {
	all := b.guess.ahead
	at := slices.IndexFunc(all, func(a *outlook) bool { return a.slots == q.Slots && slices.Equal(a.running, q.Running) })
	if at < 0 {
		b.guess.ahead = append([]*outlook{b.newOutlook(q)}, all[:min(len(all), outlooks-1)]...)
		return b.guess.ahead[0]
	}
	return all[at]
}

func (b *Book) newOutlook(q Question) *outlook {
	a := &outlook{running: slices.Clone(q.Running), slots: q.Slots, bands: map[int]Band{}}
	for i := range draws {
		a.weight[i] = 1
		for k, r := range q.Running {
			left, odds := b.still(i, k, r)
			a.left[i], a.weight[i] = a.left[i]+left, a.weight[i]*odds
		}
		a.weights += a.weight[i]
	}
	return a
}

// foreseen is the band of somebody before whom so many stand. Where they are more than
// jobs were drawn, their sum grows with them in each box, so that between two places
// the band does as well.
func (b *Book) foreseen(a *outlook, before int) Band {
	sums := b.guess.sums
	if band, ok := a.bands[before]; ok {
		return band
	}
	type likely struct{ sum, weight float64 }
	var all [draws]likely
	for i := range all {
		drawn := min(before, normal)
		all[i] = likely{sum: sums[i][drawn], weight: a.weight[i]}
		if drawn > 0 {
			all[i].sum *= float64(before) / float64(drawn)
		}
		all[i].sum += a.left[i]
	}
	slices.SortFunc(all[:], func(x, y likely) int { return cmp.Compare(x.sum, y.sum) })
	var band Band
	below := 0.0
	for _, c := range all {
		below += c.weight
		if at := seconds(c.sum / float64(a.slots)); band.P50 == 0 && below >= a.weights/2 {
			band.P50, band.P90 = at, at
		} else if below <= 0.9*a.weights {
			band.P90 = at
		}
	}
	a.bands[before] = band
	return band
}
