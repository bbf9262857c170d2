package eta

import (
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"time"
)

// group is a kind of wait: of which class, from about which place. The common one
// is that of all classes.
type group struct {
	class, place uint8
	late, common bool
}

// groups are those of a wait, the narrowest first.
func (q Question) groups() [3]group {
	place := uint8(bits.Len(uint(max(q.Place, 0))))
	return [3]group{{class: q.Class, place: place, late: q.Late}, {class: q.Class, late: q.Late}, {late: q.Late, common: true}}
}

// nominal is the wait if everything took what it may and nobody came or went; 0 if
// that is not known.
func (b *Book) nominal(q Question) time.Duration {
	s := b.spreads()
	if len(s.share) < few || q.Slots < 1 || q.Place < 1 {
		return 0
	}
	work := q.Ahead
	for _, r := range q.Running {
		work += s.left(r)
	}
	return work / time.Duration(q.Slots)
}

// Learn remembers that a wait came to an end, and where it had begun. Gone is
// whether it was given up: then it would have been longer, which says something
// only if it was long already.
func (b *Book) Learn(q Question, waited time.Duration, gone bool) {
	nominal := b.nominal(q)
	if nominal <= 0 {
		return
	}
	if gone {
		if band, ok := b.Estimate(q); !ok || waited <= band.P90 {
			return
		}
	}
	if b.waits == nil {
		b.waits = map[group]*ring[float64]{}
	}
	for _, g := range q.groups() {
		if b.waits[g] == nil {
			b.waits[g] = &ring[float64]{}
		}
		b.waits[g].add(float64(waited)/float64(nominal), recent)
	}
}

// Estimate says how long the wait from there will be, false if too little is known.
func (b *Book) Estimate(q Question) (Band, bool) {
	nominal := b.nominal(q)
	if nominal <= 0 {
		return Band{}, false
	}
	for _, g := range q.groups() {
		r := b.waits[g]
		if r == nil || len(r.kept) < known {
			continue
		}
		sorted := slices.Sorted(slices.Values(r.kept))
		// One more than there are: the wait in question is as likely to be in any gap.
		grown := float64(len(sorted)+1) / float64(len(sorted))
		at := func(p float64) time.Duration {
			return time.Duration(quantile(sorted, min(p*grown, 1)) * float64(nominal))
		}
		sum := b.drawn(q, nominal)
		return Band{P50: at(0.5), P90: max(at(0.9), sum.P90)}, true
	}
	return b.drawn(q, nominal), true
}

// Draws are many enough for a tail of a tenth; beyond so many jobs a sum is normal.
const (
	draws  = 200
	normal = 32
)

// drawn is the band of sums of slot times.
func (b *Book) drawn(q Question, nominal time.Duration) Band {
	s := b.spreads()
	jobs := q.Place - 1 + len(q.Running)
	if jobs > normal || jobs < 1 {
		spread := math.Sqrt(s.vary/max(float64(jobs), 1)) / max(s.mean, 1e-9)
		return Band{P50: nominal, P90: time.Duration(float64(nominal) * (1 + 1.2816*spread))}
	}
	r := rand.New(rand.NewPCG(uint64(jobs), uint64(len(s.share))))
	sums := make([]float64, draws)
	for i := range sums {
		for range jobs {
			sums[i] += s.share[r.IntN(len(s.share))]
		}
		sums[i] *= float64(nominal) / (float64(jobs) * s.mean)
	}
	slices.Sort(sums)
	return Band{P50: time.Duration(quantile(sums, 0.5)), P90: time.Duration(quantile(sums, 0.9))}
}
