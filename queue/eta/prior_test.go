package eta

import (
	"math"
	"slices"
	"testing"
	"time"
)

// TestPrior: the middle is where it is said to be, and moves to the answers that came,
// the further the more of them there are and the more alike.
func TestPrior(t *testing.T) {
	mid := func(tokens ...float64) float64 {
		var seen, at []float64
		for _, n := range tokens {
			seen = append(seen, math.Log(n))
		}
		for _, x := range boxes(seen) {
			at = append(at, math.Exp(x.at))
		}
		slices.Sort(at)
		return at[draws/2]
	}
	if got := mid(); got < 0.95*middle || got > 1.05*middle {
		t.Errorf("before any is known half of all have %v tokens", got)
	}
	one, three := mid(84), mid(84, 84, 84)
	if one > 300 || one < 84 || three > 100 || three < 80 {
		t.Errorf("after one of 84 tokens %v, after three %v", one, three)
	}
	if got := mid(20, 84, 2000); got < 1.5*three {
		t.Errorf("after three that differ much %v", got)
	}
}

// TestFirstAnswers: short answers on a box shrink what is told from the first on, and
// the band narrows.
func TestFirstAnswers(t *testing.T) {
	const each = 9200 * time.Millisecond // 84 tokens and a little
	last := Band{}
	for served := range 5 {
		b := &Book{}
		b.Pace(Pace{Prefill: 1000, Decode: 9.3})
		for range served {
			b.Came(Job{Bytes: 60, Most: 100_000})
			b.Add(Sample{Size: Size(60), Slot: each})
		}
		for range 3 {
			b.Came(Job{Bytes: 60, Most: 100_000})
		}
		for place := 1; place <= 3; place++ {
			band, ok := b.Estimate(Question{Place: place, Slots: 1, Running: []Running{{For: time.Second}}})
			is := time.Duration(place)*each - time.Second
			t.Logf("%d served, place %d: %v to %v, it is %v", served, place, band.P50, band.P90, is)
			most := []float64{20, 4, 1.5, 1.3, 1.3}[served]
			if off := band.P50.Seconds() / is.Seconds(); !ok || off > most || off < 0.7 || band.P90 < is {
				t.Errorf("%d served, place %d: %v to %v, it is %v", served, place, band.P50, band.P90, is)
			}
			if place == 3 {
				if served > 0 && band.P90 >= last.P90 {
					t.Errorf("%d served: %+v, one fewer: %+v", served, band, last)
				}
				last = band
			}
		}
	}
}

// TestPlacesInOrder: while it is guessed, no place is told less than one before it.
func TestPlacesInOrder(t *testing.T) {
	b := paced(100_000, 3000, 500)
	for served := range few {
		last := Band{}
		for place := 1; place < 50*normal; place++ {
			band, ok := b.Estimate(behind(place-1, 7*time.Second))
			if !ok || band.P50 < last.P50 || band.P90 < last.P90 {
				t.Errorf("%d served: place %d %+v after %+v", served, place, band, last)
			}
			last = band
		}
		b.Add(Sample{Slot: time.Duration(served+1) * 20 * time.Second})
	}
}

// TestBetweenPlaces: far back only some places are reckoned, and what is told between
// them is as good as what would be reckoned there.
func TestBetweenPlaces(t *testing.T) {
	b := paced(100_000, 3000, 500)
	for n := range 200 * normal {
		told, ok := b.Estimate(behind(n, 7*time.Second))
		want := b.foreseen(b.outlook(behind(n, 7*time.Second)), n)
		if off := max((told.P50-want.P50).Abs()*1000/want.P50, (told.P90-want.P90).Abs()*1000/want.P90); !ok || off > 2 {
			t.Fatalf("%d before: told %+v, reckoned %+v", n, told, want)
		}
	}
}

// TestKept: what is kept of earlier questions is what would be reckoned anew.
func TestKept(t *testing.T) {
	b := &Book{}
	after := func(f func()) {
		t.Helper()
		f()
		for _, q := range []Question{behind(7, 2*time.Second), behind(0, time.Second), behind(7, time.Second), behind(7, 2*time.Second), behind(100, 2*time.Second)} {
			q.Ahead = time.Duration(q.Place-1) * time.Second
			anew := *b
			anew.guess, anew.waits = nil, map[group]*ratios{}
			if b.spread != nil {
				s := *b.spread
				s.sums = [normal + 1]relative{}
				anew.spread = &s
			}
			for g, r := range b.waits {
				anew.waits[g] = &ratios{ring: r.ring}
			}
			told, ok := b.Estimate(q)
			if want, known := anew.Estimate(q); told != want || ok != known {
				t.Errorf("%d served, place %d: %+v, anew %+v", len(b.samples.kept), q.Place, told, want)
			}
		}
	}
	after(func() { b.Pace(Pace{Prefill: 1000, Decode: 10}) })
	after(func() { b.Came(Job{Bytes: 10_000, Most: 500}) })
	after(func() { b.Came(Job{Bytes: 100_000, Most: 5000}) })
	after(func() { b.Pace(Pace{Prefill: 1000, Decode: 20}) })
	for i := range 9 {
		after(func() { b.Add(Sample{Key: 1, Size: 2, Slot: time.Duration(i+1) * time.Second}) })
	}
	for i := range 2 * recent {
		after(func() { b.Learn(behind(40, 0), time.Duration(i+1)*time.Second, false) })
	}
}

