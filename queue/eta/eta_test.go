package eta

import (
	"math/rand/v2"
	"testing"
	"time"
)

func book(seconds ...int) *Book {
	b := &Book{}
	for _, s := range seconds {
		b.Add(Sample{Key: 1, Size: 2, Slot: time.Duration(s) * time.Second})
	}
	return b
}

// TestUnknown: while too little is known nothing is said.
func TestUnknown(t *testing.T) {
	b := book(1, 2, 3, 4)
	next := Question{Place: 1, Slots: 1, Running: []Running{{Expect: time.Second}}}
	if band, ok := b.Estimate(next); ok {
		t.Errorf("after four jobs %+v", band)
	}
	if _, jobs, ok := b.Recent(); ok || jobs != 4 || b.Expect(Job{Key: 1, Bytes: 20}) != 0 {
		t.Errorf("four jobs tell %v", ok)
	}
	b.Add(Sample{Slot: time.Second})
	if _, ok := b.Estimate(next); !ok {
		t.Error("after five jobs nothing")
	}
	for name, q := range map[string]Question{
		"no slot works":  {Place: 1, Running: []Running{{Expect: time.Second}}},
		"not in line":    {Slots: 1, Running: []Running{{Expect: time.Second}}},
		"nothing before": {Place: 1, Slots: 1},
	} {
		if band, ok := b.Estimate(q); ok {
			t.Errorf("%s: %+v", name, band)
		}
	}
}

// TestExpect: what is known of the key and size is used, else of the key, else of all.
func TestExpect(t *testing.T) {
	b := &Book{}
	add := func(n int, key uint64, size uint8, d time.Duration) {
		for range n {
			b.Add(Sample{Key: key, Size: size, Slot: d})
		}
	}
	add(8, 1, 1, 10*time.Second)
	add(8, 1, 2, 30*time.Second)
	add(7, 2, 1, 90*time.Second)
	for _, c := range []struct {
		key  uint64
		size uint8
		want time.Duration
	}{{1, 1, 10 * time.Second}, {1, 2, 30 * time.Second}, {1, 9, 20 * time.Second}, {2, 1, 950 * time.Second / 23}, {3, 1, 950 * time.Second / 23}} {
		if got := b.Expect(Job{Key: c.key, Bytes: 1 << (2 * c.size)}); got != c.want {
			t.Errorf("key %d, size %d: %v, want %v", c.key, c.size, got, c.want)
		}
	}
	if Size(0) != 0 || Size(-1) != 0 || Size(3) != 1 || Size(4) != 1 || Size(1<<20) != 10 || Size(1<<40) != 15 {
		t.Error("the classes of sizes are off")
	}
}

// TestExpectIsBound: no job is expected to take longer than its longest answer takes.
func TestExpectIsBound(t *testing.T) {
	b := book(9, 9, 9, 9, 9, 9, 9, 9)
	short := Job{Key: 1, Bytes: 100, Most: 20}
	if got := b.Expect(short); got != 9*time.Second {
		t.Errorf("of an engine whose pace nobody knows: %v", got)
	}
	b.Pace(Pace{Prefill: 100, Decode: 10})
	for most, want := range map[int]time.Duration{20: 3 * time.Second, 1000: 9 * time.Second, 0: 9 * time.Second} {
		short.Most = most
		if got := b.Expect(short); got != want {
			t.Errorf("of %d tokens at most: %v, want %v", most, got, want)
		}
	}
}

// TestLeft: what remains of a running job depends on how long it has run: of jobs that
// differ much the longer, the more.
func TestLeft(t *testing.T) {
	b := book(1, 1, 1, 1, 1, 1, 1, 1, 10, 10, 10, 10, 10, 100, 100, 100, 100, 100)
	s, mean := b.spreads(), b.Expect(Job{Key: 1, Bytes: 20})
	left := func(d time.Duration) time.Duration {
		return s.left(Running{For: d, Expect: mean}).Round(time.Second)
	}
	if got := left(0); got != mean.Round(time.Second) {
		t.Errorf("of a new one %v is left, %v is the mean", got, mean)
	}
	if got := left(2 * time.Second); got != 53*time.Second {
		t.Errorf("after 2 s %v", got)
	}
	if got := left(20 * time.Second); got != 80*time.Second {
		t.Errorf("after 20 s %v", got)
	}
	// Nobody ran as long: those that ran longer than 10 s had nine times that left.
	if got := left(200 * time.Second); got != 1800*time.Second {
		t.Errorf("after 200 s %v", got)
	}
	if got := s.left(Running{For: time.Second}); got != 0 {
		t.Errorf("of a job of which nothing is known %v", got)
	}
}

