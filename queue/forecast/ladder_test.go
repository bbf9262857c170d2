package forecast

import (
	"math/rand/v2"
	"testing"
	"time"

	"oneslot/queue/eta"
	"oneslot/queue/line"
)

// uneven is a forecast that has seen waits from far behind come out shorter than those
// from the middle, of two classes.
func uneven() *Forecast {
	f := &Forecast{}
	for n := range 40 {
		f.Served(Job{Key: "team"}.Sample(time.Duration(5+n%10)*time.Second), false)
	}
	for _, seen := range []struct {
		place int
		ratio float64
	}{{3, 2}, {40, 3}, {100, 0.5}, {1000, 0.9}} {
		for n := range 100 {
			q := from(seen.place)
			f.Learn(q, time.Duration((seen.ratio+float64(n%10)/10)*float64(q.Ahead)), false)
		}
	}
	return f
}

// from is a place from which somebody asks again.
func from(place int) eta.Question {
	at := line.Standing{Place: place, Work: int64(place-1) * 10e6}
	return Question(line.Default, at, []line.Run{{For: 2e6, Cost: 10e6}}, 0).Again()
}

// TestLadder: whoever asks first, within a moment nobody is told less than one before him.
func TestLadder(t *testing.T) {
	f := uneven()
	falls := 0
	for place := 2; place < 2000; place++ {
		here, _ := f.book.Estimate(from(place))
		if before, _ := f.book.Estimate(from(place - 1)); here.P50 < before.P50 {
			falls++
		}
	}
	if falls == 0 {
		t.Fatal("the waits are even")
	}
	for seed := range uint64(20) {
		f := uneven()
		told := map[int]eta.Band{}
		r := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // a test's
		for _, n := range r.Perm(2000) {
			told[n+1] = *f.Band(from(n + 1))
		}
		for place := 2; place <= 2000; place++ {
			if a, b := told[place-1], told[place]; b.P50 < a.P50 || b.P90 < a.P90 || b.P50 > b.P90 {
				t.Fatalf("seed %d: place %d is told %+v, the one before %+v", seed, place, b, a)
			}
		}
	}
}

// TestMoment: what was told binds nobody of another class, nor when something is news.
func TestMoment(t *testing.T) {
	low := from(100)
	for name, news := range map[string]func(f *Forecast, q *eta.Question){
		"class":   func(_ *Forecast, q *eta.Question) { q.Class = uint8(line.Batch) },
		"runs":    func(_ *Forecast, q *eta.Question) { q.Running[0].For += time.Nanosecond },
		"slots":   func(_ *Forecast, q *eta.Question) { q.Ahead, q.Slots = 2*q.Ahead, 2 },
		"served":  func(f *Forecast, _ *eta.Question) { f.Served(Job{Key: "team"}.Sample(9*time.Second), false) },
		"learned": func(f *Forecast, _ *eta.Question) { f.Learn(low, low.Ahead, false) },
		"first":   func(_ *Forecast, q *eta.Question) { q.Late = false },
	} {
		f, q := uneven(), from(40)
		f.Band(low)
		if held := f.Band(q); held.P50 > f.Band(low).P50 {
			t.Errorf("%s: %+v before what one behind was told", name, held)
		}
		news(f, &q)
		want, _ := f.book.Estimate(q)
		if got := f.Band(q); *got != want {
			t.Errorf("%s: told %+v, want %+v", name, *got, want)
		}
	}
}

// TestRungs: places stand on rungs in their order, near ones together.
func TestRungs(t *testing.T) {
	last := 0
	for place := 1; place < 100_000; place++ {
		r := rungOf(place)
		if r < last || r > last+1 || place < 64 && r != place || r >= rungs {
			t.Fatalf("place %d on rung %d after %d", place, r, last)
		}
		last = r
	}
	if last != rungs-1 {
		t.Errorf("the last of %d is %d", rungs, last)
	}
}

// BenchmarkBand is what it costs to tell each in a crowd.
func BenchmarkBand(b *testing.B) {
	f, n := uneven(), 0
	b.ReportAllocs()
	for b.Loop() {
		n = (n + 701) % 5000
		f.Band(from(n + 1))
	}
}
