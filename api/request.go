package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"oneslot/api/intake"
	"oneslot/api/retry"
	"oneslot/internal/openai"
	"oneslot/ledger"
	"oneslot/proxy"
	"oneslot/proxy/budget"
	"oneslot/proxy/downstream"
	"oneslot/proxy/surface"
	"oneslot/queue"

	"github.com/labstack/echo/v4"
	"go.uber.org/zap"
)

// decode reads and checks everything that can be refused without an engine.
func (s *Server) decode(c echo.Context, x *exchange, a surface.API) error {
	body, err := s.body(c)
	if err != nil {
		return err
	}
	req, talk, err := a.Decode(surface.In{ID: x.row.ID, Key: x.row.Key, Created: x.row.Created, Body: body})
	if err != nil {
		return err
	}
	pool, ok := s.pool(c.Request().Context(), req.Model)
	x.row.Model, x.row.Stream = s.booked(req.Model, pool, ok), req.Stream
	if !ok {
		x.asked = label(req.Model)
		return unknownModel(req.Model)
	}
	who, h := callerOf(c), c.Request().Header
	class, err := who.classOf(h.Get("X-Oneslot-Priority"), req.ServiceTier)
	if err != nil {
		return err
	}
	if x.beat, err = beatOf(s.cfg.Client.Beat, h.Get("X-Oneslot-Heartbeat")); err != nil {
		return err
	}
	field, err := s.fieldOf(who, h.Get("X-Oneslot-Reasoning"), req.HideReasoning)
	if err != nil {
		return err
	}
	ask, err := budget.Read(req.Body, s.cfg.Efforts)
	if err != nil {
		return req.Names.Rename(err)
	}
	if req.Prompt == "" {
		ask = ask.Guard(req.MaxTokens, s.cfg.AnswerReserve)
	}
	if x.ask, err = retry.Read(who.name, h); err != nil {
		return err
	}
	if x.ask.Came = x.began; x.ask.Matters() {
		x.ask.Sum(c.Path(), body)
	}
	x.pool = pool
	x.job = queue.Job{ID: x.row.ID, Key: x.row.Key, User: who.user(req.User), Class: class, Limit: who.maxWaiting, Size: len(body), Most: pool.room(req.MaxTokens, len(body))}
	if s.cfg.RefuseHopeless && !req.Stream {
		x.job.Patience = x.ask.Patience.Most()
	}
	x.row.Class = class.String()
	x.call = &proxy.Call{
		Again: queue.ErrPreempted,
		ID:    x.row.ID, Key: x.row.Key, Request: req, Talk: talk, Field: field,
		Budget: ask, Sources: req.IncludeSources || s.cfg.Sources,
	}
	x.job.Near = s.Proxy.Near(x.call, pool.Engines)
	return nil
}

// pool finds the line for a model name. An engine whose model's name is not configured,
// was never told and cannot be asked for gets the request: its line knows what to do
// with one while the engine is down.
func (s *Server) pool(ctx context.Context, name string) (*Pool, bool) {
	if to, ok := s.cfg.Aliases[name]; ok {
		name = to
	}
	for _, p := range s.Pools {
		if p.model() == name {
			return p, true
		}
	}
	ctx, cancel := context.WithTimeout(ctx, infoBound)
	defer cancel()
	for _, p := range s.Pools {
		if p.Engines[0].Named() {
			continue
		}
		_, _ = p.Engines[0].Info(ctx) // it may have come back as another
		if p.nameless() || p.model() == name {
			return p, true
		}
	}
	return s.Pools[0], s.cfg.AcceptAnyModel
}

// room is how many tokens an answer may have on any engine of the pool.
func (p *Pool) room(limit, prompt int) int {
	for _, e := range p.Engines {
		limit = e.Room(limit, prompt)
	}
	return limit
}

// booked is what the account calls a model: by the client's name for it if that is
// configured, else by the name of the model that serves it, or as unknown. What
// clients make up would grow the sums by model without end.
func (s *Server) booked(name string, pool *Pool, served bool) string {
	if _, alias := s.cfg.Aliases[name]; alias && served {
		return label(name)
	}
	if served {
		return label(pool.model())
	}
	return "unknown"
}

