package wire_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"oneslot/proxy/engine/wire"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is a client in front of a server, with the number of its connections.
type rig struct {
	*wire.Client
	dials *atomic.Int64
}

func connect(t *testing.T, base string, change func(*wire.Config)) rig {
	t.Helper()
	u, err := url.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	r := rig{dials: &atomic.Int64{}}
	cfg := wire.Config{Base: u, Idle: 2 * time.Second, Dial: (&net.Dialer{}).DialContext}
	if change != nil {
		change(&cfg)
	}
	dial := cfg.Dial
	cfg.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		r.dials.Add(1)
		return dial(ctx, network, address)
	}
	r.Client = wire.New(cfg)
	t.Cleanup(r.Close)
	return r
}

func (r rig) want(t *testing.T, dials int64) {
	t.Helper()
	if n := r.dials.Load(); n != dials {
		t.Errorf("%d connections were made, want %d", n, dials)
	}
}

// post sends a body and returns the whole of the answer.
func (r rig) post(t *testing.T, body string) (status int, text string, err error) {
	t.Helper()
	resp, err := r.Do(t.Context(), &wire.Request{Method: http.MethodPost, Path: "/x", Body: []byte(body)})
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	all, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(all), err
}

func serve(t *testing.T, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}

// TestRequests: what the server reads is what was asked for, long or short, and one
// connection does.
func TestRequests(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Trailer", "X-End")
		fmt.Fprintf(w, "%s %s %s %q %q %d ", r.Method, r.RequestURI, r.Host, r.Header["X-More"], r.Header.Get("Authorization"), r.ContentLength)
		_ = http.NewResponseController(w).Flush()
		_, _ = w.Write(body)
		w.Header().Set("X-End", "1")
	})
	host := strings.TrimPrefix(s.URL, "http://")
	c := connect(t, "http://me:pass%20word@"+host+"/base%2F1", nil)
	login := "Basic bWU6cGFzcyB3b3Jk"
	for _, x := range []struct {
		r    wire.Request
		want string
	}{
		{wire.Request{Method: "GET", Path: "/v1/models"}, "GET /base%2F1/v1/models " + host + ` [] "` + login + `" 0 `},
		{wire.Request{Method: "POST", Path: "/a"}, "POST /base%2F1/a " + host + ` [] "` + login + `" 0 `},
		{wire.Request{Method: "POST", Path: "/a", Body: []byte("hi")}, "POST /base%2F1/a " + host + ` [] "` + login + `" 2 hi`},
		{wire.Request{Method: "POST", Path: "/a", Body: []byte(strings.Repeat("x", 300_000))}, "POST /base%2F1/a " + host + ` [] "` + login + `" 300000 ` + strings.Repeat("x", 300_000)},
		{wire.Request{Method: "POST", Path: "/a", Header: http.Header{"X-More": {"a\r\nX-Evil: 1", "b"}, "Authorization": {"Bearer k"}}}, "POST /base%2F1/a " + host + ` ["a  X-Evil: 1" "b"] "Bearer k" 0 `},
	} {
		resp, err := c.Do(t.Context(), &x.r)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		if string(text) != x.want || err != nil || resp.StatusCode != 200 {
			t.Errorf("got %.200q, %v; want %.200q", text, err, x.want)
		}
		resp.Body.Close()
		if n, err := resp.Body.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
			t.Errorf("behind the end: %d, %v", n, err)
		}
	}
	c.want(t, 1)
}

// TestConnectionsThatAreNotKept: what came back may not be whole, or says so.
func TestConnectionsThatAreNotKept(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/bye" {
			w.Header().Set("Connection", "close")
		}
		_, _ = io.WriteString(w, strings.Repeat("y", 100_000))
	})
	for name, x := range map[string]struct {
		r    wire.Request
		read int64
		want int64
	}{
		"read to its end":         {wire.Request{Path: "/"}, 1 << 20, 1},
		"left in the middle":      {wire.Request{Path: "/"}, 10, 2},
		"closed by the server":    {wire.Request{Path: "/bye"}, 1 << 20, 2},
		"not wanted any more":     {wire.Request{Path: "/", Last: true}, 1 << 20, 2},
		"closed before it's read": {wire.Request{Path: "/"}, 0, 2},
	} {
		t.Run(name, func(t *testing.T) {
			c := connect(t, s.URL, nil)
			for range 2 {
				x.r.Method = http.MethodGet
				resp, err := c.Do(t.Context(), &x.r)
				if err != nil {
					t.Fatal(err)
				}
				_, _ = io.CopyN(io.Discard, resp.Body, x.read)
				resp.Body.Close()
			}
			c.want(t, x.want)
		})
	}
}

