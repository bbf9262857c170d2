package console

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"oneslot/api/board"

	"github.com/tmaxmax/go-sse"
)

// A Watch shows the line for as long as it is wanted, over restarts of the proxy.
type Watch struct {
	// Feed opens the feed, which ends with the context.
	Feed func(ctx context.Context) (io.ReadCloser, error)
	// View asks for the whole line.
	View func(ctx context.Context) (board.View, error)
	// Final reports whether an error of Feed is the same at every further try.
	Final func(error) bool
	// Out gets the table, or the lines of text.
	Out io.Writer
	// Window is the size of the terminal. Nil means that Out is none: then a line is
	// written for each event.
	Window func() Window
	// Resized tells that the terminal has another size. Nil means that nothing does.
	Resized <-chan os.Signal
	// Patience is how long the proxy may be away. Zero means a minute.
	Patience time.Duration
}

const (
	maxFeedEvent = 64 << 20        // bytes of one event: a snapshot of many
	retryEvery   = time.Second     // between two tries to reach the proxy
	refreshEvery = 2 * time.Second // between two views, unless they take long
	share        = 20              // asking for views takes at most one part in so many of the time
)

// errEnded says that the proxy has closed the feed.
var errEnded = errors.New("the feed has ended: the proxy stops, or this terminal was too slow")

// note is what the reader of the feed tells: an event, or that there is no feed.
type note struct {
	event sse.Event
	lost  bool
}

// Run shows the line until ctx ends, or the feed for good.
func (w *Watch) Run(ctx context.Context) error {
	var workers sync.WaitGroup
	defer workers.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	notes, failed := make(chan note), make(chan error, 1)
	workers.Go(func() { failed <- w.follow(ctx, notes) })
	if w.Window == nil {
		return w.plain(notes, failed)
	}
	views := make(chan asked)
	workers.Go(func() { w.refresh(ctx, views) })
	return w.live(ctx, live{notes, views, failed})
}

// follow reads feed after feed until ctx ends, or the proxy is away for too long.
func (w *Watch) follow(ctx context.Context, notes chan<- note) error {
	patience := w.Patience
	if patience == 0 {
		patience = time.Minute
	}
	var away time.Time
	for started := false; ; {
		seen, err := w.read(ctx, notes)
		if seen {
			started, away = true, time.Time{}
		}
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case !started, w.Final(err):
			return err
		case away.IsZero():
			away = time.Now()
			if err := tell(ctx, notes, note{lost: true}); err != nil {
				return err
			}
		case time.Since(away) >= patience:
			return fmt.Errorf("given up after %v: %w", patience, err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(retryEvery):
		}
	}
}

// read passes the events of one feed on. It reports whether there was one.
func (w *Watch) read(ctx context.Context, notes chan<- note) (seen bool, err error) {
	feed, err := w.Feed(ctx)
	if err != nil {
		return false, err
	}
	defer feed.Close()
	for e, err := range sse.Read(feed, &sse.ReadConfig{MaxEventSize: maxFeedEvent}) {
		if err != nil {
			return seen, err
		}
		if err := tell(ctx, notes, note{event: e}); err != nil {
			return seen, err
		}
		seen = true
	}
	return seen, errEnded
}

func tell(ctx context.Context, notes chan<- note, n note) error {
	select {
	case notes <- n:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// plain writes the line as it is, and then a line of text for each event.
func (w *Watch) plain(notes <-chan note, failed <-chan error) error {
	for {
		select {
		case err := <-failed:
			return err
		case n := <-notes:
			text, err := n.text(time.Now())
			if err != nil {
				return err
			}
			if _, err := io.WriteString(w.Out, text); err != nil {
				return err
			}
		}
	}
}

func (n note) text(now time.Time) (string, error) {
	if n.lost {
		return now.Format(time.TimeOnly) + " reconnecting…\n", nil
	}
	data := []byte(n.event.Data)
	if n.event.Type != "snapshot" {
		return Line(now, n.event.Type, data) + "\n", nil
	}
	var s Screen
	var b bytes.Buffer
	err := errors.Join(s.Apply(n.event.Type, data), s.Table(&b, Window{}))
	return b.String(), err
}
