package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"oneslot/internal/openai"
	"oneslot/ledger"
	"oneslot/proxy"
	"oneslot/proxy/budget"
	"oneslot/proxy/downstream"
	"oneslot/proxy/surface"
	"oneslot/proxy/surface/responses"
	"oneslot/queue"

	"github.com/labstack/echo/v4"
)

// exchange is one queued request on its way: what was asked and what became of it.
type exchange struct {
	call   *proxy.Call
	pool   *Pool
	class  queue.Class
	limit  int // of the key in line; 0 is the line's own
	beat   downstream.Beat
	client *downstream.Client // nil until the line is joined
	row    ledger.Row
	began  time.Time
	hold   atomic.Pointer[queue.Hold] // the heartbeat timer looks at it too
}

// ran reports whether the request got a slot.
func (x *exchange) ran() bool { return x.hold.Load() != nil }

// waited is how long the request has been, or was, in line.
func (x *exchange) waited() time.Duration {
	if hold := x.hold.Load(); hold != nil {
		return hold.Waited
	}
	return time.Since(x.began)
}

// answer returns the whole life of a request of one API: decode, wait, stream,
// account.
func (s *Server) answer(a surface.API) echo.HandlerFunc {
	return func(c echo.Context) error { return s.serve(c, a) }
}

func (s *Server) serve(c echo.Context, a surface.API) error {
	x := &exchange{began: time.Now(), row: s.newRow(c)}
	defer s.leave(c, x)
	if err := s.decode(c, x, a); err != nil {
		s.close(c, x, proxy.NotRun(), err)
		return err
	}
	s.note(s.Ledger.Begin(x.row))
	if err := s.connect(c, x); err != nil {
		s.close(c, x, proxy.NotRun(), err)
		return err
	}
	report, err := s.run(c.Request().Context(), x)
	x.row.QueueWait = x.waited()
	x.end(c, err)
	s.close(c, x, report, err)
	return nil
}

// end tells the client of err, if it is still there, and notes the status that
// it got: a stream that has begun, or a cancelled run, has its status already.
func (x *exchange) end(c echo.Context, err error) {
	if err != nil && judge(err).status != statusClientClosed {
		x.client.Fail(err)
	}
	x.client.Release()
	if c.Response().Committed {
		x.row.Status = c.Response().Status
	}
}

// leave is the end of a request whose handler panics: it gets its outcome, and
// the panic goes on to where it is logged.
func (s *Server) leave(c echo.Context, x *exchange) {
	p := recover()
	if p == nil {
		return
	}
	report := proxy.NotRun()
	if x.ran() {
		report = proxy.Report{} // what it used, nobody knows
	}
	if x.client != nil {
		x.end(c, errPanic)
	}
	if c.Get(closedKey) == nil {
		s.close(c, x, report, errPanic)
	}
	panic(p)
}

// errPanic is the error of a request whose handler panicked.
var errPanic = errors.New("api: panic")

// run waits for the slot and has the answer written.
func (s *Server) run(ctx context.Context, x *exchange) (report proxy.Report, err error) {
	report = proxy.NotRun()
	job := queue.Job{ID: x.row.ID, Key: x.row.Key, Class: x.class, Limit: x.limit}
	err = x.pool.Queue.Do(ctx, job, func(ctx context.Context, hold *queue.Hold) error {
		x.hold.Store(hold)
		x.row.Outcome, x.row.Engine, x.row.QueueWait = ledger.Running, hold.Slot, hold.Waited
		s.note(s.Ledger.Update(x.row))
		began := time.Now()
		x.call.Slot, x.call.Idle = hold.Slot, hold.Idle
		defer func() { x.row.Slot = time.Since(began) }()
		var err error
		report, err = s.Proxy.Serve(ctx, x.call, x.client)
		if p := (*openai.Problem)(nil); errors.As(err, &p) && !errors.Is(err, proxy.ErrEngine) {
			err = fmt.Errorf("%w: %w", errRefused, err)
		}
		return err
	})
	return report, err
}

// connect makes the client's side, which keeps it alive and informed in line.
func (s *Server) connect(c echo.Context, x *exchange) error {
	cfg := s.cfg.Client
	cfg.Stream, cfg.Beat, cfg.Voice = x.call.Request.Stream, x.beat, x.call.Talk
	client, err := downstream.New(c.Response(), c.Request(), cfg)
	if err != nil {
		return err
	}
	client.OnCommit(func(h http.Header) {
		if p, ok := x.pool.Queue.Place(x.row.ID); ok && p.Position > 0 {
			h.Set("X-Oneslot-Position", strconv.Itoa(p.Position))
		}
		h.Set("X-Oneslot-Wait-Ms", strconv.FormatInt(x.waited().Milliseconds(), 10))
	})
	if x.call.Budget.Tokens != budget.NoLimit && s.Proxy.Unsupported(x.call, x.pool.Slots()) {
		client.AddHeader("X-Oneslot-Budget", "unsupported")
	}
	client.SetWaiting(func() string {
		if p, ok := x.pool.Queue.Place(x.row.ID); ok {
			return placeText(p)
		}
		return ""
	})
	x.client = client
	return nil
}

// response shows an answer to /v1/responses that is kept, or forgets it. Callers
// have their own.
func (s *Server) response(c echo.Context) error {
	who, do := callerOf(c), s.responses.Get
	if c.Request().Method == http.MethodDelete {
		do = s.responses.Delete
	}
	text, err := do(c.Param("id"), who.name, who.admin)
	if err != nil {
		return err
	}
	return c.Blob(http.StatusOK, "application/json", text)
}

// cancelResponse ends a response that waits or is being written; one that has
// ended stays as it is.
func (s *Server) cancelResponse(c echo.Context) error {
	if err := s.cancelled(c); err != nil {
		if kept := s.response(c); kept != nil {
			return err
		}
		return nil
	}
	id, _ := requestID(c)
	row, err := s.Ledger.Get(c.Request().Context(), id)
	if err != nil {
		return err
	}
	return c.Blob(http.StatusOK, "application/json", responses.Cancelled(id, row.Model, row.Created))
}

// placeText is a place in line as a heartbeat says it.
func placeText(p queue.Place) string {
	text := fmt.Sprintf("queue position=%d of=%d", p.Position, p.Of)
	switch {
	case p.Gate == queue.Paused:
		text += " paused"
	case p.Ill != 0:
		text += " engine=" + p.Ill.String()
	}
	if p.ETA != nil {
		text += fmt.Sprintf(" eta=%d-%ds", int(p.ETA.P50.Seconds()), int(p.ETA.P90.Seconds()))
	}
	return text
}