// raw is a server of one connection at a time, whose bytes are the test's.
func raw(t *testing.T, serve func(n int, conn net.Conn, r *bufio.Reader)) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		for n := 1; ; n++ {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			serve(n, conn, bufio.NewReader(conn))
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-over
	})
	return "http://" + l.Addr().String()
}

const ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

// take reads a request.
func take(r *bufio.Reader) bool {
	req, err := http.ReadRequest(r)
	if err != nil {
		return false
	}
	_, err = io.Copy(io.Discard, req.Body)
	return err == nil
}

// TestKeptConnectionThatHasEnded is not used: no request meets its end, nor what came
// without having been asked for.
func TestKeptConnectionThatHasEnded(t *testing.T) {
	for name, last := range map[string]string{"closed": "", "not asked for": "HTTP/1.1 408 Request Timeout\r\n\r\n"} {
		t.Run(name, func(t *testing.T) {
			end, ended := make(chan struct{}), make(chan struct{})
			c := connect(t, raw(t, func(_ int, conn net.Conn, r *bufio.Reader) {
				take(r)
				_, _ = io.WriteString(conn, ok)
				<-end
				_, _ = io.WriteString(conn, last)
				_ = conn.Close()
				ended <- struct{}{}
			}), nil)
			for range 3 {
				if status, text, err := c.post(t, "{}"); status != 200 || text != "ok" {
					t.Fatalf("got %d %q %v", status, text, err)
				}
				end <- struct{}{}
				<-ended
			}
			c.want(t, 3)
		})
	}
}

// TestBrokenConnections: a request that may have been read is sent once, unless it may
// be repeated, and then once more on a new connection.
func TestBrokenConnections(t *testing.T) {
	for _, again := range []bool{false, true} {
		t.Run(fmt.Sprint(again), func(t *testing.T) {
			var seen atomic.Int64
			c := connect(t, raw(t, func(n int, conn net.Conn, r *bufio.Reader) {
				for take(r) {
					if seen.Add(1); n == 1 && seen.Load() == 2 {
						return // it has read the request, and goes
					}
					_, _ = io.WriteString(conn, ok)
				}
			}), nil)
			for i := range 2 {
				resp, err := c.Do(t.Context(), &wire.Request{Method: "POST", Path: "/", Body: []byte("{}"), Again: again})
				if (err == nil) != (i == 0 || again) {
					t.Fatalf("request %d: %v", i, err)
				}
				if err == nil {
					_, _ = io.Copy(io.Discard, resp.Body)
				}
			}
			if n := seen.Load(); n != map[bool]int64{false: 2, true: 3}[again] {
				t.Errorf("the server has read %d requests", n)
			}
			c.Close()
		})
	}
	t.Run("new", func(t *testing.T) { // on a connection of its own nothing is repeated
		c := connect(t, raw(t, func(_ int, _ net.Conn, r *bufio.Reader) { take(r) }), nil)
		if _, err := c.Do(t.Context(), &wire.Request{Method: "POST", Path: "/", Again: true}); err == nil {
			t.Error("there is an answer")
		}
		c.want(t, 1)
	})
}

