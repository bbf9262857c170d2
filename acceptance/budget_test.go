package acceptance_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"

	"oneslot/acceptance/stack"
)

// endless is a question to which the model would think to the end of its context:
// it cannot write the close marker by itself. more are members of the request.
func endless(t *testing.T, engine *stack.Engine, more map[string]any) openai.ChatCompletionNewParams {
	t.Helper()
	params := question(engine, 3)
	params.LogitBias = map[string]int64{engine.CloseToken(t): -100}
	extra := engine.Extra()
	if extra == nil {
		extra = map[string]any{}
	}
	maps.Copy(extra, more)
	params.SetExtraFields(extra)
	return params
}

// limited is what must come of one request with a limit on its thinking. An
// engine that closes thinking by itself writes the two markers beside it.
type limited struct {
	name     string
	more     map[string]any
	max      int64 // max_tokens; 0 is none
	thinking int64 // tokens, as the client is told them
	shown    bool  // whether there is any to be seen
	budget   string
	runs     int
}

// TestBudget limits thinking that would not end, on an engine that keeps a budget,
// split by it or not, and on one of the same kind that does not.
func TestBudget(t *testing.T) {
	budget := func(n int) map[string]any { return map[string]any{"reasoning": map[string]any{"max_tokens": n}} }
	none := map[string]any{"reasoning_effort": "none"}
	native := func(off int64) []limited {
		return []limited{
			{"64 tokens", budget(64), 0, 64 + 2, true, "native", 1},
			{"8 tokens", map[string]any{"thinking": map[string]any{"type": "enabled", "budget_tokens": 8}}, 0, 8 + 2, true, "native", 1},
			{"off", none, 0, off, false, "native", 1},
			{"answer guard", nil, 100, 80, true, "native", 1},
		}
	}
	for split, cases := range map[stack.Split][]limited{
		stack.ByProxy:  native(2), // the markers of the empty block
		stack.ByEngine: native(0), // which this engine does not show
		stack.Unaware: {
			{"64 tokens, kept late", budget(64), 0, 64 + 64/4 + 32, true, "cut", 2},
			{"64 tokens", budget(64), 0, 64, true, "cut", 2},
			{"off", none, 0, 0, false, "off", 1},
			{"answer guard", nil, 100, 80, true, "cut", 2},
		},
	} {
		t.Run("split by "+string(split), func(t *testing.T) {
			p := connect(t, split, "reasoning: {answer_reserve: 20}")
			for _, c := range cases {
				t.Run(c.name, func(t *testing.T) {
					params := endless(t, p.engine, c.more)
					if c.max > 0 {
						params.MaxTokens = openai.Int(c.max)
					}
					p.limited(t, ask(t, p.proxy, params), c)
					if strings.HasSuffix(c.name, "late") {
						return // it is so for the first request only
					}
					p.limited(t, stream(t, p.proxy, params), c)
				})
			}
		})
	}
}

// limited holds one answer to its limit, and the ledger to the answer.
func (p pair) limited(t *testing.T, got answer, want limited) {
	t.Helper()
	if got.text == "" || got.text != strings.ToUpper(got.text) || got.thinking != strings.ToLower(got.thinking) || strings.ContainsAny(got.thinking+got.text, "<>") {
		t.Errorf("got %q | %q", got.thinking, got.text)
	}
	if want.shown != (got.thinking != "") {
		t.Errorf("thinking is %q", got.thinking)
	}
	if want.max == 0 && got.finish != "stop" {
		t.Errorf("it ended with %s", got.finish)
	}
	details := got.usage.CompletionTokensDetails
	if details.ReasoningTokens != want.thinking || details.ReasoningTokens+details.TextTokens != got.usage.CompletionTokens || want.max > 0 && got.usage.CompletionTokens > want.max {
		t.Errorf("usage %s, want %d tokens of thinking", got.usage.RawJSON(), want.thinking)
	}
	if header := got.header.Get("X-Oneslot-Budget"); header != "" {
		t.Errorf("X-Oneslot-Budget is %q", header)
	}
	row := p.recorded(t, got)
	if row.Budget != want.budget || row.Runs != want.runs {
		t.Errorf("ledger: budget %q in %d runs, want %q in %d", row.Budget, row.Runs, want.budget, want.runs)
	}
	if row.EnginePrompt.N == nil || row.EngineCompletion.N == nil {
		t.Fatalf("ledger: the engine's totals are unknown: %+v", row)
	}
	prompt, completion := *row.EnginePrompt.N, *row.EngineCompletion.N
	if want.runs == 1 && (prompt != got.usage.PromptTokens || completion != got.usage.CompletionTokens) {
		t.Errorf("ledger: the engine's totals are %d and %d, usage is %s", prompt, completion, got.usage.RawJSON())
	}
	// The second run's prompt holds the first one's and the thinking.
	if want.runs == 2 && (prompt < 2*got.usage.PromptTokens+want.thinking || completion < got.usage.CompletionTokens) {
		t.Errorf("ledger: over two runs the engine's totals are %d and %d, usage is %s", prompt, completion, got.usage.RawJSON())
	}
}

// TestUnsupportedBudget runs on where nobody can keep it, and says so.
func TestUnsupportedBudget(t *testing.T) {
	engine := stack.StartEngine(t, stack.ByEngine)
	p := pair{engine, stack.StartPlainProxy(t, engine)}
	params := question(engine, 3)
	params.SetExtraFields(map[string]any{"thinking_budget": 4})
	for name, got := range map[string]answer{"whole": ask(t, p.proxy, params), "streamed": stream(t, p.proxy, params)} {
		t.Run(name, func(t *testing.T) {
			if got.finish != "stop" || got.text == "" || got.usage.CompletionTokensDetails.ReasoningTokens <= 6 {
				t.Errorf("got %q | %q | %s, usage %s", got.thinking, got.text, got.finish, got.usage.RawJSON())
			}
			if header := got.header.Get("X-Oneslot-Budget"); header != "unsupported" {
				t.Errorf("X-Oneslot-Budget is %q", header)
			}
			if row := closed(t, p.proxy, got.id, "served"); row.Budget != "unsupported" || row.Runs != 1 {
				t.Errorf("ledger: budget %q in %d runs", row.Budget, row.Runs)
			}
		})
	}
}
