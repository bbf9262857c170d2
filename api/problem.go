package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"time"

	"oneslot/api/intake"
	"oneslot/internal/openai"
	"oneslot/ledger"
	"oneslot/proxy"
	"oneslot/proxy/surface"
	"oneslot/proxy/surface/chat"
	"oneslot/proxy/surface/messages"
	"oneslot/queue"

	"github.com/labstack/echo/v4"
)

// verdict is all that an error means outside: to the client and in the ledger.
type verdict struct {
	status  int
	kind    string // error.type
	code    string // error.code
	reason  string // X-Oneslot-Reason; empty leaves it out
	outcome ledger.Outcome
	retry   time.Duration // for Retry-After; 0 leaves it out
	final   bool          // says x-should-retry: false
	message string
}

// why is the reason in the ledger.
func (v *verdict) why() string { return cmp.Or(v.reason, v.code) }

// A ruling is the verdict on one cause.
type ruling struct {
	is error
	verdict
}

// error.type of what is not the request's fault.
const (
	limited = "rate_limit_error"
	away    = "service_unavailable_error"
	server  = "server_error"
	invalid = "invalid_request_error"
)

// rulings is the only place where an error becomes a status. The first match
// wins, so that a cause stands before its class.
func rulings() []ruling {
	return append(queueRulings(), proxyRulings()...)
}

func queueRulings() []ruling {
	stopping := verdict{503, away, "draining", "draining", ledger.Rejected, 5 * time.Second, false, "The proxy is stopping and takes no more requests. Send the request again in a moment."}
	return []ruling{
		{queue.ErrFull, verdict{429, limited, "rate_limit_exceeded", "queue_full", ledger.Rejected, 10 * time.Second, false, "The queue is full. Wait for Retry-After seconds and send the request again."}},
		{queue.ErrKeyLimit, verdict{429, limited, "rate_limit_exceeded", "key_limit", ledger.Rejected, 10 * time.Second, false, "Too many requests of this key are waiting, those of all its users together. Let some of them end and send the request again."}},
		{intake.ErrKeyFull, verdict{429, limited, "rate_limit_exceeded", "key_bodies", ledger.Rejected, 10 * time.Second, false, "The bodies of this key's requests take all the memory there is for one key (a quarter of limits.bodies). Let some of them end and send the request again."}},
		{intake.ErrFull, verdict{503, away, "bodies_full", "bodies_full", ledger.Rejected, 5 * time.Second, false, "The bodies of all requests take all the memory there is for them (limits.bodies). Send the request again in a moment."}},
		{queue.ErrHopeless, verdict{429, limited, "hopeless", "hopeless", ledger.Rejected, 10 * time.Second, false, "The queue is too long for this client's timeout."}},
		{queue.ErrStopping, stopping},
		{intake.ErrClosed, stopping},
		{ledger.ErrClosed, stopping},
		{queue.ErrDraining, verdict{503, away, "draining", "draining", ledger.Rejected, 30 * time.Second, false, "The operator is draining the queue, so nobody is let in for now. Send the request again later."}},
		{queue.ErrPoisoned, verdict{503, away, "slot_poisoned", "slot_poisoned", ledger.Rejected, 30 * time.Second, false, "The engine is still busy with something that cannot be stopped. The operator has to look at it; try again later."}},
		{queue.ErrDown, verdict{503, away, "engine_down", "engine_down", ledger.Rejected, 10 * time.Second, false, "The engine cannot be reached. Try again later."}},
		{queue.ErrStoreDown, verdict{503, away, "store_down", "store_down", ledger.Rejected, 5 * time.Second, false, "The queue's Redis does not answer. Try again in a moment."}},
		{ledger.ErrStore, verdict{503, away, "store_down", "store_down", ledger.Rejected, 5 * time.Second, false, "The ledger's store does not answer. Try again in a moment."}},
		{queue.ErrDuplicate, verdict{409, invalid, "duplicate_request", "", ledger.Rejected, 0, false, "A request of the same id is in the queue. Send it again, and it gets another id."}},
		{queue.ErrWaited, verdict{503, away, "queue_timeout", "queue_timeout", ledger.Expired, 0, true, "The request waited in the queue for as long as it may. Send it again when fewer are waiting."}},
		{queue.ErrCancelled, verdict{409, invalid, "cancelled", "cancelled", ledger.Cancelled, 0, true, "The request was cancelled."}},
		{queue.ErrSlotLost, verdict{503, away, "slot_lost", "slot_lost", ledger.SlotLost, 2 * time.Second, false, "The proxy lost its hold on the engine while the request was running. Send it again."}},
		{queue.ErrLeft, verdict{statusClientClosed, server, "client_closed", "", ledger.Abandoned, 0, true, "The client left while the request was waiting."}},
	}
}

