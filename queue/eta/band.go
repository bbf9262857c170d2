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

// ratios are those of waits to their nominal ones.
type ratios struct {
	ring[float64]
	sorted []float64 // nil when it has to be made
}

func (r *ratios) inOrder() []float64 {
	if r.sorted == nil {
		r.sorted = slices.Sorted(slices.Values(r.kept))
	}
	return r.sorted
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
	if b.Wanting() {
		return
	}
	nominal := b.nominal(q)
	if nominal <= 0 {
		return
	}
	if gone {
		if band, ok := b.Estimate(q); !ok || waited <= band.P90 {
			return
		}
	}
	b.steer(q, waited)
	if b.waits == nil {
		b.waits = map[group]*ratios{}
	}
	for _, g := range q.groups() {
		if b.waits[g] == nil {
			b.waits[g] = &ratios{}
		}
		b.waits[g].add(float64(waited)/float64(nominal), recent)
		b.waits[g].sorted = nil
	}
}

// Estimate says how long the wait from there will be, false if too little is known.
func (b *Book) Estimate(q Question) (Band, bool) {
	if b.Wanting() {
		return b.guessed(q)
	}
	nominal := b.nominal(q)
	if nominal <= 0 {
		return Band{}, false
	}
	band := b.drawn(q, nominal)
	for _, g := range q.groups() {
		r := b.waits[g]
		if r == nil || len(r.kept) < known {
			continue
		}
		sorted := r.inOrder()
		// One more than there are: the wait in question is as likely to be in any gap.
		grown := float64(len(sorted)+1) / float64(len(sorted))
		at := func(p float64) time.Duration {
			return time.Duration(quantile(sorted, min(p*grown, 1)) * float64(nominal))
		}
		band = Band{P50: at(0.5), P90: max(at(0.9), band.P90)}
		break
	}
	return b.tilts[q.kind()].apply(band), true
}

// tilt is by how much bands have to be stretched, as logarithms, so that they hold as
// often as they should. Waits follow each other: where the load changes, the last ones
// are no measure of the next, least of all for a class that is served once in ten minutes.
type tilt struct{ p50, p90 float64 }

const (
	step     = 0.1 // how far one wait moves a tilt
	steepest = 3   // how far it goes
)

// kind is the group of all waits of a class.
func (q Question) kind() group { return group{class: q.Class, late: q.Late} }

// steer moves the tilt for a wait to which a band had been told: up for one that was
// longer, down for one that was not, so that the two balance when a half, and a tenth,
// are longer.
func (b *Book) steer(q Question, waited time.Duration) {
	if q.Told == (Band{}) {
		return
	}
	if b.tilts == nil {
		b.tilts = map[group]tilt{}
	}
	t := b.tilts[q.kind()]
	move := func(at *float64, told time.Duration, p float64) {
		if *at -= step * (1 - p); waited > told {
			*at += step
		}
		*at = min(max(*at, -steepest), steepest)
	}
	move(&t.p50, q.Told.P50, 0.5)
	move(&t.p90, q.Told.P90, 0.9)
	b.tilts[q.kind()] = t
}

func (t tilt) apply(b Band) Band {
	b.P50 = time.Duration(float64(b.P50) * math.Exp(t.p50))
	b.P90 = time.Duration(float64(b.P90) * math.Exp(t.p90))
	return Band{P50: min(b.P50, b.P90), P90: b.P90}
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
	if s.sums[jobs] == (relative{}) {
		s.sums[jobs] = s.sumOf(jobs)
	}
	of := s.sums[jobs]
	return Band{P50: time.Duration(of.p50 * float64(nominal)), P90: time.Duration(of.p90 * float64(nominal))}
}

// relative is a band in proportion to what is to be expected.
type relative struct{ p50, p90 float64 }

// sumOf is the band of the sum of so many slot times.
func (s *spread) sumOf(jobs int) relative {
	r := rand.New(rand.NewPCG(uint64(jobs), uint64(len(s.share))))
	sums := make([]float64, draws)
	for i := range sums {
		for range jobs {
			sums[i] += s.share[r.IntN(len(s.share))]
		}
		sums[i] /= float64(jobs) * s.mean
	}
	slices.Sort(sums)
	return relative{quantile(sums, 0.5), quantile(sums, 0.9)}
}
