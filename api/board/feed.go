package board

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/tmaxmax/go-sse"
)

// ErrClosed says that the Board was closed.
var ErrClosed = errors.New("board: closed")

const (
	most     = 64              // events that come at once
	rest     = 2 * time.Second // after a snapshot in their place
	progress = 2 * time.Second // between two events on the same phase
	share    = 20              // a look takes at most one part in so many of the time
)

// Watch writes the feed to the viewer by write, each time whole events that are to
// be sent at once, until ctx ends, a write fails, or the Board is closed.
func (b *Board) Watch(ctx context.Context, who Viewer, write func([]byte) error) error {
	news, err := b.enter()
	if err != nil {
		return err
	}
	defer b.leave(news)
	beat := time.NewTimer(b.cfg.Heartbeat)
	defer beat.Stop()
	w := watcher{who: who}
	for {
		var pause <-chan time.Time
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-b.done:
			return ErrClosed
		case <-beat.C:
			w.comment("keep-alive")
		case <-news:
			w.take(b.newest(), time.Now())
			if w.rests {
				pause = time.After(rest)
			}
		}
		if w.out.Len() > 0 {
			if err := write(w.out.Bytes()); err != nil {
				return err
			}
			w.out = bytes.Buffer{} // a snapshot may have been large
			beat.Reset(b.cfg.Heartbeat)
		}
		if pause != nil {
			select {
			case <-ctx.Done():
			case <-b.done:
			case <-pause:
			}
		}
	}
}

func (b *Board) newest() *frame {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.latest
}

// enter adds a watcher, and starts the look-out for the first one.
func (b *Board) enter() (chan struct{}, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, ErrClosed
	}
	news := make(chan struct{}, 1)
	b.watchers[news] = struct{}{}
	if b.latest != nil {
		news <- struct{}{}
	}
	if b.stop == nil {
		ctx, cancel := context.WithCancel(context.Background())
		b.stop = cancel
		b.loops.Go(func() { b.lookOut(ctx) })
	}
	return news, nil
}

func (b *Board) leave(news chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.watchers, news)
	if len(b.watchers) == 0 && b.stop != nil {
		b.stop()
		b.stop, b.latest = nil, nil
	}
}

// lookOut looks for all watchers until ctx ends.
func (b *Board) lookOut(ctx context.Context) {
	for ctx.Err() == nil {
		began := time.Now()
		f := b.look(ctx)
		pause := max(b.cfg.Every, (share-1)*time.Since(began))
		b.mu.Lock()
		if ctx.Err() == nil {
			b.latest = f
			for news := range b.watchers {
				select {
				case news <- struct{}{}:
				default: // the last ones are still unread
				}
			}
		}
		b.mu.Unlock()
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// watcher is what one viewer was told.
type watcher struct {
	who   Viewer
	known bool // the last frame was told
	last  View
	told  map[string]time.Time // of the latest event on a slot's phase
	out   bytes.Buffer         // to be written
	rests bool                 // the latest was a snapshot in place of too many events
}

// take writes what is new in f.
func (w *watcher) take(f *frame, now time.Time) {
	w.rests = false
	if f.err != nil {
		if w.known || w.told == nil {
			w.event("unavailable", map[string]string{"reason": "store_down"})
		}
		w.known, w.told = false, map[string]time.Time{}
		return
	}
	if !w.known {
		w.last, w.known, w.told = f.view(w.who, true), true, map[string]time.Time{}
		w.event("snapshot", w.last)
		return
	}
	v := f.view(w.who, false)
	list := w.changes(&v, now)
	if w.rests = len(list) > most; w.rests {
		v = f.view(w.who, true)
		list = []change{{"snapshot", v}}
	}
	for _, c := range list {
		w.event(c.name, c.data)
	}
	w.last = v
}

func (w *watcher) event(name string, data any) {
	text, _ := json.Marshal(data) // of types that can be
	m := sse.Message{Type: sse.Type(name)}
	m.AppendData(string(text))
	_, _ = m.WriteTo(&w.out) // a buffer takes everything
}

func (w *watcher) comment(text string) {
	m := sse.Message{}
	m.AppendComment(text)
	_, _ = m.WriteTo(&w.out)
}
