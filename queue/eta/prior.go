package eta

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// Pace is how fast the engine is.
type Pace struct {
	Prefill float64 // bytes of prompt a second; 0: not known, they are taken to cost nothing
	Decode  float64 // tokens a second; 0: not known
}

// Wanting reports whether too few jobs are known, so that the pace of the engine
// counts, and what bounds those who come. It goes on until those are served who came
// when they were too few: what they may take was guessed.
func (b *Book) Wanting() bool {
	return len(b.samples.kept) < max(few, len(b.came))
}

// Pace notes how fast the engine is, if that is news: it is measured all the time.
func (b *Book) Pace(p Pace) {
	same := func(old, now float64) bool { return math.Abs(now-old) <= old/20 }
	if !same(b.pace.Prefill, p.Prefill) || !same(b.pace.Decode, p.Decode) {
		b.pace, b.guess = p, nil
	}
}

// Came notes who comes, and returns what he may take.
func (b *Book) Came(j Job) time.Duration {
	if len(b.samples.kept) < few && len(b.came) < first {
		b.came = append(b.came, j)
		if b.guess != nil {
			b.guess.sums, b.guess.ahead = nil, nil
		}
	}
	return b.Expect(j)
}

// first is how many of those who came are remembered while too few jobs are known.
const first = 32

// guess is what follows from who came, the first who were served, and the pace of the
// engine.
type guess struct {
	boxes [draws]box
	one   [draws]float64              // tokens of an answer
	sums  *[draws][normal + 1]float64 // seconds of so many jobs, in each box; nil when it has to be made
	ahead []*outlook                  // made last, by sums
}

// guesses makes the guess, if need be; nil if the pace is not known.
func (b *Book) guesses() *guess {
	if b.guess != nil || b.pace.Decode <= 0 {
		return b.guess
	}
	b.guess = &guess{boxes: boxes(b.seen())}
	r := rand.New(rand.NewPCG(draws, normal))
	for i, x := range b.guess.boxes {
		b.guess.one[i] = math.Exp(x.at + x.spread*r.NormFloat64())
	}
	return b.guess
}

// sums adds up the jobs of those who came; nil if the pace is not known, or of one of
// them the bound.
func (b *Book) sums() *[draws][normal + 1]float64 {
	g := b.guesses()
	switch {
	case g == nil:
		return nil
	case g.sums != nil:
		return g.sums
	case len(b.came) == 0 || slices.ContainsFunc(b.came, func(j Job) bool { return b.most(j) <= 0 }):
		return nil
	}
	g.sums = new([draws][normal + 1]float64)
	r := rand.New(rand.NewPCG(draws, normal))
	for i, x := range g.boxes {
		for k := range normal {
			j := b.came[(i+k)%len(b.came)]
			g.sums[i][k+1] = g.sums[i][k] + b.read(j) + min(math.Exp(x.at+x.spread*r.NormFloat64()), b.most(j))/b.pace.Decode
		}
	}
	return g.sums
}

// seen are the logarithms of the tokens that answers seem to have had.
func (b *Book) seen() (all []float64) {
	for _, s := range b.samples.kept {
		// A prompt is as long as those of its size in the middle; that may be too much.
		answer := max(s.Slot.Seconds()-b.read(Job{Bytes: 1 << (2 * s.Size)}), s.Slot.Seconds()/10)
		all = append(all, math.Log(max(answer*b.pace.Decode, 1)))
	}
	return all
}

// read is how many seconds the prompt takes.
func (b *Book) read(j Job) float64 {
	if b.pace.Prefill <= 0 {
		return 0
	}
	return float64(j.Bytes) / b.pace.Prefill
}

// most is how many tokens an answer may have; 0 if nothing says. Where answers are
// known, those without a bound are taken to be like them.
func (b *Book) most(j Job) float64 {
	if j.Most <= 0 && len(b.samples.kept) > 0 {
		return math.MaxInt32
	}
	return float64(j.Most)
}

// believed is what a job may take by the guess; 0 if the pace is not known, or nothing
// bounds its answer.
func (b *Book) believed(j Job) time.Duration {
	g, most := b.guesses(), b.most(j)
	if g == nil || most <= 0 {
		return 0
	}
	sum := 0.0
	for _, tokens := range g.one {
		sum += min(tokens, most) / draws
	}
	return seconds(b.read(j) + sum/b.pace.Decode)
}

// rare is the least chance that counts: below it the box is another than was thought.
const rare = 1e-6

// still is what is left, in the i-th box, of the k-th job that runs, and how likely it
// is that it has run for so long.
func (b *Book) still(i, k int, r Running) (left, odds float64) {
	x, j := b.guess.boxes[i], b.came[(i+k)%len(b.came)]
	if k > 0 { // each has its own
		x.chance = strewn(k, x.chance)
	}
	ran := (r.For.Seconds() - b.read(j)) * b.pace.Decode
	if ran <= 1 {
		return max(0, b.read(j)-r.For.Seconds()) + min(x.taken(x.chance), b.most(j))/b.pace.Decode, 1
	}
	odds = x.longer(ran)
	tokens := ran * (1 - math.Log(x.chance)/2)
	if odds > rare {
		tokens = x.taken(odds * x.chance)
	}
	tokens = min(tokens, max(b.most(j), 1.1*ran)) // one beyond its bound is about to end
	return max(0, tokens-ran) / b.pace.Decode, max(odds, rare)
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
