package api

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"oneslot/api/intake"
	"oneslot/internal/simengine"
	"oneslot/internal/simengine/script"
	"oneslot/ledger"
	"oneslot/proxy/downstream"

	"github.com/labstack/echo/v4"
)

// sized is a chat request of exactly n bytes.
func sized(n int) call {
	c := ask(`,"max_tokens":1,"user":"@"`, nil)
	c.body = strings.Replace(c.body, "@", strings.Repeat("x", n-len(c.body)+1), 1)
	return c
}

// TestBodyLimit (B097): the limit is the last size that passes; beyond it the
// status is 413 and the text names the limit.
func TestBodyLimit(t *testing.T) {
	const limit = 10_000
	inBubble(t, setup{cfg: Config{Bodies: intake.Config{Body: limit}}}, func(t *testing.T, e *edge) {
		for _, chunked := range []bool{false, true} {
			for size, status := range map[int]int{limit - 1: 200, limit: 200, limit + 1: 413, 40 * limit: 413} {
				r := sized(size).request(t.Context(), t)
				if chunked {
					r.ContentLength = -1
				}
				resp, err := e.client.Do(r)
				if err != nil {
					t.Fatal(err)
				}
				g := e.read(resp)
				if g.status != status {
					t.Errorf("%d bytes, chunked %v: status %d, want %d: %s", size, chunked, g.status, status, g.body)
				}
				if status == 413 && (!strings.Contains(g.fault(t).Message, "10000 bytes") || g.fault(t).Code != "request_too_large") {
					t.Errorf("%d bytes: %s", size, g.body)
				}
			}
		}
		if rows := e.rows(); len(rows) != 8 {
			t.Errorf("the ledger has %d rows, want one for each request", len(rows))
		}
	})
}

// raw sends bytes over a connection of its own and returns it.
func (e *edge) raw(text string) net.Conn {
	e.t.Helper()
	conn, err := e.line.Dial(e.t.Context(), "", "")
	e.must(err)
	e.t.Cleanup(func() { _ = conn.Close() })
	_, err = io.WriteString(conn, text)
	e.must(err)
	return conn
}

func (e *edge) response(conn net.Conn) got {
	e.t.Helper()
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	e.must(err)
	return e.read(resp)
}

// TestSlowClients (B109): headers and bodies have a time to arrive in, also where
// nobody wants the body, and half a request has no place in the line.
func TestSlowClients(t *testing.T) {
	slow := "Host: x\r\nContent-Length: 1000\r\n\r\n{"
	cases := map[string]struct {
		head   string
		status int // 0: the connection is just closed
		at     time.Duration
	}{
		"headers":              {"POST /v1/chat/completions HTTP/1.1\r\nHost", 0, 10 * time.Second},
		"body":                 {"POST /v1/chat/completions HTTP/1.1\r\n" + slow, 408, 10 * time.Second},
		"body nobody wants":    {"GET /healthz HTTP/1.1\r\n" + slow, 200, 0},
		"body of no route":     {"POST /v1/nothing HTTP/1.1\r\n" + slow, 404, 0},
		"body of wrong method": {"PUT /v1/chat/completions HTTP/1.1\r\n" + slow, 405, 0},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			inBubble(t, setup{}, func(t *testing.T, e *edge) {
				began := time.Now()
				conn := e.raw(c.head)
				stop := make(chan struct{})
				defer close(stop)
				go func() { // one byte every 7 s, for ever
					for {
						select {
						case <-time.After(7 * time.Second):
							if _, err := io.WriteString(conn, "x"); err != nil {
								return
							}
						case <-stop:
							return
						}
					}
				}()
				time.AfterFunc(9*time.Second, func() {
					snap, err := e.pool.Queue.Snapshot(t.Context())
					if err != nil || len(snap.Waiting) > 0 || e.engine.Stats().Arrivals > 0 {
						t.Errorf("half a request got a place: %+v %v", snap, err)
					}
				})
				if c.status == 0 {
					if _, err := io.ReadAll(conn); err != nil && !errors.Is(err, io.ErrClosedPipe) {
						t.Error(err)
					}
				} else if g := e.response(conn); g.status != c.status {
					t.Errorf("status %d, want %d: %s", g.status, c.status, g.body)
				}
				if since := time.Since(began); since < c.at-time.Second || since > c.at+time.Second {
					t.Errorf("it took %v, want %v", since, c.at)
				}
				if c.status == 408 {
					synctest.Wait()
					if rows := e.rows(); len(rows) != 1 || rows[0].Status != 408 || rows[0].Outcome != ledger.Rejected {
						t.Errorf("the ledger has %+v", rows)
					}
				}
			})
		})
	}
}

