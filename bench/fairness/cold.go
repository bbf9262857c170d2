package main

import (
	"fmt"
	"io"
	"math"
	"math/rand/v2"
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

// first plays the first jobs of a box, who come one soon after the other, until so
// many are known that the pace of the engine does not count any more. Each is asked
// for how long he will wait when the pace is known, and at one heartbeat after that.
func (b *box) first(h *hits) {
	var book eta.Book
	type one struct {
		came, began, ends time.Duration
		job               eta.Job
	}
	var all []one
	came, free := time.Duration(0), time.Duration(0)
	for range 12 {
		j, takes := b.ask()
		began := max(came, free)
		free = began + takes
		all = append(all, one{came, began, free, j})
		came += time.Duration(b.rand.ExpFloat64() * float64(20*time.Second))
	}
	known := time.Duration(float64(all[0].job.Bytes)/b.pace.Prefill*float64(time.Second)) + 2*time.Second
	for i, w := range all {
		at := max(w.came, known) + time.Duration(b.rand.Float64()*float64(max(0, w.began-max(w.came, known))))
		if at >= w.began || all[4].ends <= at {
			continue
		}
		book = eta.Book{}
		book.Pace(b.pace)
		q := eta.Question{Place: 1, Slots: 1}
		for k, other := range all {
			if other.came <= at {
				book.Came(other.job)
			}
			if k < i && other.began > at {
				q.Place++
			}
			if other.began <= at && at < other.ends {
				q.Running = []eta.Running{{For: at - other.began, Expect: 1}}
			}
			if other.ends <= at {
				book.Add(eta.Sample{Slot: other.ends - other.began})
			}
		}
		band, ok := book.Estimate(q)
		h.count(told{band: band, known: ok}, w.began-at)
	}
}

// cold is how often bands held that rest on the pace alone, over so many boxes.
func cold(boxes int, seed uint64) (h hits) {
	for n := range boxes {
		newBox(seed, uint64(n)).first(&h)
	}
	return h
}

// guessed prints how often the bands held that were told before anything was known.
func guessed(out io.Writer, seed uint64) error {
	h := cold(2000, seed)
	_, err := fmt.Fprintf(out, "\nby the engine's pace alone, on 2000 boxes just started: of %d waits %.0f %% within p50, %.0f %% within p90\n", h.all, h.share(h.p50), h.share(h.p90))
	return err
}
