package raw_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"oneslot/proxy/downstream/raw"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// one is a listener of a single connection.
type one struct {
	conn chan net.Conn
	done chan struct{}
}

func (o *one) Accept() (net.Conn, error) {
	select {
	case c := <-o.conn:
		return c, nil
	case <-o.done:
		return nil, net.ErrClosed
	}
}

func (o *one) Close() error {
	select {
	case <-o.done:
	default:
		close(o.done)
	}
	return nil
}

func (o *one) Addr() net.Addr { return &net.TCPAddr{} }

// taken lets test speak to a Conn that was taken out of a server, whose answer had
// begun with "first".
func taken(t *testing.T, test func(t *testing.T, c *raw.Conn, far net.Conn, got *http.Response)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		line := &one{conn: make(chan net.Conn, 1), done: make(chan struct{})}
		line.conn <- near
		conns := make(chan *raw.Conn, 1)
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !raw.Able(w, r) {
				t.Error("the answer cannot be taken over")
			}
			w.Header().Set("Connection", "close")
			_, _ = io.WriteString(w, "first ")
			_ = http.NewResponseController(w).Flush()
			c, err := raw.Take(w)
			if err != nil {
				t.Error(err)
			}
			conns <- c
		})}
		served := make(chan struct{})
		go func() { defer close(served); _ = server.Serve(line) }()
		defer func() { _ = server.Close(); _ = far.Close(); <-served }()
		go func() { _, _ = io.WriteString(far, "GET / HTTP/1.1\r\nHost: x\r\n\r\n") }()
		resp, err := http.ReadResponse(bufio.NewReader(far), nil)
		if err != nil {
			t.Fatal(err)
		}
		c := <-conns
		defer c.Close()
		test(t, c, far, resp)
	})
}

// TestAnswerGoesOn: what is written after the taking over follows what was written
// before, and the answer is whole only if its end was written.
func TestAnswerGoesOn(t *testing.T) {
	long := strings.Repeat("long", 30_000)
	for last, whole := range map[string]bool{" end": true, "": true, "-": false} {
		taken(t, func(t *testing.T, c *raw.Conn, _ net.Conn, got *http.Response) {
			go func() {
				c.WriteHeader(500) // too late
				for _, text := range []string{"second ", "", long} {
					if n, err := c.Write([]byte(text)); n != len(text) || err != nil || c.FlushError() != nil || len(c.Header()) > 0 {
						t.Errorf("writing %d bytes: %d, %v", len(text), n, err)
					}
				}
				if whole {
					if err := c.End([]byte(last)); err != nil {
						t.Error(err)
					}
				}
				_ = c.Close()
			}()
			text, err := io.ReadAll(got.Body)
			want := "first second " + long
			if whole {
				want += last
			}
			if string(text) != want || (err == nil) != whole || got.StatusCode != 200 || !got.Close {
				t.Errorf("got %d, %d bytes, error %v, whole %v, close %v", got.StatusCode, len(text), err, whole, got.Close)
			}
		})
	}
}

// TestWatch: it ends when the caller has left, whatever it has said before, when it says
// too much, and when it is woken, before or after it has begun.
func TestWatch(t *testing.T) {
	for name, x := range map[string]struct {
		first bool // before Watch
		do    func(c *raw.Conn, far net.Conn)
		left  bool
	}{
		"leaves":         {false, func(_ *raw.Conn, far net.Conn) { _ = far.Close() }, true},
		"has left":       {true, func(_ *raw.Conn, far net.Conn) { _ = far.Close() }, true},
		"is woken":       {false, func(c *raw.Conn, _ net.Conn) { c.Wake() }, false},
		"has been woken": {true, func(c *raw.Conn, _ net.Conn) { c.Wake() }, false},
		"speaks, leaves": {false, func(_ *raw.Conn, far net.Conn) { say(far, 64<<10); _ = far.Close() }, true},
		"says too much":  {false, func(_ *raw.Conn, far net.Conn) { say(far, 64<<10+1) }, true},
		"speaks, wakes":  {false, func(c *raw.Conn, far net.Conn) { say(far, 3); c.Wake() }, false},
	} {
		t.Run(name, func(t *testing.T) {
			taken(t, func(t *testing.T, c *raw.Conn, far net.Conn, _ *http.Response) {
				if x.first {
					x.do(c, far)
				} else {
					go func() { <-time.After(time.Hour); x.do(c, far) }()
				}
				if left := c.Watch(); left != x.left {
					t.Errorf("left is %v", left)
				}
				if x.left {
					return
				}
				c.Again()
				go func() { <-time.After(time.Hour); _ = far.Close() }()
				began := time.Now()
				if left := c.Watch(); !left || time.Since(began) != time.Hour {
					t.Errorf("the second time left is %v after %v", left, time.Since(began))
				}
			})
		})
	}
}

