package forecast

import (
	"hash/fnv"
	"sync"
	"time"

	"oneslot/queue/eta"
	"oneslot/queue/line"
)

// Forecast is safe for concurrent use; its lock is held for a computation only. The
// zero Forecast knows nothing.
type Forecast struct {
	mu    sync.Mutex // guards what follows
	book  eta.Book
	fresh []eta.Sample    // not yet written down for other processes
	pace  func() eta.Pace // of what runs; nil: nothing has run yet
	told  ladder
}

// Job is what somebody in line asks for.
type Job struct {
	Key   string
	Bytes int // of its prompt
	Most  int // tokens that its answer may have; 0: nothing bounds it
}

func (j Job) asked() eta.Job { return eta.Job{Key: number(j.Key), Bytes: j.Bytes, Most: j.Most} }

// Sample is that of a job that had its slot for so long.
func (j Job) Sample(slot time.Duration) eta.Sample {
	return eta.Sample{Key: number(j.Key), Size: eta.Size(j.Bytes), Slot: slot}
}

// number stands for a key in all processes, and does not tell it.
func number(key string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(key)) // never fails
	return h.Sum64()
}

// Came is what a job that comes may take; 0 while too little is known.
func (f *Forecast) Came(j Job) time.Duration {
	f.look(j.Most > 0)
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.book.Came(j.asked())
}

// Expect is what a job may take; 0 while too little is known.
func (f *Forecast) Expect(j Job) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.book.Expect(j.asked())
}

// Question is where somebody in line stands, as it was told a while ago.
func Question(c line.Class, at line.Standing, running []line.Run, ago time.Duration) eta.Question {
	q := eta.Question{Class: uint8(c), Place: at.Place, Ahead: line.Micros(at.Work), Slots: len(running)}
	for _, r := range running {
		if r.For > 0 || r.Cost > 0 {
			q.Running = append(q.Running, eta.Running{For: roughly(line.Micros(r.For) + ago), Expect: line.Micros(r.Cost)})
		}
	}
	return q
}

// roughly is half a hundredth off at most, so that those who ask within moments ask the
// same.
func roughly(d time.Duration) time.Duration {
	grain := time.Duration(1)
	for grain <= d/1000 {
		grain *= 10
	}
	return d.Round(grain)
}

// Watch names what tells how fast the engine is. A pace without tokens a second says
// nothing; the last one that said something stands.
func (f *Forecast) Watch(pace func() eta.Pace) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pace = pace
}

// Guesses reports whether bands rest on the pace of the engine, since too few jobs
// are known.
func (f *Forecast) Guesses() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.book.Wanting()
}

// Band is the estimate for somebody in line, nil while too little is known. Of those who
// ask again within a moment none is told less than one of his class before him.
func (f *Forecast) Band(q eta.Question) *eta.Band {
	f.look(false)
	f.mu.Lock()
	defer f.mu.Unlock()
	band, ok := f.book.Estimate(q)
	if !ok {
		return nil
	}
	if q.Late && !f.book.Wanting() {
		band = f.told.fit(q, band)
	}
	return &band
}

// look asks for the pace of the engine if it counts, for what bounds an answer or while
// little else is known, not under the lock.
func (f *Forecast) look(bound bool) {
	f.mu.Lock()
	ask := f.pace
	if !bound && !f.book.Wanting() {
		ask = nil
	}
	f.mu.Unlock()
	if ask == nil {
		return
	}
	if p := ask(); p.Decode > 0 {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.book.Pace(p)
	}
}

// Recent is the band of slot times, nil while too few are known, and of how many.
func (f *Forecast) Recent() (*eta.Band, int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	band, jobs, ok := f.book.Recent()
	if !ok {
		return nil, jobs
	}
	return &band, jobs
}

// Learn takes in how long a wait was of which q was asked, and whether it was given up.
func (f *Forecast) Learn(q eta.Question, waited time.Duration, gone bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if q.Place > 0 {
		f.told.forget()
		f.book.Learn(q, waited, gone)
	}
}

// Served takes in how long a job had its slot, and keeps it for Fresh if other
// processes are to be told.
func (f *Forecast) Served(one eta.Sample, tell bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.told.forget()
	f.book.Add(one)
	if tell {
		f.keep(append(f.fresh, one))
	}
}

func (f *Forecast) keep(fresh []eta.Sample) { f.fresh = fresh[max(0, len(fresh)-eta.Most):] }

// Owes reports whether there is something that other processes have not been told.
func (f *Forecast) Owes() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.fresh) > 0
}

// Fresh takes out the jobs of which other processes have not been told.
func (f *Forecast) Fresh() []eta.Sample {
	f.mu.Lock()
	defer f.mu.Unlock()
	fresh := f.fresh
	f.fresh = nil
	return fresh
}

// Untold puts them back: the others could not be told.
func (f *Forecast) Untold(fresh []eta.Sample) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.keep(append(fresh, f.fresh...))
}

// Replace takes over the jobs of all processes, the oldest first, with those of which
// they have not been told, unless they are fewer than are known here.
func (f *Forecast) Replace(all []eta.Sample) {
	f.mu.Lock()
	defer f.mu.Unlock()
	all = append(all, f.fresh...)
	if _, own, _ := f.book.Recent(); len(all) >= own || len(all) >= eta.Most {
		f.told.forget()
		f.book.Replace(all[max(0, len(all)-eta.Most):])
	}
}
