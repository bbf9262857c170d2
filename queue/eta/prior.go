package eta

import (
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"time"
)

// Pace is how fast the engine is.
type Pace struct {
	Prefill float64 // bytes of prompt a second; 0: not known, they are taken to cost nothing
	Decode  float64 // tokens a second; 0: not known
}

// What is believed of the length of answers, thinking included, before any is known:
// half of them have no more than so many tokens, and the logarithm of the rest is
// spread normally, from one box to another and, on a box, from one answer to another.
// It is wide on purpose: on one box in ten the half is above three times as many.
const (
	middle  = 600
	among   = 0.9 // boxes
	between = 1.0 // answers
	grades  = 64  // by which the distribution is kept
)

// prior is what is believed of answers.
type prior struct {
	tokens [grades]float64 // in ascending order, each as likely as another
	means  [grades]float64 // means[i]: of all, if none may be longer than tokens[i]
}

func newPrior() *prior {
	p, sum := &prior{}, 0.0
	for i := range p.tokens {
		at := (float64(i) + 0.5) / grades
		t := middle * math.Exp(math.Hypot(among, between)*math.Sqrt2*math.Erfinv(2*at-1))
		p.tokens[i], p.means[i] = t, (sum+float64(grades-i)*t)/grades
		sum += t
	}
	return p
}

// mean is how long answers are if none may be longer than most.
func (p *prior) mean(most float64) float64 {
	sum := 0.0
	for _, t := range p.tokens {
		sum += min(t, most)
	}
	return sum / grades
}

// most is the inverse of mean; infinite for a mean that answers without a bound have.
func (p *prior) most(mean float64) float64 {
	i := sort.SearchFloat64s(p.means[:], mean)
	switch i {
	case 0:
		return mean
	case grades:
		return math.Inf(1)
	}
	part := (mean - p.means[i-1]) / (p.means[i] - p.means[i-1])
	return p.tokens[i-1] + part*(p.tokens[i]-p.tokens[i-1])
}

// Wanting reports whether too few jobs are known, so that the pace of the engine
// counts, and what bounds those who come.
func (b *Book) Wanting() bool { return len(b.samples.kept) < few }

// Pace notes how fast the engine is, if that is news: it is measured all the time.
func (b *Book) Pace(p Pace) {
	same := func(old, now float64) bool { return math.Abs(now-old) <= old/20 }
	if !same(b.pace.Prefill, p.Prefill) || !same(b.pace.Decode, p.Decode) {
		b.pace, b.guess = p, nil
	}
}

// Came notes who comes, and returns what he may take.
func (b *Book) Came(j Job) time.Duration {
	if b.Wanting() && len(b.came) < first {
		b.came, b.guess = append(b.came, j), nil
	}
	return b.Expect(j)
}

// first is how many of those who came are remembered while too few jobs are known.
const first = 32

// belief is what a job may take by the pace of the engine: to read its prompt, and in
// all. The zero belief is none.
type belief struct{ read, all time.Duration }

// believed is that of a job; none if the pace is not known, or nothing bounds its answer.
func (b *Book) believed(j Job) (one belief) {
	if b.pace.Decode <= 0 || j.Most <= 0 {
		return belief{}
	}
	if b.prior == nil {
		b.prior = newPrior()
	}
	if b.pace.Prefill > 0 {
		one.read = time.Duration(float64(j.Bytes) / b.pace.Prefill * float64(time.Second))
	}
	one.all = one.read + time.Duration(b.prior.mean(float64(j.Most))/b.pace.Decode*float64(time.Second))
	return one
}

// guess is what follows from who came and the pace of the engine.
type guess struct {
	each   belief // on average; none if that is not known of one of them
	most   float64
	spread spread       // of boxes of all kinds
	sums   map[int]Band // of so many jobs, a second being nominal
}

// guesses makes the guess, if need be.
func (b *Book) guesses() *guess {
	if b.guess != nil {
		return b.guess
	}
	g := &guess{sums: map[int]Band{}}
	b.guess = g
	for _, j := range b.came {
		one := b.believed(j)
		if one.all == 0 {
			g.each = belief{}
			return g
		}
		g.each.read, g.each.all = g.each.read+one.read, g.each.all+one.all
	}
	if n := time.Duration(len(b.came)); n > 0 {
		g.each = belief{g.each.read / n, g.each.all / n}
		g.most = b.prior.most(b.tokens(g.each.all - g.each.read))
		for _, t := range b.prior.tokens {
			g.spread.share = append(g.spread.share, b.share(t))
		}
		g.spread.sum()
	}
	return g
}

// tokens are those that the engine writes in a time.
func (b *Book) tokens(d time.Duration) float64 { return d.Seconds() * b.pace.Decode }

// share is how much of what is expected of each job one takes with so many tokens.
func (b *Book) share(tokens float64) float64 {
	return (b.tokens(b.guess.each.read) + min(tokens, b.guess.most)) / b.tokens(b.guess.each.all)
}

// guessed is the band of sums of slot times while only the pace is known: of several
// jobs all may be long, since it is one box.
func (b *Book) guessed(jobs int, nominal time.Duration) Band {
	jobs = min(max(jobs, 1), normal)
	one, ok := b.guess.sums[jobs]
	if !ok {
		r := rand.New(rand.NewPCG(uint64(jobs), grades))
		sums := make([]float64, draws)
		for i := range sums {
			box := middle * math.Exp(among*r.NormFloat64())
			for range jobs {
				sums[i] += b.share(box * math.Exp(between*r.NormFloat64()))
			}
			sums[i] *= float64(time.Second) / float64(jobs)
		}
		slices.Sort(sums)
		one = Band{P50: time.Duration(quantile(sums, 0.5)), P90: time.Duration(quantile(sums, 0.9))}
		b.guess.sums[jobs] = one
	}
	of := func(d time.Duration) time.Duration { return time.Duration(d.Seconds() * float64(nominal)) }
	return Band{P50: of(one.P50), P90: of(one.P90)}
}
