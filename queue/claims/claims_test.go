package claims

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// town is what the processes of a test share: what the scripts keep, and the messages.
type town struct {
	mu     sync.Mutex // guards what follows
	claims map[string][4]string
	dead   map[string]bool
	deaf   map[string]bool
	all    map[string]*Claims
	fault  error
	odd    []any // answered by claim_take, if it is not nil
}

func newTown() *town {
	return &town{claims: map[string][4]string{}, dead: map[string]bool{}, deaf: map[string]bool{}, all: map[string]*Claims{}}
}

// process is one more.
func (w *town) process(name string) *Claims {
	c := New(Wire{
		Run: func(_ context.Context, script string, args ...any) ([]any, error) { return w.run(name, script, args) },
		Say: w.say,
		Go:  func(f func()) { go f() },
	})
	w.all[name] = c
	return c
}

func (w *town) say(to, text string) {
	w.mu.Lock()
	c, deaf := w.all[to], w.deaf[to] || w.dead[to]
	w.mu.Unlock()
	if !deaf {
		c.Hear(text)
	}
}

// run is what the scripts do; the job of a claim arrived at 7.
func (w *town) run(me, script string, args []any) ([]any, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.fault != nil || w.odd != nil && script == "claim_take" {
		return w.odd, w.fault
	}
	name, id := args[0].(string), args[1].(string)
	is, taken := w.claims[name]
	switch {
	case script == "claim_drop" && is[0] == me && (id == "" || id == is[1]):
		delete(w.claims, name)
		if is[3] != "" {
			go w.say(is[3], "free "+name+" "+me)
		}
	case script == "claim_drop":
	case taken && is[0] != me && !w.dead[is[0]]:
		is[3] = me
		w.claims[name] = is
		go w.say(is[0], "asked "+name+" "+me)
		return []any{is[0], is[1], is[2], int64(7)}, nil
	default:
		w.claims[name] = [4]string{me, id, args[2].(string), ""}
	}
	return []any{}, nil
}

func claimOf(id string) Claim { return Claim{Name: "n", ID: id, Body: "b"} }

func answers(held, known bool) func(string) (bool, bool) {
	return func(string) (bool, bool) { return held, known }
}

// TestTake: one process has a claim, and another asks for it.
func TestTake(t *testing.T) {
	here := Place{ID: "one", Arrival: 7}
	for name, c := range map[string]struct {
		set   func(w *town, first *Claims)
		claim Claim
		place Place
		gone  bool // the rest is to be waited for
		err   error
		after time.Duration
	}{
		"its client is there": {func(_ *town, a *Claims) { a.Answer(answers(true, true)) }, claimOf("two"), Place{}, false, ErrHeld, 2 * every},
		"it is missed a little later": {func(_ *town, a *Claims) {
			asked := 0
			a.Answer(func(string) (bool, bool) { asked++; return asked < 3, true })
		}, claimOf("two"), here, true, nil, 2 * every},
		"its client is lost":   {func(_ *town, a *Claims) { a.Answer(answers(false, true)) }, claimOf("two"), here, true, nil, 0},
		"it is not known":      {func(_ *town, a *Claims) { a.Answer(answers(false, false)) }, claimOf("two"), here, false, nil, 0},
		"nobody answers there": {func(*town, *Claims) {}, claimOf("two"), here, false, nil, 0},
		"another body":         {func(*town, *Claims) {}, Claim{"n", "two", "c"}, Place{}, false, ErrOther, 0},
		"it hears nothing, until it dies": {func(w *town, _ *Claims) {
			w.deaf["a"] = true
			time.AfterFunc(3*time.Second-time.Millisecond, func() { w.mu.Lock(); w.dead["a"] = true; w.mu.Unlock() })
		}, claimOf("two"), here, false, nil, 3 * time.Second},
		"it is dead":                 {func(w *town, _ *Claims) { w.dead["a"] = true }, claimOf("two"), Place{}, false, nil, 0},
		"the store fails":            {func(w *town, _ *Claims) { w.fault = errors.New("no store") }, claimOf("two"), Place{}, false, errors.New("no store"), 0},
		"the store answers nonsense": {func(w *town, _ *Claims) { w.odd = []any{1, 2, 3, 4} }, claimOf("two"), Place{}, false, errors.New("claims: claim_take answered [1 2 3 4]"), 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newTown()
				a, b := w.process("a"), w.process("b")
				if _, rest, err := a.Take(t.Context(), claimOf("one")); rest != nil || err != nil {
					t.Fatal(err)
				}
				c.set(w, a)
				began := time.Now()
				place, rest, err := b.Take(t.Context(), c.claim)
				if place != c.place || (rest != nil) != c.gone || fmt.Sprint(err) != fmt.Sprint(c.err) {
					t.Errorf("got %+v, %v, want %+v, %v", place, err, c.place, c.err)
				}
				if d := time.Since(began).Truncate(every); d != c.after {
					t.Errorf("after %v, want %v", d, c.after)
				}
				if len(b.waits) != 0 {
					t.Errorf("left are %v", b.waits)
				}
				synctest.Wait()
			})
		})
	}
}

