package eta

import (
	"math/bits"
	"slices"
	"time"
)

// Band is an estimate.
type Band struct{ P50, P90 time.Duration }

// Sample is a job that was served: whose it was, as a number that stands for the
// key, how large its prompt was, as Size says, and how long it held its slot.
type Sample struct {
	Key  uint64
	Size uint8
	Slot time.Duration
}

// Job is one that comes.
type Job struct {
	Key   uint64 // as in Sample
	Bytes int    // of its prompt; 0: not known
	Most  int    // tokens that its answer may have; 0: nothing bounds it
}

// Size is the class of a prompt of so many bytes: each is four times the one below.
func Size(bytes int) uint8 { return uint8(min(bits.Len(uint(max(bytes, 0)))/2, 15)) }

// Question is where somebody stands.
type Question struct {
	Class   uint8
	Late    bool          // asked again while waiting
	Told    Band          // what was answered; zero: nothing
	Place   int           // 1 is next
	Ahead   time.Duration // what those before him may take, by Expect
	Running []Running     // of each slot that is lent
	Slots   int           // that work, at least those
}

// Again is the question of somebody who has waited for a while.
func (q Question) Again() Question {
	q.Late = true
	return q
}

// Answered is the question with what was answered, nil if nothing was.
func (q Question) Answered(b *Band) Question {
	if b != nil {
		q.Told = *b
	}
	return q
}

// Running is a job that holds a slot.
type Running struct {
	For    time.Duration // so far
	Expect time.Duration // what it may take in all, by Expect
}

// Book remembers slot times and waits. The zero Book is empty. It is not safe for
// concurrent use. Adding to it and Expect take no time to speak of; the rest is made
// anew only when an eighth of the jobs are new.
type Book struct {
	samples ring[Sample]
	means   map[kind]mean // of samples
	spread  *spread       // of samples; nil when it has to be made
	newer   int           // jobs since it was made
	waits   map[group]*ratios
	tilts   map[group]tilt
	pace    Pace
	came    []Job  // the first, while too few jobs are known
	guess   *guess // by came, pace and samples; nil when it has to be made
}

// Add remembers a job.
func (b *Book) Add(s Sample) {
	if b.means == nil {
		b.means = map[kind]mean{}
	}
	if gone, full := b.samples.add(s, most); full {
		b.sum(gone, -1)
	}
	b.sum(s, 1)
	b.newer++
	b.guess = nil
}

// sum counts a job in, or out if n is -1.
func (b *Book) sum(s Sample, n int) {
	for _, k := range kinds(s.Key, s.Size) {
		m := b.means[k]
		m = mean{m.sum + time.Duration(n)*s.Slot, m.n + n}
		if b.means[k] = m; m.n == 0 {
			delete(b.means, k)
		}
	}
}

// Replace forgets all jobs that were served and remembers these, the oldest first.
func (b *Book) Replace(all []Sample) {
	b.samples, b.means, b.spread, b.newer = ring[Sample]{}, nil, nil, 0
	b.guess = nil
	for _, s := range all {
		b.Add(s)
	}
}

// Most is how many jobs are remembered.
const Most = most

const (
	most   = 256
	few    = 5  // jobs that say something of all
	enough = 8  // jobs that say something of a key, or of a size
	known  = 20 // waits that say something of such waits
	recent = 96 // waits of a kind that are remembered
)

// Expect is what a job may take; 0 while too little is known.
func (b *Book) Expect(j Job) time.Duration {
	if b.Wanting() {
		return b.believed(j)
	}
	mean := b.mean(j.Key, Size(j.Bytes))
	if j.Most > 0 && b.pace.Decode > 0 {
		if longest := b.read(j) + float64(j.Most)/b.pace.Decode; longest < mean.Seconds() {
			return seconds(longest)
		}
	}
	return mean
}

// mean is how long jobs of a key and size had their slots; 0 while too few are known.
func (b *Book) mean(key uint64, size uint8) time.Duration {
	for i, k := range kinds(key, size) {
		least := enough
		if i == 2 {
			least = few
		}
		if m := b.means[k]; m.n >= least {
			return m.sum / time.Duration(m.n)
		}
	}
	return 0
}

// Recent is the band of the slot times themselves and how many there are; false
// while they are too few.
func (b *Book) Recent() (band Band, jobs int, ok bool) {
	jobs = len(b.samples.kept)
	if jobs < few {
		return Band{}, jobs, false
	}
	times := make([]time.Duration, jobs)
	for i, s := range b.samples.kept {
		times[i] = s.Slot
	}
	slices.Sort(times)
	return Band{P50: quantile(times, 0.5), P90: quantile(times, 0.9)}, jobs, true
}

// spreads is how slot times lie around what was to be expected.
func (b *Book) spreads() *spread {
	if b.spread == nil || 8*b.newer >= len(b.samples.kept) {
		b.spread, b.newer = b.newSpread(), 0
	}
	return b.spread
}

// ring keeps the last few.
type ring[T any] struct {
	kept []T
	next int
}

// add returns what has to make room, if the ring is full.
func (r *ring[T]) add(v T, most int) (gone T, full bool) {
	if len(r.kept) < most {
		r.kept = append(r.kept, v)
		return gone, false
	}
	gone, r.kept[r.next] = r.kept[r.next], v
	r.next = (r.next + 1) % most
	return gone, true
}
