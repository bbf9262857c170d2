package simengine

import (
	"net"
	"net/http"
	"sync"
)

// act is something other than bytes that a reply does.
type act int

const (
	actWrite act = iota // write data
	actHead             // send status and header
	actCut              // close the connection without the last HTTP chunk
	actReset            // reset it
)

// item is one thing to deliver to a client.
type item struct {
	act    act
	data   []byte
	status int
	header http.Header
}

// outbox carries a reply from its run to its client's handler. It has no limit:
// a slow client does not hold up the engine, as with the real ones.
type outbox struct {
	ready chan struct{} // has room for one: a put must not wait for the reader

	mu     sync.Mutex // guards the rest
	items  []item
	closed bool
}

func newOutbox() *outbox { return &outbox{ready: make(chan struct{}, 1)} }

func (o *outbox) put(items ...item) {
	o.mu.Lock()
	if !o.closed {
		o.items = append(o.items, items...)
	}
	o.mu.Unlock()
	o.wake()
}

// close ends the reply; what was put before is still delivered.
func (o *outbox) close() {
	o.mu.Lock()
	o.closed = true
	o.mu.Unlock()
	o.wake()
}

func (o *outbox) wake() {
	select {
	case o.ready <- struct{}{}:
	default:
	}
}

func (o *outbox) take() (items []item, closed bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	items, o.items = o.items, nil
	return items, o.closed
}

// deliver writes the reply to w until it is closed or the client has left, and
// reports whether it was delivered whole. It runs in the handler's goroutine,
// the only one that uses w.
func (o *outbox) deliver(w http.ResponseWriter, r *http.Request) bool {
	for {
		items, closed := o.take()
		for _, it := range items {
			if !it.send(w) {
				return false
			}
		}
		if closed {
			return true
		}
		select {
		case <-o.ready:
		case <-r.Context().Done():
			return false
		}
	}
}

// send reports whether the client is still there.
func (it item) send(w http.ResponseWriter) bool {
	switch it.act {
	case actHead:
		for name, values := range it.header {
			w.Header()[name] = values
		}
		w.WriteHeader(it.status)
		if w.Header().Get("Content-Length") != "" {
			return true
		}
	case actCut:
		panic(http.ErrAbortHandler)
	case actReset:
		reset(w)
	case actWrite:
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
	panic(http.ErrAbortHandler)
}