// TestRest: what another is about to end is waited for, and the newcomer has it then.
func TestRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTown()
		a, b := w.process("a"), w.process("b")
		a.Answer(answers(false, true))
		_, _, _ = a.Take(t.Context(), claimOf("one"))
		_, rest, _ := b.Take(t.Context(), claimOf("two"))
		began := time.Now()
		time.AfterFunc(10*time.Second+time.Millisecond, func() { a.Drop(claimOf("one")) })
		if err := rest(t.Context()); err != nil || time.Since(began).Round(time.Second) != 10*time.Second {
			t.Errorf("ready after %v: %v", time.Since(began), err)
		}
		if is := w.claims["n"]; is[0] != "b" || is[1] != "two" {
			t.Errorf("the claim is %v", is)
		}
		a.Drop(claimOf("one")) // late: it is another's
		synctest.Wait()
		if err := rest(t.Context()); err != nil || w.claims["n"][0] != "b" {
			t.Errorf("it is not kept: %v, %v", w.claims, err)
		}
	})
}

// TestGivenUpWhileAsking: who is told to stop while the store is asked hears why, not that
// the store failed.
func TestGivenUpWhileAsking(t *testing.T) {
	cause := errors.New("its slot goes to a better one")
	ctx, stop := context.WithCancelCause(t.Context())
	c := New(Wire{
		Run: func(ctx context.Context, _ string, _ ...any) ([]any, error) {
			stop(cause)
			return nil, fmt.Errorf("store down: %w", ctx.Err())
		},
		Say: func(string, string) {},
		Go:  func(f func()) { go f() },
	})
	if _, _, err := c.Take(ctx, Claim{Name: "n", ID: "1", Body: "b"}); !errors.Is(err, cause) {
		t.Errorf("got %v", err)
	}
}

// TestComesBack: its client is there again before it was given up.
func TestComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTown()
		a, b := w.process("a"), w.process("b")
		a.Answer(answers(false, true))
		a.Begin(claimOf("one"))
		synctest.Wait()
		_, rest, _ := b.Take(t.Context(), claimOf("two"))
		a.Answer(answers(true, true))
		if err := rest(t.Context()); !errors.Is(err, ErrHeld) {
			t.Errorf("got %v", err)
		}
	})
}

// TestLeaves: who waits for a claim may leave.
func TestLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTown()
		a, b := w.process("a"), w.process("b")
		_, _, _ = a.Take(t.Context(), claimOf("one"))
		w.deaf["a"] = true
		why := errors.New("why")
		ctx, leave := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { leave(why) })
		if _, _, err := b.Take(ctx, claimOf("two")); !errors.Is(err, why) {
			t.Errorf("got %v", err)
		}
	})
}

// TestHear: what is no message moves nobody, and messages that nobody waits for neither.
func TestHear(t *testing.T) {
	var none *Claims
	none.Hear("asked n b")
	none.Answer(answers(true, true))
	c := newTown().process("a")
	for _, text := range []string{"", "asked", "asked n", "held", "held n b", "free n b"} {
		c.Hear(text)
	}
	full := make(chan string, 1)
	c.watch("n", full)
	for range 3 {
		c.Hear("held n b")
	}
	if got := <-full; got != held {
		t.Error(strings.ToUpper(got))
	}
}