// TestBodyTimeEnds: the time for a body does not cut the answer, nor the watch for
// a client that leaves, however long it waits.
func TestBodyTimeEnds(t *testing.T) {
	sim := simengine.Config{Scripts: []script.Script{{script.Sleep(10 * time.Minute), script.Answer("late"), script.Finish("stop"), script.Done()}}}
	inBubble(t, setup{sim: sim}, func(t *testing.T, e *edge) {
		for _, chunked := range []bool{false, true} {
			r := ask("", nil).request(t.Context(), t)
			if chunked {
				r.ContentLength = -1
			}
			resp, err := e.client.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			if g := e.read(resp); g.status != 200 || !strings.Contains(g.body, "late") {
				t.Errorf("chunked %v: got %d %q", chunked, g.status, g.body)
			}
		}
		e.server.echo.GET("/test/wait", func(c echo.Context) error {
			select {
			case <-c.Request().Context().Done():
				return c.Request().Context().Err()
			case <-time.After(10 * time.Minute):
				return c.NoContent(http.StatusOK)
			}
		})
		if g := e.do(call{path: "/test/wait"}); g.status != 200 {
			t.Errorf("a request without a body got %d", g.status)
		}
	})
}

// TestPausesOfAStream: neither the deadline of an earlier write nor that of an
// earlier request on the connection cuts what comes later.
func TestPausesOfAStream(t *testing.T) {
	reply := script.Script{script.Thinking("a"), script.Sleep(5 * time.Minute), script.Thinking("b"), script.Sleep(5 * time.Minute), script.Answer("c"), script.Finish("stop"), script.Done()}
	s := setup{sim: simengine.Config{Scripts: []script.Script{reply}}, cfg: Config{Client: downstream.Config{WriteTimeout: 10 * time.Second}}}
	inBubble(t, s, func(t *testing.T, e *edge) {
		dials := 0
		dial := e.client.Transport.(*http.Transport).DialContext
		e.client.Transport.(*http.Transport).DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
			dials++
			return dial(ctx, network, address)
		}
		for range 2 {
			g := e.do(ask(`,"stream":true`, nil))
			events := g.events()
			if len(events) == 0 || events[len(events)-1] != "[DONE]" || !strings.Contains(g.body, `"content":"c"`) {
				t.Errorf("the stream is %q", g.body)
			}
			e.do(call{path: "/v1/models"})
			<-time.After(time.Minute) // below the idle time
		}
		if dials != 1 {
			t.Errorf("%d connections were made, want one for all requests", dials)
		}
	})
}

// TestClientThatDoesNotRead holds no handler for longer than a write may take.
func TestClientThatDoesNotRead(t *testing.T) {
	inBubble(t, setup{cfg: Config{Client: downstream.Config{WriteTimeout: 10 * time.Second}}}, func(t *testing.T, e *edge) {
		for _, path := range []string{"/v1/models", "/metrics", "/nowhere"} {
			conn := e.raw("GET " + path + " HTTP/1.1\r\nHost: x\r\n\r\n")
			<-time.After(11 * time.Second)
			synctest.Wait()
			if text, err := io.ReadAll(conn); err != nil || len(text) > 0 {
				t.Errorf("%s: after the time for a write there is still %q: %v", path, text, err)
			}
		}
	})
}

