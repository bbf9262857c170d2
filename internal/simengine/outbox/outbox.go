package outbox

import (
	"net"
	"net/http"
	"sync"
)

// act is what an Item does.
type act int

const (
	write act = iota
	head
	cut
	rst
)

// Item is one thing that is done to a client. The zero Item writes nothing and
// flushes.
type Item struct {
	act    act
	data   []byte
	status int
	header http.Header
}

// Head sends status and header.
func Head(status int, header http.Header) Item {
	return Item{act: head, status: status, header: header}
}

// Write writes and flushes data.
func Write(data []byte) Item { return Item{data: data} }

// Cut closes the connection without the last HTTP chunk.
func Cut() Item { return Item{act: cut} }

// Reset resets the connection; where it is not TCP it is cut.
func Reset() Item { return Item{act: rst} }

// A Box carries one reply from its run to the handler of its client. New makes
// one. Put and Close may be called by any goroutine; Deliver by one.
type Box struct {
	ready chan struct{} // has room for one: a put must not wait for the reader

	mu     sync.Mutex // guards the rest
	items  []Item
	closed bool
}

// New returns an empty Box.
func New() *Box { return &Box{ready: make(chan struct{}, 1)} }

// Put appends items. After Close they are dropped.
func (b *Box) Put(items ...Item) {
	b.mu.Lock()
	if !b.closed {
		b.items = append(b.items, items...)
	}
	b.mu.Unlock()
	b.wake()
}

// Close ends the reply; what was put before is still delivered.
func (b *Box) Close() {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.wake()
}

func (b *Box) wake() {
	select {
	case b.ready <- struct{}{}:
	default:
	}
}

func (b *Box) take() (items []Item, closed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	items, b.items = b.items, nil
	return items, b.closed
}

// Deliver writes the reply to w until it is closed or the client has left, and
// reports whether it was delivered whole. It runs in the handler's goroutine,
// the only one that uses w.
func (b *Box) Deliver(w http.ResponseWriter, r *http.Request) bool {
	for {
		items, closed := b.take()
		for i, it := range items {
			if !it.send(w, i+1 < len(items)) {
				return false
			}
		}
		if closed {
			return true
		}
		select {
		case <-b.ready:
		case <-r.Context().Done():
			return false
		}
	}
}

// send does it and reports whether the client is still there. A head that more
// follows is not flushed by itself.
func (it Item) send(w http.ResponseWriter, more bool) bool {
	switch it.act {
	case head:
		for name, values := range it.header {
			w.Header()[name] = values
		}
		w.WriteHeader(it.status)
		if more {
			return true
		}
	case cut:
		panic(http.ErrAbortHandler)
	case rst:
		reset(w)
		return false
	case write:
		if _, err := w.Write(it.data); err != nil {
			return false
		}
	}
	return http.NewResponseController(w).Flush() == nil
}

// reset closes the connection of w so that a TCP peer sees it reset.
func reset(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // closing is all that is left to do
	}
	_ = conn.Close()
}
