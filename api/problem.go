package api

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"oneslot/internal/openai"
	"oneslot/ledger"
	"oneslot/proxy"
	"oneslot/queue"

	"github.com/labstack/echo/v4"
)

// verdict is all that an error means outside: to the client and in the ledger.
type verdict struct {
	status  int
	kind    string // error.type
	code    string // error.code and X-Oneslot-Reason
	outcome ledger.Outcome
	retry   time.Duration // for Retry-After; 0 leaves it out
	final   bool          // says x-should-retry: false
	message string
}

// verdicts is the only place where an error becomes a status. The first match
// wins, so that a cause stands before its class.
func verdicts() []struct {
	is error
	verdict
} {
	const (
		limited = "rate_limit_error"
		away    = "service_unavailable_error"
		server  = "server_error"
	)
	return []struct {
		is error
		verdict
	}{
		{queue.ErrFull, verdict{http.StatusTooManyRequests, limited, "queue_full", ledger.Rejected, 10 * time.Second, false, "The queue is full. Wait for Retry-After seconds and send the request again."}},
		{queue.ErrKeyLimit, verdict{http.StatusTooManyRequests, limited, "key_limit", ledger.Rejected, 10 * time.Second, false, "Too many requests of this key are waiting. Let some of them end and send the request again."}},
		{queue.ErrStopping, verdict{http.StatusServiceUnavailable, away, "draining", ledger.Rejected, 5 * time.Second, false, "The proxy is stopping and takes no more requests. Send the request again in a moment."}},
		{queue.ErrPoisoned, verdict{http.StatusServiceUnavailable, away, "slot_poisoned", ledger.Rejected, 30 * time.Second, false, "The engine is still busy with something that cannot be stopped. The operator has to look at it; try again later."}},
		{queue.ErrDown, verdict{http.StatusServiceUnavailable, away, "engine_down", ledger.Rejected, 10 * time.Second, false, "The engine cannot be reached. Try again later."}},
		{queue.ErrStoreDown, verdict{http.StatusServiceUnavailable, away, "store_down", ledger.Rejected, 5 * time.Second, false, "The queue's Redis does not answer. Try again in a moment."}},
		{queue.ErrWaited, verdict{http.StatusServiceUnavailable, away, "queue_timeout", ledger.Expired, 0, true, "The request waited in the queue for as long as it may. Send it again when fewer are waiting."}},
		{queue.ErrCancelled, verdict{http.StatusConflict, "invalid_request_error", "cancelled", ledger.Cancelled, 0, true, "The request was cancelled."}},
		{queue.ErrSlotLost, verdict{http.StatusServiceUnavailable, away, "slot_lost", ledger.SlotLost, 2 * time.Second, false, "The proxy lost its hold on the engine while the request was running. Send it again."}},
		{queue.ErrLeft, verdict{statusClientClosed, server, "client_closed", ledger.Abandoned, 0, true, "The client left while the request was waiting."}},
		{proxy.ErrClient, verdict{statusClientClosed, server, "client_closed", ledger.ClientGone, 0, true, "The client left while the request was running."}},
		{proxy.ErrUnreachable, verdict{http.StatusServiceUnavailable, away, "engine_down", ledger.EngineFailed, 5 * time.Second, false, "The engine cannot be reached. Try again later."}},
		{proxy.ErrNoAnswer, verdict{http.StatusGatewayTimeout, server, "engine_timeout", ledger.EngineFailed, 0, false, "The engine did not begin to answer in time."}},
		{proxy.ErrStalled, verdict{http.StatusGatewayTimeout, server, "engine_timeout", ledger.EngineFailed, 0, false, "The engine fell silent in the middle of the answer."}},
		{proxy.ErrTruncated, verdict{http.StatusBadGateway, server, "upstream_error", ledger.EngineFailed, 0, false, "The engine's stream ended before the answer was complete."}},
		{proxy.ErrEventTooLong, verdict{http.StatusBadGateway, server, "upstream_error", ledger.EngineFailed, 0, false, "The engine sent an event that is larger than the limit (limits.event)."}},
		{proxy.ErrAborted, verdict{http.StatusBadGateway, server, "upstream_error", ledger.EngineFailed, 0, false, "The engine aborted the request."}},
		{proxy.ErrCut, verdict{http.StatusBadGateway, server, "upstream_error", ledger.EngineFailed, 0, false, "The connection to the engine broke before the answer was complete."}},
		{proxy.ErrEngine, verdict{http.StatusBadGateway, server, "upstream_error", ledger.EngineFailed, 0, false, "The engine failed on this request."}},
		{context.Canceled, verdict{statusClientClosed, server, "client_closed", ledger.ClientGone, 0, true, "The client left."}},
	}
}

