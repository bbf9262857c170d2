package api

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"oneslot/api/report"
	"oneslot/queue"
)

// TestPagesOfOtherSites: a proxy without keys takes nothing that a browser sends
// because a page of another origin told it to.
func TestPagesOfOtherSites(t *testing.T) {
	evil := map[string]string{"Origin": "https://evil.example", "Content-Type": "text/plain"}
	with := func(more map[string]string) map[string]string {
		out := map[string]string{"Origin": "https://evil.example", "Content-Type": "text/plain"}
		for k, v := range more {
			out[k] = v
		}
		return out
	}
	cases := map[string]struct {
		header map[string]string
		passes bool
	}{
		"a program":                 {map[string]string{"Content-Type": "text/plain"}, true},
		"curl without a type":       {map[string]string{"Content-Type": "application/x-www-form-urlencoded"}, true},
		"another site":              {evil, false},
		"another site, new browser": {with(map[string]string{"Sec-Fetch-Site": "cross-site"}), false},
		"another port":              {with(map[string]string{"Origin": "http://edge.test:3000", "Sec-Fetch-Site": "same-site"}), false},
		"another scheme":            {with(map[string]string{"Origin": "https://edge.test", "Sec-Fetch-Site": "cross-site"}), false},
		"another port, old browser": {with(map[string]string{"Origin": "http://edge.test:3000"}), false},
		"a sandboxed page":          {with(map[string]string{"Origin": "null"}), false},
		"a page without origin":     {map[string]string{"Sec-Fetch-Site": "cross-site"}, false},
		"no origin at all":          {with(map[string]string{"Origin": "%%%"}), false},
		"the own page":              {with(map[string]string{"Origin": "http://edge.test", "Sec-Fetch-Site": "same-origin"}), true},
		"the own page, old browser": {with(map[string]string{"Origin": "http://edge.test"}), true},
		"behind a proxy, own page":  {with(map[string]string{"Origin": "https://llm.example", "Sec-Fetch-Site": "same-origin"}), true},
		"typed by the user":         {map[string]string{"Sec-Fetch-Site": "none"}, true},
		"an installed application":  {with(map[string]string{"Origin": "app://obsidian.md", "Sec-Fetch-Site": "cross-site"}), true},
	}
	inBubble(t, setup{}, func(t *testing.T, e *edge) {
		for name, c := range cases {
			g := e.do(ask(`,"max_tokens":1`, c.header))
			if passes := g.status == 200; passes != c.passes {
				t.Errorf("%s: status %d, passes should be %v: %s", name, g.status, c.passes, g.body)
			}
			if g.status != 200 && (g.status != 403 || g.fault(t).Code != "origin_not_allowed") {
				t.Errorf("%s: refused with %d %s", name, g.status, g.body)
			}
		}
		if g := e.do(call{method: http.MethodDelete, path: "/v1/queue/x", header: evil}); g.status != 403 {
			t.Errorf("a DELETE from another site got %d", g.status)
		}
		if g := e.do(call{path: "/v1/queue", header: evil}); g.status != 200 || g.header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("a GET, which no page can read, got %d %v", g.status, g.header)
		}
	})
	inBubble(t, setup{cfg: Config{CORSOrigins: []string{"https://evil.example"}}}, func(t *testing.T, e *edge) {
		if g := e.do(ask(`,"max_tokens":1`, evil)); g.status != 200 {
			t.Errorf("a listed origin got %d", g.status)
		}
	})
	inBubble(t, setup{cfg: keyed()}, func(t *testing.T, e *edge) {
		header := with(bearer(secretA))
		if g := e.do(ask(`,"max_tokens":1`, header)); g.status != 200 {
			t.Errorf("with a key another origin got %d: no page knows a key", g.status)
		}
	})
}

