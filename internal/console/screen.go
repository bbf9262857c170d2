package console

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"oneslot/api/board"
)

// A Screen is what is known of the line. Its zero value knows nothing yet. It is
// not safe for concurrent use.
type Screen struct {
	view  board.View
	since time.Time // when the view was taken
	moved time.Time // when an event last changed who waits
	lost  time.Time // since when there is no feed; zero while there is one
	known bool
	note  string // why nothing is known
}

// New returns a Screen that shows the view, taken now.
func New(v board.View) *Screen {
	return &Screen{view: v, since: time.Now(), known: true}
}

// Lose takes in that there is no feed any more. The next snapshot ends that.
func (s *Screen) Lose() { s.lost = time.Now() }

// Refresh takes in a view that was asked for at the moment. Where the line has moved
// since, the view may be older than what is known, and only its times until a start
// are taken.
func (s *Screen) Refresh(v board.View, at time.Time) {
	switch {
	case !s.known || !s.lost.IsZero():
		return
	case !s.moved.After(at):
		*s = Screen{view: v, since: time.Now(), moved: s.moved, known: true}
		return
	}
	eta := map[string]*board.Band{}
	for _, w := range v.Waiters {
		eta[w.RequestID] = w.ETA
	}
	for i := range s.view.Waiters {
		w := &s.view.Waiters[i]
		if band, ok := eta[w.RequestID]; ok {
			w.ETA = band
		}
	}
}

// Apply takes in an event of the feed. An unknown one changes nothing; the error is
// that of data which is not what the name says.
func (s *Screen) Apply(name string, data []byte) error {
	now := time.Now()
	var err error
	switch name {
	case "snapshot":
		var v board.View
		if err = json.Unmarshal(data, &v); err == nil {
			*s = Screen{view: v, since: now, known: true}
		}
	case "unavailable":
		s.known, s.note = false, "The line's store does not answer."
	case "joined", "moved":
		s.moved = now
		var w board.Waiter
		if err = json.Unmarshal(data, &w); err == nil {
			if !s.remove(w.RequestID) && name == "joined" {
				s.view.Waiting++
			}
			w.WaitedMS -= now.Sub(s.since).Milliseconds() // as if told with the view
			s.insert(w)
		}
	case "granted", "left":
		s.moved = now
		var gone struct {
			RequestID string `json:"request_id"`
		}
		if err = json.Unmarshal(data, &gone); err == nil {
			if s.remove(gone.RequestID) {
				s.view.Waiting--
			}
		}
	case "slot", "phase":
		var slot board.Slot
		if err = json.Unmarshal(data, &slot); err == nil {
			slot.SinceMS -= now.Sub(s.since).Milliseconds()
			s.slot(slot)
		}
	case "line":
		err = json.Unmarshal(data, &s.view) // a part of it
		if len(s.view.Waiters) > s.view.Waiting {
			s.view.Waiters = slices.DeleteFunc(s.view.Waiters, func(w board.Waiter) bool { return w.RequestID == "" })
		}
	}
	if err != nil {
		return fmt.Errorf("console: the event %s: %w", name, err)
	}
	return nil
}

// remove takes a request out of line. It reports whether it was there.
func (s *Screen) remove(id string) bool {
	all := len(s.view.Waiters)
	s.view.Waiters = slices.DeleteFunc(s.view.Waiters, func(w board.Waiter) bool { return w.RequestID == id })
	return len(s.view.Waiters) < all
}

// insert puts a waiter in order, in place of another's that was thought to be there.
func (s *Screen) insert(w board.Waiter) {
	s.view.Waiters = slices.DeleteFunc(s.view.Waiters, func(old board.Waiter) bool { return old.RequestID == "" && old.Position == w.Position })
	at, _ := slices.BinarySearchFunc(s.view.Waiters, w, func(a, b board.Waiter) int { return a.Position - b.Position })
	s.view.Waiters = slices.Insert(s.view.Waiters, at, w)
}

func (s *Screen) slot(slot board.Slot) {
	for i := range s.view.Slots {
		if s.view.Slots[i].Engine == slot.Engine {
			s.view.Slots[i] = slot
		}
	}
	s.view.Running = s.view.Busy()
}
