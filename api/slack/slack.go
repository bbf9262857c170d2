package slack

import (
	"runtime/debug"
	"sync/atomic"
	"time"
)

const (
	worth = 16 << 20         // what a collection is for, in bytes
	pause = 2 * time.Second  // others may be about to leave, and who is next comes first
	least = 10 * time.Second // between two collections
)

// A Gauge knows how much memory requests take. Create it with New; it is safe for
// concurrent use. It starts no goroutine but a timer's.
type Gauge struct {
	free func()
	now  atomic.Int64 // taken, in bytes
	peak atomic.Int64 // since the last collection
	due  atomic.Bool
	last atomic.Int64 // collection, since began
	from time.Time
}

// New returns a Gauge. free returns the memory that nobody needs; nil means the
// runtime's.
func New(free func()) *Gauge {
	if free == nil {
		free = debug.FreeOSMemory
	}
	g := &Gauge{free: free, from: time.Now()}
	g.last.Store(int64(-least))
	return g
}

// Add takes in that n more bytes are taken, or fewer.
func (g *Gauge) Add(n int64) {
	now := g.now.Add(n)
	for peak := g.peak.Load(); now > peak; peak = g.peak.Load() {
		if g.peak.CompareAndSwap(peak, now) {
			return
		}
	}
	if n < 0 && g.peak.Load()-now >= worth && g.due.CompareAndSwap(false, true) {
		since := time.Since(g.from) - time.Duration(g.last.Load())
		time.AfterFunc(max(pause, least-since), g.give)
	}
}

// give returns what is left behind.
func (g *Gauge) give() {
	g.last.Store(int64(time.Since(g.from)))
	g.peak.Store(g.now.Load())
	g.due.Store(false)
	g.free()
}