// behind is one in line behind a job that has run for so long, and n others.
func behind(n int, ran time.Duration) Question {
	return Question{Place: n + 1, Slots: 1, Running: []Running{{For: ran, Expect: 1}}}
}

// paced is a book that knows the pace, and of each bound a job that came.
func paced(most ...int) *Book {
	b := &Book{}
	b.Pace(Pace{Prefill: 1000, Decode: 10})
	for _, m := range most {
		b.Came(Job{Bytes: 10_000, Most: m})
	}
	return b
}

// TestGuess: while no jobs are known, the pace of the engine and what bounds the
// answers make a band, wide where the bound is; without either there is none.
func TestGuess(t *testing.T) {
	if band, ok := paced(100_000, 0).Estimate(behind(1, 0)); ok {
		t.Errorf("an answer that nothing bounds: %+v", band)
	}
	if band, ok := (&Book{}).Estimate(behind(0, 0)); ok {
		t.Errorf("nobody came: %+v", band)
	}
	slow := &Book{}
	slow.Came(Job{Most: 10})
	if band, ok := slow.Estimate(behind(0, 0)); ok || slow.Expect(Job{Most: 10}) != 0 {
		t.Errorf("an engine of unknown pace: %+v", band)
	}
	tight, ok := paced(50, 50).Estimate(behind(1, 0))
	if least, most := 25*time.Second, 30*time.Second; !ok || tight.P50 < least || tight.P90 > most {
		t.Errorf("two of 10 s of prompt and at most 5 s of answer: %+v", tight)
	}
	wide, ok := paced(100_000).Estimate(behind(0, 0))
	if !ok || wide.P50 < 40*time.Second || wide.P50 > 150*time.Second || wide.P90 < 3*wide.P50 {
		t.Errorf("any answer: %+v", wide)
	}
	more, _ := paced(100_000).Estimate(behind(80, 0))
	if more.P90 < 60*wide.P50 || more.P90 < 2*more.P50 {
		t.Errorf("80 such: %+v, where all may be long", more)
	}
	if long, _ := paced(100_000).Estimate(behind(0, 20*time.Minute)); long.P50 < 2*wide.P50 {
		t.Errorf("behind one that has run for 20 min: %+v", long)
	}
}

// TestGuessEnds with the fifth job that was served, and waits foretold by it are not
// learned from.
func TestGuessEnds(t *testing.T) {
	b := paced(100_000)
	guess, _ := b.Estimate(behind(1, 0))
	for range 50 {
		b.Learn(behind(1, 0).Answered(&guess), time.Hour, false)
	}
	for n := range few {
		if !b.Wanting() {
			t.Errorf("%d jobs are enough", n)
		}
		b.Add(Sample{Slot: time.Second})
	}
	q := behind(1, 0)
	q.Ahead, q.Running[0].Expect = time.Second, time.Second
	if band, ok := b.Estimate(q); !ok || b.Wanting() || band != (Band{2 * time.Second, 2 * time.Second}) {
		t.Errorf("five jobs of a second: %+v", band)
	}
	for range 2 * first {
		b.Came(Job{})
	}
	if len(b.came) != 1 {
		t.Errorf("%d who came are remembered for nothing", len(b.came))
	}
}

// TestTilt: bands that hold too seldom are stretched until they do, and those that hold
// too often are drawn in, by class; what nobody was told counts for nothing.
func TestTilt(t *testing.T) {
	for name, c := range map[string]struct {
		waited time.Duration
		told   Band
		check  func(was, is Band) bool
	}{
		"longer":   {time.Minute, Band{time.Second, 2 * time.Second}, func(was, is Band) bool { return is.P50 > 2*was.P50 && is.P90 > 5*was.P90 }},
		"shorter":  {20 * time.Second, Band{30 * time.Second, time.Hour}, func(was, is Band) bool { return is.P50 < was.P50/2 && is.P90 < was.P90 && is.P90 > was.P90/2 }},
		"not told": {time.Minute, Band{}, func(was, is Band) bool { return is == was }},
	} {
		b := book(10, 10, 10, 10, 10)
		q := Question{Class: 2, Place: 1, Slots: 1, Running: []Running{{Expect: 10 * time.Second}}}
		for range known {
			b.Learn(q, c.waited, false) // so that the ratios stay as they are
		}
		was, _ := b.Estimate(q)
		q.Told = c.told
		for range known {
			b.Learn(q, c.waited, false)
		}
		q.Told = Band{}
		if is, _ := b.Estimate(q); !c.check(was, is) {
			t.Errorf("%s: %+v became %+v", name, was, is)
		}
		q.Class = 1
		if other, _ := b.Estimate(q); other.P50 != was.P50 {
			t.Errorf("%s: of another class it is %+v", name, other)
		}
	}
	if got := (tilt{p50: 1}).apply(Band{time.Second, time.Second}); got.P50 != got.P90 {
		t.Errorf("half of the waits are longer than nine in ten: %+v", got)
	}
}

// BenchmarkGuess is what a heartbeat costs behind the first run of all.
func BenchmarkGuess(b *testing.B) {
	k := paced(100, 1000, 100_000)
	for n := range b.N {
		k.Estimate(behind(n%5000, time.Minute))
	}
}
