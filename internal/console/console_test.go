package console

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"oneslot/api/board"
	"oneslot/internal/simengine/simtest"
)

const first = `{"object":"queue","waiting":2,"running":1,"limit":64,"paused":false,"draining":false,
	"slots":[{"engine":"spark","state":"busy","request_id":"r1","phase":"thinking","since_ms":61500,"prompt_tokens":812,"thinking_tokens":640,"answer_tokens":0,"tokens_per_second":9.8},
	{"engine":"ember","state":"down","since_ms":3000,"prompt_tokens":null,"thinking_tokens":null,"answer_tokens":null,"tokens_per_second":null}],
	"waiters":[{"request_id":"w1","position":1,"priority":"default","key":"team-a","waited_ms":40210,"eta_seconds":{"p50":120,"p90":410}},{"position":2}],
	"recent":{"slot_seconds":null,"requests":0}}`

// rows are the lines of the table, with blanks made single.
func rows(t *testing.T, s *Screen, most int) []string {
	t.Helper()
	var b strings.Builder
	if err := s.Table(&b, most); err != nil {
		t.Fatal(err)
	}
	var out []string
	for line := range strings.Lines(b.String()) {
		if text := strings.Join(strings.Fields(line), " "); text != "" {
			out = append(out, text)
		}
	}
	return out
}

func same(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%s:\n%s\nwant\n%s", what, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

const (
	slotHead = "SLOT STATE FOR PHASE PROMPT THINKING ANSWER TOK/S REQUEST"
	lineHead = "PLACE REQUEST KEY CLASS WAITED STARTS IN"
)

func TestTable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var v board.View
		if err := json.Unmarshal([]byte(first), &v); err != nil {
			t.Fatal(err)
		}
		s := New(v)
		<-time.After(2 * time.Second) // times go on between two events
		same(t, "the view", rows(t, s, 0), "2 of 64 waiting, 1 running", slotHead,
			"spark busy 1m3s thinking 812 640 0 9.8 r1", "ember down 5s", lineHead,
			"1 w1 team-a default 42s 2m0s - 6m50s", "2 (another's)")
		same(t, "one row", rows(t, s, 1)[5:], "1 w1 team-a default 42s 2m0s - 6m50s", "… and 1 more")
	})
}

// TestFeed: every event changes the table as it should.
func TestFeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Screen{}
		same(t, "before the feed", rows(t, s, 0), "Nothing is known of the line yet.")
		apply := func(name, data string) {
			t.Helper()
			if err := s.Apply(name, []byte(data)); err != nil {
				t.Error(err)
			}
		}
		apply("snapshot", first)
		<-time.After(10 * time.Second)
		apply("joined", `{"request_id":"w2","position":1,"priority":"interactive","key":"b","waited_ms":0,"eta_seconds":null}`)
		apply("moved", `{"request_id":"w1","position":2,"priority":"default","key":"team-a","waited_ms":50210,"eta_seconds":null}`)
		same(t, "the head, before its event", rows(t, s, 0)[:1], "3 of 64 waiting, 1 running")
		apply("line", `{"waiting":3,"running":0,"paused":true,"draining":false}`)
		apply("slot", `{"engine":"spark","state":"idle","since_ms":0,"prompt_tokens":null,"thinking_tokens":null,"answer_tokens":null,"tokens_per_second":null}`)
		apply("something new", `?`)
		<-time.After(time.Second)
		same(t, "after them", rows(t, s, 0), "3 of 64 waiting, 0 running, PAUSED", slotHead, "spark idle 1s", "ember down 14s", lineHead,
			"1 w2 b interactive 1s paused", "2 w1 team-a default 51s paused")
		apply("granted", `{"request_id":"w2","engine":"spark"}`)
		apply("left", `{"request_id":"w1"}`)
		same(t, "the head, when two are gone", rows(t, s, 0)[:1], "1 of 64 waiting, 0 running, PAUSED")
		apply("line", `{"waiting":0,"running":1,"paused":false,"draining":true}`)
		apply("phase", `{"engine":"spark","state":"busy","request_id":"w2","phase":"prefill","since_ms":100,"prompt_tokens":5,"thinking_tokens":null,"answer_tokens":null,"tokens_per_second":null}`)
		same(t, "in the end", rows(t, s, 0), "0 of 64 waiting, 1 running, DRAINING", slotHead, "spark busy 0s prefill 5 w2", "ember down 14s")
		apply("unavailable", `{"reason":"store_down"}`)
		same(t, "without a store", rows(t, s, 0), "The line's store does not answer.")
		apply("snapshot", first)
		if got := rows(t, s, 0); len(got) != 7 {
			t.Errorf("when it is back: %q", got)
		}
		for _, name := range []string{"snapshot", "joined", "left", "slot", "line"} {
			if err := s.Apply(name, []byte("[")); err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("broken data of %s: %v", name, err)
			}
		}
	})
}