// TestNamesOfThisMachine: a name that somebody else may have pointed at this
// machine gets no answer from a proxy that has no keys and listens on loopback.
func TestNamesOfThisMachine(t *testing.T) {
	hosts := map[string]bool{
		"127.0.0.1:8080": true, "127.0.0.1": true, "[::1]:8080": true, "192.168.1.7:80": true, "localhost:8080": true, "LOCALHOST": true,
		"box": true, "box:8080": true, "box.local:8080": true, "proxy.internal": true, "app.localhost:1": true, "a.home.arpa": true, "edge.test": true,
		"llm.example.com": true, "LLM.example.com:443": true, "llm.example.com.": true,
		"evil.example": false, "evil.example:8080": false, "127.0.0.1.nip.io": false, "x.llm.example.com": false, "localhost.evil.example": false,
		"notlocal.evil.com.": false, "mylocalhost.com": false,
	}
	inBubble(t, setup{cfg: Config{Loopback: true, Hosts: []string{"llm.example.com"}}}, func(t *testing.T, e *edge) {
		for host, passes := range hosts {
			for _, c := range []call{{path: "/v1/queue"}, {path: "/healthz"}, {path: "/nowhere"}, ask(`,"max_tokens":1`, nil)} {
				c.header = map[string]string{"Host": host}
				g := e.do(c)
				if refused := g.status == 403; refused == passes {
					t.Errorf("%s %s: status %d", host, c.path, g.status)
				}
				if !passes && (g.fault(t).Code != "host_not_allowed" || !strings.Contains(g.body, "hosts")) {
					t.Errorf("%s: refused with %s", host, g.body)
				}
			}
		}
	})
	away := map[string]string{"Host": "evil.example"}
	inBubble(t, setup{}, func(t *testing.T, e *edge) {
		if g := e.do(call{path: "/v1/queue", header: away}); g.status != 200 {
			t.Errorf("a listener on a network got %d for its name", g.status)
		}
	})
	cfg := keyed()
	cfg.Loopback = true
	inBubble(t, setup{cfg: cfg}, func(t *testing.T, e *edge) {
		if g := e.do(call{path: "/healthz", header: away}); g.status != 200 {
			t.Errorf("with keys a name got %d", g.status)
		}
	})
}

// TestCORS (B094): a preflight needs no key, and every answer to a listed origin
// may be read by its page, refusals too.
func TestCORS(t *testing.T) {
	const app = "https://app.example"
	cfg := keyed()
	cfg.CORSOrigins = []string{app, "https://*.sub.example"}
	preflight := map[string]string{"Origin": app, "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization,content-type,x-stainless-os"}
	inBubble(t, setup{cfg: cfg, queue: queue.Config{MaxWaiting: 1}}, func(t *testing.T, e *edge) {
		allow := func(g got) string { return g.header.Get("Access-Control-Allow-Origin") }
		g := e.do(call{method: http.MethodOptions, path: "/v1/chat/completions", header: preflight})
		if g.status != 204 || allow(g) != app || !strings.Contains(g.header.Get("Access-Control-Allow-Methods"), "POST") ||
			g.header.Get("Access-Control-Allow-Headers") != preflight["Access-Control-Request-Headers"] || len(g.id()) != 32 {
			t.Errorf("the preflight got %d %v", g.status, g.header)
		}
		from := func(origin, secret string) map[string]string {
			h := map[string]string{"Origin": origin}
			if secret != "" {
				h["Authorization"] = "Bearer " + secret
			}
			return h
		}
		for name, c := range map[string]struct {
			call   call
			status int
		}{
			"models":       {call{path: "/v1/models", header: from(app, secretA)}, 200},
			"answer":       {ask(`,"max_tokens":1`, from(app, secretA)), 200},
			"stream":       {ask(`,"stream":true,"max_tokens":1`, from(app, secretA)), 200},
			"no key":       {ask("", from(app, "")), 401},
			"not an admin": {call{path: "/metrics", header: from(app, secretA)}, 403},
			"bad request":  {ask(`,"n":2`, from(app, secretA)), 400},
			"no route":     {call{path: "/v1/no", header: from(app, secretA)}, 404},
			"wrong method": {call{method: http.MethodPut, path: "/v1/models", header: from(app, secretA)}, 405},
		} {
			g := e.do(c.call)
			if g.status != c.status || allow(g) != app || !strings.Contains(g.header.Get("Access-Control-Expose-Headers"), "X-Request-Id") {
				t.Errorf("%s: status %d, headers %v", name, g.status, g.header)
			}
		}
		rows := e.do(call{path: "/v1/usage?format=csv&limit=1", header: from(app, secretA)})
		if next := http.CanonicalHeaderKey(report.NextAfter); rows.header.Get(next) == "" || !strings.Contains(rows.header.Get("Access-Control-Expose-Headers"), next) {
			t.Errorf("a page of CSV: headers %v", rows.header)
		}
		e.server.Drain()
		if g := e.do(ask("", from(app, secretA))); g.status != 503 || allow(g) != app {
			t.Errorf("while draining: status %d, headers %v", g.status, g.header)
		}
		if g := e.do(call{path: "/v1/models", header: from("https://a.sub.example", secretA)}); allow(g) != "https://a.sub.example" {
			t.Errorf("a pattern's origin got %v", g.header)
		}
		for _, origin := range []string{"https://evil.example", "https://app.example.evil.example", "http://app.example", "null", ""} {
			h := from(origin, secretA)
			if g := e.do(call{path: "/v1/models", header: h}); allow(g) != "" || g.status != 200 {
				t.Errorf("origin %q got %d %v", origin, g.status, g.header)
			}
			h["Access-Control-Request-Method"] = "POST"
			if g := e.do(call{method: http.MethodOptions, path: "/v1/chat/completions", header: h}); allow(g) != "" {
				t.Errorf("the preflight of origin %q got %v", origin, g.header)
			}
		}
	})
	inBubble(t, setup{cfg: keyed()}, func(t *testing.T, e *edge) {
		g := e.do(call{method: http.MethodOptions, path: "/v1/chat/completions", header: preflight})
		for name := range g.header {
			if strings.HasPrefix(name, "Access-Control-") {
				t.Errorf("without a list there is a header %s", name)
			}
		}
		if g.status != 204 || !strings.Contains(g.header.Get("Allow"), "POST") {
			t.Errorf("OPTIONS got %d %v", g.status, g.header)
		}
	})
}

