package retry

import (
	"context"
	"encoding/hex"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"oneslot/internal/openai"
	"oneslot/queue/claims"
)

// others are the other proxies as one knows them by its claims.
type others struct {
	owner  []any  // who has the claim, as the store tells it; nil: nobody
	says   string // what he says when he is asked
	ran    []string
	claims *claims.Claims
}

func newOthers(owner []any, says string) *others {
	o := &others{owner: owner, says: says}
	o.claims = claims.New(claims.Wire{
		Run: func(_ context.Context, script string, args ...any) ([]any, error) {
			o.ran = append(o.ran, script)
			if script == "claim_take" && o.owner != nil {
				o.claims.Hear(o.says + " " + args[0].(string) + " other")
				return o.owner, nil
			}
			return nil, nil
		},
		Go: func(f func()) { f() },
	})
	return o
}

// elsewhere is what the store tells of the same request, answered by another proxy.
func elsewhere(ask Ask) []any {
	return []any{"other", "its id", hex.EncodeToString(ask.Body[:]), int64(7)}
}

// TestClaim: what a request does that another proxy may be answering.
func TestClaim(t *testing.T) {
	node := Ask{Caller: "c", Patience: Patience{told: time.Minute}}
	retried := Ask{Caller: "c", Again: true, Patience: Patience{told: time.Minute}}
	stranger := Ask{Caller: "c", Again: true}
	other := by("k")
	other.Body[0] = 1
	for name, c := range map[string]struct {
		ask    Ask
		owner  []any
		says   string
		place  claims.Place
		gone   bool
		status int // of the problem
		ran    int // scripts until then
	}{
		"nothing said":                   {Ask{}, elsewhere(by("")), "held", claims.Place{}, false, 0, 0},
		"first try of a library":         {node, elsewhere(node), "held", claims.Place{}, false, 0, 0},
		"key, known nowhere":             {by("k"), nil, "", claims.Place{}, false, 0, 1},
		"key, its client is there":       {by("k"), elsewhere(by("k")), "held", claims.Place{}, false, http.StatusConflict, 3},
		"key, its client is lost":        {by("k"), elsewhere(by("k")), "gone", claims.Place{ID: "its id", Arrival: 7}, true, 0, 1},
		"key of another request":         {by("k"), elsewhere(other), "held", claims.Place{}, false, http.StatusUnprocessableEntity, 1},
		"retry of somebody who is there": {retried, elsewhere(retried), "held", claims.Place{}, false, 0, 3},
		"retry of one who is lost":       {retried, elsewhere(retried), "gone", claims.Place{ID: "its id", Arrival: 7}, true, 0, 1},
		"one that is not remembered":     {stranger, nil, "", claims.Place{}, false, 0, 2},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, grace, func(t *testing.T, b *Book) {
				o := newOthers(c.owner, c.says)
				v, err := b.Meet(t.Context(), c.ask, "id")
				if err != nil {
					t.Fatal(err)
				}
				place, rest, err := v.Claim(t.Context(), o.claims, c.ask, "id")
				var p *openai.Problem
				if errors.As(err, &p); place != c.place || (rest != nil) != c.gone || (p != nil) != (c.status > 0) || p != nil && p.Status != c.status || len(o.ran) != c.ran {
					t.Errorf("got %+v, %v after %v", place, err, o.ran)
				}
				if v == nil {
					return
				}
				if v.End(err); p != nil && len(b.byKey)+len(b.kept) > 0 {
					t.Error("others of the key are told the same")
				}
				if c.ran > 0 && o.ran[len(o.ran)-1] != "claim_drop" || len(b.byName) != 0 {
					t.Errorf("at its end %v, %v", o.ran, b.byName)
				}
			})
		})
	}
	if place, rest, err := (*Visit)(nil).Claim(t.Context(), nil, by("k"), "id"); place != (claims.Place{}) || rest != nil || err != nil {
		t.Error("a proxy without others has to wait for them")
	}
}

// TestShown: a request without a key is shown to other proxies when its client is lost.
func TestShown(t *testing.T) {
	bubble(t, grace, func(t *testing.T, b *Book) {
		o := newOthers(nil, "")
		a := Ask{Caller: "c", Patience: Patience{told: time.Second}, Came: time.Now()}
		v, _ := b.Meet(t.Context(), a, "id")
		_, _, _ = v.Claim(t.Context(), o.claims, a, "id")
		pass(time.Second)
		if v.Leave(); len(o.ran) != 1 || o.ran[0] != "claim_take" {
			t.Errorf("when it is lost, %v", o.ran)
		}
		v.End(nil)
	})
}

// TestAsked: another proxy hears that a client is there, or that it has soon been given
// up; a client that comes back before that has it again.
func TestAsked(t *testing.T) {
	bubble(t, grace, func(t *testing.T, b *Book) {
		ask := by("k")
		v, _ := b.Meet(t.Context(), ask, "id")
		wanted := v.session.wanted
		if held, known := b.Asked(ask.Name()); !held || !known {
			t.Errorf("a client that is there: %v, %v", held, known)
		}
		if held, known := b.Asked("other"); held || known {
			t.Errorf("nobody: %v, %v", held, known)
		}
		v.Leave()
		for range 2 {
			if held, known := b.Asked(ask.Name()); held || !known || wanted.Err() != nil {
				t.Errorf("a client that is lost: %v, %v", held, known)
			}
		}
		again, _ := b.Meet(t.Context(), ask, "other id")
		if pass(10 * soon); wanted.Err() != nil || !again.Follows() {
			t.Error("a client that came back has lost it")
		}
		if held, _ := b.Asked(ask.Name()); !held {
			t.Error("a client that came back is not there")
		}
		again.Leave()
		b.Asked(ask.Name())
		pass(soon / 2)
		b.Asked(ask.Name())
		if pass(soon/2 + time.Millisecond); wanted.Err() == nil {
			t.Error("it is not given up")
		}
		again.player.Close()
		v.End(context.Canceled)
	})
}

// held is a hold of nothing.
type noHold struct{ idle bool }

func (h *noHold) Idle() { h.idle = true }

// TestAlone: work begins when the other has ended, or not at all.
func TestAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		worked := 0
		work := func(context.Context, *noHold) error { worked++; return nil }
		if err := Alone(nil, work)(t.Context(), nil); err != nil || worked != 1 {
			t.Error("without a rest it does not work")
		}
		if err := Alone(func(context.Context) error { return nil }, work)(t.Context(), nil); err != nil || worked != 2 {
			t.Error("behind the rest it does not work")
		}
		h, why := &noHold{}, errors.New("why")
		if err := Alone(func(context.Context) error { return why }, work)(t.Context(), h); !errors.Is(err, why) || worked != 2 || !h.idle {
			t.Errorf("it worked %d times: %v", worked, err)
		}
	})
}

// TestNames: who asks, his key and what he asks make a name, and none can be read in it.
func TestNames(t *testing.T) {
	body := Ask{Caller: "c"}
	body.Body[0] = 1
	seen := map[string]bool{}
	for _, a := range []Ask{by("k"), by("l"), {Caller: "d", Key: "k"}, {Caller: "c"}, body, {Caller: "d"}} {
		n := a.Name()
		if seen[n] || len(n) != 64 {
			t.Errorf("%+v is known as %s", a, n)
		}
		seen[n] = true
	}
}
