package proxy_test

import (
	"strings"
	"testing"

	"oneslot/internal/simengine"
	"oneslot/internal/simengine/script"
	"oneslot/proxy/engine"
	"oneslot/reasoning"
)

// TestBudgetOnRecordings plays what real engines sent when they kept a budget, and
// when they went on behind closed thinking.
func TestBudgetOnRecordings(t *testing.T) {
	for _, x := range []struct {
		name             string
		runs             []string // recordings
		budget           int
		outcome          string
		words            int // of thinking that the client sees; -1 is all that was recorded
		thinking, answer int // tokens
		ran              int // engine's completion tokens over all runs; -1 where the abort decides
	}{
		{"vLLM keeps it", []string{"vllm/thinking_budget_native"}, 6, "native", -1, -1, -1, 16},
		{"llama.cpp keeps it", []string{"llama-server/thinking_budget_native"}, 6, "native", -1, -1, -1, 30},
		{"SGLang is cut", []string{"sglang/think_include_usage", "sglang/prefill_closed_thinking_stream"}, 8, "cut", 8, 8, 7, -1},
		{"SGLang is cut, raw", []string{"sglang/think_raw_separate_reasoning_false", "sglang/prefill_closed_thinking_stream"}, 8, "cut", 8, -1, -1, -1},
		{"SGLang begins behind closed thinking, which it takes for thinking", []string{"sglang/prefill_closed_thinking_stream"}, 0, "off", 0, 0, 7, 7},
		{"SGLang ends within it", []string{"sglang/cut_inside_thinking"}, 8, "kept", -1, 4, 0, 4},
	} {
		t.Run(x.name, func(t *testing.T) {
			bothWays(t, func(t *testing.T, stream bool) {
				var scripts []script.Script
				var last *recording
				thought := ""
				for _, name := range x.runs {
					last = readRecording(t, "../internal/openai/testdata/"+name+".sse")
					thought += last.reasoning
					scripts = append(scripts, inPieces(last.body, 1+len(last.body)/500))
				}
				r := newRig(t, setup{
					sim:    simengine.Config{Dialect: last.simulated(), Scripts: scripts},
					engine: engine.Config{Dialect: last.dialect}, format: closable(reasoning.StartAnswer), count: wordsOf{},
				})
				r.budget = x.budget
				got := r.serve(ask(stream, ""))
				reply := got.read()
				seen := strings.Fields(reply.reasoning)
				if x.words >= 0 && len(seen) != x.words || x.words < 0 && reply.reasoning != thought || !strings.HasPrefix(thought, reply.reasoning) {
					t.Errorf("thinking is %q of %q", reply.reasoning, thought)
				}
				if got.err != nil || reply.content != last.content || reply.finish != last.finish || got.idle.Load() != 1 {
					t.Errorf("%v: got %q, %s, want %q", got.err, reply.content, reply.finish, last.content)
				}
				if got.report.Budget != x.outcome || got.report.Runs != len(x.runs) {
					t.Errorf("the report is %+v", got.report)
				}
				tok := got.report.Tokens
				if x.thinking >= 0 && (tok.Thinking.N != x.thinking || tok.Answer.N != x.answer) || tok.Thinking.N+tok.Answer.N != tok.Completion.N {
					t.Errorf("the report says %+v", tok)
				}
				if n := got.report.EngineCompletion.N; x.ran >= 0 && n != x.ran {
					t.Errorf("the engine made %d tokens, %d were recorded", n, x.ran)
				}
			})
		})
	}
}
