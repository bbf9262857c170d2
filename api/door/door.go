package door

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"

	"oneslot/internal/socket"
)

// A Refusal is what a client is told of a request that could not be read.
type Refusal struct {
	// Header is sent beside the length and the end of the connection.
	Header http.Header
	// Body is all of it.
	Body []byte
}

// Words says what a client is told. status is net/http's; fault are its words for what
// is wrong, "" if it has none. They hold nothing that the client sent.
type Words func(status int, fault string) Refusal

// A Door is between a server and its listeners. Create it with New; it is safe for
// concurrent use.
type Door struct {
	words Words

	mu     sync.Mutex // guards what follows
	silent map[*conn]struct{}
	closed bool
}

// New returns a Door for a server, whose Handler it wraps, and of which it takes the
// hooks ConnContext and ConnState. The server is to listen by way of Listen.
func New(server *http.Server, words Words) *Door {
	d := &Door{words: words, silent: map[*conn]struct{}{}}
	next := server.Handler
	server.ConnContext = func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) }
	server.ConnState = func(c net.Conn, state http.ConnState) {
		if one, ok := c.(*conn); ok && state == http.StateIdle {
			one.answering.Store(false)
		}
	}
	server.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, ok := r.Context().Value(connKey{}).(*conn); ok {
			c.answering.Store(true)
			c.greet.Do(c.greeted)
		}
		next.ServeHTTP(w, r)
	})
	return d
}

type connKey struct{}

// Listen returns l as the server has to see it.
func (d *Door) Listen(l net.Listener) net.Listener { return &listener{l, d} }

// Close ends the connections of which no request has come, and those that come.
func (d *Door) Close() {
	d.mu.Lock()
	d.closed = true
	var all []*conn
	for c := range d.silent {
		all = append(all, c)
	}
	d.mu.Unlock()
	for _, c := range all {
		_ = c.Close() // nothing was said on it
	}
}

type listener struct {
	net.Listener
	door *Door
}

// Accept notes a connection that is silent yet.
func (l *listener) Accept() (net.Conn, error) {
	inner, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: socket.Calm(inner), door: l.door}
	l.door.mu.Lock()
	defer l.door.mu.Unlock()
	if l.door.closed {
		_ = inner.Close() // its first read finds out
		return c, nil
	}
	l.door.silent[c] = struct{}{}
	return c, nil
}

// conn is a connection of which the door knows whose turn it is.
type conn struct {
	net.Conn
	door      *Door
	answering atomic.Bool // a handler has it
	greet     sync.Once
}

// greeted notes that a request has come, or none will.
func (c *conn) greeted() {
	c.door.mu.Lock()
	defer c.door.mu.Unlock()
	delete(c.door.silent, c)
}

// Write passes on what a handler says, and rewords what net/http does.
func (c *conn) Write(p []byte) (int, error) {
	if c.answering.Load() {
		return c.Conn.Write(p)
	}
	told, ok := c.door.reword(p)
	if !ok {
		return c.Conn.Write(p)
	}
	if _, err := c.Conn.Write(told); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Close ends the connection.
func (c *conn) Close() error {
	c.greet.Do(c.greeted)
	return c.Conn.Close()
}

// CloseWrite lets net/http end its own side first, so that the client can read the
// last answer while it still writes.
func (c *conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// reword turns a refusal of net/http's, which comes in one piece, into one of ours.
func (d *Door) reword(p []byte) ([]byte, bool) {
	line, _, _ := bytes.Cut(p, []byte("\r\n"))
	version, rest, _ := bytes.Cut(line, []byte(" "))
	code, text, _ := bytes.Cut(rest, []byte(" "))
	status, err := strconv.Atoi(string(code))
	if !bytes.HasPrefix(version, []byte("HTTP/1.")) || err != nil || status < http.StatusBadRequest {
		return nil, false
	}
	_, fault, _ := bytes.Cut(text, []byte(": "))
	told := d.words(status, string(fault))
	var out bytes.Buffer
	_, _ = fmt.Fprintf(&out, "%s %d %s\r\n", version, status, http.StatusText(status)) // a Buffer takes everything
	_ = told.Header.Write(&out)
	_, _ = fmt.Fprintf(&out, "Content-Length: %d\r\nConnection: close\r\n\r\n%s", len(told.Body), told.Body)
	return out.Bytes(), true
}