// TestReadAfterClose: what was cut has no end, what was read to its end keeps it.
func TestReadAfterClose(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 100_000)) })
	for whole, want := range map[bool]error{false: http.ErrBodyReadAfterClose, true: io.EOF} {
		resp, err := connect(t, s.URL, nil).Do(t.Context(), &wire.Request{Method: http.MethodGet, Path: "/x"})
		if err != nil {
			t.Fatal(err)
		}
		some := io.LimitReader(resp.Body, 10)
		if whole {
			some = resp.Body
		}
		if _, err := io.Copy(io.Discard, some); err != nil {
			t.Error(err)
		}
		_ = resp.Body.Close()
		if n, err := resp.Body.Read(make([]byte, 1)); n != 0 || !errors.Is(err, want) {
			t.Errorf("whole %v: read %d, %v, want %v", whole, n, err, want)
		}
	}
}

// TestEarlyAnswers come before the request has been read, or will ever be.
func TestEarlyAnswers(t *testing.T) {
	for _, size := range []int{10, 8 << 20} {
		answered := make(chan struct{})
		c := connect(t, raw(t, func(_ int, conn net.Conn, r *bufio.Reader) {
			_, _ = r.ReadString('\n')
			_, _ = io.WriteString(conn, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nbig")
			<-answered // or the end of the connection overtakes the answer
		}), nil)
		if status, text, err := c.post(t, strings.Repeat("z", size)); status != 413 || text != "big" || err != nil {
			t.Errorf("%d bytes: got %d %q %v", size, status, text, err)
		}
		close(answered)
	}
}

// TestWhatIsNoAnswer ends with an error that names the request.
func TestWhatIsNoAnswer(t *testing.T) {
	for name, text := range map[string]string{
		"garbage":     "hello\r\n\r\n",
		"too long":    "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 2<<20),
		"half a head": "HTTP/1.1 200 OK\r\n",
	} {
		c := connect(t, raw(t, func(_ int, conn net.Conn, r *bufio.Reader) {
			take(r)
			_, _ = io.WriteString(conn, text)
		}), nil)
		if _, _, err := c.post(t, "{}"); err == nil || !strings.Contains(err.Error(), "POST /x") || strings.Contains(err.Error(), "too long") != (name == "too long") {
			t.Errorf("%s: %v", name, err)
		}
	}
	c := connect(t, raw(t, func(_ int, conn net.Conn, r *bufio.Reader) {
		take(r)
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
	}), nil)
	if _, text, err := c.post(t, "{}"); text != "half" || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("half a body: %q, %v", text, err)
	}
}

// TestCancel: the end of a request's context closes its connection, wherever it is.
func TestCancel(t *testing.T) {
	cause := errors.New("enough")
	for _, head := range []string{"", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"} {
		read, gone := make(chan struct{}), make(chan error, 1)
		c := connect(t, raw(t, func(_ int, conn net.Conn, r *bufio.Reader) {
			take(r)
			_, _ = io.WriteString(conn, head)
			close(read)
			_, err := conn.Read(make([]byte, 1))
			gone <- err
		}), nil)
		ctx, cancel := context.WithCancelCause(t.Context())
		go func() {
			<-read
			cancel(cause)
		}()
		resp, err := c.Do(ctx, &wire.Request{Method: "POST", Path: "/", Body: []byte("{}")})
		if err == nil {
			_, err = io.ReadAll(resp.Body)
			resp.Body.Close()
		}
		if !errors.Is(err, cause) {
			t.Errorf("behind %q: %v", head, err)
		}
		if err := <-gone; err == nil {
			t.Error("the connection is open")
		}
		cancel(nil)
	}
}

// pipes is a server whose connections need no network.
func pipes(t *testing.T, h http.HandlerFunc) func(*wire.Config) {
	t.Helper()
	conns := make(chan net.Conn)
	s := &http.Server{Handler: h, ReadHeaderTimeout: time.Hour}
	l := listener{conns, make(chan struct{})}
	over := make(chan struct{})
	go func() {
		defer close(over)
		_ = s.Serve(l)
	}()
	t.Cleanup(func() {
		_ = s.Close()
		<-over
	})
	return func(cfg *wire.Config) {
		cfg.Dial = func(context.Context, string, string) (net.Conn, error) {
			near, far := net.Pipe()
			conns <- far
			return near, nil
		}
	}
}

type listener struct {
	conns chan net.Conn
	over  chan struct{}
}