// TestPaths (B100, B107): the list of paths is exact, but for a slash at the end;
// an encoded path is no other path; nothing is redirected or reaches the engine.
func TestPaths(t *testing.T) {
	ok := map[string]bool{"/v1/chat/completions": true, "/chat/completions": true, "/v1/chat/completions/": true, "/v1/chat/completions?api-version=x": true}
	no := []string{
		"/v1/v1/chat/completions", "/v1//chat/completions", "/v1/chat/completions/x", "/openai/deployments/ripple/chat/completions?api-version=x", "/V1/chat/completions",
		"/v1/chat/completions%2f..%2f..%2fflush_cache", "/v1/chat/completions%252f..%252f..%252fflush_cache", "/v1/chat/completions/../../flush_cache", "/v1/%63hat/completions",
		"/v1/chat%2fcompletions", "/flush_cache", "/abort_request", "/generate", "/server_info", "/v1/", "//v1/chat/completions", "/v1/models/..%2f..%2fflush_cache", "/v1/chat/completions;x",
	}
	inBubble(t, setup{}, func(t *testing.T, e *edge) {
		post := func(path string) got {
			conn := e.raw(fmt.Sprintf("POST %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", path, len(ask("", nil).body), ask("", nil).body))
			return e.response(conn)
		}
		for path := range ok {
			if g := post(path); g.status != 200 {
				t.Errorf("%s got %d %s", path, g.status, g.body)
			}
		}
		before := len(e.engine.Stats().Runs)
		for _, path := range no {
			g := post(path)
			if g.status != 404 && (g.status != 405 || !strings.HasPrefix(path, "/v1/models/")) {
				t.Errorf("%s got %d %v", path, g.status, g.header)
			}
			if f := g.fault(t); f.Type != "invalid_request_error" || f.Message == "" {
				t.Errorf("%s: %+v", path, f)
			}
		}
		s := e.engine.Stats()
		if len(s.Runs) != before {
			t.Errorf("the engine got %d requests by odd paths", len(s.Runs)-before)
		}
		for path := range s.Calls {
			if strings.Contains(path, "flush") || strings.Contains(path, "..") || path == "/generate" {
				t.Errorf("the engine was called at %s", path)
			}
		}
		g := e.do(call{path: "/v1/nothing"})
		for _, want := range []string{"GET /v1/nothing", "POST /v1/chat/completions", "/v1/models", "/openapi.yaml"} {
			if !strings.Contains(g.fault(t).Message, want) {
				t.Errorf("the 404 does not say %q: %s", want, g.body)
			}
		}
	})
}

// TestRouteLabels: whatever is asked for, the metrics name only the routes.
func TestRouteLabels(t *testing.T) {
	inBubble(t, setup{}, func(t *testing.T, e *edge) {
		for _, path := range []string{"/v1/mod", "/v1/models/CANARY/x", "/CANARY", "/v1/queue/CANARY", "/v1/usage/CANARY", "/v1/CANARY/x", "/v1/", "/v1/queue/x/CANARY", "/v1/%43ANARY", "/v1/chat"} {
			e.do(call{path: path})
			e.do(call{method: http.MethodPut, path: path})
		}
		g := e.do(call{path: "/metrics"})
		if strings.Contains(g.body, "ANARY") || !strings.Contains(g.body, `oneslot_requests_total{code="404",route="none",stream="false"}`) {
			t.Errorf("the metrics are %s", g.body)
		}
		known := map[string]bool{"none": true}
		for _, r := range e.server.echo.Routes() {
			known[r.Path] = true
		}
		for line := range strings.Lines(g.body) {
			if _, rest, ok := strings.Cut(line, `route="`); ok && !known[rest[:strings.IndexByte(rest, '"')]] {
				t.Errorf("an unknown route: %s", line)
			}
		}
	})
}

