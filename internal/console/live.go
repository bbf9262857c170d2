package console

import (
	"bytes"
	"context"
	"time"

	"oneslot/api/board"
)

// asked is a view, and when it was asked for.
type asked struct {
	view board.View
	at   time.Time
}

// live is what changes a live table.
type live struct {
	notes  <-chan note
	views  <-chan asked
	failed <-chan error
}

// refresh asks for the view now and then until ctx ends. What is wrong with the
// proxy the feed finds out.
func (w *Watch) refresh(ctx context.Context, views chan<- asked) {
	pause := refreshEvery
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		began := time.Now()
		v, err := w.View(ctx)
		pause = max(refreshEvery, (share-1)*time.Since(began))
		if err != nil {
			continue
		}
		select {
		case views <- asked{v, began}:
		case <-ctx.Done():
		}
	}
}

// live keeps a table up to date, every second and with every event, until ctx or
// the feed ends. It leaves a whole table.
func (w *Watch) live(ctx context.Context, from live) error {
	var s Screen
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			_ = w.draw(&s) // over what the terminal shows of Ctrl-C
			return ctx.Err()
		case err := <-from.failed:
			return err
		case n := <-from.notes:
			if n.lost {
				s.Lose()
			} else if err := s.Apply(n.event.Type, []byte(n.event.Data)); err != nil {
				return err
			}
		case a := <-from.views:
			s.Refresh(a.view, a.at)
		case <-w.Resized:
		case <-tick.C:
		}
		if err := w.draw(&s); err != nil {
			return err
		}
	}
}

// draw writes the table over the last one, in one piece. The last row and column
// stay free, so that nothing scrolls and nothing wraps.
func (w *Watch) draw(s *Screen) error {
	win := w.Window()
	win = Window{Rows: max(win.Rows-1, 1), Columns: max(win.Columns-1, 1)}
	b := bytes.NewBufferString("\x1b[H") // to the top, over what is there
	_ = s.Table(b, win)                  // a buffer takes everything
	text := append(bytes.ReplaceAll(b.Bytes(), []byte("\n"), []byte("\x1b[K\n")), "\x1b[J"...)
	_, err := w.Out.Write(text)
	return err
}