// say writes n bytes in several pieces.
func say(far net.Conn, n int) {
	for _, part := range []int{1, 1, n - 2} {
		_, _ = far.Write(make([]byte, part))
	}
}

// TestWriteToOneWhoDoesNotRead fails in time.
func TestWriteToOneWhoDoesNotRead(t *testing.T) {
	taken(t, func(t *testing.T, c *raw.Conn, _ net.Conn, _ *http.Response) {
		_ = c.SetWriteDeadline(time.Now().Add(time.Second))
		var slow net.Error
		if n, err := c.Write([]byte("x")); n != 0 || !errors.As(err, &slow) || !slow.Timeout() {
			t.Errorf("wrote %d, %v", n, err)
		}
	})
}

// hijackable is a writer that has a connection, wrapped one is behind another.
type hijackable struct{ *httptest.ResponseRecorder }

func (hijackable) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return nil, nil, errors.New("not this time")
}

type wrapped struct{ http.ResponseWriter }

func (w wrapped) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func TestAble(t *testing.T) {
	for proto, want := range map[string]bool{"HTTP/1.0": false, "HTTP/1.1": true, "HTTP/2.0": false} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		r.ProtoMajor, r.ProtoMinor, _ = http.ParseHTTPVersion(proto)
		if got := raw.Able(wrapped{hijackable{httptest.NewRecorder()}}, r); got != want {
			t.Errorf("%s: %v", proto, got)
		}
		if raw.Able(wrapped{httptest.NewRecorder()}, r) {
			t.Error("a writer without a connection is able")
		}
	}
	if _, err := raw.Take(hijackable{httptest.NewRecorder()}); err == nil || !strings.Contains(err.Error(), "not this time") {
		t.Errorf("got %v", err)
	}
}

// overtaken is a connection whose deadline is set late: meanwhile somebody else goes on.
type overtaken struct {
	net.Conn
	meanwhile func()
}

func (o *overtaken) SetReadDeadline(at time.Time) error {
	if other := o.meanwhile; other != nil {
		o.meanwhile = nil
		other()
	}
	return o.Conn.SetReadDeadline(at)
}

// TestLateWake: one that comes so late that it ends the next Watch does not make it seem
// that the caller has left.
func TestLateWake(t *testing.T) {
	taken(t, func(t *testing.T, c *raw.Conn, _ net.Conn, _ *http.Response) {
		c.Conn = &overtaken{c.Conn, c.Again}
		c.Wake()
		if c.Watch() {
			t.Error("who is there has left")
		}
	})
}

// half is a connection whose sides end one by one.
type half struct {
	net.Conn
	ends  []string
	stray io.Reader // what the other side has sent and goes on to send
}

func (h *half) Read(p []byte) (int, error)      { return h.stray.Read(p) }
func (h *half) Write(p []byte) (int, error)     { return len(p), nil }
func (h *half) SetReadDeadline(time.Time) error { return nil }
func (h *half) CloseWrite() error               { h.ends = append(h.ends, "write"); return nil }
func (h *half) Close() error                    { h.ends = append(h.ends, "all"); return nil }

// TestCloseBehindStrayBytes: a caller that has sent more than its request can read the
// end of its answer before the connection is closed.
func TestCloseBehindStrayBytes(t *testing.T) {
	for name, x := range map[string]struct {
		stray string
		whole bool
		want  string
	}{
		"stray bytes":          {"GET / HTTP/1.1\r\n", true, "write all"},
		"none":                 {"", true, "all"},
		"an answer broken off": {"GET / HTTP/1.1\r\n", false, "all"},
	} {
		t.Run(name, func(t *testing.T) {
			h := &half{stray: strings.NewReader(x.stray)}
			c := &raw.Conn{Conn: h}
			if !c.Watch() {
				t.Error("the end of the connection was not seen")
			}
			if x.whole {
				if err := c.End(nil); err != nil {
					t.Fatal(err)
				}
			}
			if err := c.Close(); err != nil || strings.Join(h.ends, " ") != x.want {
				t.Errorf("closed were %v, want %s: %v", h.ends, x.want, err)
			}
		})
	}
}
