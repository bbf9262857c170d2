package downstream

import (
	"context"
	"errors"
	"net/http"
	"time"

	"oneslot/proxy/downstream/raw"
)

// errNoFlush is returned for a writer that keeps what it is given to itself.
var errNoFlush = errors.New("downstream: the response writer cannot be flushed")

// An outlet gathers what is written until it is flushed, and gives each flush
// its own deadline. It goes around wrappers whose Flush hides the error (echo's
// does): the status line goes through the wrapper, so that it knows, and the
// bytes through the innermost writer.
type outlet struct {
	http.ResponseWriter // for the header and the status line
	inner               http.ResponseWriter
	control             *http.ResponseController
	timeout             time.Duration
	Events
}

func newOutlet(w http.ResponseWriter, timeout time.Duration) (*outlet, error) {
	inner := w
	for {
		u, ok := inner.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			break
		}
		inner = u.Unwrap()
	}
	_, plain := inner.(http.Flusher)
	_, telling := inner.(interface{ FlushError() error })
	if !plain && !telling {
		return nil, errNoFlush
	}
	return &outlet{ResponseWriter: w, inner: inner, control: http.NewResponseController(inner), timeout: timeout}, nil
}

// move has what follows written to w.
func (o *outlet) move(w http.ResponseWriter) {
	o.ResponseWriter, o.inner, o.control = w, w, http.NewResponseController(w)
}

func (o *outlet) pending() bool { return len(o.buf) > 0 }

// flush sends what was written, bounded by the write timeout.
func (o *outlet) flush() error {
	// A writer without deadlines (a test's) still takes the bytes.
	_ = o.control.SetWriteDeadline(time.Now().Add(o.timeout))
	if len(o.buf) > 0 {
		_, err := o.inner.Write(o.buf)
		if o.buf = o.buf[:0]; cap(o.buf) > keepBuf {
			o.buf = nil
		}
		if err != nil {
			return err
		}
	}
	return o.control.Flush()
}

// Holds waits until came is closed, or the caller is gone. It reports whether before
// that the silence has had the status line sent, and the client is to part.
func (c *Client) Holds(came <-chan struct{}) (parts bool) {
	c.mu.Lock()
	begun, caller := c.begun, c.caller
	c.mu.Unlock()
	if begun == nil {
		return false
	}
	select {
	case <-came:
	case <-caller.Done():
	case <-begun:
		parts = true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.begun = nil
	return parts
}

// Part has a client whose status line has gone out go on over the bare connection: the
// writer and the request that it was made with are let go, and the handler may return.
// ctx ends when the caller has left, which its holder finds out by the connection. On
// an error all stays as it was.
func (c *Client) Part(ctx context.Context) (*raw.Conn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil || c.caller.Err() != nil {
		return nil, errAway
	}
	conn, err := raw.Take(c.out.inner)
	if err != nil {
		return nil, err
	}
	c.out.move(conn)
	c.caller, c.parted = ctx, conn
	if c.unwatch != nil {
		c.unwatch()
		c.unwatch = context.AfterFunc(ctx, c.lose)
	}
	return conn, nil
}

// Close ends the answer of a client that has parted, and its connection. What is not
// whole breaks off.
func (c *Client) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended && c.err == nil {
		_ = c.out.control.SetWriteDeadline(time.Now().Add(c.out.timeout))
		_ = c.parted.End() // nobody is left to be told of a caller that does not read it
	}
	_ = c.parted.Close()
}
