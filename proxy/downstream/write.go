package downstream

import (
	"net/http"
	"time"

	"oneslot/internal/openai"

	"github.com/tmaxmax/go-sse"
)

func (c *Client) event(data string) {
	m := sse.Message{}
	m.AppendData(data)
	c.note(c.session.Send(&m))
}

func (c *Client) flush() {
	c.note(c.out.flush())
	c.last = time.Now()
}

func (c *Client) note(err error) {
	if c.err == nil {
		c.err = err
	}
}

// Send adds one event. It goes out with the next Flush.
func (c *Client) Send(data []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.ended {
		c.commit(http.StatusOK)
		c.event(string(data))
	}
	return c.err
}

// Flush sends what Send has added. It is cheap when there is nothing.
func (c *Client) Flush() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.out.pending() {
		c.flush()
	}
	return c.err
}

// Whole sends a JSON object as the whole answer.
func (c *Client) Whole(body []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return c.err
	}
	c.ended = true
	c.commit(http.StatusOK)
	c.out.put(body)
	c.flush()
	return c.err
}

// Done ends a stream.
func (c *Client) Done() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return c.err
	}
	c.ended = true
	c.commit(http.StatusOK)
	c.event("[DONE]")
	c.flush()
	return c.err
}

// Fail tells the caller what went wrong: with its status while nothing has been
// sent, else as an error event and [DONE], or as the error object of a whole
// answer whose status could not wait. Only the first end of an answer is sent:
// Fail does nothing after Whole, Done or Fail. It returns the status that the
// client got, or that of the problem if it got none by this call.
func (c *Client) Fail(err error) int {
	p := c.cfg.Problem(err)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.released || c.ended || c.err != nil {
		return p.Status
	}
	c.ended = true
	status := http.StatusOK
	switch {
	case !c.committed:
		status = p.Status
		c.retryHeaders(p)
		c.commit(p.Status)
		c.out.put(p.JSON())
	case c.stream:
		c.event(string(p.JSON()))
		c.event("[DONE]")
	default:
		c.out.put(p.JSON())
	}
	c.flush()
	return status
}

func (c *Client) retryHeaders(p *openai.Problem) {
	for key, value := range p.Header {
		c.out.Header().Set(key, value)
	}
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
