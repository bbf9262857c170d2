package eta

import (
	"cmp"
	"math"
	"slices"
	"sort"
	"time"
)

// spread is how slot times lie around what was to be expected.
type spread struct {
	share []float64            // slot times over their means, in ascending order
	rest  []float64            // rest[i]: the sum of share[i:]
	mean  float64              // of share
	vary  float64              // its variance
	sums  [normal + 1]relative // by the number of jobs; zero when it has to be made
}

// kind is whose jobs of which size, or all of a key, or all.
type kind struct {
	key       uint64
	size      uint8
	any, pool bool
}

type mean struct {
	sum time.Duration
	n   int
}

// kinds are those that a job belongs to, the narrowest first.
func kinds(key uint64, size uint8) [3]kind {
	return [3]kind{{key: key, size: size}, {key: key, any: true}, {pool: true}}
}

func (b *Book) newSpread() *spread {
	s := &spread{}
	for _, one := range b.samples.kept {
		if e := b.mean(one.Key, one.Size); e > 0 {
			s.share = append(s.share, float64(one.Slot)/float64(e))
		}
	}
	slices.Sort(s.share)
	s.sum()
	return s
}

// sum fills in what follows from the shares.
func (s *spread) sum() {
	s.rest = make([]float64, len(s.share)+1)
	for i := len(s.share) - 1; i >= 0; i-- {
		s.rest[i] = s.rest[i+1] + s.share[i]
	}
	if n := float64(len(s.share)); n > 0 {
		s.mean = s.rest[0] / n
		for _, v := range s.share {
			s.vary += (v - s.mean) * (v - s.mean) / n
		}
	}
}

// left is what remains on average of a job that has run for so long. Where hardly
// any job ran as long it is in the proportion that held where some did.
func (s *spread) left(r Running) time.Duration {
	if r.Expect <= 0 {
		return 0
	}
	age := float64(r.For) / float64(r.Expect)
	longer := sort.SearchFloat64s(s.share, math.Nextafter(age, math.Inf(1)))
	if many := len(s.share) - longer; many >= few {
		return time.Duration((s.rest[longer]/float64(many) - age) * float64(r.Expect))
	}
	at := len(s.share) - few
	if at < 1 {
		return time.Duration(s.mean * float64(r.Expect))
	}
	from := s.share[at-1]
	if from <= 0 {
		return time.Duration(s.mean * float64(r.Expect))
	}
	excess := s.rest[at]/few - from
	return time.Duration(excess / from * float64(r.For))
}

// quantile is the p-quantile of what is in ascending order.
func quantile[T cmp.Ordered](sorted []T, p float64) T {
	return sorted[min(max(int(math.Ceil(p*float64(len(sorted))))-1, 0), len(sorted)-1)]
}
