package forecast

import (
	"sync"
	"testing"
	"time"

	"oneslot/queue/eta"
	"oneslot/queue/line"
)

var next = eta.Question{Place: 1, Slots: 1, Running: []eta.Running{{For: time.Second, Expect: 1}}}

// TestPace: before anything is known, what runs is asked how fast the engine is, and
// the last that it said stands.
func TestPace(t *testing.T) {
	var f Forecast
	f.Came(Job{Key: "team", Bytes: 4000, Most: 1000})
	if band := f.Band(next); band != nil || !f.Guesses() {
		t.Errorf("nothing is known, and told %+v", band)
	}
	pace, asked := eta.Pace{}, 0
	f.Watch(func() eta.Pace { asked++; return pace })
	if band := f.Band(next); band != nil || asked != 1 {
		t.Errorf("asked %d times, told %+v", asked, band)
	}
	pace = eta.Pace{Prefill: 1000, Decode: 100}
	first := f.Band(next)
	pace = eta.Pace{}
	if again := f.Band(next); first == nil || again == nil || *again != *first {
		t.Errorf("told %+v, and when the run was over %+v", first, again)
	}
	if cost := f.Expect(Job{Most: 1000}); cost <= 0 || cost > 10*time.Second {
		t.Errorf("a job of 1000 tokens may take %v", cost)
	}
	for range 5 {
		f.Served(Job{Key: "team", Bytes: 4000}.Sample(time.Minute), false)
	}
	was := asked
	if band := f.Band(next); band == nil || asked != was || f.Guesses() {
		t.Errorf("told %+v, asked though jobs are known", band)
	}
}

// TestReplace: the jobs of all processes take the place of those of this one, unless
// they are fewer, as they are in a store that has lost its data.
func TestReplace(t *testing.T) {
	var f Forecast
	one := Job{Key: "secret"}.Sample(time.Second)
	if band, jobs := f.Recent(); band != nil || jobs != 0 {
		t.Errorf("nothing has a band: %+v", band)
	}
	for range 8 {
		f.Served(one, false)
	}
	f.Replace([]eta.Sample{one})
	if _, jobs := f.Recent(); jobs != 8 {
		t.Errorf("%d jobs are known", jobs)
	}
	all := make([]eta.Sample, 20)
	for i := range all {
		all[i] = Job{Key: "secret"}.Sample(time.Minute)
	}
	f.Replace(all)
	if band, jobs := f.Recent(); jobs != 20 || band.P50 != time.Minute {
		t.Errorf("%d jobs, %+v", jobs, band)
	}
}

// TestFresh: what other processes have not been told is told once, counts until then
// beside what they tell, and is bounded.
func TestFresh(t *testing.T) {
	var f Forecast
	one := Job{}.Sample(time.Second)
	for range 6 {
		f.Served(one, true)
	}
	owes := f.Owes()
	fresh := f.Fresh()
	if !owes || f.Owes() || len(fresh) != 6 || len(f.Fresh()) != 0 {
		t.Errorf("told %d", len(fresh))
	}
	f.Served(one, true)
	f.Untold(fresh)
	f.Replace(nil)
	if _, jobs := f.Recent(); jobs != 7 || len(f.fresh) != 7 {
		t.Errorf("%d are known, %d to be told", jobs, len(f.fresh))
	}
	for range 2 * eta.Most {
		f.Served(one, true)
	}
	if f.Replace(fresh); len(f.Fresh()) != eta.Most {
		t.Error("more are kept than anybody remembers")
	}
}

// TestLearn: waits are learned from, of those who were in line.
func TestLearn(t *testing.T) {
	var f Forecast
	for range 5 {
		f.Served(Job{}.Sample(time.Second), false)
	}
	q := next
	q.Running[0].Expect = time.Second
	var all sync.WaitGroup
	for range 40 {
		all.Go(func() { f.Learn(q, time.Minute, false) })
		all.Go(func() { f.Learn(eta.Question{}, time.Hour, false) })
		all.Go(func() { f.Band(q) })
	}
	all.Wait()
	if band := f.Band(q); band == nil || band.P50 != time.Minute {
		t.Errorf("told %+v", band)
	}
}

// TestQuestion: who asks within moments asks the same, about what really runs.
func TestQuestion(t *testing.T) {
	at, ask := line.Standing{Place: 3, Work: 5e6}, func(ago time.Duration) eta.Question {
		return Question(line.Batch, line.Standing{Place: 3, Work: 5e6}, []line.Run{{For: 9e6, Cost: 4e6}, {}}, ago)
	}
	q := ask(time.Second)
	if q.Place != at.Place || q.Ahead != 5*time.Second || q.Slots != 2 || len(q.Running) != 1 || q.Running[0].Expect != 4*time.Second {
		t.Errorf("asked %+v", q)
	}
	asked := map[time.Duration]int{}
	for ms := range 10_000 {
		real := 9*time.Second + time.Duration(ms)*time.Millisecond
		ran := ask(real - 9*time.Second).Running[0].For
		if off := (ran - real).Abs(); off > real/200 {
			t.Fatalf("%v for %v", ran, real)
		}
		asked[ran]++
	}
	if len(asked) > 300 {
		t.Errorf("%d questions within ten seconds", len(asked))
	}
	if ran := Question(0, at, []line.Run{{For: 3}}, 0).Running[0].For; ran != 3*time.Microsecond {
		t.Errorf("%v for three microseconds", ran)
	}
}
