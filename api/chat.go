package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"oneslot/internal/openai"
	"oneslot/ledger"
	"oneslot/proxy"
	"oneslot/proxy/downstream"
	"oneslot/queue"
	"oneslot/usage"

	"github.com/labstack/echo/v4"
)

// exchange is one queued request on its way: what was asked and what became of it.
type exchange struct {
	call  *proxy.Call
	pool  *Pool
	class queue.Class
	beat  downstream.Beat
	row   ledger.Row
	began time.Time
}

// chat is the whole life of a request: decode, wait, stream, account.
func (s *Server) chat(c echo.Context) error {
	x := &exchange{began: time.Now(), row: s.newRow(c)}
	if err := s.decode(c, x); err != nil {
		s.close(c, x, notRun(), err)
		return err
	}
	s.note(s.Ledger.Begin(x.row))
	client, err := s.client(c, x)
	if err != nil {
		return err
	}
	defer client.Release()
	defer s.crashed(c, x, client)
	report, err := s.run(c.Request().Context(), x, client)
	if err != nil {
		x.row.Status = client.Fail(err)
	}
	s.close(c, x, report, err)
	return nil
}

// crashed closes the account of a request whose handler panics, and lets the
// panic go on to where it is logged.
func (s *Server) crashed(c echo.Context, x *exchange, client *downstream.Client) {
	if p := recover(); p != nil {
		x.row.Status = client.Fail(errPanic)
		s.close(c, x, notRun(), errPanic)
		panic(p)
	}
}

// errPanic is the error of a request whose handler panicked.
var errPanic = errors.New("api: panic")

func notRun() proxy.Report { return proxy.Report{Report: usage.Report{Tokens: usage.NotRun()}} }

// run waits for the slot and has the answer written.
func (s *Server) run(ctx context.Context, x *exchange, client *downstream.Client) (report proxy.Report, err error) {
	report = notRun()
	job := queue.Job{ID: x.row.ID, Key: x.row.Key, Class: x.class}
	err = x.pool.Queue.Do(ctx, job, func(ctx context.Context, hold *queue.Hold) error {
		x.row.Outcome, x.row.Engine, x.row.QueueWait = ledger.Running, hold.Slot, hold.Waited
		s.note(s.Ledger.Update(x.row))
		began := time.Now()
		x.call.Slot, x.call.Idle = hold.Slot, hold.Idle
		var err error
		report, err = s.Proxy.Serve(ctx, x.call, client)
		x.row.Slot = time.Since(began)
		return err
	})
	if x.row.Engine == "" {
		x.row.QueueWait = time.Since(x.began)
	}
	return report, err
}

// client makes the client's side, which keeps it alive and informed in line.
func (s *Server) client(c echo.Context, x *exchange) (*downstream.Client, error) {
	cfg := s.cfg.Client
	cfg.Stream, cfg.Beat = x.call.Request.Stream, x.beat
	client, err := downstream.New(c.Response(), c.Request(), cfg)
	if err != nil {
		return nil, err
	}
	client.OnCommit(func(h http.Header) {
		if p, ok := x.pool.Queue.Place(x.row.ID); ok && p.Position > 0 {
			h.Set("X-Oneslot-Position", strconv.Itoa(p.Position))
		}
		h.Set("X-Oneslot-Wait-Ms", strconv.FormatInt(x.waited().Milliseconds(), 10))
	})
	client.SetStatus(func() string {
		if p, ok := x.pool.Queue.Place(x.row.ID); ok {
			return placeText(p)
		}
		return ""
	})
	return client, nil
}

// waited is how long the request has been, or was, in line.
func (x *exchange) waited() time.Duration {
	if x.row.Engine != "" {
		return x.row.QueueWait
	}
	return time.Since(x.began)
}

// placeText is a place in line as a heartbeat says it.
func placeText(p queue.Place) string {
	text := fmt.Sprintf("queue position=%d of=%d", p.Position, p.Of)
	if p.ETA != nil {
		text += fmt.Sprintf(" eta=%d-%ds", int(p.ETA.P50.Seconds()), int(p.ETA.P90.Seconds()))
	}
	return text
}

// decode reads and checks everything that can be refused without an engine.
func (s *Server) decode(c echo.Context, x *exchange) error {
	body, err := s.body(c)
	if err != nil {
		return err
	}
	req, err := openai.DecodeChat(body)
	if err != nil {
		return err
	}
	x.row.Model, x.row.Stream = cut(req.Model, maxLabel), req.Stream
	pool, ok := s.pool(req.Model)
	if !ok {
		return &openai.Problem{
			Status: http.StatusNotFound, Type: "invalid_request_error", Code: "model_not_found", Param: "model",
			Message: fmt.Sprintf("The model %q does not exist here. GET /v1/models lists the names.", cut(req.Model, maxLabel)),
		}
	}
	who, h := callerOf(c), c.Request().Header
	class, err := who.classOf(h.Get("X-Oneslot-Priority"), req.ServiceTier)
	if err != nil {
		return err
	}
	if x.beat, err = beatOf(s.cfg.Client.Beat, h.Get("X-Oneslot-Heartbeat")); err != nil {
		return err
	}
	field := s.cfg.Field
	if req.HideReasoning {
		field = openai.FieldHidden
	}
	x.pool, x.class = pool, class
	x.row.Class = class.String()
	x.call = &proxy.Call{ID: x.row.ID, Key: x.row.Key, ResponseID: "chatcmpl-" + x.row.ID, Request: req, Created: x.row.Created, Field: field, Sources: req.IncludeSources || s.cfg.Sources}
	return nil
}

// beatOf is how a request wants to be kept alive; it may differ from the
// configuration for a client that cannot read comments.
func beatOf(usual downstream.Beat, header string) (downstream.Beat, error) {
	if header == "" {
		return usual, nil
	}
	var b downstream.Beat
	if err := b.UnmarshalText([]byte(strings.ToLower(header))); err != nil {
		return usual, openai.Invalid("", "invalid_value", "X-Oneslot-Heartbeat is %q; it must be comment, chunk or off.", cut(header, 40))
	}
	return b, nil
}

// body reads the whole request body: until that is done the server cannot tell
// that a client has left, and no place in line is given to half a request.
func (s *Server) body(c echo.Context) ([]byte, error) {
	w, r := c.Response().Writer, c.Request()
	control := http.NewResponseController(w)
	// A writer without deadlines (a test's) is read all the same.
	_ = control.SetReadDeadline(time.Now().Add(s.cfg.BodyTime))
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, s.cfg.Body))
	_ = control.SetReadDeadline(time.Time{})
	var large *http.MaxBytesError
	var slow interface{ Timeout() bool }
	switch {
	case err == nil:
		return body, nil
	case errors.As(err, &large):
		return nil, &openai.Problem{
			Status: http.StatusRequestEntityTooLarge, Type: "invalid_request_error", Code: "request_too_large",
			Message: fmt.Sprintf("The request body is larger than the limit of %d bytes (limits.body).", large.Limit),
		}
	case errors.As(err, &slow) && slow.Timeout():
		return nil, &openai.Problem{Status: http.StatusRequestTimeout, Type: "invalid_request_error", Code: "request_timeout", Message: fmt.Sprintf("The request body did not arrive within %v.", s.cfg.BodyTime)}
	default:
		return nil, openai.Invalid("", "", "The request body ended before it was complete.")
	}
}
