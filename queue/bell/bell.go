package bell

import "time"

// A Bell rings once. Create it with New.
type Bell struct {
	rung  chan struct{}
	limit *time.Timer
	tell  func()
}

// New returns a Bell.
func New() *Bell { return &Bell{rung: make(chan struct{})} }

// Limit has over called after d, in a goroutine of its own, unless the Bell has rung by
// then. It is called once at most.
func (b *Bell) Limit(d time.Duration, over func()) {
	select {
	case <-b.rung:
	default:
		b.limit = time.AfterFunc(d, over)
	}
}

// Rung is closed when the Bell rings. It may be called without the lock.
func (b *Bell) Rung() <-chan struct{} { return b.rung }

// Tell has f called when the Bell rings; now, if it has. f must not block.
func (b *Bell) Tell(f func()) {
	select {
	case <-b.rung:
		f()
	default:
		b.tell = f
	}
}

// Ring ends the wait. It is called once.
func (b *Bell) Ring() {
	if b.limit != nil {
		b.limit.Stop()
	}
	close(b.rung)
	if b.tell != nil {
		b.tell()
		b.tell = nil
	}
}
