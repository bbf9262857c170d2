package api

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
	"unicode"

	"oneslot/internal/openai"
	"oneslot/internal/telemetry"
	"oneslot/ledger"
	"oneslot/proxy"
	"oneslot/proxy/surface/messages"
	"oneslot/queue"
	"oneslot/usage"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"
	"go.uber.org/zap"
)

// maxLabel bounds a client's own words in the ledger and the log, in bytes.
const maxLabel = 128

const (
	idKey   = "id"
	bodyKey = "body" // *intake.Body, of requests that have one
)

// access gives every request its id, bounds the time for its body, and sees to
// it that each gets an answer.
func (s *Server) access(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		id := newID()
		c.Set(idKey, id)
		c.Response().Header().Set("X-Request-Id", id)
		if s.wording(c) == (messages.API{}) {
			c.Response().Header().Set("Request-Id", id) // Anthropic's name for it
		}
		if body := s.bodies.Open(c.Response().Writer, c.Request()); body != nil {
			defer func() { bodyOf(c).Close() }() // unless it is an exchange's
			c.Set(bodyKey, body)
			c.Response().Before(func() { body.Settle(c.Response().Header()) })
		}
		err := next(c)
		if err != nil {
			c.Error(err)
		}
		if c.Get(partedKey) != nil {
			return nil
		}
		status := c.Response().Status
		s.Metrics.Request(c.Path(), status, strings.HasPrefix(c.Response().Header().Get("Content-Type"), "text/event-stream"))
		if status >= http.StatusInternalServerError && status != http.StatusServiceUnavailable && c.Get(closedKey) == nil {
			s.Log.Error("request failed", zap.String("id", id), zap.String("path", c.Path()), zap.Int("status", status), zap.String("error", errorText(err)))
		}
		return nil
	}
}

// bounded gives an answer that is written in one go the time for it.
func (s *Server) bounded(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		s.bound(c)
		return next(c)
	}
}

// bound starts the time in which a client has to take its answer. net/http takes the
// deadline away when the request has ended.
func (s *Server) bound(c echo.Context) {
	// A writer without deadlines (a test's) is written to all the same.
	_ = http.NewResponseController(c.Response().Writer).SetWriteDeadline(time.Now().Add(s.cfg.Client.WriteTimeout))
}

// recover turns a panic into a 500 and logs where it came from. The value of the
// panic may hold anything, a prompt too, so only its type is logged.
func (s *Server) recover(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) (err error) {
		defer s.panicked(idOf(c), &err)
		return next(c)
	}
}

// newID is a fresh id of a request. It begins with the time, so that the rows of one
// moment lie side by side in the ledger's index; the rest nobody can guess.
func newID() string {
	id := uuid.Must(uuid.NewV7())
	return hex.EncodeToString(id[:])
}

func idOf(c echo.Context) string {
	id, _ := c.Get(idKey).(string)
	return id
}

// newRow begins the account of a queued request.
func (s *Server) newRow(c echo.Context) ledger.Row {
	return ledger.Row{
		ID: idOf(c), Created: time.Now(), Key: callerOf(c).name, Route: c.Path(), Outcome: ledger.Queued,
		ClientRequestID: label(c.Request().Header.Get("X-Request-Id")),
	}
}

// label makes a client's own word fit for a log: short and without control
// characters and others that do not show.
func label(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsGraphic(r) || r == unicode.ReplacementChar {
			return -1
		}
		return r
	}, cut(s, maxLabel))
}

// closedKey marks a request that has its line in the log.
const closedKey = "closed"

