package engine_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"oneslot/internal/simengine"
	"oneslot/internal/simengine/simtest"
	"oneslot/proxy/engine"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// line is a listener whose connections are pipes, so that an engine can stand in
// a synctest bubble.
type line struct {
	conns  chan net.Conn
	once   sync.Once
	closed chan struct{}
}

func (l *line) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *line) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *line) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }

func (l *line) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case l.conns <- far:
		return near, nil
	case <-ctx.Done():
	case <-l.closed:
	}
	return nil, errors.Join(errors.New("connection refused"), near.Close(), far.Close())
}

// call is one request as a fake engine saw it.
type call struct {
	method, path, body string
	header             http.Header
	at                 time.Duration // since the engine began
}

// fake is an engine with the replies of a test.
type fake struct {
	began time.Time
	line  *line

	mu      sync.Mutex // guards what follows
	replies map[string]func(w http.ResponseWriter, r *http.Request)
	calls   []call
}

// newFake serves an engine that answers 404 to whatever is not in replies.
func newFake(t *testing.T, replies map[string]string) *fake {
	t.Helper()
	f := &fake{began: time.Now(), line: &line{conns: make(chan net.Conn), closed: make(chan struct{})}, replies: map[string]func(http.ResponseWriter, *http.Request){}}
	for path, text := range replies {
		f.reply(path, http.StatusOK, text)
	}
	server := &http.Server{Handler: f, ReadHeaderTimeout: time.Hour}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(f.line) })
	t.Cleanup(func() {
		_ = server.Close()
		serving.Wait()
	})
	return f
}

func (f *fake) reply(path string, status int, text string) {
	f.handle(path, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text)
	})
}

func (f *fake) handle(path string, h http.HandlerFunc) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.replies[path] = h
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	f.mu.Lock()
	f.calls = append(f.calls, call{r.Method, r.URL.RequestURI(), string(body), r.Header, time.Since(f.began)})
	h := f.replies[r.URL.Path]
	if h == nil {
		h = f.replies["*"]
	}
	f.mu.Unlock()
	if h == nil {
		http.NotFound(w, r)
		return
	}
	h(w, r)
}

// seen are the calls of a path, all of them for an empty one.
func (f *fake) seen(path string) (out []call) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.calls {
		if path == "" || c.path == path {
			out = append(out, c)
		}
	}
	return out
}

// paths are the calls in their order.
func (f *fake) paths() (out []string) {
	for _, c := range f.seen("") {
		out = append(out, c.path)
	}
	return out
}

// open makes the engine that is tested, in front of whatever dial leads to.
func open(t *testing.T, cfg engine.Config, dial func(context.Context, string, string) (net.Conn, error)) *engine.Engine {
	t.Helper()
	if cfg.URL == "" {
		cfg.URL = "http://engine.test"
	}
	cfg.Dial = dial
	e, err := engine.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return e
}

// simulated opens an engine in front of a simulated one.
func simulated(t *testing.T, cfg engine.Config, sim simengine.Config) (*engine.Engine, *simengine.Engine) {
	t.Helper()
	s, client := simtest.Pipe(t, sim)
	return open(t, cfg, client.Transport.(*http.Transport).DialContext), s
}

// replies of the engines to the questions by which they are told apart.
const (
	models     = `{"object":"list","data":[{"id":"tiny","max_model_len":2048}]}`
	serverInfo = `{"version":"0.5.19","context_length":4096,"max_running_requests":1,"disable_radix_cache":true}`
	props      = `{"build_info":" b11434\n","total_slots":1,"default_generation_settings":{"n_ctx":8192}}`
	version    = `{"version":"0.32.0"}`
)
