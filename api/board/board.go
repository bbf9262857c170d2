package board

import (
	"context"
	"sync"
	"time"

	"oneslot/proxy"
	"oneslot/queue"
	"oneslot/queue/line"
)

// A Line is what a Board shows.
type Line interface {
	Snapshot(ctx context.Context) (queue.Snapshot, error)
}

// Config is what a Board is made of.
type Config struct {
	// Lines are shown as one, in this order.
	Lines []Line
	// Live tells how far a request is that runs here.
	Live func(id string) (proxy.Live, bool)
	// Lost reports whether the engine of an idle slot was just found not to be there.
	Lost func(slot string) bool
	// Every is the time between two looks for the feed. Zero means 500 ms.
	Every time.Duration
	// Heartbeat is the longest silence of a feed. Zero means 10 s.
	Heartbeat time.Duration
}

// A Board shows the line. Create it with New; it is safe for concurrent use.
type Board struct {
	cfg  Config
	done chan struct{} // closed by Close

	mu       sync.Mutex // guards what follows
	watchers map[chan struct{}]struct{}
	latest   *frame             // nil until the first look
	stop     context.CancelFunc // of the look-out; nil while nobody watches
	loops    sync.WaitGroup
	closed   bool
}

// New returns a Board.
func New(cfg Config) *Board {
	if cfg.Every == 0 {
		cfg.Every = 500 * time.Millisecond
	}
	if cfg.Heartbeat == 0 {
		cfg.Heartbeat = 10 * time.Second
	}
	return &Board{cfg: cfg, done: make(chan struct{}), watchers: map[chan struct{}]struct{}{}}
}

// Close ends all feeds, and waits for the goroutine that serves them.
func (b *Board) Close() {
	b.mu.Lock()
	if !b.closed {
		b.closed = true
		close(b.done)
	}
	if b.stop != nil {
		b.stop()
	}
	b.mu.Unlock()
	b.loops.Wait()
}

// look takes the snapshot of all lines.
func (b *Board) look(ctx context.Context) *frame {
	f := &frame{live: map[string]proxy.Live{}, lost: map[string]bool{}}
	for _, l := range b.cfg.Lines {
		snap, err := l.Snapshot(ctx)
		if err != nil {
			return &frame{err: err}
		}
		f.lines = append(f.lines, snap)
		for _, slot := range snap.Slots {
			if live, ok := b.cfg.Live(slot.ID); ok {
				f.live[slot.ID] = live
			}
			f.lost[slot.Name] = slot.State == line.Idle && b.cfg.Lost(slot.Name)
		}
	}
	return f
}

// View is the line now. The error is the store's.
func (b *Board) View(ctx context.Context, who Viewer) (View, error) {
	f := b.look(ctx)
	if f.err != nil {
		return View{}, f.err
	}
	return f.view(who, true), nil
}

// Find returns a request that waits or runs, false if the viewer knows of none with
// this id. The error is the store's.
func (b *Board) Find(ctx context.Context, who Viewer, id string) (Request, bool, error) {
	f := b.look(ctx)
	if f.err != nil {
		return Request{}, false, f.err
	}
	for _, snap := range f.lines {
		for _, w := range snap.Waiting {
			if w.ID == id && who.owns(w.Key) {
				shown := waiter(w)
				return Request{Object: "queue.request", State: "queued", Waiter: &shown}, true, nil
			}
		}
		for _, slot := range snap.Slots {
			if v := f.slot(who, slot); v.RequestID == id {
				if slot.State == line.Busy {
					v.State = "running" // of the request, not of the slot
				}
				return Request{Object: "queue.request", State: v.State, Slot: &v}, true, nil
			}
		}
	}
	return Request{}, false, nil
}
