package wire_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"oneslot/proxy/engine/wire"
)

// echo answers with what it got.
func echo(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	_, _ = w.Write(body)
}

// TestBegin: a request leaves at once where a connection is kept, whatever it is made of
// and however long the request is, and Do brings its response.
func TestBegin(t *testing.T) {
	plain, secure := serve(t, echo), httptest.NewTLSServer(http.HandlerFunc(echo))
	defer secure.Close()
	trusted := x509.NewCertPool()
	trusted.AddCert(secure.Certificate())
	for name, open := range map[string]func(t *testing.T) rig{
		"socket": func(t *testing.T) rig { return connect(t, plain.URL, nil) },
		"pipe":   func(t *testing.T) rig { return connect(t, "http://engine.test", pipes(t, echo)) },
		"TLS": func(t *testing.T) rig {
			return connect(t, secure.URL, func(cfg *wire.Config) { cfg.TLS = &tls.Config{RootCAs: trusted, MinVersion: tls.VersionTLS12} })
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := open(t)
			if c.Begin(&wire.Request{Method: "POST", Path: "/"}) {
				t.Fatal("a request has left without a connection")
			}
			if _, text, err := c.post(t, "first"); err != nil || text != "first" {
				t.Fatal(text, err)
			}
			for _, body := range []string{"", "short", strings.Repeat("long ", 1<<20)} {
				r := &wire.Request{Method: "POST", Path: "/", Body: []byte(body)}
				if !c.Begin(r) {
					t.Fatal("it was not begun")
				}
				resp, err := c.Do(t.Context(), r)
				if err != nil {
					t.Fatal(err)
				}
				text, err := io.ReadAll(resp.Body)
				if string(text) != body || err != nil {
					t.Errorf("got %.20q, %v for %.20q", text, err, body)
				}
				resp.Body.Close()
			}
			c.want(t, 1)
		})
	}
}

// TestBeginDoesNotWait for a server that reads nothing: what does not go at once is
// written beside.
func TestBeginDoesNotWait(t *testing.T) {
	read, closed := make(chan struct{}), make(chan error, 1)
	c := connect(t, raw(t, func(_ int, conn net.Conn, r *bufio.Reader) {
		take(r)
		_, _ = io.WriteString(conn, ok)
		<-read
		_, err := io.Copy(io.Discard, r)
		closed <- err
	}), nil)
	if _, text, err := c.post(t, ""); text != "ok" {
		t.Fatal(text, err)
	}
	r := &wire.Request{Method: "POST", Path: "/", Body: make([]byte, 32<<20)}
	if !c.Begin(r) {
		t.Fatal("it was not begun")
	}
	c.Drop(r)
	c.Drop(r) // once is enough
	close(read)
	<-closed // the server sees the end
	c.want(t, 1)
}

// TestBeginOnBrokenConnections: Do tells what a request met that was begun, or sends it on
// another connection where none of it had left.
func TestBeginOnBrokenConnections(t *testing.T) {
	c := connect(t, raw(t, func(_ int, conn net.Conn, r *bufio.Reader) {
		if take(r) {
			_, _ = io.WriteString(conn, ok)
		}
		take(r) // and says nothing to it
		take(r)
	}), nil)
	post := func() *wire.Request { return &wire.Request{Method: "POST", Path: "/", Body: []byte("x")} }
	if _, text, err := c.post(t, ""); text != "ok" {
		t.Fatal(text, err)
	}
	r := post()
	if !c.Begin(r) {
		t.Fatal("it was not begun")
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("nobody wants it")
	cancel(cause)
	if resp, err := c.Do(ctx, r); !errors.Is(err, cause) {
		if err == nil {
			resp.Body.Close()
		}
		t.Errorf("got %v", err)
	}
	if c.Begin(post()) {
		t.Error("the connection is kept")
	}
}

// TestEnds: the end of a body is known to be at hand only when it is.
func TestEnds(t *testing.T) {
	type ender interface{ Ends() bool }
	head := "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
	for name, x := range map[string]struct {
		parts []string // of what the server sends, a second apart
		want  bool     // when the data has been read
	}{
		"with the data":        {[]string{head + "2\r\nok\r\n0\r\n\r\n"}, true},
		"later":                {[]string{head + "2\r\nok\r\n", "0\r\n\r\n"}, false},
		"more data":            {[]string{head + "2\r\nok\r\n2\r\n00\r\n", "0\r\n\r\n"}, false},
		"read with the data":   {[]string{head + "2\r\nok\r\n0\r\n", "\r\n"}, true},
		"a length":             {[]string{ok}, true},
		"the data looks so":    {[]string{head + "2\r\nok\r\n7\r\n\r\n0\r\n\r\n", "\r\n0\r\n\r\n"}, true},
		"up to the connection": {[]string{"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nok"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				near, far := net.Pipe()
				defer far.Close()
				c := connect(t, "http://engine.test", func(cfg *wire.Config) {
					cfg.Dial = func(context.Context, string, string) (net.Conn, error) { return near, nil }
				})
				sent := make(chan struct{})
				defer func() { <-sent }()
				go func() {
					defer close(sent)
					take(bufio.NewReader(far))
					for _, part := range x.parts {
						_, _ = io.WriteString(far, part)
						<-time.After(time.Second)
					}
					_ = far.Close()
				}()
				resp, err := c.Do(t.Context(), &wire.Request{Method: "POST", Path: "/"})
				if err != nil {
					t.Fatal(err)
				}
				defer resp.Body.Close()
				if _, err := io.ReadFull(resp.Body, make([]byte, 2)); err != nil {
					t.Fatal(err)
				}
				if got := resp.Body.(ender).Ends(); got != x.want {
					t.Errorf("the end is at hand: %t, want %t", got, x.want)
				}
				if _, err := io.Copy(io.Discard, resp.Body); err != nil {
					t.Error(err)
				}
				if !resp.Body.(ender).Ends() {
					t.Error("the end was read")
				}
			})
		})
	}
}
