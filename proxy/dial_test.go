package proxy_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"oneslot/internal/simengine/simtest"
)

// countDials puts the proxy in front of the same simulated engine by a dialer
// that counts.
func (r *rig) countDials(s setup) func() int64 {
	var n atomic.Int64
	_, client := simtest.Pipe(r.t, s.sim)
	dial := client.Transport.(*http.Transport).DialContext
	s.engine.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		n.Add(1)
		return dial(ctx, network, address)
	}
	r.open(s)
	return n.Load
}

// canned is an engine that answers chat requests with the same bytes, in the
// pieces that it is given, and then closes the connection; everything else is
// answered with 404. There is no server and no goroutine: its connections are
// read from memory.
type canned struct {
	pieces []string
	flood  int // bytes of x that follow them
}

func (c *canned) dial(context.Context, string, string) (net.Conn, error) {
	return &cannedConn{canned: c, asked: make(chan []string, 1)}, nil // a request at a time
}

// dialUnless is dial until gone is set.
func (c *canned) dialUnless(gone *bool) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		if *gone {
			return refuse(ctx, network, address)
		}
		return c.dial(ctx, network, address)
	}
}

// refuse is an address at which nobody listens.
func refuse(context.Context, string, string) (net.Conn, error) {
	return nil, errors.New("connection refused")
}

// cannedConn is one connection to it.
type cannedConn struct {
	*canned
	asked  chan []string // replies, for the reader
	once   sync.Once
	closed atomic.Bool

	left   []string // the reader's: what is to be read
	poured int
}

const notFound = "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"

func (c *cannedConn) Write(p []byte) (int, error) {
	reply := []string{notFound}
	if bytes.HasPrefix(p, []byte("POST /v1/chat/completions ")) {
		reply = slices.Clone(c.pieces)
	}
	c.asked <- reply
	return len(p), nil
}

func (c *cannedConn) Read(p []byte) (int, error) {
	if c.left == nil {
		if c.left = <-c.asked; c.left == nil {
			return 0, net.ErrClosed
		}
	}
	if len(c.left) == 0 {
		return c.pour(p)
	}
	n := copy(p, c.left[0])
	if c.left[0] = c.left[0][n:]; c.left[0] == "" {
		c.left = c.left[1:]
	}
	return n, nil
}

func (c *cannedConn) pour(p []byte) (int, error) {
	if c.poured >= c.flood || c.closed.Load() {
		return 0, io.EOF
	}
	for i := range p {
		p[i] = 'x'
	}
	c.poured += len(p)
	return len(p), nil
}

func (c *cannedConn) Close() error {
	c.closed.Store(true)
	c.once.Do(func() { close(c.asked) })
	return nil
}

func (c *cannedConn) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (c *cannedConn) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (c *cannedConn) SetDeadline(time.Time) error      { return nil }
func (c *cannedConn) SetReadDeadline(time.Time) error  { return nil }
func (c *cannedConn) SetWriteDeadline(time.Time) error { return nil }
