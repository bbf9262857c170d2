package watchdog

import (
	"math"
	"sync/atomic"
	"time"
)

// Silence is the kind of thing that an engine did not say in time.
type Silence int

const (
	// NoAnswer is that of headers or of the first token.
	NoAnswer Silence = iota + 1
	// Stalled is that of an answer that had begun.
	Stalled
	// NoEnd is that of the stream's end behind the finish reason.
	NoEnd
)

// tail is how long an engine may take to end a stream whose finish reason has come; the
// usage comes in this time.
const tail = 10 * time.Second

// Config are the limits, and who is told.
type Config struct {
	// Headers bounds the wait for the headers of the response, First that for the first
	// token, both from Start, and Idle the silence after that. All are above zero.
	Headers, First, Idle time.Duration
	// Silent is told of a silence that is too long.
	Silent func(Silence)
}

// A Watch is that over one run. The zero Watch has not begun.
type Watch struct {
	cfg   Config
	began time.Time
	timer *time.Timer
	heard atomic.Int64 // when the engine last said something, ns after began; 0 is never
	ended atomic.Int64 // when the finish reason came, the same
	open  atomic.Bool  // the headers have come
	over  atomic.Bool
}

// Start begins the watch over a run that began at a given time. Who starts it calls Stop.
func (w *Watch) Start(began time.Time, cfg Config) {
	w.cfg, w.began = cfg, began
	// The timer must be in its field before it can fire.
	w.timer = time.AfterFunc(math.MaxInt64, w.look)
	w.timer.Reset(min(cfg.Headers, cfg.First, cfg.Idle))
}

// Open notes that the headers have come.
func (w *Watch) Open() { w.open.Store(true) }

// Hear notes that the engine said something of the answer.
func (w *Watch) Hear(now time.Time) {
	if w.heard.Swap(max(int64(now.Sub(w.began)), 1)) == 0 {
		w.timer.Reset(w.cfg.Idle)
	}
}

// Heard reports whether it ever did.
func (w *Watch) Heard() bool { return w.heard.Load() != 0 }

// Finish notes that the answer is complete, so that little more is to come.
func (w *Watch) Finish(now time.Time) {
	w.ended.Store(max(int64(now.Sub(w.began)), 1))
	w.timer.Reset(min(w.cfg.Idle, tail))
}

// Stop ends the watch. It may be called more than once, and of one that has not begun. A
// Silent that has been called already may go on beside it.
func (w *Watch) Stop() {
	w.over.Store(true)
	if w.timer != nil {
		w.timer.Stop()
	}
}

// look runs on the timer.
func (w *Watch) look() {
	if w.over.Load() {
		return
	}
	heard, ended := time.Duration(w.heard.Load()), time.Duration(w.ended.Load())
	limit, silence := w.cfg.First, NoAnswer
	switch {
	case ended != 0:
		heard, limit, silence = ended, min(w.cfg.Idle, tail), NoEnd
	case heard != 0:
		limit, silence = w.cfg.Idle, Stalled
	case !w.open.Load():
		limit = min(limit, w.cfg.Headers)
	}
	rest := heard + limit - time.Since(w.began)
	if rest <= 0 {
		w.cfg.Silent(silence)
		return
	}
	w.timer.Reset(rest)
	switch { // Hear or Finish may have come in between
	case ended == 0 && w.ended.Load() != 0:
		w.timer.Reset(min(w.cfg.Idle, tail))
	case heard == 0 && w.heard.Load() != 0:
		w.timer.Reset(w.cfg.Idle)
	}
	if w.over.Load() { // so may Stop
		w.timer.Stop()
	}
}