// tried names the model that is unknown, for the log alone.
func (x *exchange) tried() zap.Field {
	if x.asked == "" {
		return zap.Skip()
	}
	return zap.String("asked_model", x.asked)
}

func unknownModel(name string) *openai.Problem {
	return &openai.Problem{
		Status: http.StatusNotFound, Type: invalid, Code: "model_not_found", Param: "model",
		Message: fmt.Sprintf("The model %q does not exist here. GET /v1/models lists the names.", cut(name, maxLabel)),
	}
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

// fieldOf is where thinking goes: what the request hides is hidden, else its
// header says, else its key, else the configuration.
func (s *Server) fieldOf(who caller, header string, hide bool) (openai.ReasoningField, error) {
	field := s.cfg.Field
	if who.field != nil {
		field = *who.field
	}
	if header != "" {
		if err := field.UnmarshalText([]byte(strings.ToLower(header))); err != nil {
			return field, openai.Invalid("", "invalid_value", "X-Oneslot-Reasoning is %q; it must be reasoning_content, reasoning, both, content_tags or hidden.", cut(header, 40))
		}
	}
	if hide {
		field = openai.FieldHidden
	}
	return field, nil
}

// backInLine notes that the request waits again: its slot went to a better one.
func (s *Server) backInLine(x *exchange) {
	x.hold.Store(nil)
	x.wait()
	x.row.Outcome, x.row.Engine = ledger.Queued, ""
	s.note(s.Ledger.Update(x.row))
}

// wait has the client's heartbeats say where it stands.
func (x *exchange) wait() {
	x.client.SetWaiting(func() string {
		if p, ok := x.pool.Queue.Place(x.row.ID); ok {
			return placeText(p)
		}
		return ""
	})
}

// placeText is a place in line as a heartbeat says it.
func placeText(p queue.Place) string {
	text := fmt.Sprintf("queue position=%d of=%d", p.Position, p.Of)
	if p.Position == 0 {
		text = fmt.Sprintf("queue of=%d", p.Of)
	}
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

// record takes what was used into the row.
func (x *exchange) record(r *proxy.Report) {
	x.row.Record(&r.Report)
	x.row.Budget = r.Budget
	x.row.Prefill, x.row.Thinking, x.row.Answer = r.Prefill, r.Thinking, r.Answer
}

// body reads the whole request body: until that is done the server cannot tell
// that a client has left, and no place in line is given to half a request.
func (s *Server) body(c echo.Context) ([]byte, error) {
	if coding := c.Request().Header.Get("Content-Encoding"); coding != "" && !strings.EqualFold(coding, "identity") {
		return nil, &openai.Problem{Status: http.StatusUnsupportedMediaType, Type: invalid, Message: fmt.Sprintf("The request body is compressed (Content-Encoding: %s). Send it as it is.", cut(coding, 40))}
	}
	text, err := bodyOf(c).All(callerOf(c).name)
	cfg := s.bodies.Config()
	switch {
	case err == nil, errors.Is(err, intake.ErrFull), errors.Is(err, intake.ErrKeyFull), errors.Is(err, intake.ErrClosed):
		return text, err
	case errors.Is(err, intake.ErrTooLarge):
		return nil, &openai.Problem{
			Status: http.StatusRequestEntityTooLarge, Type: invalid, Code: "request_too_large",
			Message: fmt.Sprintf("The request body is larger than the limit of %d bytes (limits.body).", cfg.Body),
		}
	case errors.Is(err, intake.ErrSlow):
		return nil, &openai.Problem{
			Status: http.StatusRequestTimeout, Type: invalid, Code: "request_timeout",
			Message: fmt.Sprintf("The request body came too slowly: it has %v, a second more for every %d bytes that have come, and %v at most.", cfg.Patience, cfg.Pace, cfg.Time),
		}
	case errors.Is(err, io.ErrUnexpectedEOF):
		return nil, openai.Invalid("", "", "The request body ended before it was complete.")
	default:
		return nil, openai.Invalid("", "", "The request body cannot be read: its chunks are malformed, or the connection broke.")
	}
}

// bodyOf is the body of a request, nil if it has none.
func bodyOf(c echo.Context) *intake.Body {
	b, _ := c.Get(bodyKey).(*intake.Body)
	return b
}
