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
		conn.cut()
		return false
	}
	r.begun = &begun{conn, sent}
	return true
}

// Drop closes the connection of a request that was begun and that nobody will go on
// with.
func (c *Client) Drop(r *Request) {
	if conn, _ := r.goOn(); conn != nil {
		conn.cut()
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
