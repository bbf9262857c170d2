package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"oneslot/queue"

	"github.com/labstack/echo/v4"
)

// methods are all that a client may come with.
var methods = []string{
	http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions, http.MethodTrace, "BREW",
}

// badBodies are what no route takes.
var badBodies = map[string]string{
	"no body": "", "no JSON": "{", "a word": "hello", "a number": "1", "a list": "[]", "nothing": "null", "a string": `"x"`, "empty": "{}",
	"no UTF-8": "{\"model\":\"\xff\"}", "nested": `{"model":"ripple","messages":` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) + "}",
	"no such model":     `{"model":"nobody","max_tokens":1,"input":"x","prompt":"x","messages":[{"role":"user","content":"x"}]}`,
	"model no text":     `{"model":7,"max_tokens":1,"input":"x","prompt":"x","messages":[{"role":"user","content":"x"}]}`,
	"stream no flag":    `{"model":"ripple","stream":"yes","max_tokens":1,"input":"x","prompt":"x","messages":[{"role":"user","content":"x"}]}`,
	"no tokens":         `{"model":"ripple","max_tokens":0,"max_output_tokens":0,"input":"x","prompt":"x","messages":[{"role":"user","content":"x"}]}`,
	"messages no list":  `{"model":"ripple","max_tokens":1,"input":7,"prompt":{"a":1},"messages":"x"}`,
	"message no object": `{"model":"ripple","max_tokens":1,"input":[7],"prompt":[{}],"messages":[7]}`,
	"trailing":          `{"model":"ripple"} x`, "too large": `{"model":"` + strings.Repeat("x", bodyLimit) + `"}`,
}

// bodyLimit is the largest body of these tests, in bytes.
const bodyLimit = 64 << 10

// badHeaders are what is wrong beside the body; Authorization is put in beside.
var badHeaders = map[string]map[string]string{
	"plain": {}, "wrong key": {"Authorization": "Bearer sk-wrong"}, "no key": {"Authorization": ""}, "user's key": {"Authorization": "Bearer " + secretA},
	"compressed": {"Content-Encoding": "gzip"}, "priority": {"X-Oneslot-Priority": "now"}, "heartbeat": {"X-Oneslot-Heartbeat": "drum"},
	"browser": {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"},
}

// badQueries go behind every path.
var badQueries = []string{"", "?limit=x&since=y&until=z", "?by=x", "?limit=-1", "?after=%00", "?limit=99999999999999999999", "?outcome=x&by=key&since=9223372036854775807", "?%zz=%"}

// paths are those of a route with something in the place of its parameters.
func paths(route string) []string {
	if !strings.ContainsAny(route, ":*") {
		return []string{route}
	}
	var out []string
	for _, id := range []string{"x", strings.Repeat("0", 32), "resp_" + strings.Repeat("f", 32), "%2e%2e%2f", "%00", strings.Repeat("y", 3000), "..."} {
		out = append(out, strings.NewReplacer(":id", id, "*", id).Replace(route))
	}
	return out
}

// TestEveryRefusalHasTheShape goes through every route with every method and
// whatever can be wrong with a request. What is refused is refused in the shape
// that the route's clients read, and nothing that a client sends is a 5xx.
func TestEveryRefusalHasTheShape(t *testing.T) {
	seen := map[int]int{}
	for _, route := range routesOf(t) {
		cfg := keyed()
		cfg.Bodies.Body = bodyLimit
		inBubble(t, setup{cfg: cfg}, func(t *testing.T, e *edge) {
			for _, path := range paths(route) {
				for _, method := range methods {
					for _, one := range badCalls(method, path) {
						status := e.checkShape(t, one, 499)
						seen[status]++
					}
				}
			}
		})
	}
	for _, status := range []int{400, 401, 403, 404, 405, 413, 415} {
		if seen[status] == 0 {
			t.Errorf("no request was refused with %d: %v", status, seen)
		}
	}
	t.Logf("statuses seen: %v", seen)
}

// routesOf are the paths of the edge, and some that it does not have.
func routesOf(t *testing.T) (out []string) {
	known := map[string]bool{}
	inBubble(t, setup{}, func(_ *testing.T, e *edge) {
		for _, r := range e.server.echo.Routes() {
			if !known[r.Path] && r.Method != echo.RouteNotFound {
				known[r.Path] = true
				out = append(out, r.Path)
			}
		}
	})
	return append(out, "/v1/nothing", "/v1/chat", "/v1/messages/x/y")
}

// badCalls are requests of which each has one fault, if the method has a fault to have.
func badCalls(method, path string) (out []call) {
	add := func(path, body string, header map[string]string) {
		h := map[string]string{"Authorization": "Bearer " + secretRoot, "Content-Type": "application/json"}
		for k, v := range header {
			h[k] = v
		}
		if h["Authorization"] == "" {
			delete(h, "Authorization")
		}
		out = append(out, call{method, path, body, h})
	}
	for _, header := range badHeaders {
		add(path, "", header)
		add(path, `{"model":"nobody"}`, header)
	}
	if method == http.MethodPost || method == http.MethodPut {
		for _, body := range badBodies {
			add(path, body, nil)
		}
	}
	if method == http.MethodGet {
		for _, query := range badQueries {
			add(path+query, "", nil)
		}
	}
	return out
}

// checkShape sends a request and checks what a client of the route relies on. most
// is the highest status that is right. It returns the status.
func (e *edge) checkShape(t *testing.T, c call, most int) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	resp, err := e.client.Do(c.request(ctx, t))
	if err != nil {
		t.Errorf("%s %.80s: %v", c.method, c.path, err)
		return 0
	}
	defer resp.Body.Close()
	h := resp.Header
	fail := func(format string, args ...any) {
		t.Errorf("%s %.80s %.60q %v: status %d: %s; headers %v", c.method, c.path, c.body, c.header, resp.StatusCode, fmt.Sprintf(format, args...), h)
	}
	if len(h.Get("X-Request-Id")) != 32 {
		fail("X-Request-Id is %q", h.Get("X-Request-Id"))
	}
	if resp.StatusCode < 400 {
		return resp.StatusCode
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		fail("%v", err)
	}
	switch {
	case resp.StatusCode > most && h.Get("X-Oneslot-Reason") != "draining":
		fail("a client's fault is not the server's: %s", body)
	case h.Get("Content-Type") != "application/json":
		fail("the type is %q", h.Get("Content-Type"))
	case c.method == http.MethodHead:
		if len(body) > 0 {
			fail("HEAD has a body: %q", body)
		}
	default:
		if err := shaped(c.path, resp, body); err != nil {
			fail("%v: %s", err, body)
		}
	}
	if err := told4xx(resp); err != nil {
		fail("%v", err)
	}
	return resp.StatusCode
}

