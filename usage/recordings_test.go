package usage_test

import (
	"context"
	"regexp"
	"strings"
	"testing"

	"oneslot/usage"
)

// words counts the text of the recorded model, whose tokens are the markers,
// words with the blank before them, punctuation and runs of line ends.
type words struct{}

var word = regexp.MustCompile(`</?think>| ?[^ .,;!\n<]+|[.,;!]|\n+`)

func (words) Count(_ context.Context, text string) (int, error) {
	return len(word.FindAllString(text, -1)), nil
}

// TestRecordings plays streams recorded from real engines, without a tokenizer
// and with one, and compares with what the engine is known to have counted.
func TestRecordings(t *testing.T) {
	split := func(thinking, answer int, source usage.Source) [2]usage.Count {
		return [2]usage.Count{num(thinking, source), num(answer, source)}
	}
	for _, tc := range []struct {
		name         string
		raw          bool
		omits        int // marker tokens the engine's figure leaves out
		alone, taken [2]usage.Count
		completion   int
	}{
		// SGLang counts both markers; the model wrote the opener.
		{"sglang-think_include_usage", false, 0, split(98, 8, usage.EngineSplit), split(98, 8, usage.Tokenizer), 106},
		{"sglang-cache_report", false, 0, split(26, 14, usage.EngineSplit), split(26, 14, usage.Tokenizer), 40},
		{"sglang-think_raw_separate_reasoning_false", true, 0, split(24, 20, usage.EngineSplit), split(24, 20, usage.Tokenizer), 44},
		{"sglang-cut_inside_thinking", false, 0, split(4, 0, usage.Engine), split(4, 0, usage.Engine), 4},
		{"sglang-chat_continuous_usage", false, 0, split(8, 0, usage.Engine), split(8, 0, usage.Engine), 8},
		// It takes a continued message whole for thinking.
		{"sglang-prefill_closed_thinking_stream", false, 0, split(0, 7, usage.Engine), split(0, 7, usage.Engine), 7},
		// vLLM leaves out both markers.
		{"vllm-think_include_usage", false, 2, split(63, 8, usage.EngineSplit), split(63, 8, usage.Tokenizer), 71},
		{"vllm-return_token_ids", false, 2, split(63, 8, usage.EngineSplit), split(63, 8, usage.Tokenizer), 71},
		{"vllm-chat_continuous_usage", false, 2, split(8, 0, usage.Engine), split(8, 0, usage.Engine), 8},
		// llama.cpp tells no thinking figure.
		{"llama-server-think_raw_template_unaware", true, 0, split(45, 33, usage.Estimate), split(42, 36, usage.Tokenizer), 78},
	} {
		t.Run(tc.name, func(t *testing.T) {
			list := events(t, tc.name)
			for counter, want := range map[bool][2]usage.Count{false: tc.alone, true: tc.taken} {
				cfg := usage.Config{Open: "<think>", Close: "</think>", OpenerGenerated: true, EngineOmits: tc.omits}
				if counter {
					cfg.Counter = words{}
				}
				m := usage.NewMeter(cfg)
				text := ""
				for _, e := range list {
					p := piece(t, e, tc.raw)
					m.Add(p)
					text += p.Raw
					if at := strings.Index(text, "</think>"); at >= 0 {
						m.Boundary(at + len("</think>"))
					}
				}
				got := m.Report(t.Context())
				check(t, got, want[0], want[1], num(tc.completion, usage.Engine))
			}
		})
	}
}

// TestRunningTotalsOfEveryToken tells the recorded token ids as running
// totals, as the engine does when asked. Cut after any event, the figures are
// the true ones, with no tokenizer at hand.
func TestRunningTotalsOfEveryToken(t *testing.T) {
	const closeID = 4
	list := events(t, "vllm-return_token_ids")
	for n := 1; n <= len(list); n++ {
		m := usage.NewMeter(usage.Config{Open: "<think>", Close: "</think>", OpenerGenerated: true})
		total, thinking, closed := 0, 0, false
		for _, e := range list[:n] {
			for _, id := range e.Get("choices.0.token_ids").Array() {
				total++
				if !closed {
					thinking++
				}
				closed = closed || id.Int() == closeID
			}
			p := piece(t, e, false)
			p.Totals = &usage.Totals{Completion: usage.Figure{N: total, Known: true}}
			m.Add(p)
		}
		got := m.Report(t.Context()).Tokens
		if got.Thinking.N != thinking && total > 1 || got.Completion != num(total, usage.Engine) || got.Thinking.Source != usage.Engine {
			t.Errorf("after %d events: %+v, want %d thinking of %d", n, got, thinking, total)
		}
	}
}
