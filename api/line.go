package api

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"time"

	"oneslot/api/board"
	"oneslot/internal/openai"
	"oneslot/ledger"
	"oneslot/proxy/downstream"
	"oneslot/proxy/surface"
	"oneslot/queue"
	"oneslot/queue/line"

	"github.com/labstack/echo/v4"
	"go.uber.org/zap"
)

// newBoard makes what shows the lines of all pools.
func (s *Server) newBoard() *board.Board {
	cfg := board.Config{Live: s.Proxy.Live, Heartbeat: s.cfg.Client.Heartbeat, Lost: func(slot string) bool {
		e := s.engineWith(slot)
		return e != nil && e.Missing()
	}}
	for _, p := range s.Pools {
		cfg.Lines = append(cfg.Lines, p.Queue)
	}
	return board.New(cfg)
}

// lineRoutes are the routes of the line, by way of keyed where any key will do.
func (s *Server) lineRoutes(keyed func(methods []string, h echo.HandlerFunc, paths ...string)) {
	get, remove := []string{http.MethodGet, http.MethodHead}, []string{http.MethodDelete}
	keyed(get, s.line, "/v1/queue")
	keyed(get, s.place, "/v1/queue/:id")
	keyed(remove, s.cancel, "/v1/queue/:id")
	keyed(remove, s.cancelKey, "/v1/queue")
	s.echo.Match(get, "/v1/queue/events", s.events, s.auth)
	for word, gate := range gates() {
		s.echo.POST("/v1/queue/"+word, s.gate(gate, word), s.auth, s.admin, s.bounded)
	}
	s.echo.POST("/v1/queue/slots/:engine/reset", s.reset, s.auth, s.admin, s.bounded)
}

// gates are the last parts of the routes that set the gate.
func gates() map[string]queue.Gate {
	return map[string]queue.Gate{"pause": queue.Paused, "resume": queue.Open, "drain": queue.Draining}
}

func (who caller) viewer() board.Viewer { return board.Viewer{Key: who.name, Admin: who.admin} }

// line shows all pools as one line: slots, and who waits. Others' requests are
// places without names.
func (s *Server) line(c echo.Context) error {
	v, err := s.board.View(c.Request().Context(), callerOf(c).viewer())
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, v)
}

// errHeaders ends a feed of which only the headers were asked for.
var errHeaders = errors.New("api: only the headers")

// events is the feed of what changes in the line, as server-sent events.
func (s *Server) events(c echo.Context) error {
	w := c.Response()
	control := http.NewResponseController(w.Writer)
	err := s.board.Watch(c.Request().Context(), callerOf(c).viewer(), func(events []byte) error {
		_ = control.SetWriteDeadline(time.Now().Add(s.cfg.Client.WriteTimeout)) // a test's writer may have none
		if !w.Committed {
			downstream.EventStream(w.Header())
			if c.Request().Method == http.MethodHead {
				w.WriteHeader(http.StatusOK)
				return errHeaders
			}
		}
		if _, err := w.Write(events); err != nil {
			return err
		}
		return control.Flush()
	})
	if w.Committed {
		return nil // whoever watched has left, is too slow, or was here to the end
	}
	if errors.Is(err, board.ErrClosed) {
		return queue.ErrStopping
	}
	return err
}

var ownID = regexp.MustCompile(`^[0-9a-f]{32}$`)

// requestID reads the id of a request out of a path: its own, or that of its answer.
func requestID(c echo.Context) (string, error) {
	if id := surface.RequestID(c.Param("id")); ownID.MatchString(id) {
		return id, nil
	}
	if _, ok := gates()[c.Param("id")]; ok { // the router takes the word for an id
		c.Response().Header().Set("Allow", "OPTIONS, POST")
		return "", echo.ErrMethodNotAllowed
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
	found, ok, err := s.board.Find(c.Request().Context(), callerOf(c).viewer(), id)
	switch {
	case err != nil:
		return err
	case !ok:
		return unknownRequest()
	}
	return c.JSON(http.StatusOK, found)
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
		if ok, err := pool.Queue.Cancel(id); ok || err != nil {
			return err
		}
	}
	return s.ended(c, id)
}

