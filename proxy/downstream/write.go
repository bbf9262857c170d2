package downstream

import (
	"bytes"
	"net/http"
	"strconv"
	"time"

	"oneslot/internal/openai"
	"oneslot/proxy/downstream/tape"
)

// commit sends the status line, once. The caller holds mu, as for all that
// follows in lower case.
func (c *Client) commit(status int) {
	if c.told != 0 || c.err != nil {
		return
	}
	c.told = status
	h := c.out.Header()
	if c.header != nil {
		c.header(h)
	}
	if c.cfg.Stream && status == http.StatusOK {
		EventStream(h)
	} else {
		h.Set("Content-Type", "application/json")
	}
	c.out.WriteHeader(status)
}

// EventStream sets the headers of a stream that nothing on its way is to keep back.
func EventStream(h http.Header) {
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("Cache-Control", "no-cache, no-transform")
	h.Set("X-Accel-Buffering", "no")
}

func (c *Client) flush() {
	c.last = time.Now()
	if c.err != nil { // nobody is there, and what was said is kept
		c.out.sent()
		return
	}
	if c.err = c.out.flush(); c.err == nil {
		return
	}
	if c.parted != nil { // nobody else tells that it has left
		_ = c.parted.Conn.Close()
	}
	if c.cfg.Keep != nil {
		c.cfg.Keep.Left()
	}
}

// object sends a JSON object as all there is. Its length is told where the
// status line has not gone out before it.
func (c *Client) object(status int, body []byte) {
	if c.told == 0 {
		c.out.Header().Set("Content-Length", strconv.Itoa(len(body)))
	}
	c.commit(status)
	c.out.gather()
	c.out.buf = append(c.out.buf, body...)
}

// end writes and sends the end of the answer, unless it has ended before. write returns
// what is kept of it.
func (c *Client) end(write func() tape.End) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed() {
		c.finish(write)
		c.flush()
	}
	return c.fault()
}

func (c *Client) finish(write func() tape.End) {
	c.ended = true
	e := write()
	if c.cfg.Keep != nil {
		e.Text = bytes.Clone(e.Text)
		c.cfg.Keep.Tape.Finish(e)
	}
}

// mostLag is how much of a stream may lag, in bytes: what the server gathers, and what a
// connection takes also from one who does not read.
const mostLag = 2 << 10

// lags reports whether the end of a stream, which has been written, may wait for that of
// the response: where an answer is kept, what becomes of it is to be known before.
func (c *Client) lags() bool {
	return c.cfg.Lag > 0 && c.cfg.Keep == nil && c.timer != nil && c.err == nil && len(c.out.buf) <= mostLag
}

// late reports whether the end of a stream still waits.
func (c *Client) late() bool { return c.ended && !c.released && c.err == nil && c.out.pending() }

// add adds events to a stream, and returns them.
func (c *Client) add(add func(e *Events)) []byte {
	c.commit(http.StatusOK)
	c.out.gather()
	from := len(c.out.buf)
	add(&c.out.Events)
	return c.out.buf[from:]
}

// Send adds one event, whose data is JSON on one line. It goes out with the next
// Flush. It does not keep data.
func (c *Client) Send(data []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed() {
		c.commit(http.StatusOK)
		c.out.gather()
		from := len(c.out.buf)
		c.out.Data(data)
		c.keep(from)
	}
	return c.fault()
}

// Write has add add events, which go out with the next Flush. No heartbeat comes
// in between. add is not called when nothing more may be written.
func (c *Client) Write(add func(e *Events)) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed() {
		from := len(c.out.buf)
		c.add(add)
		c.keep(from)
	}
	return c.fault()
}

// Flush sends what Send has added. It is cheap when there is nothing.
func (c *Client) Flush() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.out.pending() && (!c.closed() || c.late()) {
		c.flush()
	}
	return c.fault()
}

// Whole sends a JSON object as the whole answer.
func (c *Client) Whole(body []byte) error {
	return c.end(func() tape.End {
		c.object(http.StatusOK, body)
		return tape.End{Whole: body}
	})
}

// Done ends a stream of OpenAI's.
func (c *Client) Done() error { return c.End((*Events).Done) }

// End ends a stream with the events that add adds. They go out at once, or lag behind as
// Config.Lag says.
func (c *Client) End(add func(e *Events)) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed() {
		c.finish(func() tape.End { return tape.End{Text: c.add(add)} })
		if c.lags() {
			c.timer.Reset(c.cfg.Lag)
		} else {
			c.flush()
		}
	}
	return c.fault()
}

// Fail tells the caller what went wrong, in the words of its Voice: with its
// status while nothing has been sent, else by what ends the stream, or as the
// error object of a whole answer whose status could not wait. Only the first end of an answer is sent:
// Fail does nothing after Whole, Done or Fail. It returns the status that the
// client got, or that of the problem if it got none.
func (c *Client) Fail(err error) int {
	p := c.cfg.Problem(err)
	_ = c.end(func() tape.End {
		e := tape.End{Err: err}
		fail := func(e *Events) { c.cfg.Voice.Fail(e, p) }
		switch {
		case !c.cfg.Stream || c.told == 0 && c.cfg.Keep == nil:
			c.refuse(p)
		case c.told == 0: // a follower's stream may have begun
			var events Events
			fail(&events)
			e.Text = events.buf
			c.refuse(p)
		default:
			e.Text = c.add(fail)
		}
		return e
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.told != 0 {
		return c.told
	}
	return p.Status
}

// refuse sends an error object, with its status if that can still be.
func (c *Client) refuse(p *openai.Problem) {
	status := http.StatusOK
	if c.told == 0 {
		status = p.Status
		for key, value := range p.Header {
			c.out.Header().Set(key, value)
		}
	}
	c.object(status, c.cfg.Voice.Problem(p))
}

// Release stops the heartbeats. Nothing is written after it returns, but what the end of
// the response takes along.
func (c *Client) Release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.late() && c.parted == nil {
		c.err = c.out.leave()
	}
	c.released = true
	if c.timer != nil {
		c.timer.Stop()
	}
	if c.turn != 0 {
		c.cfg.Rounds.drop(c, c.turn)
	}
	if c.unwatch != nil {
		c.unwatch()
	}
}
