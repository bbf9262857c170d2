package downstream_test

import (
	"bufio"
	"cmp"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"oneslot/internal/simengine/simtest"
	"oneslot/proxy/downstream"
)

// TestEndLags: the end of a stream is left to the server when the handler is about to
// return, and sent by itself when that takes longer or somebody asks for it.
func TestEndLags(t *testing.T) {
	const end = "data: [DONE]\n\n"
	long := strings.Repeat("x", 2<<10)
	for _, x := range []struct {
		name       string
		text       string // pending at the end
		lag        time.Duration
		after      func(c *downstream.Client)
		sent, left string
	}{
		{"returns", "", time.Millisecond, (*downstream.Client).Release, "", end},
		{"returns with more", ": a\n\n", time.Millisecond, (*downstream.Client).Release, "", ": a\n\n" + end},
		{"takes longer", "", time.Millisecond, func(*downstream.Client) { pass(time.Millisecond) }, end, ""},
		{"not so long", "", time.Millisecond, func(*downstream.Client) { pass(time.Millisecond - 1) }, "", ""},
		{"is flushed", "", time.Millisecond, func(c *downstream.Client) { _ = c.Flush() }, end, ""},
		{"is flushed, returns", "", time.Millisecond, func(c *downstream.Client) { _ = c.Flush(); c.Release() }, end, ""},
		{"returns, is flushed", "", time.Millisecond, func(c *downstream.Client) { c.Release(); _ = c.Flush() }, "", end},
		{"fails behind it", "", time.Millisecond, func(c *downstream.Client) { c.Fail(errEngine); c.Release() }, "", end},
		{"long", long, time.Millisecond, func(*downstream.Client) {}, long + end, ""},
		{"no lag", "", 0, func(*downstream.Client) {}, end, ""},
	} {
		t.Run(x.name, func(t *testing.T) {
			cfg := usual(true)
			cfg.Lag, cfg.Heartbeat = x.lag, 0
			inBubble(t, cfg, func(t *testing.T, c *downstream.Client, w *writer) {
				if err := cmp.Or(c.Say([]byte(x.text)), c.Done()); err != nil {
					t.Fatal(err)
				}
				x.after(c)
				if w.got() != x.sent || w.pending != x.left || len(w.deadlines) == 0 && x.sent+x.left != "" {
					t.Errorf("sent %q and left %q with the deadlines %v, want %q and %q", w.got(), w.pending, w.deadlines, x.sent, x.left)
				}
				c.Release()
				pass(time.Second)
				if got := w.got() + w.pending; got != x.text+end {
					t.Errorf("got %q in the end", got)
				}
			})
		})
	}
}

// counted is a network whose connections count what the server writes.
type counted struct {
	*simtest.Pipes
	writes atomic.Int64
}

func (c *counted) Accept() (net.Conn, error) {
	conn, err := c.Pipes.Accept()
	return countingConn{conn, c}, err
}

type countingConn struct {
	net.Conn
	all *counted
}

func (c countingConn) Write(p []byte) (int, error) {
	c.all.writes.Add(1)
	return c.Conn.Write(p)
}

// TestOneWriteEndsAll: the server sends the last of a stream, its end and what closes
// the response at once.
func TestOneWriteEndsAll(t *testing.T) {
	for flushed, want := range map[bool]int64{true: 2, false: 1} {
		synctest.Test(t, func(t *testing.T) {
			line := &counted{Pipes: simtest.NewPipes()}
			server := &http.Server{ReadHeaderTimeout: time.Hour, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				cfg := usual(true)
				cfg.Lag = time.Millisecond
				c, err := downstream.New(w, r, cfg)
				if err != nil {
					t.Error(err)
					return
				}
				defer c.Release()
				_ = c.Send([]byte("1"))
				if flushed {
					_ = c.Flush()
				}
				_ = c.Send([]byte("2"))
				_ = c.Done()
			})}
			var served sync.WaitGroup
			served.Go(func() { _ = server.Serve(line) })
			defer served.Wait()
			defer func() { _ = server.Close() }()
			far, err := line.Dial(t.Context(), "", "")
			if err != nil {
				t.Fatal(err)
			}
			defer far.Close()
			go func() { _, _ = io.WriteString(far, "GET / HTTP/1.1\r\nHost: x\r\n\r\n") }()
			resp, err := http.ReadResponse(bufio.NewReader(far), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			text, err := io.ReadAll(resp.Body)
			if string(text) != "data: 1\n\ndata: 2\n\ndata: [DONE]\n\n" || err != nil || line.writes.Load() != want {
				t.Errorf("flushed %v: got %q, %v, in %d writes; want %d", flushed, text, err, line.writes.Load(), want)
			}
		})
	}
}

// TestKeptAnswersDoNotLag: whether they were delivered is known when they have ended, and
// so is it of those that repeat them.
func TestKeptAnswersDoNotLag(t *testing.T) {
	cfg := usual(true)
	cfg.Lag = time.Hour
	keeping(t, cfg, func(t *testing.T, k *kept) {
		_ = k.first.Done()
		repeated := k.repeat(cfg)
		if k.to.got() == "" || !k.first.Delivered() || repeated.got() == "" {
			t.Errorf("sent %q and repeated %q, delivered: %v", k.to.got(), repeated.got(), k.first.Delivered())
		}
	})
}
