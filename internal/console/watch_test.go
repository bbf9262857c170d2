package console

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"oneslot/api/board"
	"oneslot/internal/simengine/simtest"
)

// errGone is of a proxy that is not there; errShut of one that lets nobody in.
var errGone, errShut = errors.New("gone"), errors.New("shut")

// testProxy is a proxy whose feed a test writes. Its reads honour the context.
type testProxy struct {
	parts chan string // of the feed; "" ends it

	mu    sync.Mutex // guards what follows
	err   error      // of the next feeds
	view  board.View
	asked int
	reads atomic.Int32 // going on now
}

func newProxy() *testProxy { return &testProxy{parts: make(chan string)} }

func (p *testProxy) Feed(ctx context.Context) (io.ReadCloser, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil {
		return nil, p.err
	}
	return &testFeed{p, ctx}, nil
}

func (p *testProxy) View(context.Context) (board.View, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked++
	return p.view, p.err
}

func (p *testProxy) set(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
}

type testFeed struct {
	proxy *testProxy
	ctx   context.Context
}

func (f *testFeed) Read(b []byte) (int, error) {
	f.proxy.reads.Add(1)
	defer f.proxy.reads.Add(-1)
	select {
	case part := <-f.proxy.parts:
		if part == "" {
			return 0, io.EOF
		}
		return copy(b, part), nil
	case <-f.ctx.Done():
		return 0, f.ctx.Err()
	}
}

func (f *testFeed) Close() error { return nil }

// screen is what a Watch shows.
type screen struct {
	*testProxy
	out     *simtest.Buffer
	resized chan os.Signal
	size    atomic.Pointer[Window]
	ended   chan error
	seen    int // of out
}

// start runs a Watch, in a terminal if it has a size.
func (p *testProxy) start(ctx context.Context, win Window) *screen {
	s := &screen{testProxy: p, out: &simtest.Buffer{}, resized: make(chan os.Signal), ended: make(chan error, 1)}
	s.size.Store(&win)
	w := &Watch{Feed: p.Feed, View: p.View, Final: func(err error) bool { return errors.Is(err, errShut) }, Out: s.out, Resized: s.resized}
	if win.Rows > 0 {
		w.Window = func() Window { return *s.size.Load() }
	}
	go func() { s.ended <- w.Run(ctx) }()
	return s
}

// tell sends events of the feed, and returns what is written for them.
func (s *screen) tell(events string) string {
	s.parts <- events
	return s.news()
}

// news is what was written since the last time.
func (s *screen) news() string {
	synctest.Wait()
	text := s.out.String()[s.seen:]
	s.seen += len(text)
	return text
}

const (
	empty = "event: snapshot\ndata: {\"waiting\":0,\"limit\":64,\"running\":0,\"slots\":[],\"waiters\":[]}\n\n"
	three = "event: line\ndata: {\"waiting\":3,\"running\":1,\"paused\":false,\"draining\":false}\n\n"
)

// TestLiveTable: in a terminal the table is drawn over the last one, with every event,
// second and change of the window, and whole at the end.
func TestLiveTable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		s := newProxy().start(ctx, Window{Rows: 24, Columns: 100})
		if text := s.tell(empty); !strings.HasPrefix(text, "\x1b[H0 of 64 waiting, 0 running\x1b[K\n") || !strings.HasSuffix(text, "\x1b[J") {
			t.Errorf("it draws %q", text)
		}
		s.tell(three)
		<-time.After(1500 * time.Millisecond)
		if n := strings.Count(s.out.String(), "\x1b[H3 of 64 waiting, 1 running\x1b[K"); n != 2 {
			t.Errorf("drawn %d times, want once for the event and once for the second: %q", n, s.out.String())
		}
		s.news()
		s.size.Store(&Window{Rows: 3, Columns: 12})
		s.resized <- os.Interrupt // whatever it is called
		if text := s.news(); text != "\x1b[H3 of 64 wa…\x1b[K\n…\x1b[K\n\x1b[J" {
			t.Errorf("in a smaller window it draws %q", text)
		}
		cancel()
		if err := <-s.ended; !errors.Is(err, context.Canceled) {
			t.Errorf("it ended with %v", err)
		}
		if text := s.news(); text != "\x1b[H3 of 64 wa…\x1b[K\n…\x1b[K\n\x1b[J" {
			t.Errorf("at the end it draws %q", text)
		}
		if s.reads.Load() != 0 {
			t.Error("its reader goes on")
		}
	})
}

