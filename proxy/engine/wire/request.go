package wire

import "net/http"

// A Request is what is sent.
type Request struct {
	// Method is GET or POST.
	Method string
	// Path is where, below the base.
	Path string
	// Header are its fields, but for those of the connection and of the body's length.
	Header http.Header
	// Body may be empty. It is read from, and must not change, until the response body
	// is closed.
	Body []byte
	// Again says that the server may get it twice.
	Again bool
	// Last has the server close the connection behind its response.
	Last bool

	begun *begun // nil: nothing of it has left
}

// begun is a request that is on its way before anybody waits for its response.
type begun struct {
	conn *conn
	sent <-chan error
}

// Begin sends a request without waiting, on a connection that was kept, and reports
// whether that could be done. If so the caller owes a call of Do or of Drop with the same
// request.
func (c *Client) Begin(r *Request) bool {
	conn := c.kept()
	if conn == nil {
		return false
	}
	sent := conn.begin(c.head(conn, r), r.Body)
	if sent == nil {
		_ = conn.Close()
		return false
	}
	r.begun = &begun{conn, sent}
	return true
}

// Drop closes the connection of a request that was begun and that nobody will go on
// with.
func (c *Client) Drop(r *Request) {
	if conn, _ := r.goOn(); conn != nil {
		_ = conn.Close()
	}
}

// goOn returns what a request was begun with, once.
func (r *Request) goOn() (*conn, <-chan error) {
	b := r.begun
	r.begun = nil
	if b == nil {
		return nil, nil
	}
	return b.conn, b.sent
}

// begin is send for those who must not wait: what the socket does not take at once is
// written beside. It returns nil if the connection is broken.
func (c *conn) begin(head, body []byte) <-chan error {
	c.out = append(head, body...)
	n, err := c.offer(c.out)
	if err != nil {
		return nil
	}
	sent := make(chan error, 1)
	if n == len(c.out) {
		sent <- nil
		return sent
	}
	go func() {
		more, err := c.Write(c.out[n:])
		sent <- outcome(int64(n+more), err)
	}()
	return sent
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

// lastChunk ends a body in chunks.
const lastChunk = "0\r\n\r\n"
