package api

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"oneslot/api/intake"
	"oneslot/internal/simengine"
	"oneslot/internal/simengine/script"
	"oneslot/ledger"
)

// onTCP has the edge answer on a real network too, and returns what dials it: a pipe
// holds nothing, so that a writer waits for the reader.
func (e *edge) onTCP() (dial func(text string) net.Conn) {
	e.t.Helper()
	l, err := new(net.ListenConfig).Listen(e.t.Context(), "tcp", "127.0.0.1:0")
	e.must(err)
	go func() { _ = e.server.Serve(l) }() // ends with the edge
	return func(text string) net.Conn {
		conn, err := new(net.Dialer).DialContext(e.t.Context(), "tcp", l.Addr().String())
		e.must(err)
		e.t.Cleanup(func() { _ = conn.Close() })
		_, err = io.WriteString(conn, text)
		e.must(err)
		return conn
	}
}

// TestRefusedWhileSending: a client that writes its whole body before it reads gets
// the refusal, not a broken connection, whatever it is refused for; one that asks
// first is not sent for it.
func TestRefusedWhileSending(t *testing.T) {
	const limit = 4 << 20
	cfg := keyed()
	cfg.Bodies = intake.Config{Body: limit, PerKey: limit / 2}
	e := start(t, setup{cfg: cfg})
	dial := e.onTCP()
	post := func(path, more string) string { return "POST " + path + " HTTP/1.1\r\nHost: x\r\n" + more }
	for name, c := range map[string]struct {
		head   string
		size   int
		status int
	}{
		"too large":   {post("/v1/chat/completions", asUser), limit + limit/2, 413},
		"no room":     {post("/v1/chat/completions", asUser), limit - 1, 429},
		"no key":      {post("/v1/chat/completions", ""), limit / 2, 401},
		"no route":    {post("/v1/nothing", asUser), limit / 2, 404},
		"no encoding": {post("/v1/chat/completions", asUser+"Content-Encoding: gzip\r\n"), limit / 2, 415},
	} {
		conn := dial(c.head + fmt.Sprintf("Content-Length: %d\r\n\r\n", c.size))
		if _, err := io.WriteString(conn, strings.Repeat("x", c.size)); err != nil {
			t.Errorf("%s: the body could not be sent: %v", name, err)
		}
		if g := e.response(conn); g.status != c.status {
			t.Errorf("%s: status %d, want %d", name, g.status, c.status)
		}
	}
	began := time.Now()
	conn := dial(post("/v1/chat/completions", asUser+fmt.Sprintf("Expect: 100-continue\r\nContent-Length: %d\r\n\r\n", limit+1)))
	if g := e.response(conn); g.status != 413 || time.Since(began) > lingered {
		t.Errorf("who asks first got status %d after %v", g.status, time.Since(began))
	}
}

// lingered is how long a refused body that stalls is read on for.
const lingered = 3 * time.Second

// asUser is the header of a key that is no admin's.
const asUser = "Authorization: Bearer " + secretA + "\r\n"

// TestRefusedAtOnce: no refusal waits for the rest of a body that stalls. The
// connection ends after it; where the body is small and there, it goes on.
func TestRefusedAtOnce(t *testing.T) {
	cfg := keyed()
	inBubble(t, setup{cfg: cfg}, func(t *testing.T, e *edge) {
		for name, c := range map[string]struct {
			text   string
			status int
			at     time.Duration
		}{
			"no key":           {"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{", 401, 100 * time.Millisecond},
			"no key, large":    {"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n{", 401, 0},
			"no key, chunked":  {"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab", 401, 0},
			"too large":        {"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n" + asUser + "Content-Length: 100000000\r\n\r\n{", 413, 0},
			"wanted by nobody": {"GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{", 200, 100 * time.Millisecond},
		} {
			began := time.Now()
			conn := e.raw(c.text)
			in := bufio.NewReader(conn)
			resp, err := http.ReadResponse(in, nil)
			e.must(err)
			if g := e.read(resp); g.status != c.status || time.Since(began) != c.at || !resp.Close {
				t.Errorf("%s: status %d after %v, to be closed: %v", name, g.status, time.Since(began), resp.Close)
			}
			if _, err := in.ReadByte(); !errors.Is(err, io.EOF) || time.Since(began) > c.at+lingered {
				t.Errorf("%s: the connection ended with %v after %v", name, err, time.Since(began))
			}
		}
		conn := e.raw("")
		in := bufio.NewReader(conn)
		for _, want := range []int{401, 401, 200} {
			text := "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n" + strings.Repeat("x", 1000)
			if want == 200 {
				text = "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
			}
			go func() { _, _ = io.WriteString(conn, text) }()
			resp, err := http.ReadResponse(in, nil)
			e.must(err)
			if g := e.read(resp); g.status != want {
				t.Errorf("on the same connection: %d, want %d", g.status, want)
			}
		}
	})
}