// TestLiveTimes: the times until a start are those of the view, every two seconds.
func TestLiveTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		p := newProxy()
		p.view = board.View{Waiting: 1, Slots: []board.Slot{{State: "busy"}}, Waiters: []board.Waiter{{Position: 1, RequestID: "w", ETA: &board.Band{P50: 39, P90: 39}}}}
		s := p.start(ctx, Window{Rows: 24, Columns: 100})
		s.tell(empty)
		<-time.After(2500 * time.Millisecond)
		if text := s.news(); !strings.Contains(text, "~39s") {
			t.Errorf("it draws %q", text)
		}
		p.set(func() { p.err = errGone })
		<-time.After(2 * time.Second)
		p.set(func() {
			p.err, p.view.Waiters = nil, []board.Waiter{{Position: 1, RequestID: "w", ETA: &board.Band{P50: 30, P90: 60}}}
		})
		<-time.After(2 * time.Second)
		if text := s.news(); !strings.Contains(text, "30s - 1m0s") {
			t.Errorf("it draws %q", text)
		}
		cancel()
		<-s.ended
		if p.asked != 3 {
			t.Errorf("it asked %d times in 6.5 s", p.asked)
		}
	})
}

// TestLiveEnds: broken data ends it, and nobody reads on, also if the feed has more.
func TestLiveEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newProxy().start(t.Context(), Window{Rows: 24, Columns: 100})
		s.parts <- "event: snapshot\ndata: [\n\n" + three + three
		if err := <-s.ended; err == nil {
			t.Error("broken data was taken")
		}
		if s.reads.Load() != 0 {
			t.Error("its reader goes on")
		}
	})
}

// TestRestart: a proxy that comes back is watched on; one that does not, or lets
// nobody in, ends it.
func TestRestart(t *testing.T) {
	for _, win := range []Window{{}, {Rows: 24, Columns: 100}} {
		for _, end := range []error{errGone, errShut} {
			synctest.Test(t, func(t *testing.T) {
				p := newProxy()
				s := p.start(t.Context(), win)
				s.tell(empty)
				p.set(func() { p.err = errGone })
				if text := s.tell(""); strings.Count(text, "reconnecting…") != 1 {
					t.Errorf("without a feed it writes %q", text)
				}
				<-time.After(50 * time.Second)
				p.set(func() { p.err = nil })
				s.news()
				text := s.tell(empty)
				if text = text[max(strings.LastIndex(text, "\x1b[H"), 0):]; !strings.Contains(text, "0 of 64 waiting, 0 running") || strings.Contains(text, "reconnecting") {
					t.Errorf("with a new feed it writes %q", text)
				}
				p.set(func() { p.err = errGone })
				began := time.Now()
				s.tell("")
				p.set(func() { p.err = end })
				err := <-s.ended
				if after := time.Since(began).Round(time.Second); !errors.Is(err, end) || after != map[error]time.Duration{errGone: time.Minute, errShut: time.Second}[end] {
					t.Errorf("after %v it ended with %v", after, err)
				}
			})
		}
	}
}

// TestNoProxy: where none has answered it is not waited for.
func TestNoProxy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProxy()
		p.err = errGone
		s := p.start(t.Context(), Window{})
		if err := <-s.ended; !errors.Is(err, errGone) || s.out.String() != "" {
			t.Errorf("%v, %q", err, s.out.String())
		}
	})
}

// TestPlain: the view, and then a line for each event; broken data ends it.
func TestPlain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newProxy().start(t.Context(), Window{})
		text := s.tell("event: snapshot\ndata: " + strings.ReplaceAll(first, "\n", "") + "\n\n: keep-alive\n\nevent: left\ndata: {\"request_id\":\"w1\"}\n\n")
		if !strings.HasPrefix(text, "2 of 64 waiting, 1 running\n") || !strings.HasSuffix(text, " left request=w1\n") {
			t.Errorf("it writes %q", text)
		}
		s.parts <- "event: snapshot\ndata: [\n\n"
		if err := <-s.ended; err == nil {
			t.Error("broken data was taken")
		}
	})
}
