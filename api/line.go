package api

import (
	"math"
	"net/http"
	"regexp"
	"time"

	"oneslot/internal/openai"
	"oneslot/proxy"
	"oneslot/queue"
	"oneslot/queue/line"
	"oneslot/usage"

	"github.com/labstack/echo/v4"
)

// lineView is GET /v1/queue.
type lineView struct {
	Object  string     `json:"object"`
	Waiting int        `json:"waiting"`
	Running int        `json:"running"`
	Limit   int        `json:"limit"`
	Paused  bool       `json:"paused"`
	Slots   []slotView `json:"slots"`
	Waiters []any      `json:"waiters"` // waiterView or placeView
	Recent  recentView `json:"recent"`
}

// slotView is one engine slot. Figures nobody has told are null.
type slotView struct {
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

// waiterView is one place in line, with its request.
type waiterView struct {
	RequestID string    `json:"request_id"`
	Position  int       `json:"position"`
	Priority  string    `json:"priority"`
	Key       string    `json:"key,omitempty"`
	WaitedMS  int64     `json:"waited_ms"`
	ETA       *bandView `json:"eta_seconds"`
}

// placeView is a place whose request is somebody else's.
type placeView struct {
	Position int `json:"position"`
}

type bandView struct {
	P50 float64 `json:"p50"`
	P90 float64 `json:"p90"`
}

type recentView struct {
	SlotSeconds *bandView `json:"slot_seconds"`
	Requests    int       `json:"requests"`
}

func bandOf(b *queue.Band) *bandView {
	if b == nil {
		return nil
	}
	round := func(d time.Duration) float64 { return d.Round(100 * time.Millisecond).Seconds() }
	return &bandView{round(b.P50), round(b.P90)}
}

// line shows all pools as one line: slots, and who waits. Others' requests are
// places without names.
func (s *Server) line(c echo.Context) error {
	who := callerOf(c)
	v := lineView{Object: "queue", Slots: []slotView{}, Waiters: []any{}}
	for _, pool := range s.Pools {
		snap, err := pool.Queue.Snapshot(c.Request().Context())
		if err != nil {
			return err
		}
		v.Paused = v.Paused || snap.Paused
		v.Limit += snap.MaxWaiting
		v.Waiting += len(snap.Waiting)
		for _, slot := range snap.Slots {
			if slot.State == line.Busy {
				v.Running++
			}
			v.Slots = append(v.Slots, s.slot(c, slot))
		}
		for _, w := range snap.Waiting {
			if who.owns(w.Key) {
				v.Waiters = append(v.Waiters, waiter(w))
			} else {
				v.Waiters = append(v.Waiters, placeView{w.Position})
			}
		}
		if snap.Jobs >= v.Recent.Requests { // of several lines the busiest
			v.Recent = recentView{bandOf(snap.Recent), snap.Jobs}
		}
	}
	return c.JSON(http.StatusOK, v)
}

// slot shows one slot, and its request to whose it is.
func (s *Server) slot(c echo.Context, slot queue.Slot) slotView {
	v := slotView{Engine: slot.Name, State: slot.State.String(), SinceMS: slot.For.Milliseconds()}
	if slot.State == line.Idle || slot.ID == "" || !s.mayTouch(c, slot.ID) {
		return v
	}
	v.RequestID = slot.ID
	live, ok := s.Proxy.Live(slot.ID)
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

func waiter(w queue.Waiter) waiterView {
	return waiterView{RequestID: w.ID, Position: w.Position, Priority: w.Class.String(), Key: w.Key, WaitedMS: w.Waited.Milliseconds(), ETA: bandOf(w.ETA)}
}

var responseID = regexp.MustCompile(`^(?:chatcmpl-|cmpl-|resp_|msg_)?([0-9a-f]{32})$`)

// requestID reads the id of a request out of a path, in either form.
func requestID(c echo.Context) (string, error) {
	if m := responseID.FindStringSubmatch(c.Param("id")); m != nil {
		return m[1], nil
	}
	return "", unknownRequest()
}

func unknownRequest() *openai.Problem {
	return &openai.Problem{
		Status: http.StatusNotFound, Type: invalid, Code: "request_not_found", Param: "id",
		Message: "No such request is known here. Its id is in the X-Request-Id header of its response.",
	}
}

// place shows one request that waits or runs.
func (s *Server) place(c echo.Context) error {
	id, err := requestID(c)
	if err != nil {
		return err
	}
	for _, pool := range s.Pools {
		snap, err := pool.Queue.Snapshot(c.Request().Context())
		if err != nil {
			return err
		}
		for _, w := range snap.Waiting {
			if w.ID == id && callerOf(c).owns(w.Key) {
				return c.JSON(http.StatusOK, struct {
					Object string `json:"object"`
					State  string `json:"state"`
					waiterView
				}{"queue.request", "queued", waiter(w)})
			}
		}
		for _, slot := range snap.Slots {
			if v := s.slot(c, slot); v.RequestID == id {
				if slot.State == line.Busy {
					v.State = "running" // of the request, not of the slot
				}
				return c.JSON(http.StatusOK, struct {
					Object string `json:"object"`
					slotView
				}{"queue.request", v})
			}
		}
	}
	return unknownRequest()
}

// cancel ends a request that waits or runs and says so.
func (s *Server) cancel(c echo.Context) error {
	if err := s.cancelled(c); err != nil {
		return err
	}
	id, _ := requestID(c)
	return c.JSON(http.StatusOK, map[string]any{"object": "queue.request", "request_id": id, "state": "cancelled"})
}

// cancelled ends a request that waits or runs. Callers may cancel their own.
func (s *Server) cancelled(c echo.Context) error {
	id, err := requestID(c)
	if err != nil {
		return err
	}
	if !s.mayTouch(c, id) {
		return unknownRequest()
	}
	for _, pool := range s.Pools {
		ok, err := pool.Queue.Cancel(id)
		if err != nil {
			return err
		}
		if ok {
			return nil
		}
	}
	return unknownRequest()
}

// mayTouch reports whether the caller is an admin or the request's owner, as the
// ledger knows.
func (s *Server) mayTouch(c echo.Context, id string) bool {
	who := callerOf(c)
	if who.admin {
		return true
	}
	row, err := s.Ledger.Get(c.Request().Context(), id)
	return err == nil && who.owns(row.Key)
}
