package downstream_test

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"oneslot/internal/openai"
	"oneslot/proxy/downstream"
	"oneslot/proxy/downstream/tape"
)

// kept is a client whose answer is kept, and one that repeats it.
type kept struct {
	t       *testing.T
	first   *downstream.Client
	to      *writer
	lose    context.CancelFunc // of the first
	tape    *tape.Tape
	left    atomic.Int32 // how often the first was said to have left
	stopped context.CancelFunc
}

// counting numbers its signs of life, as an API does whose events are numbered.
type counting struct {
	downstream.Plain
	n *int
}

func (c counting) Beat(e *downstream.Events, _ downstream.Sign) {
	*c.n++
	e.Comment("c")
	e.Data([]byte{'0' + byte(*c.n)})
}

// Problem is in the words of its API.
func (c counting) Problem(p *openai.Problem) []byte { return []byte("counted: " + p.Message) }

func keeping(t *testing.T, cfg downstream.Config, f func(t *testing.T, k *kept)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		k := &kept{t: t, to: newWriter(), tape: tape.New(1<<20, func() {})}
		r := request(t)
		ctx, lose := context.WithCancel(r.Context())
		wanted, stop := context.WithCancel(context.Background())
		defer stop()
		k.lose, k.stopped = lose, stop
		cfg.Keep = &downstream.Keeper{Tape: k.tape, Wanted: wanted, Left: func() { k.left.Add(1) }}
		var err error
		if k.first, err = downstream.New(&echoes{ResponseWriter: k.to}, r.WithContext(ctx), cfg); err != nil {
			t.Fatal(err)
		}
		defer k.first.Release()
		f(t, k)
	})
}

// repeat plays the tape to another connection until its end.
func (k *kept) repeat(cfg downstream.Config) *writer {
	k.t.Helper()
	w := newWriter()
	c, err := downstream.New(&echoes{ResponseWriter: w}, request(k.t), cfg)
	if err != nil {
		k.t.Fatal(err)
	}
	defer c.Release()
	c.Follow(k.first)
	p, err := k.tape.Open()
	if err != nil {
		k.t.Fatal(err)
	}
	defer p.Close()
	end, err := p.Play(k.t.Context(), c)
	if err != nil {
		k.t.Fatal(err)
	}
	if err := c.Repeat(end); err != nil || !c.Delivered() {
		k.t.Errorf("repeating gave %v, delivered %v", err, c.Delivered())
	}
	return w
}

// TestKeptAnswerGoesOn: when its caller is lost nothing fails, and another hears all
// of it, with the signs of life that belong to it, and the first one's headers.
func TestKeptAnswerGoesOn(t *testing.T) {
	n := 0
	cfg := usual(true)
	cfg.Voice = counting{n: &n}
	keeping(t, cfg, func(t *testing.T, k *kept) {
		k.first.AddHeader("X-Oneslot-Budget", "unsupported")
		k.first.OnCommit(func(h http.Header) { h.Set("X-Oneslot-Position", "2") })
		pass(600 * time.Millisecond) // a sign of life
		k.lose()
		synctest.Wait()
		pass(10 * time.Second) // another, though nobody is there
		for _, data := range []string{"a", "b"} {
			if err := errors.Join(k.first.Send([]byte(data)), k.first.Flush()); err != nil {
				t.Errorf("saying %s gave %v", data, err)
			}
		}
		if err := k.first.Done(); err != nil || k.first.Delivered() {
			t.Errorf("the end gave %v, delivered %v", err, k.first.Delivered())
		}
		if k.left.Load() == 0 || k.first.Context().Err() != nil {
			t.Errorf("it was told %d times that its caller has left; the answer is wanted: %v", k.left.Load(), k.first.Context().Err())
		}
		k.stopped()
		if k.first.Context().Err() == nil {
			t.Error("its context is not that of the answer")
		}
		w := k.repeat(usual(true))
		if got, want := w.got(), ": c\n\ndata: 1\n\n: c\n\ndata: 2\n\ndata: a\n\ndata: b\n\ndata: [DONE]\n\n"; got != want {
			t.Errorf("the other heard %q, want %q", got, want)
		}
		if w.head.Get("X-Oneslot-Budget") != "unsupported" || w.head.Get("X-Oneslot-Position") != "2" {
			t.Errorf("its headers are %v", w.head)
		}
		if got := k.to.got(); got != ": c\n\ndata: 1\n\n" {
			t.Errorf("the first heard %q", got)
		}
	})
}

