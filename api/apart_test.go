package api

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
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
	inBubble(t, setup{cfg: talkative(Config{}), change: func(d *Deps) { d.Proxy = nil }}, func(t *testing.T, e *edge) {
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
