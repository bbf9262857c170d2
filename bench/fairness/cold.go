package main

import (
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"oneslot/queue/eta"
)

// box is an engine that has just been started, and what it is asked for.
type box struct {
	rand  *rand.Rand
	pace  eta.Pace
	scale float64 // how long its answers are, compared with the slot times of slotTime, in tokens a second
	most  int     // tokens of context
}

// newBox draws an engine of 8 to 120 tokens a second, whose users' answers have 100 to
// 3,000 tokens in the middle.
func newBox(seed, n uint64) *box {
	r := rand.New(rand.NewPCG(seed, n))
	between := func(low, high float64) float64 { return low * math.Pow(high/low, r.Float64()) }
	return &box{
		rand: r, pace: eta.Pace{Prefill: between(1_000, 40_000), Decode: between(8, 120)},
		scale: between(100, 3_000) / 18.7, most: []int{8_192, 32_768, 131_072}[r.IntN(3)],
	}
}

// ask draws a request and how long it will take: one in four has a bound of its own.
func (b *box) ask() (eta.Job, time.Duration) {
	j := eta.Job{Bytes: int(200 * math.Exp(5*b.rand.Float64())), Most: b.most}
	if b.rand.IntN(4) == 0 {
		j.Most = 256 << b.rand.IntN(5)
	}
	tokens := min(slotTime(b.rand).Seconds()*b.scale, float64(j.Most))
	seconds := float64(j.Bytes)/b.pace.Prefill + tokens/b.pace.Decode
	return j, time.Duration(seconds * float64(time.Second))
}

// visit is one request to a box.
type visit struct {
	came, began, ends time.Duration
	job               eta.Job
}

// visits draws the first, who come one soon after the other.
func (b *box) visits() (all []visit) {
	came, free := time.Duration(0), time.Duration(0)
	for range 12 {
		j, takes := b.ask()
		began := max(came, free)
		free = began + takes
		all = append(all, visit{came, began, free, j})
		came += time.Duration(b.rand.ExpFloat64() * float64(20*time.Second))
	}
	return all
}

// first plays the first jobs of a box until so many are served. Each is asked at some
// moment of his wait for how long he will wait, once the pace of the engine is known.
func (b *box) first(served int, count func(band eta.Band, ok bool, waited time.Duration)) {
	all := b.visits()
	known := time.Duration(float64(all[0].job.Bytes)/b.pace.Prefill*float64(time.Second)) + 2*time.Second
	for i, w := range all {
		from := max(w.came, known)
		at := from + time.Duration(b.rand.Float64()*float64(max(0, w.began-from)))
		if at >= w.began || all[served-1].ends <= at {
			continue
		}
		band, ok := b.tell(all, i, at)
		count(band, ok, w.began-at)
	}
}

// tell is what the i-th is told.
func (b *box) tell(all []visit, i int, at time.Duration) (eta.Band, bool) {
	var book eta.Book
	book.Pace(b.pace)
	q := eta.Question{Place: 1, Slots: 1}
	ends := 0
	for k, other := range all {
		for ; ends < k && all[ends].ends <= min(at, other.came); ends++ {
			book.Add(all[ends].sample())
		}
		if other.came > at {
			break
		}
		cost := book.Came(other.job)
		if k < i && other.began > at {
			q.Place, q.Ahead = q.Place+1, q.Ahead+cost
		}
		if other.began <= at && at < other.ends {
			q.Running = []eta.Running{{For: at - other.began, Expect: max(cost, 1)}}
		}
	}
	for ; all[ends].ends <= at; ends++ {
		book.Add(all[ends].sample())
	}
	return book.Estimate(q)
}

func (v visit) sample() eta.Sample {
	return eta.Sample{Size: eta.Size(v.job.Bytes), Slot: v.ends - v.began}
}

// cold is how often bands held that rest on the pace alone, or on it and the first few
// answers, over so many boxes; and how far the middles were off, as factors in ascending
// order, those that were too long above 1.
func cold(boxes, served int, seed uint64) (h hits, off []float64) {
	for n := range boxes {
		newBox(seed, uint64(n)).first(served, func(band eta.Band, ok bool, waited time.Duration) {
			h.count(told{band: band, known: ok}, waited)
			off = append(off, band.P50.Seconds()/waited.Seconds())
		})
	}
	slices.Sort(off)
	return h, off
}

// guessed prints how often the bands held that were told before anything was known.
func guessed(out io.Writer, seed uint64) error {
	for _, served := range []int{1, 5, 10} {
		h, off := cold(2000, served, seed)
		if _, err := fmt.Fprintf(out, "\non 2000 boxes just started, until answer %d: of %d waits %.0f %% within p50, %.0f %% within p90; half of the p50 above %.2f of the wait\n",
			served, h.all, h.share(h.p50), h.share(h.p90), off[len(off)/2]); err != nil {
			return err
		}
	}
	return nil
}
