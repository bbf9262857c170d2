package downstream

import (
	"context"
	"errors"
	"net/http"

	"oneslot/internal/openai"
	"oneslot/proxy/downstream/tape"
)

// A Keeper has a client's answer go on without its caller, who may come back by
// another connection.
type Keeper struct {
	// Tape gets all that the caller is told.
	Tape *tape.Tape
	// Wanted takes the place of the caller's context: it ends when nobody wants the
	// answer any more.
	Wanted context.Context
	// Left is called when the caller cannot be told any more; perhaps more than once.
	// It must not call the client.
	Left func()
}

// errAway is the write error of a caller that has left.
var errAway = errors.New("downstream: the caller has left")

// lose notes that the caller has left, so that nothing waits for it to read.
func (c *Client) lose() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.err = errAway
	}
	c.cfg.Keep.Left()
}

// keep keeps what has been added since from. The caller holds mu, as for fault.
func (c *Client) keep(from int) {
	if c.cfg.Keep != nil {
		c.cfg.Keep.Tape.Add(c.out.buf[from:])
	}
}

// fault is what a caller's fault means for who writes: nothing where the answer is
// kept.
func (c *Client) fault() error {
	if c.cfg.Keep != nil {
		return nil
	}
	return c.err
}

// Delivered reports whether the answer has ended and the caller was told all of it.
func (c *Client) Delivered() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ended && c.err == nil && c.caller.Err() == nil
}

// Follow makes c speak like o, whose answer it repeats: the headers, what a heartbeat
// says, and the words of an error.
func (c *Client) Follow(o *Client) {
	c.mu.Lock()
	c.cfg.Voice = Echo{o.cfg.Voice}
	c.mu.Unlock()
	c.SetStatus(o.saying)
	c.OnCommit(o.head)
}

// Echo is the Voice of a client that repeats another's answer: what it says of its
// own is nothing that belongs to an answer. Its Fail is not used.
type Echo struct{ Voice }

// Beat adds a comment.
func (Echo) Beat(e *Events, s Sign) { Plain{}.Beat(e, s) }

// Say adds whole events that another client was told.
func (c *Client) Say(text []byte) error {
	return c.Write(func(e *Events) { e.buf = append(e.buf, text...) })
}

// Repeat ends the answer as another client's has ended.
func (c *Client) Repeat(e tape.End) error {
	if e.Whole != nil {
		return c.Whole(e.Whole)
	}
	var p *openai.Problem
	if e.Err != nil {
		p = c.cfg.Problem(e.Err)
	}
	return c.end(func() tape.End {
		if p != nil && (c.told == 0 || !c.cfg.Stream) {
			c.refuse(p)
		} else {
			c.add(func(events *Events) { events.buf = append(events.buf, e.Text...) })
		}
		return e
	})
}

// saying is what a heartbeat says now.
func (c *Client) saying() string {
	c.mu.Lock()
	status := c.status
	c.mu.Unlock()
	if status == nil {
		return ""
	}
	return status()
}

// head sets the headers that the client's own status line had, or would have now.
func (c *Client) head(h http.Header) {
	c.mu.Lock()
	own := c.header
	for name, values := range c.added {
		h[name] = values
	}
	c.mu.Unlock()
	if own != nil {
		own(h)
	}
}
