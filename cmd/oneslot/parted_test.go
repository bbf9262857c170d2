package main

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"oneslot/internal/simengine"
)

// longRun is an engine that is busy for 50 s with each request.
var longRun = simengine.Config{Thinking: 400, Answer: 100, Ghost: true}

// reading is a request whose answer is read as it comes.
type reading struct {
	*http.Response
	text string
	err  error         // how reading it ended
	over chan struct{} // closed then
}

func (p *proxyUnderTest) asked(ctx context.Context, body string) *reading {
	p.t.Helper()
	resp := p.begin(ctx, body)
	a := &reading{Response: resp, over: make(chan struct{})}
	go func() {
		defer close(a.over)
		defer resp.Body.Close()
		var text []byte
		text, a.err = io.ReadAll(resp.Body)
		a.text = string(text)
	}()
	return a
}

// said sends a request in a version of HTTP over a connection of its own, and returns at
// the status line of the response.
func (p *proxyUnderTest) said(version, body string) (net.Conn, *http.Response) {
	p.t.Helper()
	conn, err := p.dial(p.t.Context(), "tcp", "proxy.test:80")
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { _ = conn.Close() })
	go func() {
		_, _ = io.WriteString(conn, "POST /v1/chat/completions "+version+"\r\nHost: proxy.test\r\nContent-Length: "+strconv.Itoa(len(body))+"\r\n\r\n"+body)
	}()
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		p.t.Fatal(err)
	}
	return conn, resp
}

// last is the end of a text.
func last(text string) string { return text[max(0, len(text)-300):] }

// Who waits for longer than commit_after does so without the HTTP server. What it gets
// is a whole answer all the same, after which its connection is closed, as it was told;
// the next request is served by another.
func TestAnswerAfterALongWait(t *testing.T) {
	for _, stream := range []bool{true, false} {
		inBubble(t, func(t *testing.T) {
			p := start(t, longRun, "cors_origins: [\"http://page.test\"]")
			first := p.open(t.Context(), hello)
			p.until(func(s simengine.Stats) bool { return s.Running == 1 })
			second := p.asked(t.Context(), ask(stream, `,"max_tokens":9`))
			<-second.over
			if second.err != nil || second.StatusCode != 200 || !second.Close {
				t.Errorf("stream=%v: got %d, error %v, close %v", stream, second.StatusCode, second.err, second.Close)
			}
			if whole := strings.HasSuffix(second.text, "data: [DONE]\n\n"); whole != stream || !strings.Contains(second.text, `"finish_reason":"length"`) {
				t.Errorf("stream=%v: the answer ends with %q", stream, last(second.text))
			}
			if r := p.settledRecord(second.Header.Get("X-Request-Id")); r["outcome"] != "served" || r["queue_wait_ms"].(float64) < 40_000 {
				t.Errorf("its record is %v", r)
			}
			<-first.whole
			if r := p.post(t.Context(), ask(stream, `,"max_tokens":9`), nil); r.status != 200 || r.header.Get("Connection") == "close" {
				t.Errorf("the next one got %d, header %v", r.status, r.header)
			}
			text := p.fetch("/metrics").body
			if want := `oneslot_requests_total{code="200",route="/v1/chat/completions",stream="true"}`; stream && !strings.Contains(text, want+" 3\n") {
				t.Errorf("of three requests the metrics count otherwise: %s", text[strings.Index(text, "oneslot_requests_total"):])
			}
		})
	}
}

// Who has waited long and leaves in the middle of its answer is noticed at once.
func TestLeavesAfterALongWait(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := start(t, longRun, "")
		p.open(t.Context(), hello)
		p.until(func(s simengine.Stats) bool { return s.Running == 1 })
		ctx, leave := context.WithCancel(t.Context())
		second := p.open(ctx, hello)
		p.until(func(s simengine.Stats) bool { return len(s.Runs) == 2 && s.Running == 1 && !s.Runs[1].Started.IsZero() })
		<-time.After(5 * time.Second)
		left := time.Now()
		leave()
		s := p.until(func(s simengine.Stats) bool { return s.Running == 0 })
		if run := s.Runs[1]; run.Outcome != "abort" || run.Aborted.Sub(left) > 20*time.Millisecond || s.Ghosts != 0 {
			t.Errorf("its run ended as %q, %v after it left", run.Outcome, run.Aborted.Sub(left))
		}
		if r := p.settledRecord(second.header.Get("X-Request-Id")); r["outcome"] != "client_gone" {
			t.Errorf("its record is %v", r)
		}
	})
}