// methodTable is the methods of every route.
func methodTable() map[string]string {
	const get, post, remove = "GET HEAD", "POST", "DELETE GET HEAD"
	out := map[string]string{
		"/healthz": get, "/readyz": get, "/metrics": get, "/openapi.yaml": get, "/v1/usage": get, "/v1/usage/:id": get,
		"/v1/queue": remove, "/v1/queue/:id": remove, "/v1/queue/events": get,
		"/v1/queue/pause": post, "/v1/queue/drain": post, "/v1/queue/resume": post, "/v1/queue/slots/:engine/reset": post,
	}
	for path, methods := range map[string]string{
		"/chat/completions": post, "/completions": post, "/messages": post, "/messages/count_tokens": post,
		"/responses": post, "/responses/:id": remove, "/responses/:id/cancel": post, "/models": get, "/models/*": get,
	} {
		out[path], out["/v1"+path] = methods, methods
	}
	return out
}

// TestMethods: a wrong one is told with the right ones; HEAD works where GET does
// (B101), without a body and without the engine's slot.
func TestMethods(t *testing.T) {
	inBubble(t, setup{}, func(t *testing.T, e *edge) {
		routed := map[string][]string{}
		for _, r := range e.server.echo.Routes() {
			routed[r.Path] = append(routed[r.Path], r.Method)
		}
		table := methodTable()
		for path, methods := range routed {
			if slices.Sort(methods); strings.Join(methods, " ") != table[path] {
				t.Errorf("%s takes %v, want %q", path, methods, table[path])
			}
		}
		for path, methods := range table {
			if routed[path] == nil {
				t.Errorf("%s is no route", path)
			}
			e.methods(strings.NewReplacer(":id", strings.Repeat("0", 32), ":engine", "spark", "*", "ripple").Replace(path), methods)
		}
		for _, word := range []string{"pause", "resume", "drain"} { // the router may take it for an id
			for _, method := range []string{http.MethodGet, http.MethodDelete} {
				g := e.do(call{method: method, path: "/v1/queue/" + word})
				if g.status != 405 || g.header.Get("Allow") != "OPTIONS, POST" || !strings.Contains(g.fault(t).Message, "OPTIONS, POST") {
					t.Errorf("%s %s: status %d, %s", method, word, g.status, g.body)
				}
			}
		}
		if n := e.engine.Stats().Arrivals; n != 0 {
			t.Errorf("the engine got %d requests for text", n)
		}
	})
}

// methods asks a path what it does not take, and for its headers alone.
func (e *edge) methods(path, methods string) {
	e.t.Helper()
	want := append(strings.Fields(methods), http.MethodOptions)
	slices.Sort(want)
	for _, method := range []string{http.MethodPut, http.MethodPatch, http.MethodTrace} {
		g := e.do(call{method: method, path: path})
		allow := strings.Split(g.header.Get("Allow"), ", ")
		slices.Sort(allow) // the order says nothing
		if g.status != 405 || !slices.Equal(allow, want) || !strings.Contains(g.body, "Use: "+g.header.Get("Allow")+".") {
			e.t.Errorf("%s %s: status %d, Allow %q, want %q: %s", method, path, g.status, allow, want, g.body)
		}
	}
	ctx, leave := context.WithCancel(e.t.Context())
	defer leave()
	one, err := e.client.Do(call{path: path}.request(ctx, e.t))
	e.must(err)
	defer one.Body.Close() // which may be a feed
	head := e.do(call{method: http.MethodHead, path: path})
	if head.status != one.StatusCode || head.body != "" || head.header.Get("Content-Type") != one.Header.Get("Content-Type") {
		e.t.Errorf("HEAD %s: status %d %v, GET has %d %v; body %q", path, head.status, head.header, one.StatusCode, one.Header, head.body)
	}
}

