package parted

import (
	"context"
	"io"
	"sync"
)

// A Crowd is who is answered without the server. The zero Crowd is empty; it is safe for
// concurrent use.
type Crowd struct {
	mu    sync.Mutex // guards what follows, and the members
	all   map[*Member]struct{}
	empty chan struct{} // closed when the last one goes; nil while nobody asks
	over  bool          // nobody is waited for any more
}

// A Member is one request of a Crowd.
type Member struct {
	crowd *Crowd
	conn  io.Closer // nil until it has left the server
}

// Join counts one in, which may still be the server's: it is to join before it leaves, or
// there is a moment at which nobody knows of it.
func (c *Crowd) Join() *Member {
	m := &Member{crowd: c}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all == nil {
		c.all = map[*Member]struct{}{}
	}
	c.all[m] = struct{}{}
	return m
}

// Has says by which connection the member is answered.
func (m *Member) Has(conn io.Closer) {
	m.crowd.mu.Lock()
	defer m.crowd.mu.Unlock()
	m.conn = conn
	if m.crowd.over {
		_ = conn.Close() // its answer breaks off, as those of the others
	}
}

// Leave counts the member out.
func (m *Member) Leave() {
	c := m.crowd
	c.mu.Lock()
	defer c.mu.Unlock()
	if delete(c.all, m); len(c.all) == 0 && c.empty != nil {
		close(c.empty)
		c.empty = nil
	}
}

// Wait waits until nobody is there. When ctx ends before, it closes the connections of
// those who are, and returns its error.
func (c *Crowd) Wait(ctx context.Context) error {
	empty := c.emptied()
	select {
	case <-empty:
		return nil
	default:
	}
	select {
	case <-empty:
		return nil
	case <-ctx.Done():
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
	for m := range c.all {
		if m.conn != nil {
			_ = m.conn.Close()
		}
	}
	return ctx.Err()
}

// emptied is closed when nobody is there.
func (c *Crowd) emptied() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.all) == 0 {
		none := make(chan struct{})
		close(none)
		return none
	}
	if c.empty == nil {
		c.empty = make(chan struct{})
	}
	return c.empty
}
