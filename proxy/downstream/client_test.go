package downstream_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"oneslot/proxy/downstream"
)

func TestStreamIsCommittedInTime(t *testing.T) {
	inBubble(t, usual(true), func(t *testing.T, c *downstream.Client, w *writer) {
		c.SetStatus(func() string { return "queue position=2" })
		c.OnCommit(func(h http.Header) { h.Set("X-Oneslot-Position", "2") })
		pass(499 * time.Millisecond)
		if w.statuses != 0 || c.Told() != 0 {
			t.Errorf("status %d went out early", w.status)
		}
		pass(time.Millisecond)
		if w.status != 200 || c.Told() == 0 {
			t.Errorf("status is %d after 500 ms", w.status)
		}
		for key, want := range map[string]string{"Content-Type": "text/event-stream; charset=utf-8", "Cache-Control": "no-cache, no-transform", "X-Accel-Buffering": "no", "X-Oneslot-Position": "2", "Content-Length": ""} {
			if got := w.head.Get(key); got != want {
				t.Errorf("%s is %q, want %q", key, got, want)
			}
		}
		if got, want := w.got(), ": queue position=2\n\n"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

func TestStreamIsCommittedAtOnce(t *testing.T) {
	cfg := usual(true)
	cfg.CommitAfter = 0
	inBubble(t, cfg, func(t *testing.T, _ *downstream.Client, w *writer) {
		pass(0)
		if w.status != 200 {
			t.Errorf("status is %d", w.status)
		}
	})
}

func TestHeartbeats(t *testing.T) {
	for _, x := range []struct {
		name   string
		change func(*downstream.Config)
		want   string // what 31 s of silence bring
	}{
		{"comments", func(*downstream.Config) {}, ": s\n\n: s\n\n: s\n\n: s\n\n"},
		{"chunks", func(c *downstream.Config) { c.Beat, c.Voice = downstream.BeatChunk, &loud{} }, "event: beat\ndata: 1 1\n\nevent: beat\ndata: 2 1\n\nevent: beat\ndata: 3 1\n\nevent: beat\ndata: 4 1\n\n"},
		{"off", func(c *downstream.Config) { c.Beat = downstream.BeatOff }, ""},
		{"no interval", func(c *downstream.Config) { c.Heartbeat = 0 }, ""},
		{"whole", func(c *downstream.Config) { c.Stream = false }, "\n\n\n"},
		{"whole, off", func(c *downstream.Config) { c.Stream, c.Beat = false, downstream.BeatOff }, ""},
	} {
		t.Run(x.name, func(t *testing.T) {
			cfg := usual(true)
			x.change(&cfg)
			inBubble(t, cfg, func(t *testing.T, c *downstream.Client, w *writer) {
				c.SetStatus(func() string { return "s" })
				pass(31 * time.Second)
				if got := w.got(); got != x.want {
					t.Errorf("got %q, want %q", got, x.want)
				}
				if stream := cfg.Stream; (w.status == 200) != (stream || x.want != "") {
					t.Errorf("status is %d", w.status)
				}
			})
		})
	}
}

func TestHeartbeatText(t *testing.T) {
	inBubble(t, usual(true), func(t *testing.T, c *downstream.Client, w *writer) {
		texts := []string{"", "one\ntwo\r\n\r\ndata: x", "three"}
		n := 0
		c.SetStatus(func() string { n++; return texts[(n-1)%len(texts)] })
		pass(21 * time.Second)
		c.SetStatus(nil)
		pass(10 * time.Second)
		if got, want := w.got(), ": keep-alive\n\n: one two    data: x\n\n: three\n\n: keep-alive\n\n"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

// TestHeartbeatsBreakSilenceOnly: events put the next heartbeat off.
func TestHeartbeatsBreakSilenceOnly(t *testing.T) {
	inBubble(t, usual(true), func(t *testing.T, c *downstream.Client, w *writer) {
		send := func() {
			if err := errors.Join(c.Send([]byte("1")), c.Flush()); err != nil {
				t.Fatal(err)
			}
		}
		send()
		for range 5 {
			pass(9 * time.Second)
			send()
		}
		if got := w.got(); got != strings.Repeat("data: 1\n\n", 6) {
			t.Errorf("got %q", got)
		}
		pass(10 * time.Second)
		last := w.sentAt()[len(w.sentAt())-1]
		if last.text != ": keep-alive\n\n" || last.at != 55*time.Second {
			t.Errorf("after 10 s of silence got %q at %v", last.text, last.at)
		}
		pass(10 * time.Second)
		if last := w.sentAt()[len(w.sentAt())-1]; last.at != 65*time.Second {
			t.Errorf("the next heartbeat came at %v", last.at)
		}
	})
}

// TestHeartbeatStandsBetweenEvents: what was sent and not flushed goes first.
func TestHeartbeatStandsBetweenEvents(t *testing.T) {
	inBubble(t, usual(true), func(t *testing.T, c *downstream.Client, w *writer) {
		if err := c.Send([]byte(`{"a":1}`)); err != nil {
			t.Fatal(err)
		}
		pass(10 * time.Second)
		if got := w.got(); got != "data: {\"a\":1}\n\n: keep-alive\n\n" {
			t.Errorf("got %q", got)
		}
	})
}

func TestSendWaitsForFlush(t *testing.T) {
	inBubble(t, usual(true), func(t *testing.T, c *downstream.Client, w *writer) {
		if err := c.Flush(); err != nil || w.statuses != 0 {
			t.Errorf("a flush of nothing: %v, status %d", err, w.status)
		}
		data := []byte("1")
		_ = c.Send(data)
		data[0] = 'x' // Send does not keep it
		_ = c.Send([]byte("2"))
		if got := w.got(); got != "" {
			t.Errorf("got %q before the flush", got)
		}
		_ = c.Flush()
		_ = c.Flush()
		if flushes := w.sentAt(); len(flushes) != 1 || flushes[0].text != "data: 1\n\ndata: 2\n\n" {
			t.Errorf("got %+v", flushes)
		}
	})
}

func TestWhole(t *testing.T) {
	for _, x := range []struct {
		name   string
		wait   time.Duration
		want   string
		length string
	}{
		{"early", 0, `{"x":1}`, "7"},
		{"after a heartbeat", 10 * time.Second, "\n" + `{"x":1}`, ""},
		{"after three", 35 * time.Second, "\n\n\n" + `{"x":1}`, ""},
	} {
		t.Run(x.name, func(t *testing.T) {
			inBubble(t, usual(false), func(t *testing.T, c *downstream.Client, w *writer) {
				pass(x.wait)
				if err := c.Whole([]byte(`{"x":1}`)); err != nil {
					t.Fatal(err)
				}
				if w.status != 200 || w.got() != x.want || w.head.Get("Content-Type") != "application/json" || w.head.Get("Content-Length") != x.length {
					t.Errorf("got %d %q, header %v", w.status, w.got(), w.head)
				}
				pass(time.Minute)
				if w.got() != x.want {
					t.Errorf("heartbeats after the end: %q", w.got())
				}
			})
		})
	}
}

func TestFail(t *testing.T) {
	for _, x := range []struct {
		name           string
		stream         bool
		wait           time.Duration
		status, result int
		want           string
	}{
		{"stream, early", true, 0, 502, 502, failed},
		{"stream, committed", true, time.Second, 200, 200, ": keep-alive\n\ndata: " + failed + "\n\ndata: [DONE]\n\n"},
		{"whole, early", false, time.Second, 502, 502, failed},
		{"whole, after a heartbeat", false, 10 * time.Second, 200, 200, "\n" + failed},
	} {
		t.Run(x.name, func(t *testing.T) {
			inBubble(t, usual(x.stream), func(t *testing.T, c *downstream.Client, w *writer) {
				pass(x.wait)
				result := c.Fail(errEngine)
				if w.status != x.status || result != x.result || w.got() != x.want || w.statuses != 1 {
					t.Errorf("got %d, told %d: %q", w.status, result, w.got())
				}
				early := x.status != 200
				if (w.head.Get("Retry-After") == "7") != early || early && w.head.Get("Content-Type") != "application/json" {
					t.Errorf("header is %v", w.head)
				}
				if again := c.Fail(errEngine); again != x.result {
					t.Errorf("a second time it tells %d", again)
				}
				pass(time.Minute)
				if w.got() != x.want {
					t.Errorf("more after the end: %q", w.got())
				}
			})
		})
	}
}

// TestOnlyTheFirstEndCounts also holds for events that come after it.
func TestOnlyTheFirstEndCounts(t *testing.T) {
	ends := map[string]func(*downstream.Client){
		"Whole": func(c *downstream.Client) { _ = c.Whole([]byte("{}")) },
		"Done":  func(c *downstream.Client) { _ = c.Done() },
		"Fail":  func(c *downstream.Client) { c.Fail(errEngine) },
		"Send":  func(c *downstream.Client) { _ = c.Send([]byte("late")); _ = c.Flush() },
	}
	for first, end := range ends {
		for second, again := range ends {
			if first == "Send" {
				continue
			}
			t.Run(first+" then "+second, func(t *testing.T) {
				inBubble(t, usual(first != "Whole"), func(t *testing.T, c *downstream.Client, w *writer) {
					end(c)
					want := w.got()
					again(c)
					if got := w.got(); got != want || w.pending != "" {
						t.Errorf("%q became %q", want, got)
					}
				})
			})
		}
	}
}

// TestWriteErrorsAreSeenAndKept goes through a wrapper whose Flush hides them.
func TestWriteErrorsAreSeenAndKept(t *testing.T) {
	gone := errors.New("broken pipe")
	for name, broken := range map[string][2]error{"write": {gone, nil}, "flush": {nil, gone}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, usual(true), func(t *testing.T, c *downstream.Client, w *writer) {
				_ = c.Send([]byte("1"))
				if err := c.Flush(); err != nil {
					t.Fatal(err)
				}
				w.breaks(broken[0], broken[1])
				_ = c.Send([]byte("2"))
				if err := c.Flush(); !errors.Is(err, gone) {
					t.Errorf("the flush returns %v", err)
				}
				w.breaks(nil, nil)
				for call, err := range map[string]error{"Send": c.Send([]byte("3")), "Flush": c.Flush(), "Done": c.Done(), "Whole": c.Whole([]byte("{}"))} {
					if !errors.Is(err, gone) {
						t.Errorf("%s returns %v afterwards", call, err)
					}
				}
				if status := c.Fail(errEngine); status != 200 {
					t.Errorf("Fail returns %d", status)
				}
				pass(time.Minute)
				if got := w.got(); got != "data: 1\n\n" {
					t.Errorf("something was written after the error: %q", got)
				}
			})
		})
	}
}

// TestHeartbeatFindsTheError: a client that left while nothing was said.
func TestHeartbeatFindsTheError(t *testing.T) {
	gone := errors.New("broken pipe")
	inBubble(t, usual(true), func(t *testing.T, c *downstream.Client, w *writer) {
		w.breaks(gone, nil)
		pass(500 * time.Millisecond)
		if err := c.Send([]byte("1")); !errors.Is(err, gone) {
			t.Errorf("Send returns %v", err)
		}
		tries := len(w.deadlines)
		pass(time.Minute)
		if len(w.deadlines) != tries {
			t.Error("it goes on trying")
		}
	})
}

func TestEveryFlushHasADeadline(t *testing.T) {
	for _, x := range []struct{ set, want time.Duration }{{0, 30 * time.Second}, {5 * time.Second, 5 * time.Second}} {
		cfg := usual(true)
		cfg.WriteTimeout = x.set
		inBubble(t, cfg, func(t *testing.T, c *downstream.Client, w *writer) {
			for range 3 {
				pass(time.Second)
				_ = c.Send([]byte("1"))
				_ = c.Flush()
			}
			_ = c.Done()
			if want := slices.Repeat([]time.Duration{x.want}, 5); !slices.Equal(w.deadlines, want) {
				t.Errorf("deadlines are %v, want %v", w.deadlines, want)
			}
		})
	}
}

// TestClientThatStopsReading is found by the deadline, and the heartbeat that
// was due meanwhile does not stand in the way.
func TestClientThatStopsReading(t *testing.T) {
	inBubble(t, usual(true), func(t *testing.T, c *downstream.Client, w *writer) {
		pass(time.Second)
		w.mu.Lock()
		w.stuck = make(chan struct{})
		w.mu.Unlock()
		began := time.Now()
		_ = c.Send([]byte("1"))
		if err := c.Flush(); err == nil || time.Since(began) != 30*time.Second {
			t.Errorf("the flush returns %v after %v", err, time.Since(began))
		}
	})
}

func TestReleaseStopsAll(t *testing.T) {
	for _, stream := range []bool{true, false} {
		inBubble(t, usual(stream), func(t *testing.T, c *downstream.Client, w *writer) {
			pass(11 * time.Second)
			before := w.got()
			c.Release()
			c.Release()
			_ = c.Send([]byte("1"))
			_ = c.Flush()
			_ = c.Whole([]byte("{}"))
			c.Fail(errEngine)
			pass(time.Hour)
			if got := w.got(); got != before || w.pending != "" {
				t.Errorf("%q became %q, %q", before, got, w.pending)
			}
		})
	}
}

// TestTimerAndHandlerAtOnce is for the race detector, and for the framing: no
// heartbeat may stand inside an event.
func TestTimerAndHandlerAtOnce(t *testing.T) {
	cfg := usual(true)
	cfg.CommitAfter, cfg.Heartbeat = 0, time.Nanosecond
	inBubble(t, cfg, func(t *testing.T, c *downstream.Client, w *writer) {
		var all sync.WaitGroup
		all.Go(func() {
			for i := range 300 {
				_ = c.Send(fmt.Append(nil, i))
				if i%3 == 0 {
					_ = c.Flush()
					<-time.After(time.Millisecond)
				}
			}
		})
		all.Go(func() {
			for range 300 {
				c.SetStatus(func() string { return "s" })
				c.OnCommit(nil)
				c.Told()
				<-time.After(time.Millisecond)
			}
		})
		all.Wait()
		_ = c.Done()
		next := 0
		for block := range strings.SplitSeq(strings.TrimSuffix(w.got(), "data: [DONE]\n\n"), "\n\n") {
			if block == fmt.Sprintf("data: %d", next) {
				next++
			} else if block != ": s" && block != ": keep-alive" && block != "" {
				t.Fatalf("a block %q, after event %d", block, next)
			}
		}
		if next != 300 || !strings.HasSuffix(w.got(), "data: [DONE]\n\n") {
			t.Errorf("%d events came", next)
		}
	})
}

func TestNewNeedsAWriterThatCanBeFlushed(t *testing.T) {
	mute := struct{ http.ResponseWriter }{httptest.NewRecorder()}
	if c, err := downstream.New(mute, request(t), usual(true)); err == nil {
		c.Release()
		t.Error("a writer without Flush is taken")
	}
}

// TestStatusGoesThroughTheWrapper: the router must know that the header is out.
func TestStatusGoesThroughTheWrapper(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &echoes{ResponseWriter: newWriter()}
		c, err := downstream.New(w, request(t), usual(true))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Release()
		_ = c.Done()
		if !w.committed {
			t.Error("the wrapper was passed by")
		}
		if c.Context() == nil || c.Context().Err() != nil {
			t.Error("the caller is there")
		}
	})
}

func TestBeatNames(t *testing.T) {
	for _, name := range []string{"comment", "chunk", "off"} {
		var b downstream.Beat
		if err := b.UnmarshalText([]byte(name)); err != nil {
			t.Error(err)
		}
		if text, err := b.MarshalText(); err != nil || string(text) != name {
			t.Errorf("%q is written as %q, %v", name, text, err)
		}
	}
	var b downstream.Beat
	if err := b.UnmarshalText([]byte("loud")); err == nil || !strings.Contains(err.Error(), "comment") {
		t.Errorf("an unknown name gives %v", err)
	}
}

// TestSharedBuffers: clients that gather in the same buffers get their own bytes, also
// when they fill them in turn, and when one has gone.
func TestSharedBuffers(t *testing.T) {
	cfg := usual(true)
	cfg.Buffers = &downstream.Buffers{}
	inBubble(t, cfg, func(t *testing.T, a *downstream.Client, aw *writer) {
		bw := newWriter()
		b, err := downstream.New(&echoes{ResponseWriter: bw}, request(t), cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer b.Release()
		var want [2]strings.Builder
		for i := range 50 {
			say := func(j int, c *downstream.Client) {
				text := strings.Repeat(fmt.Sprint(j), i*100+1)
				if err := c.Send([]byte(text)); err != nil {
					t.Fatal(err)
				}
				want[j].WriteString("data: " + text + "\n\n")
			}
			say(0, a)
			_ = a.Flush()
			say(1, b) // perhaps where the other one's were
			say(0, a)
			if err := errors.Join(b.Flush(), a.Flush()); err != nil {
				t.Fatal(err)
			}
		}
		if aw.got() != want[0].String() || bw.got() != want[1].String() {
			t.Error("the bytes of two clients are mixed")
		}
	})
}
