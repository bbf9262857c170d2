package api

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// aside has a streamed request wait behind a paused line until its handler has
// returned.
func (e *edge) aside(ctx context.Context) <-chan got {
	e.t.Helper()
	e.do(call{method: http.MethodPost, path: "/v1/queue/pause"})
	waits := e.behind(ctx, ask(`,"stream":true`, nil))
	<-time.After(25 * time.Second)
	synctest.Wait()
	return waits
}

// TestBodyOfOneWhoWaits: its bytes stay reserved when its handler has returned, until
// it has its answer or has left.
func TestBodyOfOneWhoWaits(t *testing.T) {
	for _, leaves := range []bool{false, true} {
		inBubble(t, setup{cfg: talkative(Config{})}, func(t *testing.T, e *edge) {
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			waits := e.aside(ctx)
			if n := e.server.bodies.Held(); n != int64(len(ask(`,"stream":true`, nil).body)) {
				t.Errorf("%d bytes are reserved while one waits", n)
			}
			if leaves {
				leave()
			} else {
				e.do(call{method: http.MethodPost, path: "/v1/queue/resume"})
			}
			<-waits
			synctest.Wait()
			if n := e.server.bodies.Held(); n != 0 {
				t.Errorf("leaves=%v: %d bytes are still reserved", leaves, n)
			}
		})
	}
}

// TestCrashBehindAWait: a panic behind the wait is told and logged like any other, and
// the slot comes free.
func TestCrashBehindAWait(t *testing.T) {
	inBubble(t, setup{cfg: talkative(Config{}), change: crashes}, func(t *testing.T, e *edge) {
		for n := range 2 {
			waits := e.aside(t.Context())
			e.do(call{method: http.MethodPost, path: "/v1/queue/resume"})
			g := <-waits
			if f := g.fault(t); g.status != 200 || f.Code != "internal_error" || !strings.HasPrefix(g.body, ": queue position=1 of=1 paused\n\n") {
				t.Errorf("got %d %s", g.status, g.body)
			}
			synctest.Wait()
			if lines := e.lines("panic"); len(lines) != n+1 || lines[n]["id"] != g.id() {
				t.Errorf("the log has %v", lines)
			}
			if lines := e.lines("request"); len(lines) != n+1 || lines[n]["id"] != g.id() || lines[n]["status"] != 200.0 {
				t.Errorf("the log has %v", lines)
			}
		}
	})
}

// TestConnectionIsCut: http.ErrAbortHandler behind a wait ends the connection, as in a
// handler, so that nobody takes the answer for a whole one; the program goes on.
func TestConnectionIsCut(t *testing.T) {
	abort := func(d *Deps) {
		d.Log = d.Log.WithOptions(zap.Hooks(func(line zapcore.Entry) error {
			if line.Message == "request" {
				panic(http.ErrAbortHandler)
			}
			return nil
		}))
	}
	inBubble(t, setup{cfg: talkative(Config{}), change: abort}, func(t *testing.T, e *edge) {
		stalled := e.stalled()
		e.do(call{method: http.MethodPost, path: "/v1/queue/resume"})
		if _, err := io.Copy(io.Discard, stalled); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("reading the answer ends with %v", err)
		}
		if lines := e.lines("panic"); len(lines) > 0 {
			t.Errorf("the log has %v", lines)
		}
	})
}

// heard is the answer to a GET or POST whose client has read no more than its first
// bytes: a pipe holds nothing, so whatever more is written waits for a Read.
func (e *edge) heard(method, path, body string) io.Reader {
	e.t.Helper()
	conn, err := e.line.Dial(e.t.Context(), "tcp", "edge.test:80")
	e.must(err)
	e.t.Cleanup(func() { _ = conn.Close() })
	go func() {
		_, _ = io.WriteString(conn, method+" "+path+" HTTP/1.1\r\nHost: edge.test\r\nContent-Length: "+strconv.Itoa(len(body))+"\r\n\r\n"+body)
	}()
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	e.must(err)
	if resp.StatusCode != http.StatusOK {
		e.t.Fatalf("%s %s answers %d", method, path, resp.StatusCode)
	}
	return resp.Body
}

// stalled is the answer to a request that waits behind a paused line without its handler,
// and whose client does not read on.
func (e *edge) stalled() io.Reader {
	e.t.Helper()
	e.do(call{method: http.MethodPost, path: "/v1/queue/pause"})
	body := e.heard(http.MethodPost, "/v1/chat/completions", ask(`,"stream":true`, nil).body)
	synctest.Wait()
	return body
}

// TestShutdownWaits for an answer that has left the server.
func TestShutdownWaits(t *testing.T) {
	inBubble(t, setup{cfg: talkative(Config{})}, func(t *testing.T, e *edge) {
		stalled := e.stalled()
		e.server.Drain()
		stopped := make(chan error, 1)
		go func() { stopped <- e.server.Shutdown(t.Context()) }()
		<-time.After(5 * time.Second)
		if len(stopped) > 0 {
			t.Fatal("it did not wait")
		}
		text, err := io.ReadAll(stalled)
		if err != nil || !strings.HasSuffix(string(text), "data: [DONE]\n\n") {
			t.Errorf("the answer ends with %q, %v", text, err)
		}
		if err := <-stopped; err != nil {
			t.Error(err)
		}
	})
}

// TestShutdownCuts all who are still there when its time is over, whichever of them it
// was that it waited for.
func TestShutdownCuts(t *testing.T) {
	for _, hangs := range []bool{true, false} {
		inBubble(t, setup{cfg: talkative(Config{})}, func(t *testing.T, e *edge) {
			stalled := e.stalled()
			if hangs {
				e.heard(http.MethodGet, "/v1/queue/events", "")
				e.do(call{method: http.MethodPost, path: "/v1/queue/drain"}) // is more to tell
			}
			synctest.Wait()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if err := e.server.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("it ended with %v", err)
			}
			ended := time.Now()
			if _, err := io.Copy(io.Discard, stalled); err == nil || time.Since(ended) > 0 {
				t.Errorf("hangs=%v: reading the answer ends with %v, after %v", hangs, err, time.Since(ended))
			}
		})
	}
}
