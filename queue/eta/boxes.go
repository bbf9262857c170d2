package eta

import "math"

// What is believed of the length of answers, thinking included, before any is known:
// half of them have no more than so many tokens, and the logarithm of the rest is
// spread normally, from one box to another and, on a box, from one answer to another.
// It is wide on purpose: on one box in ten the half is above three times as many. The
// answers that came bend it: it weighs as much as about one of them.
const (
	middle = 400
	among  = 1.0 // boxes
)

// habit is how far the answers of a box may be spread, and how likely that is.
type habit struct{ spread, odds float64 }

func habits() []habit {
	return []habit{{0.15, 0.15}, {0.4, 0.25}, {0.8, 0.35}, {1.1, 0.2}, {1.5, 0.05}}
}

// box is one that the engine may be: the logarithms of the tokens of its answers are
// spread normally.
type box struct {
	at, spread float64
	chance     float64 // for what runs
}

// taken is how long an answer is that fewer than that share of all exceed.
func (x box) taken(share float64) float64 {
	return math.Exp(x.at + x.spread*math.Sqrt2*math.Erfinv(1-2*share))
}

// longer is the share of answers that have more than so many tokens.
func (x box) longer(tokens float64) float64 {
	return math.Erfc((math.Log(tokens)-x.at)/x.spread/math.Sqrt2) / 2
}

// boxes are draws that are as likely as each other, by the logarithms of the tokens of
// answers that came.
func boxes(seen []float64) (drawn [draws]box) {
	n, mean, off := float64(len(seen)), 0.0, 0.0
	for _, x := range seen {
		mean += x / n
	}
	for _, x := range seen {
		off += (x - mean) * (x - mean)
	}
	all, odds, sum := habits(), []float64{}, 0.0
	normally, far := box{spread: 1}, (mean-math.Log(middle))*(mean-math.Log(middle))
	for _, h := range all {
		v := h.spread * h.spread
		if n > 0 {
			h.odds *= math.Exp(-(n-1)*math.Log(h.spread)-off/v/2-n*far/(v+n*among*among)/2) / math.Sqrt(v+n*among*among)
		}
		odds, sum = append(odds, h.odds), sum+h.odds
	}
	which, upTo := 0, odds[0]
	for i := range drawn {
		for (float64(i)+0.5)/draws*sum > upTo && which < len(all)-1 {
			which++
			upTo += odds[which]
		}
		v := all[which].spread * all[which].spread
		trust := 1/(among*among) + n/v
		at := (math.Log(middle)/(among*among) + n*mean/v) / trust
		// Evenly strewn over both, and the same every time.
		drawn[i] = box{
			at:     at + math.Log(normally.taken(strewn(i, 0.7548776662466927)))/math.Sqrt(trust),
			spread: all[which].spread, chance: strewn(i, 0.5698402909980532),
		}
	}
	return drawn
}

// strewn is the i-th of numbers between 0 and 1 that lie evenly.
func strewn(i int, by float64) float64 {
	_, part := math.Modf((float64(i) + 0.5) * by)
	return min(max(part, 1e-6), 1-1e-6)
}
