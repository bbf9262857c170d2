package downstream

import (
	"net/http"
	"strconv"
	"time"
)

// commit sends the status line, once. The caller holds mu, as for all that
// follows in lower case.
func (c *Client) commit(status int) {
	if c.told != 0 {
		return
	}
	c.told = status
	h := c.out.Header()
	if c.header != nil {
		c.header(h)
	}
	if c.cfg.Stream && status == http.StatusOK {
		h.Set("Content-Type", "text/event-stream; charset=utf-8")
		h.Set("Cache-Control", "no-cache, no-transform")
		h.Set("X-Accel-Buffering", "no")
	} else {
		h.Set("Content-Type", "application/json")
	}
	c.out.WriteHeader(status)
}

func (c *Client) flush() {
	c.err = c.out.flush()
	c.last = time.Now()
}

// object sends a JSON object as all there is. Its length is told where the
// status line has not gone out before it.
func (c *Client) object(status int, body []byte) {
	if c.told == 0 {
		c.out.Header().Set("Content-Length", strconv.Itoa(len(body)))
	}
	c.commit(status)
	c.out.buf = append(c.out.buf, body...)
}

// end writes the end of the answer, unless it has ended before.
func (c *Client) end(write func()) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed() {
		c.ended = true
		write()
		c.flush()
	}
	return c.err
}

// Send adds one event, whose data is JSON on one line. It goes out with the next
// Flush. It does not keep data.
func (c *Client) Send(data []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed() {
		c.commit(http.StatusOK)
		c.out.Data(data)
	}
	return c.err
}

// Write has add add events, which go out with the next Flush. No heartbeat comes
// in between. add is not called when nothing more may be written.
func (c *Client) Write(add func(e *Events)) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed() {
		c.commit(http.StatusOK)
		add(&c.out.Events)
	}
	return c.err
}

// Flush sends what Send has added. It is cheap when there is nothing.
func (c *Client) Flush() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.out.pending() && !c.closed() {
		c.flush()
	}
	return c.err
}

// Whole sends a JSON object as the whole answer.
func (c *Client) Whole(body []byte) error {
	return c.end(func() { c.object(http.StatusOK, body) })
}

// Done ends a stream of OpenAI's.
func (c *Client) Done() error { return c.End((*Events).Done) }

// End ends a stream with the events that add adds.
func (c *Client) End(add func(e *Events)) error {
	return c.end(func() {
		c.commit(http.StatusOK)
		add(&c.out.Events)
	})
}

// Fail tells the caller what went wrong, in the words of its Voice: with its
// status while nothing has been sent, else by what ends the stream, or as the
// error object of a whole answer whose status could not wait. Only the first end of an answer is sent:
// Fail does nothing after Whole, Done or Fail. It returns the status that the
// client got, or that of the problem if it got none.
func (c *Client) Fail(err error) int {
	p := c.cfg.Problem(err)
	_ = c.end(func() {
		switch {
		case c.told == 0:
			for key, value := range p.Header {
				c.out.Header().Set(key, value)
			}
			c.object(p.Status, c.cfg.Voice.Problem(p))
		case c.cfg.Stream:
			c.cfg.Voice.Fail(&c.out.Events, p)
		default:
			c.object(http.StatusOK, c.cfg.Voice.Problem(p))
		}
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.told != 0 {
		return c.told
	}
	return p.Status
}

// Release stops the heartbeats. Nothing is written after it returns.
func (c *Client) Release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.released = true
	if c.timer != nil {
		c.timer.Stop()
	}
}