// statusClientClosed is nginx's number for a client that left; nobody sees it
// but the log and the ledger.
const statusClientClosed = 499

// judge says what err means. An error that nobody foresaw is a 500 outside and
// whole in the log.
func judge(err error) verdict {
	var p *openai.Problem
	if errors.As(err, &p) {
		v := verdict{status: p.Status, kind: p.Type, code: p.Code, outcome: ledger.Rejected, message: p.Message}
		if p.Status >= http.StatusInternalServerError || errors.Is(err, proxy.ErrEngine) {
			v.outcome = ledger.EngineFailed
		}
		if p.Status == http.StatusServiceUnavailable || p.Status == http.StatusTooManyRequests {
			v.retry = 5 * time.Second
		}
		return v
	}
	for _, v := range verdicts() {
		if errors.Is(err, v.is) {
			return v.verdict
		}
	}
	return verdict{http.StatusInternalServerError, "server_error", "internal_error", ledger.EngineFailed, 0, false, "The proxy failed on this request. Its log says why under the request id."}
}

// problem is what the client is told of err.
func problem(err error) *openai.Problem {
	v := judge(err)
	p := &openai.Problem{Status: v.status, Type: v.kind, Code: v.code, Message: v.message, Header: map[string]string{}}
	var own *openai.Problem
	if errors.As(err, &own) {
		p.Param = own.Param
		for k, val := range own.Header {
			p.Header[k] = val
		}
	} else if v.code != "" {
		p.Header["X-Oneslot-Reason"] = v.code
	}
	var hint interface{ RetryAfter() time.Duration }
	if errors.As(err, &hint) {
		v.retry = hint.RetryAfter()
	}
	if v.retry > 0 {
		s := min(max(int((v.retry+time.Second-1)/time.Second), 1), 60)
		p.Header["Retry-After"] = strconv.Itoa(s)
	}
	if v.final {
		p.Header["X-Should-Retry"] = "false"
	}
	return p
}

// refuse writes err as the whole response of a route that is not queued.
func refuse(c echo.Context, err error) {
	p := problem(err)
	var routing *echo.HTTPError
	if errors.As(err, &routing) {
		p = routingProblem(c, routing)
	}
	for k, v := range p.Header {
		c.Response().Header().Set(k, v)
	}
	if c.Request().Method == http.MethodHead {
		_ = c.NoContent(p.Status)
		return
	}
	_ = c.Blob(p.Status, "application/json", p.JSON())
}

// routingProblem words what the router found: no such route or method.
func routingProblem(c echo.Context, e *echo.HTTPError) *openai.Problem {
	p := &openai.Problem{Status: e.Code, Type: "invalid_request_error"}
	r := c.Request()
	switch e.Code {
	case http.StatusNotFound:
		p.Message = "There is no route " + r.Method + " " + cut(r.URL.Path, 200) + ". Clients use the base URL http://HOST:PORT/v1; the routes are POST /v1/chat/completions, GET /v1/models, GET /v1/queue and GET /v1/usage/{id}."
	case http.StatusMethodNotAllowed:
		p.Message = "The route " + cut(r.URL.Path, 200) + " does not take " + r.Method + ". Use: " + c.Response().Header().Get("Allow") + "."
	default:
		p.Message = http.StatusText(e.Code)
	}
	return p
}

func cut(s string, n int) string {
	if len(s) > n {
		return s[:n] + "…"
	}
	return s
}