// told4xx checks the headers that belong to a status.
func told4xx(resp *http.Response) error {
	h := resp.Header
	switch resp.StatusCode {
	case http.StatusUnauthorized:
		if h.Get("WWW-Authenticate") != "Bearer" {
			return errors.New("a 401 without WWW-Authenticate")
		}
	case http.StatusMethodNotAllowed:
		if h.Get("Allow") == "" {
			return errors.New("a 405 without Allow")
		}
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		if s, err := strconv.Atoi(h.Get("Retry-After")); h.Get("X-Should-Retry") != "false" && (err != nil || s < 1 || s > 60) {
			return fmt.Errorf("Retry-After is %q", h.Get("Retry-After"))
		}
	case http.StatusConflict:
		if h.Get("X-Should-Retry") != "false" {
			return errors.New("a 409 that SDKs would retry")
		}
	}
	return nil
}

// shaped checks an error object by the rules of the route's clients. OpenAI's has
// four members, two of which may be null; Anthropic's a type of its own and the
// request's id.
func shaped(route string, resp *http.Response, body []byte) error {
	var o struct {
		Type      string
		Error     map[string]any
		RequestID string `json:"request_id"`
	}
	if err := json.Unmarshal(body, &o); err != nil {
		return fmt.Errorf("no JSON: %w", err)
	}
	wanted := map[string]bool{"message": false, "type": false, "param": true, "code": true} // may it be null?
	if anthropics(route) {
		wanted = map[string]bool{"message": false, "type": false}
		if id := resp.Header.Get("Request-Id"); o.Type != "error" || o.RequestID == "" || o.RequestID != id || id != resp.Header.Get("X-Request-Id") {
			return fmt.Errorf("type %q, request_id %q, Request-Id %q", o.Type, o.RequestID, id)
		}
	} else if o.Type != "" || o.RequestID != "" {
		return errors.New("not OpenAI's shape")
	}
	if len(o.Error) != len(wanted) {
		return fmt.Errorf("the error has %d members", len(o.Error))
	}
	for name, mayBeNull := range wanted {
		v, ok := o.Error[name]
		text, isText := v.(string)
		if !ok || v == nil && !mayBeNull || v != nil && (!isText || text == "") {
			return fmt.Errorf("%s is %v", name, v)
		}
	}
	return nil
}

// anthropics reports whether a route is one of Messages.
func anthropics(route string) bool {
	route, _, _ = strings.Cut(strings.TrimPrefix(route, "/v1"), "?")
	return route == "/messages" || route == "/messages/count_tokens"
}

// TestFailuresHaveTheShape: so has what fails on this side, before a stream and
// within one.
func TestFailuresHaveTheShape(t *testing.T) {
	for _, route := range []string{"/v1/chat/completions", "/v1/messages"} {
		to := func(members string) call {
			c := ask(`,"max_tokens":9`+members, nil)
			c.path = route
			return c
		}
		inBubble(t, setup{dead: true, queue: queue.Config{MaxWait: time.Minute, PoisonGrace: time.Hour}}, func(t *testing.T, e *edge) {
			if status := e.checkShape(t, to(""), 599); status != 503 {
				t.Errorf("%s: without an engine: %d", route, status)
			}
			g := e.do(to(`,"stream":true`))
			if events := g.events(); g.status != 200 || len(events) == 0 {
				t.Fatalf("%s: got %d %s", route, g.status, g.body)
			} else if err := shaped(route, &http.Response{Header: g.header}, []byte(last(events))); err != nil {
				t.Errorf("%s: the stream ends with %q: %v", route, last(events), err)
			}
			e.server.Drain()
			if status := e.checkShape(t, to(`,"stream":true`), 599); status != 503 {
				t.Errorf("%s: while draining: %d", route, status)
			}
		})
		inBubble(t, setup{change: crashes}, func(t *testing.T, e *edge) {
			g := e.do(to(""))
			if err := shaped(route, &http.Response{Header: g.header}, []byte(g.body)); g.status != 500 || err != nil {
				t.Errorf("%s: a panic got %d %s: %v", route, g.status, g.body, err)
			}
		})
	}
}

// last is the last event but [DONE].
func last(events []string) string {
	if n := len(events); n > 1 && events[n-1] == "[DONE]" {
		return events[n-2]
	}
	return events[len(events)-1]
}