// TestCommentsAreNotKept: old places in line are nobody's business; a follower has
// signs of its own.
func TestCommentsAreNotKept(t *testing.T) {
	keeping(t, usual(true), func(t *testing.T, k *kept) {
		k.first.SetStatus(func() string { return "here" })
		pass(30 * time.Second)
		time.AfterFunc(11*time.Second, func() { _ = k.first.Done() })
		if got, want := k.repeat(usual(true)).got(), ": here\n\n: here\n\ndata: [DONE]\n\n"; got != want {
			t.Errorf("the other heard %q, want %q", got, want)
		}
		k.first.SetStatus(nil)
	})
}

// TestKeptWriteFails: a write that fails is the caller's leaving, and no fault.
func TestKeptWriteFails(t *testing.T) {
	keeping(t, usual(true), func(t *testing.T, k *kept) {
		k.to.breaks(errors.New("broken pipe"), nil)
		if err := errors.Join(k.first.Send([]byte("a")), k.first.Flush(), k.first.Write(func(e *downstream.Events) { e.Data([]byte("b")) }), k.first.Flush()); err != nil || k.left.Load() != 1 {
			t.Errorf("the writes gave %v; left %d times", err, k.left.Load())
		}
		k.to.breaks(nil, nil)
		_ = k.first.Done()
		if got := k.to.got(); got != "" {
			t.Errorf("after its fault the caller heard %q", got)
		}
		if got, want := k.repeat(usual(true)).got(), "data: a\n\ndata: b\n\ndata: [DONE]\n\n"; got != want {
			t.Errorf("the other heard %q, want %q", got, want)
		}
	})
}

// TestKeptEnds: another connection hears the end in the form that it can still take.
func TestKeptEnds(t *testing.T) {
	failedStream := "data: " + failed + "\n\ndata: [DONE]\n\n"
	for name, x := range map[string]struct {
		stream  bool
		play    func(k *kept)
		status  int
		want    string
		waiting bool // the other is there before the end, and has its status
	}{
		"whole":                      {false, func(k *kept) { _ = k.first.Whole([]byte("{}")) }, 200, "{}", false},
		"whole, after newlines":      {false, func(k *kept) { pass(15 * time.Second); _ = k.first.Whole([]byte("{}")) }, 200, "\n{}", true},
		"stream":                     {true, func(k *kept) { _ = k.first.Done() }, 200, "data: [DONE]\n\n", false},
		"early failure":              {true, func(k *kept) { k.first.Fail(errEngine) }, 502, failed, false},
		"failure after the status":   {true, func(k *kept) { pass(time.Second); k.first.Fail(errEngine) }, 200, ": keep-alive\n\n" + failedStream, true},
		"its status goes out later":  {true, func(k *kept) { pass(time.Second); k.first.Fail(errEngine) }, 502, failed, false},
		"failure of a whole":         {false, func(k *kept) { k.first.Fail(errEngine) }, 502, failed, false},
		"failure of a whole, behind": {false, func(k *kept) { pass(15 * time.Second); k.first.Fail(errEngine) }, 200, "\n" + failed, true},
		"failure amid":               {true, func(k *kept) { _ = k.first.Send([]byte("a")); k.first.Fail(errEngine) }, 200, "data: a\n\n" + failedStream, false},
	} {
		t.Run(name, func(t *testing.T) {
			keeping(t, usual(x.stream), func(t *testing.T, k *kept) {
				k.lose()
				if x.waiting {
					go x.play(k)
				} else {
					x.play(k)
				}
				if w := k.repeat(usual(x.stream)); w.got() != x.want || w.status != x.status {
					t.Errorf("the other got %d %q, want %d %q", w.status, w.got(), x.status, x.want)
				}
				synctest.Wait()
			})
		})
	}
}

// TestEcho: what a follower says of its own is a comment, whatever its API has.
func TestEcho(t *testing.T) {
	n := 0
	cfg := usual(true)
	cfg.Voice, cfg.Beat = downstream.Echo{Voice: counting{n: &n}}, downstream.BeatChunk
	inBubble(t, cfg, func(t *testing.T, _ *downstream.Client, w *writer) {
		pass(time.Second)
		if got := w.got(); got != ": keep-alive\n\n" {
			t.Errorf("it said %q", got)
		}
	})
	cfg = usual(true)
	cfg.Voice = counting{n: &n}
	keeping(t, cfg, func(t *testing.T, k *kept) {
		k.first.Fail(errEngine)
		if got := k.repeat(usual(true)).got(); got != "counted: engine failed" {
			t.Errorf("the error is told as %q", got)
		}
	})
}