// TestLargeHeaders are refused before anything is looked at.
func TestLargeHeaders(t *testing.T) {
	inBubble(t, setup{}, func(t *testing.T, e *edge) {
		for size, want := range map[int]int{32 << 10: 200, 80 << 10: 431} {
			conn, err := e.line.Dial(t.Context(), "", "")
			if err != nil {
				t.Fatal(err)
			}
			go func() {
				_, _ = io.WriteString(conn, "GET /healthz HTTP/1.1\r\nHost: x\r\nX: "+strings.Repeat("y", size)+"\r\n\r\n")
			}()
			if g := e.response(conn); g.status != want {
				t.Errorf("headers of %d bytes got %d, want %d", size, g.status, want)
			}
			_ = conn.Close()
		}
	})
}

// TestRefusedInTheirWords: what a budget is refused for has the name that the API has
// for it.
func TestRefusedInTheirWords(t *testing.T) {
	inBubble(t, setup{}, func(t *testing.T, e *edge) {
		body := `{"model":"ripple","max_tokens":9,"messages":[{"role":"user","content":"x"}],"output_config":{"effort":"x"}}`
		if g := e.do(call{http.MethodPost, "/v1/messages", body, nil}); g.status != 400 || !strings.Contains(g.body, "'output_config.effort' must be one of") {
			t.Errorf("got %d %s", g.status, g.body)
		}
	})
}

// TestServerLimits: a limit for a whole response would cut streams (B052).
func TestServerLimits(t *testing.T) {
	inBubble(t, setup{}, func(t *testing.T, e *edge) {
		s := e.server.server
		if s.WriteTimeout != 0 || s.ReadTimeout != 0 || s.ReadHeaderTimeout == 0 || s.IdleTimeout == 0 || s.MaxHeaderBytes == 0 {
			t.Errorf("the server's limits are %v %v %v %v %v", s.WriteTimeout, s.ReadTimeout, s.ReadHeaderTimeout, s.IdleTimeout, s.MaxHeaderBytes)
		}
	})
}

// TestBadRequests are refused in OpenAI's shape, whatever is wrong.
func TestBadRequests(t *testing.T) {
	gzip := ask("", map[string]string{"Content-Encoding": "gzip"})
	beat := ask("", map[string]string{"X-Oneslot-Heartbeat": "loud"})
	body := func(text string) call { return call{http.MethodPost, "/v1/chat/completions", text, nil} }
	cases := map[string]struct {
		call        call
		status      int
		code, param string
	}{
		"no body":      {body(""), 400, "", ""},
		"no JSON":      {body("{"), 400, "", ""},
		"no object":    {body("[]"), 400, "", ""},
		"no UTF-8":     {body("{\"model\":\"\xff\"}"), 400, "", ""},
		"two objects":  {body(ask("", nil).body + "{}"), 400, "", ""},
		"no model":     {body(`{"messages":[]}`), 400, "missing_required_parameter", "model"},
		"no messages":  {body(`{"model":"ripple"}`), 400, "missing_required_parameter", "messages"},
		"wrong type":   {ask(`,"stream":"yes"`, nil), 400, "invalid_type", "stream"},
		"two answers":  {ask(`,"n":2`, nil), 400, "unsupported_value", "n"},
		"no model so":  {body(`{"model":"gpt-9","messages":[{"role":"user","content":"x"}]}`), 404, "model_not_found", "model"},
		"compressed":   {gzip, 415, "", ""},
		"no heartbeat": {beat, 400, "invalid_value", ""},
		"an effort":    {ask(`,"reasoning_effort":"x"`, nil), 400, "invalid_value", "reasoning_effort"},
		"their effort": {call{http.MethodPost, "/v1/responses", `{"model":"ripple","input":"x","reasoning":{"effort":"x"}}`, nil}, 400, "invalid_value", "reasoning.effort"},
		"their budget": {call{http.MethodPost, "/v1/responses", `{"model":"ripple","input":"x","reasoning":{"max_tokens":"x"}}`, nil}, 400, "invalid_value", "reasoning.max_tokens"},
		"our budget":   {call{http.MethodPost, "/v1/responses", `{"model":"ripple","input":"x","thinking_budget":"x"}`, nil}, 400, "invalid_value", "thinking_budget"},
	}
	inBubble(t, setup{}, func(t *testing.T, e *edge) {
		for name, c := range cases {
			g := e.do(c.call)
			f := g.fault(t)
			if g.status != c.status || f.Code != c.code || f.Param != c.param || f.Type != "invalid_request_error" || f.Message == "" {
				t.Errorf("%s: status %d, %+v, want %d, %q, %q", name, g.status, f, c.status, c.code, c.param)
			}
		}
		for body, want := range map[string]string{"": "empty_body", "{": "invalid_json", "[]": "invalid_json", "{}{}": "invalid_json"} {
			g := e.do(call{http.MethodPost, "/v1/chat/completions", body, nil})
			if row := e.do(call{path: "/v1/usage/" + g.id()}).json(t); row["reason"] != want || g.header.Get("X-Oneslot-Reason") != want {
				t.Errorf("%q is booked as %v, told as %q", body, row["reason"], g.header.Get("X-Oneslot-Reason"))
			}
			cases["booked "+body] = cases["no JSON"]
		}
		if rows := e.rows(); len(rows) != len(cases) {
			t.Errorf("the ledger has %d rows for %d requests", len(rows), len(cases))
		}
		if n := e.engine.Stats().Arrivals; n != 0 {
			t.Errorf("the engine got %d of them", n)
		}
	})
}

