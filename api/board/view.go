package board

import (
	"encoding/json"
	"math"
	"time"

	"oneslot/proxy"
	"oneslot/queue"
	"oneslot/queue/line"
	"oneslot/usage"
)

// A Viewer is who looks.
type Viewer struct {
	// Key is whose requests are shown whole.
	Key string
	// Admin sees everybody's.
	Admin bool
}

// owns reports whether a request of the named key is the viewer's to see.
func (v Viewer) owns(key string) bool { return v.Admin || key == v.Key }

// View is the line as GET /v1/queue shows it.
type View struct {
	Object   string   `json:"object"`
	Waiting  int      `json:"waiting"`
	Running  int      `json:"running"`
	Limit    int      `json:"limit"`
	Paused   bool     `json:"paused"`
	Draining bool     `json:"draining"`
	Slots    []Slot   `json:"slots"`
	Waiters  []Waiter `json:"waiters"`
	Recent   Recent   `json:"recent"`
}

// Busy counts the slots in which a request runs.
func (v *View) Busy() (n int) {
	for _, s := range v.Slots {
		if s.State == line.Busy.String() {
			n++
		}
	}
	return n
}

// Held says why nobody in line gets a slot for now: draining, paused, or down; empty
// if somebody may.
func (v *View) Held() string {
	switch {
	case v.Draining:
		return "draining"
	case v.Paused:
		return "paused"
	}
	for _, s := range v.Slots {
		if s.State != line.Down.String() && s.State != line.Poisoned.String() {
			return ""
		}
	}
	return line.Down.String()
}

// Slot is one engine slot. Figures nobody has told are null.
type Slot struct {
	Engine    string      `json:"engine"`
	State     string      `json:"state"`
	RequestID string      `json:"request_id,omitempty"`
	Phase     proxy.Phase `json:"phase,omitempty"`
	SinceMS   int64       `json:"since_ms"`
	Prompt    *int        `json:"prompt_tokens"`
	Thinking  *int        `json:"thinking_tokens"`
	Answer    *int        `json:"answer_tokens"`
	Speed     *float64    `json:"tokens_per_second"`
}

// Waiter is one place in line, with its request if that is the viewer's.
type Waiter struct {
	RequestID string `json:"request_id"`
	Position  int    `json:"position"`
	Priority  string `json:"priority"`
	Key       string `json:"key,omitempty"`
	WaitedMS  int64  `json:"waited_ms"`
	ETA       *Band  `json:"eta_seconds"`
}

// MarshalJSON leaves all but the position out of somebody else's place.
func (w Waiter) MarshalJSON() ([]byte, error) {
	if w.RequestID == "" {
		return json.Marshal(struct {
			Position int `json:"position"`
		}{w.Position})
	}
	type whole Waiter
	return json.Marshal(whole(w))
}

// Band is an estimate in seconds.
type Band struct {
	P50 float64 `json:"p50"`
	P90 float64 `json:"p90"`
}

// Recent is how long slots were held of late.
type Recent struct {
	SlotSeconds *Band `json:"slot_seconds"`
	Requests    int   `json:"requests"`
}

func bandOf(b *queue.Band) *Band {
	if b == nil {
		return nil
	}
	round := func(d time.Duration) float64 { return d.Round(100 * time.Millisecond).Seconds() }
	return &Band{round(b.P50), round(b.P90)}
}

// frame is all lines at one moment.
type frame struct {
	lines []queue.Snapshot
	live  map[string]proxy.Live // what runs here
	lost  map[string]bool       // slots whose engine was just found not to be there
	err   error                 // of a store that did not answer; then there is nothing else
}

// view is what the viewer may see, all lines as one. Without places, those of
// others in line are left out.
func (f *frame) view(who Viewer, places bool) View {
	v := View{Object: "queue", Slots: []Slot{}, Waiters: []Waiter{}}
	for _, snap := range f.lines {
		v.Paused = v.Paused || snap.Gate == queue.Paused
		v.Draining = v.Draining || snap.Gate == queue.Draining
		v.Limit += snap.MaxWaiting
		v.Waiting += len(snap.Waiting)
		for _, slot := range snap.Slots {
			v.Slots = append(v.Slots, f.slot(who, slot))
		}
		for _, w := range snap.Waiting {
			if who.owns(w.Key) {
				v.Waiters = append(v.Waiters, waiter(w))
			} else if places {
				v.Waiters = append(v.Waiters, Waiter{Position: w.Position})
			}
		}
		if snap.Jobs >= v.Recent.Requests { // of several lines the busiest
			v.Recent = Recent{bandOf(snap.Recent), snap.Jobs}
		}
	}
	v.Running = v.Busy()
	if v.Held() != "" { // also by an engine that was just found not to be there
		for i := range v.Waiters {
			v.Waiters[i].ETA = nil
		}
	}
	return v
}

// slot shows one slot, and its request to whose it is.
func (f *frame) slot(who Viewer, slot queue.Slot) Slot {
	v := Slot{Engine: slot.Name, State: slot.State.String(), SinceMS: slot.For.Milliseconds()}
	if slot.State == line.Idle && f.lost[slot.Name] {
		v.State = line.Down.String()
	}
	if slot.State == line.Idle || slot.State == line.Down || slot.ID == "" || !who.owns(slot.Key) {
		return v // the request after which a slot is down has ended
	}
	v.RequestID = slot.ID
	live, ok := f.live[slot.ID]
	if !ok {
		return v
	}
	v.Phase = live.Phase
	v.Prompt, v.Thinking, v.Answer = number(live.Tokens.Prompt), number(live.Tokens.Thinking), number(live.Tokens.Answer)
	if live.Speed > 0 {
		speed := math.Round(live.Speed*10) / 10
		v.Speed = &speed
	}
	return v
}

// number is a figure, or nil while nobody has told it.
func number(c usage.Count) *int {
	if !c.Known() {
		return nil
	}
	return &c.N
}

func waiter(w queue.Waiter) Waiter {
	return Waiter{RequestID: w.ID, Position: w.Position, Priority: w.Class.String(), Key: w.Key, WaitedMS: w.Waited.Milliseconds(), ETA: bandOf(w.ETA)}
}

// Request is one request that waits or runs, as GET /v1/queue/{id} shows it: one
// of its two halves.
type Request struct {
	// Object is queue.request.
	Object string `json:"object"`
	// State is queued, or running, or the state of the slot that it left behind.
	State string `json:"state"`
	*Waiter
	*Slot
}

// MarshalJSON writes the half that is there.
func (r Request) MarshalJSON() ([]byte, error) {
	if r.Waiter != nil {
		type whole Waiter
		return json.Marshal(struct {
			Object string `json:"object"`
			State  string `json:"state"`
			whole
		}{r.Object, r.State, whole(*r.Waiter)})
	}
	slot := *r.Slot
	slot.State = r.State
	return json.Marshal(struct {
		Object string `json:"object"`
		Slot
	}{r.Object, slot})
}