// TestUnreadable: what net/http refuses before any handler is refused in OpenAI's
// shape, with an id, under the same status; so are chunks that are none.
func TestUnreadable(t *testing.T) {
	cases := map[string]struct {
		text   string
		status int
		says   string
	}{
		"request line":    {"hello\r\n\r\n", 400, "cannot be read as HTTP/1.1."},
		"host":            {"GET /v1/models HTTP/1.1\r\n\r\n", 400, "missing required Host header."},
		"header":          {"GET /v1/models HTTP/1.1\r\nHost: x\r\nA B: c\r\n\r\n", 400, "invalid header name."},
		"header, 1.0":     {"GET /v1/models HTTP/1.0\r\nA B: c\r\n\r\n", 400, "invalid header name."},
		"large header":    {"GET /v1/models HTTP/1.1\r\nHost: x\r\nA: " + strings.Repeat("x", 80<<10) + "\r\n\r\n", 431, "65536 bytes"},
		"expect":          {"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nExpect: miracles\r\nContent-Length: 2\r\n\r\n{}", 417, "only 100-continue"},
		"encoding":        {"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n{}", 501, "Transfer-Encoding"},
		"version":         {"GET /v1/models HTTP/3.0\r\nHost: x\r\n\r\n", 505, "send it as HTTP/1.1"},
		"chunks":          {"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400, "its chunks are malformed"},
		"chunks, no room": {"POST /v1/nothing HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 404, "no route"},
	}
	e := start(t, setup{})
	dial := e.onTCP()
	for name, c := range cases {
		g := e.response(dial(c.text))
		f := g.fault(t)
		if g.status != c.status || f.Type != invalid || !strings.Contains(f.Message, c.says) || g.header.Get("Content-Type") != "application/json" || !ownID.MatchString(g.id()) {
			t.Errorf("%s: got %d %+v %v", name, g.status, f, g.header)
		}
	}
	if text := e.do(call{path: "/metrics"}).body; !strings.Contains(text, `oneslot_requests_total{code="431",route="none",stream="false"} 1`) {
		t.Error("the refusals are not counted")
	}
}

// TestSilentConnections do not hold up the end.
func TestSilentConnections(t *testing.T) {
	inBubble(t, setup{}, func(t *testing.T, e *edge) {
		e.raw("")
		e.raw("GET /v1/mod")
		synctest.Wait()
		began := time.Now()
		if err := e.server.Shutdown(t.Context()); err != nil || time.Since(began) > time.Second {
			t.Errorf("the end took %v: %v", time.Since(began), err)
		}
	})
}
