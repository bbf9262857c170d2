package wire

import (
	"crypto/tls"
	"time"

	"oneslot/internal/socket"
)

// kept returns a connection that was kept and is still good, nil if there is none.
func (c *Client) kept() *conn {
	for {
		c.mu.Lock()
		n := len(c.idle)
		if n == 0 {
			c.mu.Unlock()
			return nil
		}
		conn := c.idle[n-1]
		c.idle[n-1] = nil
		c.idle = c.idle[:n-1]
		c.mu.Unlock()
		if time.Since(conn.since) < c.cfg.Idle && conn.quiet() {
			return conn
		}
		conn.cut()
	}
}

// keep keeps a connection for the next request.
func (c *Client) keep(conn *conn) {
	conn.since, conn.kept = time.Now(), true
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cfg.Idle <= 0 || len(c.idle) == most {
		conn.cut()
		return
	}
	c.idle = append(c.idle, conn)
	switch {
	case c.sweep == nil:
		c.sweep = time.AfterFunc(c.cfg.Idle, c.expire)
	case len(c.idle) == 1:
		c.sweep.Reset(c.cfg.Idle)
	}
}

// expire closes what has been kept for too long.
func (c *Client) expire() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.idle) > 0 {
		rest := c.cfg.Idle - time.Since(c.idle[0].since)
		if rest > 0 {
			c.sweep.Reset(rest)
			return
		}
		c.idle[0].cut()
		c.idle = append(c.idle[:0], c.idle[1:]...)
	}
}

// quiet reports whether nothing has come on a kept connection, its end neither.
func (c *conn) quiet() bool { return c.r.Buffered() == 0 && socket.Quiet(c.Conn) }

// cut closes the connection without a word to the other side, which TLS would wait for.
func (c *conn) cut() {
	inner := c.Conn
	if secure, ok := inner.(*tls.Conn); ok {
		inner = secure.NetConn()
	}
	_ = inner.Close()
}
