package downstream_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"oneslot/internal/openai"
	"oneslot/proxy/downstream"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// sent is what one flush brought to the caller.
type sent struct {
	at   time.Duration // since the writer was made
	text string
}

// writer is a caller's connection: what was written is sent with the next flush.
type writer struct {
	began time.Time

	mu        sync.Mutex // guards what follows
	header    http.Header
	status    int
	head      http.Header // the header as it was with the status line
	statuses  int
	pending   string
	flushes   []sent
	deadlines []time.Duration // from the moment they were set
	deadline  time.Time
	fail      error // what the next write returns
	failFlush error
	stuck     chan struct{} // while open, writes block until the deadline
}

func newWriter() *writer { return &writer{began: time.Now(), header: http.Header{}} }

func (w *writer) Header() http.Header { return w.header }

func (w *writer) WriteHeader(status int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.statuses++
	w.status, w.head = status, w.header.Clone()
}

func (w *writer) Write(p []byte) (int, error) {
	w.mu.Lock()
	stuck, deadline := w.stuck, w.deadline
	w.mu.Unlock()
	if stuck != nil {
		ctx, cancel := context.WithDeadline(context.Background(), deadline)
		defer cancel()
		select {
		case <-stuck:
		case <-ctx.Done():
			return 0, errors.New("i/o timeout")
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.fail != nil {
		return 0, w.fail
	}
	w.pending += string(p)
	return len(p), nil
}

func (w *writer) FlushError() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failFlush != nil {
		return w.failFlush
	}
	w.flushes = append(w.flushes, sent{time.Since(w.began), w.pending})
	w.pending = ""
	return nil
}

func (w *writer) SetWriteDeadline(t time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.deadline = t
	w.deadlines = append(w.deadlines, time.Until(t))
	return nil
}

func (w *writer) breaks(write, flush error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fail, w.failFlush = write, flush
}

// got is all that has been sent.
func (w *writer) got() (text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, f := range w.flushes {
		text += f.text
	}
	return text
}

// sentAt is what has been sent with its times.
func (w *writer) sentAt() []sent {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]sent(nil), w.flushes...)
}

// echoes is a wrapper like the router's: its Flush tells no error.
type echoes struct {
	http.ResponseWriter
	committed bool
}

func (e *echoes) WriteHeader(status int) {
	e.committed = true
	e.ResponseWriter.WriteHeader(status)
}

func (e *echoes) Flush() { _ = http.NewResponseController(e.ResponseWriter).Flush() }

func (e *echoes) Unwrap() http.ResponseWriter { return e.ResponseWriter }

// errEngine is what the tests tell callers of.
var errEngine = errors.New("engine failed")

func problem(err error) *openai.Problem {
	return &openai.Problem{Status: 502, Type: "server_error", Code: "upstream_error", Message: err.Error(), Header: map[string]string{"Retry-After": "7"}}
}

const failed = `{"error":{"message":"engine failed","type":"server_error","param":null,"code":"upstream_error"}}`

// usual is the configuration of most tests.
func usual(stream bool) downstream.Config {
	return downstream.Config{Stream: stream, Problem: problem, CommitAfter: 500 * time.Millisecond, Heartbeat: 10 * time.Second}
}

// inBubble runs a test with a new client on a clock of its own.
func inBubble(t *testing.T, cfg downstream.Config, f func(t *testing.T, c *downstream.Client, w *writer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWriter()
		c, err := downstream.New(&echoes{ResponseWriter: w}, request(t), cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Release()
		f(t, c, w)
	})
}

func request(t *testing.T) *http.Request {
	return httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/chat/completions", strings.NewReader("{}"))
}

// pass lets time go by and everything happen that is due.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}
