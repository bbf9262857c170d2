package simtest

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"oneslot/internal/simengine"
)

// New returns an engine that is closed with the test.
func New(t testing.TB, cfg simengine.Config) *simengine.Engine {
	t.Helper()
	e, err := simengine.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return e
}

// Start serves an engine on 127.0.0.1 and returns it with its base URL, which
// has no slash at its end. Idle connections are closed after 5 s, as the
// engines do.
func Start(t testing.TB, cfg simengine.Config) (*simengine.Engine, string) {
	t.Helper()
	e, err := simengine.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(e)
	server.Config.IdleTimeout = 5 * time.Second
	server.Start()
	t.Cleanup(server.Close)
	t.Cleanup(e.Close) // first, so that no handler is left for the server to wait for
	return e, server.URL
}

// Pipe serves an engine without a network; client reaches it under any host
// name. In a synctest bubble all its
// waits are on the bubble's clock. around wraps the engine's handler, the last
// outermost.
func Pipe(t testing.TB, cfg simengine.Config, around ...func(http.Handler) http.Handler) (e *simengine.Engine, client *http.Client) {
	t.Helper()
	e, err := simengine.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	line := NewPipes()
	var handler http.Handler = e
	for _, wrap := range around {
		handler = wrap(handler)
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Hour}
	var wg sync.WaitGroup
	wg.Go(func() { _ = server.Serve(line) }) // ends with ErrServerClosed
	transport := &http.Transport{DialContext: line.Dial}
	t.Cleanup(func() {
		e.Close()
		transport.CloseIdleConnections()
		_ = server.Close() // closes line, of which nothing can fail
		wg.Wait()
	})
	return e, &http.Client{Transport: transport}
}

// NewPipes returns a listener whose connections are pipes.
func NewPipes() *Pipes { return &Pipes{conns: make(chan net.Conn), closed: make(chan struct{})} }

// Pipes is a network of one listener, without addresses, so that a whole program
// can run on the clock of a synctest bubble.
type Pipes struct {
	conns  chan net.Conn
	once   sync.Once
	closed chan struct{}
}

// Accept waits for the next dial.
func (p *Pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

// Close ends Accept and all dials.
func (p *Pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

// Addr is no address.
func (p *Pipes) Addr() net.Addr { return pipeAddr{} }

// Dial opens a connection to the listener, whatever the address.
func (p *Pipes) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case p.conns <- far:
		return near, nil
	case <-ctx.Done():
	case <-p.closed:
	}
	return nil, errors.Join(errors.New("simtest: engine is not there"), near.Close(), far.Close())
}

type pipeAddr struct{}

// Network and String name what is no network.
func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return "pipe" }

// Buffer takes what a program under test says, while others read it. The zero Buffer
// is empty.
type Buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write appends; it never fails.
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

// String is everything so far.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