// TestRoomForBodies: unfinished uploads of a key take the room of that key and no
// more, those of all the room of all; what waits in line keeps its bytes reserved.
func TestRoomForBodies(t *testing.T) {
	cfg := keyed()
	cfg.Bodies = intake.Config{Total: 10_000, PerKey: 6000, Body: 5000}
	sim := simengine.Config{Scripts: []script.Script{{script.Sleep(time.Minute), script.Answer("late"), script.Finish("stop"), script.Done()}}}
	inBubble(t, setup{cfg: cfg, sim: sim}, func(t *testing.T, e *edge) {
		upload := func(secret, more string) net.Conn {
			return e.raw("POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + secret + "\r\n" + more)
		}
		refused := func(conn net.Conn, status int, code, reason string) {
			t.Helper()
			g := e.response(conn)
			if f := g.fault(t); g.status != status || f.Code != code || g.header.Get("X-Oneslot-Reason") != reason || g.header.Get("Retry-After") == "" {
				t.Errorf("got %d %+v %v", g.status, f, g.header)
			}
			_ = conn.Close()
		}
		waits := sized(4500)
		waits.header = bearer(secretA)
		line := e.behind(t.Context(), waits)
		e.until(running)
		upload(secretA, "Content-Length: 1400\r\n\r\n{")
		synctest.Wait()
		refused(upload(secretA, "Content-Length: 200\r\n\r\n"), 429, "rate_limit_exceeded", "key_bodies")
		upload(secretB, "Content-Length: 4000\r\n\r\n{")
		synctest.Wait()
		refused(upload(secretRoot, "Content-Length: 200\r\n\r\n"), 503, "bodies_full", "bodies_full")
		refused(upload(secretRoot, "Transfer-Encoding: chunked\r\n\r\n"), 503, "bodies_full", "bodies_full")
		if n := e.server.bodies.Held(); n != 4500+1400+4000 {
			t.Errorf("%d bytes are reserved", n)
		}
		<-time.After(11 * time.Second) // the uploads that bring nothing are over
		synctest.Wait()
		if n := e.server.bodies.Held(); n != 4500 {
			t.Errorf("%d bytes are reserved while one waits", n)
		}
		if g := <-line; g.status != 200 {
			t.Errorf("the one in line got %d %s", g.status, g.body)
		}
		synctest.Wait()
		if n := e.server.bodies.Held(); n != 0 {
			t.Errorf("%d bytes are still reserved", n)
		}
		for _, row := range e.rows() {
			if row.Outcome != ledger.Rejected && row.Outcome != ledger.Served {
				t.Errorf("the ledger has %+v", row)
			}
		}
	})
}

// TestStopWithHalfARequest: a body that is still coming does not hold up the end.
func TestStopWithHalfARequest(t *testing.T) {
	inBubble(t, setup{}, func(t *testing.T, e *edge) {
		half := e.raw("POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{")
		refused := e.raw("POST /v1/nothing HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n{")
		if g := e.response(refused); g.status != 404 {
			t.Errorf("got %d", g.status)
		}
		began := time.Now()
		e.server.Drain()
		g := e.response(half)
		if f := g.fault(t); g.status != 503 || f.Code != "draining" {
			t.Errorf("got %d %+v", g.status, f)
		}
		if err := e.server.Shutdown(t.Context()); err != nil || time.Since(began) > 4*time.Second {
			t.Errorf("the end took %v: %v", time.Since(began), err)
		}
	})
}