// close writes the one outcome of a request to the ledger, the metrics and the log.
func (s *Server) close(x *exchange, r proxy.Report, err error) {
	x.closed = true
	row := &x.row
	v := verdict{status: http.StatusOK, outcome: ledger.Served}
	if err != nil {
		v = judge(err)
	}
	if x.ran() && errors.Is(err, queue.ErrRejected) {
		v.outcome = ledger.SlotLost // what it had was taken away, as by a stop
	}
	row.Outcome, row.Reason = v.outcome, v.why()
	if row.Status == 0 {
		row.Status = v.status
	}
	x.record(&r)
	s.note(s.Ledger.Finish(*row))
	x.body.Close() // nobody holds its bytes any more
	s.Metrics.Finished(*row)
	if r.Stopped {
		s.Metrics.Stopped()
	}
	if x.client != nil {
		s.Metrics.Heartbeats(x.client.Beats())
	}
	x.trace.End(x.ending())
	level := zap.InfoLevel
	if row.Outcome == ledger.EngineFailed || row.Outcome == ledger.SlotLost {
		level = zap.WarnLevel
	}
	if entry := s.Log.Check(level, "request"); entry != nil {
		entry.Write(append(LogFields(row),
			zap.Int("status", row.Status), zap.String("reason", row.Reason), zap.String("finish_reason", row.FinishReason), zap.Duration("wait", row.QueueWait), zap.Duration("prefill", row.Prefill), zap.Duration("slot", row.Slot),
			tokenField("prompt_tokens", row.Tokens.Prompt), tokenField("thinking_tokens", row.Tokens.Thinking), tokenField("answer_tokens", row.Tokens.Answer),
			x.tried(), zap.String("remote", x.remote), zap.String("error", errorText(err)),
		)...)
	}
}

// used writes what a run has used where nobody has got the answer: how it came out
// is then known only after the time for a retry.
func (s *Server) used(x *exchange, r proxy.Report) {
	x.row.QueueWait = x.waited()
	if x.visit != nil && x.row.Outcome == ledger.Running && !x.client.Delivered() {
		x.record(&r)
		s.note(s.Ledger.Update(x.row))
	}
}

// ending is what a trace is told at the end.
func (x *exchange) ending() telemetry.Ending {
	e := telemetry.Ending{Row: x.row}
	if x.pool != nil {
		e.Model = x.pool.model()
	}
	return e
}

// tokenField leaves a figure out that nobody knows.
func tokenField(name string, c usage.Count) zap.Field {
	if !c.Known() {
		return zap.Skip()
	}
	return zap.Int(name, c.N)
}

// errorText is what a log may say of an error: an engine's own words may repeat
// the prompt, so of a Problem only its status and reason are said.
func errorText(err error) string {
	var p *openai.Problem
	switch {
	case err == nil:
		return ""
	case errors.As(err, &p):
		v := said(p, err)
		return strings.TrimSpace(fmt.Sprintf("status %d %s", p.Status, v.why()))
	case errors.Is(err, proxy.ErrEngine):
		return engineText(err)
	default:
		return err.Error()
	}
}

// engineText says what class of failure it was, and what the network said. The
// rest of the error may hold bytes of the engine's answer.
func engineText(err error) string {
	text := proxy.ErrEngine.Error()
	for _, v := range rulings() {
		if errors.Is(err, v.is) {
			text = v.is.Error()
			break
		}
	}
	var network *net.OpError
	if errors.As(err, &network) {
		text += ": " + network.Error()
	}
	return text
}

// note logs that the ledger refused a row; the request goes on. That rows wait
// in memory, since the disk takes none, is logged once, and so is its end; the same
// holds for responses that are kept.
func (s *Server) note(err error) {
	if err != nil {
		s.Log.Error("ledger", zap.Error(err))
	}
	s.watch(&s.unwritten, s.Ledger.Err(), "the ledger", "its rows wait")
	s.watch(&s.unkept, s.responses.Err(), "the folder of kept responses", "they are")
}

// watch logs when a place that is written to begins to fail, and when that ends. was
// is whether it was last seen failing, rest says what is in memory meanwhile.
func (s *Server) watch(was *atomic.Bool, fault error, place, rest string) {
	switch failing := fault != nil; {
	case was.Swap(failing) == failing:
	case failing:
		s.Log.Error(place+" cannot be written; "+rest+" in memory and would be lost with the process", zap.Error(fault))
	default:
		s.Log.Info(place + " can be written again")
	}
}
