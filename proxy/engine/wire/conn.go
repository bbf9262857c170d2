package wire

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"oneslot/internal/socket"
)

// Sizes, in bytes.
const (
	readSize = 64 << 10 // of what is read at once
	maxHead  = 1 << 20  // of the head of a response
	// oneWrite is how long a request may be that is written before its response is
	// looked for: so much every server takes, whatever it thinks of it.
	oneWrite = 4 << 10
)

var (
	// errUnsent: the connection is closed, and nothing of the request has left.
	errUnsent = errors.New("wire: nothing was sent")
	// errUnanswered: the connection ended before a byte of the response.
	errUnanswered = errors.New("wire: the connection was closed without a response")
	errHead       = fmt.Errorf("wire: the head of the response is too long, more than %d bytes", maxHead)
)

// conn is a connection. It belongs to one request at a time.
type conn struct {
	net.Conn
	r     *bufio.Reader
	out   []byte    // the request, while it is short
	room  int       // what the head of the response may still take
	heard bool      // something of the response has come
	since time.Time // it is kept since then
	kept  bool      // it had a request before
}

func newConn(raw net.Conn) *conn {
	c := &conn{Conn: raw}
	c.r = bufio.NewReaderSize(source{c}, readSize)
	return c
}

// source is what a connection's buffer reads from.
type source struct{ conn *conn }

func (s source) Read(p []byte) (int, error) {
	c := s.conn
	if c.room <= 0 {
		return 0, errHead
	}
	n, err := c.Conn.Read(p)
	c.room -= n
	c.heard = c.heard || n > 0
	return n, err
}

// head writes the head of a request.
func (c *Client) head(conn *conn, r *Request) []byte {
	b := append(conn.out[:0], r.Method...)
	b = append(append(append(b, ' '), c.path...), r.Path...)
	b = append(append(b, " HTTP/1.1\r\nHost: "...), c.host...)
	b = append(b, "\r\n"...)
	for name, values := range r.Header {
		for _, v := range values {
			b = field(b, name, v)
		}
	}
	if c.login != "" && r.Header["Authorization"] == nil {
		b = field(b, "Authorization", c.login)
	}
	if len(r.Body) > 0 || r.Method == http.MethodPost {
		b = strconv.AppendInt(append(b, "Content-Length: "...), int64(len(r.Body)), 10)
		b = append(b, "\r\n"...)
	}
	if r.Last {
		b = append(b, "Connection: close\r\n"...)
	}
	return append(b, "\r\n"...)
}

// field adds a line of a head. A value stays on it.
func field(b []byte, name, value string) []byte {
	if strings.ContainsAny(value, "\r\n") {
		value = strings.NewReplacer("\r", " ", "\n", " ").Replace(value)
	}
	return append(append(append(append(b, name...), ": "...), value...), "\r\n"...)
}

// send sends a request and returns what its outcome comes on: a short one has been
// written by then, a long one is written beside the waiting for the response, since a
// server may answer before it has read all.
func (c *conn) send(head, body []byte) <-chan error {
	sent := make(chan error, 1)
	if len(head)+len(body) <= oneWrite {
		c.out = append(head, body...)
		n, err := c.Write(c.out)
		sent <- outcome(int64(n), err)
		return sent
	}
	c.out = head
	go func() {
		parts := net.Buffers{head, body}
		n, err := parts.WriteTo(c.Conn)
		sent <- outcome(n, err)
	}()
	return sent
}

// begin is send for those who must not wait: what the socket does not take at once is
// written beside. It returns nil if the connection is broken.
func (c *conn) begin(head, body []byte) <-chan error {
	text := append(head, body...)
	if c.out = head; len(text) <= oneWrite {
		c.out = text
	}
	n, err := socket.Offer(c.Conn, text)
	if err != nil {
		return nil
	}
	sent := make(chan error, 1)
	if n == len(text) {
		sent <- nil
		return sent
	}
	go func() {
		more, err := c.Write(text[n:])
		sent <- outcome(int64(n+more), err)
	}()
	return sent
}

// outcome is that of a write which took n bytes.
func outcome(n int64, err error) error {
	if err != nil && n == 0 {
		return fmt.Errorf("%w: %w", errUnsent, err)
	}
	return err
}

// receive reads the head of the response. A server may answer, and hang up, before it
// has read all, so that a request that could not be written may have one all the same.
func (c *conn) receive(r *Request, sent <-chan error) (*http.Response, error) {
	c.heard, c.room = false, maxHead // of all heads: a server may send many with 1xx
	for {
		resp, err := http.ReadResponse(c.r, &http.Request{Method: r.Method})
		if err != nil {
			return nil, c.unanswered(err, sent)
		}
		if resp.StatusCode >= http.StatusOK || resp.StatusCode == http.StatusSwitchingProtocols {
			c.room = int(^uint(0) >> 1)
			return resp, nil
		}
	}
}

// unanswered says why there is no response.
func (c *conn) unanswered(err error, sent <-chan error) error {
	_ = c.Close() // which ends the writing
	if c.heard {
		return err
	}
	if fault := <-sent; fault != nil && errors.Is(fault, errUnsent) {
		return fault
	}
	return fmt.Errorf("%w: %w", errUnanswered, err)
}

// body is that of a response. Read to its end it gives the connection back, closed
// before that it closes it.
type body struct {
	io.ReadCloser
	ctx    context.Context //nolint:containedctx // the request's, whose end a read has to name
	client *Client
	conn   *conn
	sent   <-chan error
	stop   func() bool
	keep   bool
	done   bool  // the connection is no longer the body's
	over   error // of every read after that
}

// Read reads the body. After Close it fails, unless the end had been read: what was cut
// has no end.
func (b *body) Read(p []byte) (int, error) {
	if b.done {
		return 0, b.over
	}
	n, err := b.ReadCloser.Read(p)
	switch {
	case err == nil:
	case errors.Is(err, io.EOF):
		b.end()
	case b.ctx.Err() != nil:
		err = context.Cause(b.ctx)
	}
	return n, err
}

// sentWithin is how much longer a request may take to be written whose response is
// over: whoever wrote it may not have said so yet.
const sentWithin = 10 * time.Millisecond

// end gives the connection back, if all of the request has been sent.
func (b *body) end() {
	b.done, b.over = true, io.EOF
	var fault error
	select {
	case fault = <-b.sent:
	default:
		_ = b.conn.SetWriteDeadline(time.Now().Add(sentWithin))
		fault = <-b.sent
		_ = b.conn.SetWriteDeadline(time.Time{})
	}
	if b.stop() && b.keep && fault == nil {
		b.client.keep(b.conn)
	} else {
		_ = b.conn.Close()
	}
}

// Ends reports whether the end of a response's body seems to be at hand, so that reading
// it does not wait. A server whose data looks like the end may mislead it.
func (b *body) Ends() bool {
	if b.done {
		return true
	}
	rest, _ := b.conn.r.Peek(b.conn.r.Buffered())
	return string(rest) == lastChunk || string(rest) == "\r\n"+lastChunk
}

const lastChunk = "0\r\n\r\n"

// Close closes the connection of a body that was not read to its end.
func (b *body) Close() error {
	if b.done {
		return nil
	}
	b.done, b.over = true, http.ErrBodyReadAfterClose
	b.stop()
	return b.conn.Close()
}
