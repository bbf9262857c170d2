package downstream

import (
	"context"
	"errors"
	"net/http"
	"sync"
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
	buffers *Buffers
	lent    *[]byte // where Events.buf came from; nil between flushes
}

// Buffers are what clients' bytes are gathered in, between the first of them and the
// flush that sends them. The zero Buffers has none yet. It is safe for concurrent use.
type Buffers struct{ free sync.Pool }

// gather has what is written from now on go into a buffer that others have used.
func (o *outlet) gather() {
	if o.lent != nil || o.buffers == nil {
		return
	}
	var ok bool
	if o.lent, ok = o.buffers.free.Get().(*[]byte); !ok {
		o.lent = new([]byte)
	}
	o.buf = *o.lent
}

// sent lets the buffer go, unless it has grown large.
func (o *outlet) sent() {
	if o.buf = o.buf[:0]; cap(o.buf) > keepBuf {
		o.buf = nil
	}
	if o.lent != nil {
		*o.lent = o.buf
		o.buffers.free.Put(o.lent)
		o.lent, o.buf = nil, nil
	}
}

func newOutlet(w http.ResponseWriter, cfg *Config) (*outlet, error) {
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
	return &outlet{ResponseWriter: w, inner: inner, control: http.NewResponseController(inner), timeout: cfg.WriteTimeout, buffers: cfg.Buffers}, nil
}

// move has what follows written to w.
func (o *outlet) move(w http.ResponseWriter) {
	o.ResponseWriter, o.inner, o.control = w, w, http.NewResponseController(w)
}

func (o *outlet) pending() bool { return len(o.buf) > 0 }

// flush sends what was written, bounded by the write timeout.
func (o *outlet) flush() error {
	if err := o.leave(); err != nil {
		return err
	}
	return o.control.Flush()
}

// leave gives what was written to the server, which sends it with what follows.
func (o *outlet) leave() error {
	// A writer without deadlines (a test's) still takes the bytes.
	_ = o.control.SetWriteDeadline(time.Now().Add(o.timeout))
	if len(o.buf) == 0 {
		return nil
	}
	_, err := o.inner.Write(o.buf)
	o.sent()
	return err
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
		_ = c.parted.End(c.out.buf) // nobody is left to be told of a caller that does not read it
		c.out.sent()
	}
	_ = c.parted.Close()
}
