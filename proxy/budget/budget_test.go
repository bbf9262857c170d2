package budget

import (
	"context"
	"errors"
	"strings"
	"testing"

	"oneslot/internal/openai"
)

var efforts = Efforts{"none": 0, "low": 100, "high": 1000, "max": NoLimit}

func TestRead(t *testing.T) {
	for _, c := range []struct {
		body string
		want Ask
	}{
		{`{}`, Ask{Tokens: NoLimit, Named: false}},
		{`{"reasoning_effort":null,"thinking":null,"reasoning":null}`, Ask{Tokens: NoLimit, Named: false}},
		{`{"reasoning_effort":"low"}`, Ask{Tokens: 100, Named: true}},
		{`{"reasoning_effort":"LOW"}`, Ask{Tokens: 100, Named: true}},
		{`{"reasoning_effort":"max"}`, Ask{Tokens: NoLimit, Named: true}},
		{`{"reasoning_effort":"none"}`, Ask{Tokens: 0, Named: true}},
		{`{"reasoning_effort":0.5}`, Ask{Tokens: 500, Named: true}},
		{`{"reasoning_effort":0}`, Ask{Tokens: 0, Named: true}},
		{`{"reasoning":{"effort":"high"}}`, Ask{Tokens: 1000, Named: true}},
		{`{"reasoning":{"max_tokens":7}}`, Ask{Tokens: 7, Named: true}},
		{`{"reasoning":{"enabled":false}}`, Ask{Tokens: 0, Named: true}},
		{`{"reasoning":{"enabled":true}}`, Ask{Tokens: NoLimit, Named: true}},
		{`{"reasoning":{"exclude":true}}`, Ask{Tokens: NoLimit, Named: false}},
		{`{"thinking":{"type":"disabled"}}`, Ask{Tokens: 0, Named: true}},
		{`{"thinking":{"type":"enabled"}}`, Ask{Tokens: NoLimit, Named: true}},
		{`{"thinking":{"type":"enabled","budget_tokens":50}}`, Ask{Tokens: 50, Named: true}},
		{`{"thinking":false}`, Ask{Tokens: 0, Named: true}},
		{`{"enable_thinking":false}`, Ask{Tokens: 0, Named: true}},
		{`{"chat_template_kwargs":{"enable_thinking":false}}`, Ask{Tokens: 0, Named: true}},
		{`{"chat_template_kwargs":{"thinking":true}}`, Ask{Tokens: NoLimit, Named: true}},
		{`{"thinking_budget":-1}`, Ask{Tokens: NoLimit, Named: true}},
		{`{"reasoning_budget_tokens":-1,"thinking_token_budget":-1,"thinking_budget_tokens":-1}`, Ask{Tokens: NoLimit, Named: true}},
		{`{"thinking_budget":0}`, Ask{Tokens: 0, Named: true}},
		// Of a repeated member the last counts, as everywhere; null takes it back.
		{`{"reasoning_effort":"low","reasoning_effort":"high"}`, Ask{Tokens: 1000, Named: true}},
		{`{"thinking_budget":5,"thinking_budget":null}`, Ask{Tokens: NoLimit, Named: false}},
		{`{"reasoning":{"max_tokens":7,"max_tokens":8}}`, Ask{Tokens: 8, Named: true}},
		{`{"thinking":{"type":"disabled","type":"enabled","budget_tokens":7,"budget_tokens":8}}`, Ask{Tokens: 8, Named: true}},
		{`{"chat_template_kwargs":{"enable_thinking":true,"enable_thinking":false}}`, Ask{Tokens: 0, Named: true}},
		// A number beats a word, the smaller number counts, off beats both.
		{`{"reasoning_effort":"low","thinking_budget":500}`, Ask{Tokens: 500, Named: true}},
		{`{"thinking_budget":500,"thinking":{"type":"enabled","budget_tokens":50}}`, Ask{Tokens: 50, Named: true}},
		{`{"thinking_budget":500,"reasoning_effort":"none"}`, Ask{Tokens: 0, Named: true}},
	} {
		if got, err := Read([]byte(c.body), efforts); err != nil || got != c.want {
			t.Errorf("%s is %+v, %v; want %+v", c.body, got, err, c.want)
		}
	}
}