func proxyRulings() []ruling {
	broken := func(message string) verdict {
		return verdict{502, server, "upstream_error", "", ledger.EngineFailed, 0, false, message}
	}
	late := func(message string) verdict {
		return verdict{504, server, "engine_timeout", "", ledger.EngineFailed, 0, false, message}
	}
	return []ruling{
		{proxy.ErrClient, verdict{statusClientClosed, server, "client_closed", "", ledger.ClientGone, 0, true, "The client left while the request was running."}},
		{proxy.ErrUnreachable, verdict{503, away, "engine_down", "engine_down", ledger.EngineFailed, 5 * time.Second, false, "The engine cannot be reached. Try again later."}},
		{proxy.ErrNoAnswer, late("The engine did not begin to answer in time.")},
		{proxy.ErrStalled, late("The engine fell silent in the middle of the answer.")},
		{proxy.ErrTruncated, broken("The engine's stream ended before the answer was complete.")},
		{proxy.ErrEventTooLong, broken("The engine sent an event that is larger than the limit (limits.event).")},
		{proxy.ErrAborted, broken("The engine aborted the request.")},
		{proxy.ErrCut, broken("The connection to the engine broke before the answer was complete.")},
		{proxy.ErrEngine, broken("The engine failed on this request.")},
		{context.Canceled, verdict{statusClientClosed, server, "client_closed", "", ledger.ClientGone, 0, true, "The client left."}},
	}
}

// statusClientClosed is nginx's number for a client that left; nobody sees it
// but the log and the ledger.
const statusClientClosed = 499

// errRefused marks a Problem as the engine's own refusal of a request.
var errRefused = errors.New("api: the engine refused the request")

// worded is the problem that an error brings with it. What an engine says of a request
// that was taken from it, as some do of one that is aborted, does not count.
func worded(err error) *openai.Problem {
	var p *openai.Problem
	if errors.Is(err, queue.ErrAbandoned) || !errors.As(err, &p) {
		return nil
	}
	return p
}

// judge says what err means. An error that nobody foresaw is a 500 outside and
// whole in the log.
func judge(err error) verdict {
	if p := worded(err); p != nil {
		return said(p, err)
	}
	for _, r := range rulings() {
		if errors.Is(err, r.is) {
			return r.verdict
		}
	}
	return verdict{500, server, "internal_error", "", ledger.EngineFailed, 0, false, "The proxy failed on this request. Its log says why under the request id."}
}

// said is the verdict on an error that brings its own words: the edge's refusal
// of a request, the engine's, or what the engine told in its stream.
func said(p *openai.Problem, err error) verdict {
	v := verdict{status: p.Status, kind: p.Type, code: p.Code, reason: p.Reason, outcome: ledger.Rejected, message: p.Message}
	refused, broke := errors.Is(err, errRefused), errors.Is(err, proxy.ErrEngine)
	switch {
	case p.Status == http.StatusServiceUnavailable:
		v.reason = "engine_down"
	case p.Status == http.StatusTooManyRequests:
		v.code = "rate_limit_exceeded"
	case p.Status < 500 && (refused || broke):
		v.reason = "prompt_refused"
		v.code = cmp.Or(v.code, v.reason)
	}
	if p.Status >= 500 || broke {
		v.outcome = ledger.EngineFailed
	}
	if p.Status == http.StatusServiceUnavailable || p.Status == http.StatusTooManyRequests {
		v.retry = 5 * time.Second
	}
	return v
}