// Who goes on speaking while it waits, as one that sends its next request already, and then
// leaves is out of the line like any other. So is one that has stopped reading.
func TestLeavesTheLineAfterItHasSpoken(t *testing.T) {
	for name, end := range map[string]func(conn net.Conn){
		"speaks and leaves": func(conn net.Conn) {
			for range 4 {
				_, _ = io.WriteString(conn, "POST /v1/chat")
			}
			_ = conn.Close()
		},
		"speaks and reads no more": func(conn net.Conn) { _, _ = io.WriteString(conn, "\r\n\r\n") },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				p := start(t, longRun, "limits: {write_timeout: 2s}")
				p.open(t.Context(), hello)
				p.until(func(s simengine.Stats) bool { return s.Running == 1 })
				conn, resp := p.said("HTTP/1.1", hello)
				<-time.After(time.Second)
				end(conn)
				<-time.After(15 * time.Second) // the next heartbeat and its time
				synctest.Wait()
				if view := p.get("/v1/queue"); view["waiting"] != 0.0 {
					t.Errorf("%v wait", view["waiting"])
				}
				if r := p.settledRecord(resp.Header.Get("X-Request-Id")); r["outcome"] != "abandoned" {
					t.Errorf("its record is %v", r)
				}
			})
		})
	}
}

// A stop lets an answer end whose client had waited long, and tells those who wait; the
// program does not end before them.
func TestStopAfterALongWait(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := start(t, longRun, "")
		p.open(t.Context(), hello)
		p.until(func(s simengine.Stats) bool { return s.Running == 1 })
		second := p.asked(t.Context(), hello)
		p.until(func(s simengine.Stats) bool { return len(s.Runs) == 2 && !s.Runs[1].Started.IsZero() })
		third := p.asked(t.Context(), hello)
		stopped := make(chan error, 1)
		go func() { stopped <- p.stop() }()
		<-third.over
		if third.err != nil || !strings.Contains(third.text, `"code":"draining"`) || !strings.HasSuffix(third.text, "data: [DONE]\n\n") {
			t.Errorf("who waited got %q, %v", last(third.text), third.err)
		}
		<-second.over
		if second.err != nil || !strings.Contains(second.text, `"finish_reason":"stop"`) || !strings.HasSuffix(second.text, "data: [DONE]\n\n") {
			t.Errorf("who ran got %q, %v", last(second.text), second.err)
		}
		if err := <-stopped; err != nil {
			t.Error(err)
		}
	})
}

// A client of HTTP/1.0, which knows no chunks, waits as well.
func TestOldClientWaits(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := start(t, longRun, "")
		p.open(t.Context(), hello)
		p.until(func(s simengine.Stats) bool { return s.Running == 1 })
		_, resp := p.said("HTTP/1.0", ask(true, `,"max_tokens":9`))
		text, err := io.ReadAll(resp.Body)
		if err != nil || len(resp.TransferEncoding) > 0 || !strings.HasPrefix(string(text), ": queue position=1 of=1\n\n") || !strings.HasSuffix(string(text), "data: [DONE]\n\n") {
			t.Errorf("got %v, %q, %v", resp.Header, last(string(text)), err)
		}
	})
}

// Nothing of a client that waits is left behind by its leaving, and the slot goes to
// the next who is there.
func TestManyLeaveTheLine(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := start(t, longRun, "queue: {max_waiting: 100, max_waiting_per_key: 100}")
		first := p.open(t.Context(), hello)
		p.until(func(s simengine.Stats) bool { return s.Running == 1 })
		ctx, leave := context.WithCancel(t.Context())
		var gone []*stream
		for range 50 {
			gone = append(gone, p.open(ctx, hello))
		}
		last := p.open(t.Context(), hello)
		if got := last.header.Get("X-Oneslot-Position"); got != "51" {
			t.Errorf("the last one stands at %s", got)
		}
		leave()
		synctest.Wait()
		if view := p.get("/v1/queue"); view["waiting"] != 1.0 {
			t.Errorf("%v wait", view["waiting"])
		}
		<-first.whole
		r := <-last.whole
		if a := (&r).answer(t); a.finish != "stop" {
			t.Errorf("the last one got %+v", a)
		}
		for _, s := range gone {
			if r := p.settledRecord(s.header.Get("X-Request-Id")); r["outcome"] != "abandoned" {
				t.Errorf("the record of one who left is %v", r)
			}
		}
		if s := p.engine.Stats(); s.Arrivals != 2 {
			t.Errorf("the engine saw %d requests", s.Arrivals)
		}
	})
}