func (l listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.over:
		return nil, net.ErrClosed
	}
}

func (l listener) Close() error {
	close(l.over)
	return nil
}

func (l listener) Addr() net.Addr { return &net.TCPAddr{} }

// TestIdle: connections are kept for a while and a few of them, and then closed
// without another request.
func TestIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		open := &atomic.Int64{}
		server := pipes(t, func(_ http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/slow" {
				<-time.After(time.Second)
			}
		})
		c := connect(t, "http://engine.test", func(cfg *wire.Config) {
			server(cfg)
			dial := cfg.Dial
			cfg.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
				if address != "engine.test:http" {
					t.Errorf("%s is dialled", address)
				}
				conn, err := dial(ctx, network, address)
				open.Add(1)
				return counted{conn, open}, err
			}
		})
		one := func(path string) {
			resp, err := c.Do(t.Context(), &wire.Request{Method: "GET", Path: path})
			if err != nil {
				t.Error(err)
				return
			}
			_, _ = io.Copy(io.Discard, resp.Body)
		}
		one("/")
		<-time.After(1900 * time.Millisecond)
		one("/")
		c.want(t, 1)
		<-time.After(1900 * time.Millisecond)
		if open.Load() != 1 {
			t.Error("it was closed before its time")
		}
		<-time.After(200 * time.Millisecond)
		if open.Load() != 0 {
			t.Error("it is open after its time")
		}
		for range 6 {
			go one("/slow")
		}
		<-time.After(1001 * time.Millisecond)
		synctest.Wait()
		if n := open.Load(); n != 4 {
			t.Errorf("%d are kept of six", n)
		}
		<-time.After(time.Second)
		one("/") // does not keep the others
		<-time.After(time.Second)
		if n := open.Load(); n != 1 {
			t.Errorf("%d are open, want the one that was used", n)
		}
		c.Close()
		if n := open.Load(); n != 0 {
			t.Errorf("%d are open behind the end", n)
		}
	})
}

type counted struct {
	net.Conn
	open *atomic.Int64
}

func (c counted) Close() error {
	err := c.Conn.Close()
	c.open.Add(-1)
	return err
}

// TestDialersThatHang hold nobody who has left.
func TestDialersThatHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		c := connect(t, "http://engine.test", func(cfg *wire.Config) {
			cfg.Dial = func(context.Context, string, string) (net.Conn, error) {
				<-time.After(time.Minute)
				return near, nil
			}
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		if _, err := c.Do(ctx, &wire.Request{Method: "GET", Path: "/"}); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		if _, err := far.Read(make([]byte, 1)); !errors.Is(err, io.EOF) { // it waits for the dialer
			t.Errorf("a connection that came too late is open: %v", err)
		}
	})
}

func TestTLS(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "safe") }))
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // it complains of the stranger
	s.StartTLS()
	defer s.Close()
	trusted := x509.NewCertPool()
	trusted.AddCert(s.Certificate())
	c := connect(t, s.URL, func(cfg *wire.Config) { cfg.TLS = &tls.Config{RootCAs: trusted, MinVersion: tls.VersionTLS12} })
	for range 3 {
		if status, text, err := c.post(t, strings.Repeat("x", 10_000)); status != 200 || text != "safe" {
			t.Fatalf("got %d %q %v", status, text, err)
		}
	}
	c.want(t, 1)
	s.CloseClientConnections() // its end waits on the connection that is kept
	if _, text, err := c.post(t, "x"); text != "safe" {
		t.Errorf("got %q %v", text, err)
	}
	stranger := connect(t, s.URL, nil)
	if _, _, err := stranger.post(t, ""); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("a stranger is trusted: %v", err)
	}
}

// TestHandshakeIsBounded.
func TestHandshakeIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer far.Close()
		go func() { _, _ = io.Copy(io.Discard, far) }()
		c := connect(t, "https://engine.test", func(cfg *wire.Config) {
			cfg.Dial = func(context.Context, string, string) (net.Conn, error) { return near, nil }
		})
		began := time.Now()
		if _, _, err := c.post(t, ""); err == nil || time.Since(began) != 10*time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
	})
}
