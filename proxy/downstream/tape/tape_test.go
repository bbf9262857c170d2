package tape_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"oneslot/proxy/downstream/tape"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// ear is where a tape is played to.
type ear struct {
	heard   strings.Builder
	flushed string // heard with the last flush
	fail    error
}

func (e *ear) Say(text []byte) error {
	e.heard.Write(text)
	return e.fail
}

func (e *ear) Flush() error {
	e.flushed = e.heard.String()
	return e.fail
}

func never() {}

func open(t *testing.T, x *tape.Tape) *tape.Player {
	t.Helper()
	p, err := x.Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// TestEverybodyHearsTheSame, whenever he begins, with events of any size.
func TestEverybodyHearsTheSame(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 0))
		x := tape.New(64<<20, never)
		var all strings.Builder
		var wg sync.WaitGroup
		ears := make([]*ear, 5)
		ends := make([]tape.End, len(ears))
		for i := range ears {
			ears[i] = &ear{}
			for n := range r.IntN(40) {
				text := strings.Repeat(fmt.Sprint(n%10), r.IntN([]int{3, 300, 40_000}[r.IntN(3)]))
				all.WriteString(text)
				x.Add([]byte(text))
			}
			p := open(t, x)
			wg.Go(func() {
				var err error
				if ends[i], err = p.Play(context.Background(), ears[i]); err != nil {
					t.Error(err)
				}
			})
		}
		if x.Size() != all.Len() {
			t.Errorf("seed %d: the size is %d, want %d", seed, x.Size(), all.Len())
		}
		x.Finish(tape.End{Text: []byte("end")})
		x.Finish(tape.End{Text: []byte("second")})
		wg.Wait()
		for i, e := range ears {
			if e.heard.String() != all.String() || string(ends[i].Text) != "end" {
				t.Errorf("seed %d: player %d heard %d bytes of %d and the end %q", seed, i, e.heard.Len(), all.Len(), ends[i].Text)
			}
		}
	}
}

// TestNothingIsHeldBack: before a player waits, all that was said has been flushed.
func TestNothingIsHeldBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, e := tape.New(100, never), &ear{}
		ctx, leave := context.WithCancelCause(context.Background())
		ended := make(chan error)
		p := open(t, x)
		go func() {
			_, err := p.Play(ctx, e)
			ended <- err
		}()
		for _, want := range []string{"a", "ab", "abc"} {
			x.Add([]byte(want[len(want)-1:]))
			synctest.Wait()
			if e.flushed != want {
				t.Errorf("flushed %q, want %q", e.flushed, want)
			}
		}
		gone := errors.New("gone")
		leave(gone)
		if err := <-ended; !errors.Is(err, gone) {
			t.Errorf("the playing ended with %v, want the cause of its context", err)
		}
	})
}

// TestDeafEar: an error of the ear ends the playing, of either call.
func TestDeafEar(t *testing.T) {
	deaf := &ear{fail: errors.New("deaf")}
	x := tape.New(100, never)
	if _, err := open(t, x).Play(context.Background(), deaf); !errors.Is(err, deaf.fail) {
		t.Errorf("flushing to a deaf ear gave %v", err)
	}
	x.Add([]byte("a"))
	if _, err := open(t, x).Play(context.Background(), deaf); !errors.Is(err, deaf.fail) || deaf.heard.String() != "a" {
		t.Errorf("speaking to a deaf ear gave %v", err)
	}
}

// TestOverflow: beyond the limit nobody can begin any more, he who has begun goes on,
// and the writer is told once.
func TestOverflow(t *testing.T) {
	lost := 0
	x := tape.New(10, func() { lost++ })
	x.Add([]byte("0123456789"))
	p, e := open(t, x), &ear{}
	if lost != 0 {
		t.Error("the limit itself is too much")
	}
	x.Add([]byte("x"))
	x.Add([]byte("y"))
	if _, err := x.Open(); !errors.Is(err, tape.ErrFull) || lost != 1 {
		t.Errorf("a full tape opens with %v; the writer was told %d times", err, lost)
	}
	x.Finish(tape.End{Whole: []byte("z")})
	if end, err := p.Play(context.Background(), e); err != nil || e.heard.String() != "0123456789xy" || string(end.Whole) != "z" {
		t.Errorf("who had begun heard %q, %+v, %v", e.heard.String(), end, err)
	}
	if x.Err() != nil {
		t.Errorf("it failed of %v", x.Err())
	}
}

// TestOverflowByTheEnd: the end counts too.
func TestOverflowByTheEnd(t *testing.T) {
	lost := 0
	x := tape.New(10, func() { lost++ })
	x.Add([]byte("01234"))
	x.Finish(tape.End{Whole: []byte("012"), Text: []byte("345"), Err: context.Canceled})
	if _, err := x.Open(); !errors.Is(err, tape.ErrFull) || lost != 1 || !errors.Is(x.Err(), context.Canceled) {
		t.Errorf("it opens with %v, told %d times, failed of %v", err, lost, x.Err())
	}
}

func BenchmarkAdd(b *testing.B) {
	chunk := []byte(strings.Repeat("x", 230))
	x := tape.New(1<<40, never)
	b.ReportAllocs()
	for b.Loop() {
		x.Add(chunk)
	}
}