// TestLabels: the id is always ours; a client's own is a label beside it, without
// what could play tricks in a log.
func TestLabels(t *testing.T) {
	long := strings.Repeat("é", 100)
	cases := map[string]string{
		"mine-1":                   "mine-1",
		"a\tb":                     "ab",
		"right\u202eleft":          "rightleft",
		"zero\u200bwidth":          "zerowidth",
		long:                       strings.Repeat("é", 64) + "…",
		"bad \xff byte":            "bad  byte",
		strings.Repeat("0a", 16):   strings.Repeat("0a", 16),
		`"},{"outcome":"served","`: `"},{"outcome":"served","`,
	}
	inBubble(t, setup{}, func(t *testing.T, e *edge) {
		seen := map[string]bool{}
		for sent, want := range cases {
			g := e.do(ask(`,"max_tokens":1`, map[string]string{"X-Request-Id": sent}))
			if len(g.id()) != 32 || g.id() == sent || seen[g.id()] {
				t.Errorf("%q: the id is %q", sent, g.id())
			}
			seen[g.id()] = true
			if label := e.do(call{path: "/v1/usage/" + g.id()}).json(t)["client_request_id"]; label != want {
				t.Errorf("%q is kept as %q, want %q", sent, label, want)
			}
		}
		for _, line := range e.lines("request") {
			if !seen[line["id"].(string)] {
				t.Errorf("the log has an unknown id: %v", line)
			}
		}
	})
}

// TestHeartbeatHeader: a client says how it wants to be kept alive.
func TestHeartbeatHeader(t *testing.T) {
	slow := simengine.Config{Scripts: []script.Script{{script.Sleep(time.Minute), script.Answer("x"), script.Finish("stop"), script.Done()}}}
	cfg := Config{Client: downstream.Config{Heartbeat: 10 * time.Second}}
	inBubble(t, setup{sim: slow, cfg: cfg}, func(t *testing.T, e *edge) {
		for mode, want := range map[string]struct{ comments, chunks bool }{"": {true, false}, "comment": {true, false}, "Chunk": {false, true}, "off": {false, false}} {
			h := map[string]string{}
			if mode != "" {
				h["X-Oneslot-Heartbeat"] = mode
			}
			g := e.do(ask(`,"stream":true`, h))
			comments := strings.Count(g.body, ": prefill") > 2
			silent := len(g.events()) > 6
			if comments != want.comments || silent != want.chunks {
				t.Errorf("mode %q: comments %v, silent chunks %v, want %+v: %q", mode, comments, silent, want, g.body)
			}
		}
	})
}
