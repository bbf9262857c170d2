package downstream_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"oneslot/internal/openai"
	"oneslot/proxy/downstream"
)

// loud is a Voice whose events are named and numbered.
type loud struct {
	n     int
	signs []downstream.Sign
}

func (l *loud) Beat(e *downstream.Events, s downstream.Sign) {
	l.signs = append(l.signs, s)
	l.say(e, "beat", fmt.Sprint(s.Beat))
}

func (l *loud) Fail(e *downstream.Events, p *openai.Problem) { l.say(e, "failed", p.Message) }

func (l *loud) Problem(p *openai.Problem) []byte { return []byte(`{"wrong":"` + p.Message + `"}`) }

func (l *loud) say(e *downstream.Events, name, what string) {
	l.n++
	e.Named(name, fmt.Appendf(nil, "%d %s", l.n, what))
}

// TestVoice: whatever is not the answer is said in the words of the Voice.
func TestVoice(t *testing.T) {
	for _, x := range []struct {
		name   string
		stream bool
		wait   time.Duration
		want   string
		status int
	}{
		{"early", true, 0, `{"wrong":"engine failed"}`, 502},
		{"in a stream", true, time.Second, "event: beat\ndata: 1 0\n\nevent: failed\ndata: 2 engine failed\n\n", 200},
		{"whole", false, 0, `{"wrong":"engine failed"}`, 502},
		{"whole, late", false, 11 * time.Second, "\n" + `{"wrong":"engine failed"}`, 200},
	} {
		t.Run(x.name, func(t *testing.T) {
			cfg := usual(x.stream)
			cfg.Voice = &loud{}
			inBubble(t, cfg, func(t *testing.T, c *downstream.Client, w *writer) {
				pass(x.wait)
				if status := c.Fail(errEngine); status != x.status || w.status != x.status || w.got() != x.want {
					t.Errorf("got %d %q, want %d %q", status, w.got(), x.status, x.want)
				}
			})
		})
	}
}

// TestVoiceIsToldWhatGoesOn.
func TestVoiceIsToldWhatGoesOn(t *testing.T) {
	cfg, voice := usual(true), &loud{}
	cfg.Voice = voice
	inBubble(t, cfg, func(t *testing.T, c *downstream.Client, _ *writer) {
		c.SetWaiting(func() string { return "place" })
		pass(time.Second)
		c.SetStatus(func() string { return "prefill" })
		pass(10 * time.Second)
		c.SetStatus(nil)
		pass(10 * time.Second)
		c.Release()
		want := "[{comment place true} {comment prefill false} {comment  false}]"
		if got := strings.ReplaceAll(fmt.Sprint(voice.signs), "{0 ", "{comment "); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}

// TestWritesAndBeatsAreOneSequence: what the answer and the heartbeats note
// together needs no lock.
func TestWritesAndBeatsAreOneSequence(t *testing.T) {
	cfg, voice := usual(true), &loud{}
	cfg.CommitAfter, cfg.Heartbeat, cfg.Voice = 0, time.Nanosecond, voice
	inBubble(t, cfg, func(t *testing.T, c *downstream.Client, w *writer) {
		var all sync.WaitGroup
		all.Go(func() {
			for range 200 {
				_ = c.Write(func(e *downstream.Events) { voice.say(e, "text", "x") })
				_ = c.Flush()
				<-time.After(time.Millisecond)
			}
		})
		all.Wait()
		_ = c.End(func(e *downstream.Events) {
			voice.say(e, "end", "x")
			e.Done()
		})
		called := false
		_ = c.Write(func(*downstream.Events) { called = true })
		_ = c.End(func(*downstream.Events) { called = true })
		if called {
			t.Error("something is written after the end")
		}
		blocks := strings.Split(strings.TrimSuffix(w.got(), "\n\n"), "\n\n")
		for i, block := range blocks[:len(blocks)-1] {
			if !strings.Contains(block, fmt.Sprintf("\ndata: %d ", i+1)) {
				t.Fatalf("event %d is %q", i+1, block)
			}
		}
		if n := len(blocks); n < 210 || blocks[n-1] != "data: [DONE]" || !strings.HasPrefix(blocks[n-2], "event: end\n") {
			t.Errorf("%d events, which end with %q", n, blocks[n-2:])
		}
	})
}

// TestBeatsFallTogether: clients that came at different moments hear their signs of life
// at the same ones, never after a longer silence than was promised.
func TestBeatsFallTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all []*writer
		for range 20 {
			w := newWriter()
			c, err := downstream.New(&echoes{ResponseWriter: w}, request(t), usual(true))
			if err != nil {
				t.Fatal(err)
			}
			defer c.Release()
			all = append(all, w)
			pass(7 * time.Millisecond)
		}
		pass(35 * time.Second)
		moments := map[time.Time]int{}
		for _, w := range all {
			before := time.Duration(0)
			for i, s := range w.sentAt() {
				if silent := s.at - before; i > 0 && (silent > 10*time.Second || silent < 9700*time.Millisecond) {
					t.Errorf("a silence of %v", silent)
				} else if i > 0 {
					moments[w.began.Add(s.at)]++
				}
				before = s.at
			}
		}
		if len(moments) != 3 {
			t.Errorf("60 signs of life came at %d moments", len(moments))
		}
	})
}