func TestLine(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, c := range []struct{ name, data, want string }{
		{"joined", `{"request_id":"w2","position":1,"priority":"batch","key":"","waited_ms":0,"eta_seconds":null}`, "03:04:05 joined request=w2 position=1 priority=batch"},
		{"line", `{"waiting":3,"running":0,"paused":true,"draining":false}`, "03:04:05 line waiting=3 running=0 paused=true draining=false"},
		{"slot", `{"engine":"spark","state":"idle","prompt_tokens":null}`, "03:04:05 slot engine=spark state=idle"},
		{"unavailable", `{"reason":"store_down"}`, "03:04:05 unavailable reason=store_down"},
		{"snapshot", first, ""},
		{"joined", `[`, ""},
	} {
		if got := Line(at, c.name, []byte(c.data)); got != c.want {
			t.Errorf("%s is %q, want %q", c.data, got, c.want)
		}
	}
}

// TestLiveTable: in a terminal the table is drawn over the last one.
func TestLiveTable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		feed, out := newFeed(), &simtest.Buffer{}
		ended := make(chan error, 1)
		go func() { ended <- Live(ctx, feed, out) }()
		feed.parts <- "event: snapshot\ndata: {\"waiting\":0,\"limit\":64,\"running\":0,\"slots\":[],\"waiters\":[]}\n\n"
		synctest.Wait()
		if text := out.String(); !strings.HasPrefix(text, "\x1b[H0 of 64 waiting, 0 running\x1b[K\n") || !strings.HasSuffix(text, "\x1b[J") {
			t.Errorf("it draws %q", text)
		}
		feed.parts <- "event: line\ndata: {\"waiting\":3,\"running\":1,\"paused\":false,\"draining\":false}\n\n"
		<-time.After(1500 * time.Millisecond)
		if n := strings.Count(out.String(), "\x1b[H3 of 64 waiting, 1 running\x1b[K"); n != 2 {
			t.Errorf("drawn %d times, want once for the event and once for the second: %q", n, out.String())
		}
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("it ended with %v", err)
		}
		if feed.reads.Load() != 0 {
			t.Error("its reader goes on")
		}
	})
}

// TestLiveEnds: whatever ends it, nobody reads on, also if the feed has more.
func TestLiveEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		feed := newFeed()
		go func() {
			feed.parts <- "event: snapshot\ndata: [\n\nevent: line\ndata: {}\n\nevent: line\ndata: {}\n\n"
		}()
		if err := Live(t.Context(), feed, &simtest.Buffer{}); err == nil {
			t.Error("broken data was taken")
		}
		select {
		case <-feed.closed:
		default:
			t.Error("the feed is open")
		}
		if feed.reads.Load() != 0 {
			t.Error("its reader goes on")
		}
	})
}

// testFeed is a body whose parts a test sends.
type testFeed struct {
	parts  chan string
	closed chan struct{}
	reads  atomic.Int32 // going on now
}

func newFeed() *testFeed { return &testFeed{parts: make(chan string), closed: make(chan struct{})} }

func (f *testFeed) Read(b []byte) (int, error) {
	f.reads.Add(1)
	defer f.reads.Add(-1)
	select {
	case part := <-f.parts:
		return copy(b, part), nil
	case <-f.closed:
		return 0, os.ErrClosed
	}
}

func (f *testFeed) Close() error {
	close(f.closed)
	return nil
}

// TestPlain: the view, and then a line for each event; broken data ends it.
func TestPlain(t *testing.T) {
	out := &simtest.Buffer{}
	feed := "event: snapshot\ndata: " + strings.ReplaceAll(first, "\n", "") + "\n\n: keep-alive\n\nevent: left\ndata: {\"request_id\":\"w1\"}\n\n"
	if err := Plain(strings.NewReader(feed), out); err != nil {
		t.Error(err)
	}
	if text := out.String(); !strings.HasPrefix(text, "2 of 64 waiting, 1 running\n") || !strings.HasSuffix(text, " left request=w1\n") {
		t.Errorf("it writes %q", text)
	}
	if err := Plain(strings.NewReader("event: snapshot\ndata: [\n\n"), out); err == nil {
		t.Error("broken data was taken")
	}
}