// TestDrawn: before waits are known the band is that of sums, which grow with the
// place, and their width as its root.
func TestDrawn(t *testing.T) {
	b := book(1, 2, 3, 4, 5, 6, 7, 8, 9, 10)
	each := b.Expect(Job{Key: 1, Bytes: 20})
	at := func(place int) Band {
		band, ok := b.Estimate(Question{Place: place, Slots: 1, Ahead: time.Duration(place-1) * each, Running: []Running{{Expect: each}}})
		if !ok {
			t.Fatal("nothing")
		}
		return band
	}
	for _, place := range []int{1, 4, 16, 30, 100, 10_000} {
		band, sum := at(place), time.Duration(place)*each
		if off := (band.P50 - sum).Abs(); off > sum/8 {
			t.Errorf("place %d: half wait %v, the sum is %v", place, band.P50, sum)
		}
		width, root := float64(band.P90-band.P50), 2.87*1.28*float64(time.Second)*root(place)
		if width < 0.7*root || width > 1.4*root {
			t.Errorf("place %d: %v wide, want about %v", place, time.Duration(width), time.Duration(root))
		}
	}
	if first, second := at(7), at(7); first != second {
		t.Error("the same question has two answers")
	}
}

func root(n int) float64 {
	x := float64(n)
	for range 40 {
		x = (x + float64(n)/x) / 2
	}
	return x
}

// TestLearned: waits that last longer than the sum, since others pass, are foretold
// as they were, by class; so are those that were given up late, and not those that
// were given up early.
func TestLearned(t *testing.T) {
	b := book(10, 10, 10, 10, 10)
	q := Question{Class: 1, Place: 2, Slots: 1, Ahead: 10 * time.Second, Running: []Running{{Expect: 10 * time.Second}}}
	for n := range 40 {
		b.Learn(q, time.Duration(20+n)*time.Second, false)
	}
	band, _ := b.Estimate(q)
	if band.P50 != 40*time.Second || band.P90 != 56*time.Second {
		t.Errorf("the band is %+v", band)
	}
	other := q
	other.Class = 2
	if got, _ := b.Estimate(other); got != band {
		t.Errorf("of a class of which nothing is known %+v", got)
	}
	late := q
	late.Late = true
	if got, _ := b.Estimate(late); got.P50 != 20*time.Second {
		t.Errorf("asked again in line %+v", got)
	}
	b.Learn(q, time.Second, true)
	if got, _ := b.Estimate(q); got != band {
		t.Errorf("somebody who left at once made it %+v", got)
	}
	for range 20 {
		b.Learn(q, 500*time.Second, true)
	}
	if got, _ := b.Estimate(q); got.P90 != 500*time.Second {
		t.Errorf("those who left in despair made it %+v", got)
	}
}

// TestReplace: the latest are kept.
func TestReplace(t *testing.T) {
	b := &Book{}
	var all []Sample
	for n := range Most + 50 {
		all = append(all, Sample{Slot: time.Duration(n) * time.Second})
		b.Add(all[n])
	}
	first, jobs, _ := b.Recent()
	if len(b.means) != 3 {
		t.Errorf("%d means of jobs of one kind", len(b.means))
	}
	b.Replace(all)
	again, _, _ := b.Recent()
	if jobs != Most || first != again || first.P50 != 177*time.Second {
		t.Errorf("%d jobs, %+v and %+v", jobs, first, again)
	}
}

// BenchmarkEstimate is what a heartbeat costs: with waits known, and with none.
func BenchmarkEstimate(b *testing.B) {
	k := &Book{}
	r := rand.New(rand.NewPCG(1, 2))
	for range Most {
		k.Add(Sample{Slot: time.Duration(r.ExpFloat64() * float64(time.Minute))})
	}
	q := Question{Place: 5000, Slots: 1, Ahead: 5000 * time.Minute, Running: []Running{{Expect: time.Minute}}}
	b.Run("drawn", func(b *testing.B) {
		for range b.N {
			k.Estimate(q)
		}
	})
	near := q
	near.Place = 20
	b.Run("drawn/near", func(b *testing.B) {
		for range b.N {
			k.Estimate(near)
		}
	})
	for range recent {
		k.Learn(q, time.Minute, false)
	}
	b.Run("learned", func(b *testing.B) {
		for range b.N {
			k.Estimate(q)
		}
	})
}