func TestReadRefuses(t *testing.T) {
	for body, param := range map[string]string{
		`{"reasoning_effort":"huge"}`: "reasoning_effort", `{"reasoning_effort":{}}`: "reasoning_effort", `{"reasoning_effort":2}`: "reasoning_effort",
		`{"thinking_budget":"5"}`: "thinking_budget", `{"thinking_budget":1.5}`: "thinking_budget", `{"thinking_budget":1e300}`: "thinking_budget",
		`{"enable_thinking":"no"}`: "enable_thinking", `{"reasoning":"high"}`: "reasoning", `{"thinking":"on"}`: "thinking",
		`{"thinking_budget":-2}`: "thinking_budget", `{"thinking_token_budget":-1000}`: "thinking_token_budget",
		`{"reasoning":{"max_tokens":-1}}`: "reasoning.max_tokens", `{"thinking":{"type":"enabled","budget_tokens":-1}}`: "thinking.budget_tokens",
		`{"thinking":{"type":"maybe"}}`: "thinking.type", `{"reasoning":{"effort":"x"}}`: "reasoning.effort",
	} {
		_, err := Read([]byte(body), efforts)
		var p *openai.Problem
		if !errors.As(err, &p) || p.Status != 400 || p.Param != param || !strings.Contains(p.Message, param) {
			t.Errorf("%s gave %+v", body, err)
		}
	}
}

func TestGuard(t *testing.T) {
	for _, c := range []struct{ tokens, limit, reserve, want, room int }{
		{NoLimit, 0, 30, NoLimit, 0},
		{NoLimit, 100, 0, NoLimit, 0},
		{NoLimit, 100, 30, 70, 70},
		{50, 100, 30, 50, 70},
		{90, 100, 30, 70, 70},
		{0, 100, 30, 0, 70},
		{NoLimit, 20, 30, 0, 1},
	} {
		if got := (Ask{Tokens: c.tokens}).Guard(c.limit, c.reserve); got.Tokens != c.want || got.Room != c.room {
			t.Errorf("%+v is %+v", c, got)
		}
	}
}

// words counts blanks, and how often it was asked.
type words struct {
	asked int
	err   error
}

func (w *words) Count(_ context.Context, text string) (int, error) {
	w.asked++
	return strings.Count(text, " "), w.err
}

// A gauge that counts is exact, whatever the pieces, and asks seldom.
func TestGaugeCounts(t *testing.T) {
	for _, limit := range []int{1, 7, 100, 5000} {
		w := &words{}
		g := NewGauge(limit, w)
		text := ""
		for n := 1; ; n++ {
			text += " word"
			if g.Over(t.Context(), Reading{Bytes: len(text), Text: func() string { return text }}) {
				if n != limit {
					t.Errorf("budget %d was used up at %d", limit, n)
				}
				break
			}
		}
		if w.asked > 60 {
			t.Errorf("budget %d: asked %d times", limit, w.asked)
		}
	}
}

func TestGaugeWithoutCounter(t *testing.T) {
	failing := &words{err: errors.New("no")}
	for name, g := range map[string]*Gauge{"none": NewGauge(10, nil), "failing": NewGauge(10, failing)} {
		text := func() string { return "" }
		if g.Over(t.Context(), Reading{Bytes: 39, Text: text}) || !g.Over(t.Context(), Reading{Bytes: 40, Text: text}) {
			t.Errorf("%s: four bytes are not a token", name)
		}
	}
	if failing.asked != 1 {
		t.Errorf("a counter that fails was asked %d times", failing.asked)
	}
	g := NewGauge(10, failing)
	if g.Over(t.Context(), Reading{Told: 9, Known: true, Bytes: 1000}) || !g.Over(t.Context(), Reading{Told: 10, Known: true}) {
		t.Error("the engine's figure does not count")
	}
}