// retries is how long a client's library goes on by itself after a refusal: two
// times, each after the minute that Retry-After may say at most.
const retries = 2 * time.Minute

// problem is what the client is told of err.
func problem(err error) *openai.Problem {
	v := judge(err)
	p := &openai.Problem{Status: v.status, Type: v.kind, Code: v.code, Message: v.message, Header: map[string]string{}}
	if own := worded(err); own != nil {
		p.Param = own.Param
		maps.Copy(p.Header, own.Header)
	}
	if v.reason != "" {
		p.Header["X-Oneslot-Reason"] = v.reason
	}
	var hint interface{ RetryAfter() time.Duration }
	if errors.As(err, &hint) {
		v.retry = hint.RetryAfter()
	}
	var h *queue.Hopeless
	if errors.As(err, &h) {
		p.Message = fmt.Sprintf("%s It gives up after %v, and its turn would come in %v to %v. Stream, or raise the timeout, or come back later.", v.message,
			h.Patience.Round(time.Second), h.ETA.P50.Round(time.Second), h.ETA.P90.Round(time.Second))
		v.final = h.ETA.P50-h.Patience > retries
	}
	if v.retry > 0 {
		s := min(max(int((v.retry+time.Second-1)/time.Second), 1), 60)
		p.Header["Retry-After"], p.Header["Retry-After-Ms"] = strconv.Itoa(s), strconv.Itoa(s*1000)
	}
	if v.final {
		p.Header["X-Should-Retry"] = "false"
	}
	return p
}

// refuse writes err as the whole response of a request that got none.
func (s *Server) refuse(c echo.Context, err error) {
	p := problem(err)
	var routing *echo.HTTPError
	if errors.As(err, &routing) {
		p = routingProblem(c, routing)
	}
	if p.Header == nil {
		p.Header = map[string]string{}
	}
	p.Header[messages.IDHeader] = idOf(c)
	for k, v := range p.Header {
		c.Response().Header().Set(k, v)
	}
	s.bound(c)
	text := s.wording(c).Problem(p)
	c.Response().Header().Set("Content-Length", strconv.Itoa(len(text)))
	_ = c.Blob(p.Status, "application/json", text)
	bodyOf(c).Linger()
}

// wording is the API of a route, in whose shape its errors are.
func (s *Server) wording(c echo.Context) surface.API {
	if a, ok := s.apis[c.Path()]; ok {
		return a
	}
	return chat.API{}
}

// routingProblem words what the router found: no such route or method.
func routingProblem(c echo.Context, e *echo.HTTPError) *openai.Problem {
	p := &openai.Problem{Status: e.Code, Type: invalid, Message: http.StatusText(e.Code)}
	r := c.Request()
	switch e.Code {
	case http.StatusNotFound:
		p.Message = "There is no route " + r.Method + " " + cut(r.URL.Path, 200) + ". Clients use the base URL http://HOST:PORT/v1 and ask for POST /v1/chat/completions, GET /v1/models and others; GET /openapi.yaml has all of them."
	case http.StatusMethodNotAllowed:
		p.Message = "The route " + cut(r.URL.Path, 200) + " does not take " + r.Method + ". Use: " + c.Response().Header().Get("Allow") + "."
	}
	return p
}

// cut shortens s to at most n bytes of valid UTF-8, and shows that it did.
func cut(s string, n int) string {
	if len(s) > n {
		return strings.ToValidUTF8(s[:n], "") + "…"
	}
	return s
}

// final reports whether a retry cannot heal err.
func final(err error) bool {
	v := judge(err)
	return v.status < statusClientClosed && v.status != http.StatusTooManyRequests
}