// ended says why a request that the caller may touch is in no line: how it ended,
// if the ledger knows it, or that its run has ended and its answer has not.
func (s *Server) ended(c echo.Context, id string) error {
	row, err := s.Ledger.Get(c.Request().Context(), id)
	p := unknownRequest()
	switch {
	case err != nil:
	case row.Outcome == ledger.Running:
		p.Status, p.Code = http.StatusConflict, "request_ending"
		p.Message = "Its run has ended and its slot is free: its answer is only being written, or kept for its client to come back for. There is nothing left to cancel."
	case !row.Outcome.Open():
		p.Code = "request_ended"
		p.Message = fmt.Sprintf("It has ended already: %s. `oneslot usage %s`, or GET /v1/usage/%s, shows what it used.", row.Outcome, id, id)
	}
	return p
}

// mayTouch reports whether the caller is an admin or the request's owner, as the
// ledger knows, or the line, where the request is another proxy's.
func (s *Server) mayTouch(c echo.Context, id string) bool {
	who, ctx := callerOf(c), c.Request().Context()
	if who.admin {
		return true
	}
	if row, err := s.Ledger.Get(ctx, id); err == nil {
		return who.owns(row.Key)
	}
	_, found, err := s.board.Find(ctx, who.viewer(), id)
	return found && err == nil
}

// cancelKey ends all requests of a key. Callers may cancel their own.
func (s *Server) cancelKey(c echo.Context) error {
	key, who := c.QueryParam("key"), callerOf(c)
	switch {
	case !c.QueryParams().Has("key"):
		return openai.Invalid("key", "missing_required_parameter", "Say whose requests are to be cancelled: DELETE /v1/queue?key=NAME, or DELETE /v1/queue/{id} for one.")
	case !who.owns(key):
		return adminNeeded("Only an admin key cancels the requests of others.")
	}
	n := 0
	for _, pool := range s.Pools {
		found, err := pool.Queue.CancelKey(key)
		if err != nil {
			return err
		}
		n += found
	}
	s.operated(c, "cancel", zap.String("of", key), zap.Int("requests", n))
	return c.JSON(http.StatusOK, map[string]any{"object": "queue", "key": key, "cancelled": n})
}

// gate returns the handler that sets the gate of all lines.
func (s *Server) gate(to queue.Gate, word string) echo.HandlerFunc {
	return func(c echo.Context) error {
		for _, pool := range s.Pools {
			if err := pool.Queue.Switch(to); err != nil {
				return err
			}
		}
		s.operated(c, word)
		return c.JSON(http.StatusOK, map[string]any{"object": "queue", "paused": to == queue.Paused, "draining": to == queue.Draining})
	}
}

// reset takes the operator's word that an engine is idle.
func (s *Server) reset(c echo.Context) error {
	name := c.Param("engine")
	for _, pool := range s.Pools {
		was, err := pool.Queue.Reset(c.Request().Context(), name)
		switch {
		case err != nil:
			return err
		case was == line.Busy:
			return &openai.Problem{Status: http.StatusConflict, Type: invalid, Code: "slot_busy", Param: "engine", Message: "A request runs on this slot. Cancel it instead: `oneslot cancel ID`, or DELETE /v1/queue/{id}."}
		case was != 0:
			if was != line.Idle {
				s.operated(c, "reset", zap.String("engine", name), zap.String("was", was.String()))
			}
			return c.JSON(http.StatusOK, map[string]any{"object": "queue.slot", "engine": name, "was": was.String()})
		}
	}
	return &openai.Problem{Status: http.StatusNotFound, Type: invalid, Code: "slot_not_found", Param: "engine", Message: "No slot has this name. `oneslot queue`, or GET /v1/queue, lists them."}
}

// operated logs what an operator did.
func (s *Server) operated(c echo.Context, what string, more ...zap.Field) {
	s.Log.Info("operator", append(more, zap.String("id", idOf(c)), zap.String("does", what), zap.String("key", callerOf(c).name))...)
}

// paceOf is how fast an engine reads and writes, as the line knows it.
func paceOf(read, write float64) queue.Pace { return queue.Pace{Prefill: read, Decode: write} }
