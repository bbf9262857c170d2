package proxy_test

import (
	"errors"
	"strings"
	"testing"

	"oneslot/internal/simengine"
	"oneslot/internal/simengine/script"
	"oneslot/proxy"
	"oneslot/reasoning"
)

// event is a chunk with that delta, as an engine writes it.
func event(delta string) script.Step {
	return script.Write(`data: {"id":"x","created":7,"model":"other","choices":[{"index":0,"delta":` + delta + `,"finish_reason":null}]}` + "\n\n")
}

// finish is a chunk that ends the answer.
func finish(reason string) script.Step {
	return script.Write(`data: {"choices":[{"index":0,"delta":{},"finish_reason":"` + reason + `"}]}` + "\n\n")
}

// TestServeSimulatedEngines runs a whole answer of each kind of engine, split by
// it or by the proxy: the client must not see a difference.
func TestServeSimulatedEngines(t *testing.T) {
	for _, dialect := range []simengine.Dialect{simengine.SGLang, simengine.VLLM, simengine.LlamaCPP} {
		for _, output := range []simengine.Output{simengine.Split, simengine.Raw} {
			name := string(dialect) + map[simengine.Output]string{simengine.Split: "/split", simengine.Raw: "/raw"}[output]
			t.Run(name, func(t *testing.T) {
				bothWays(t, func(t *testing.T, stream bool) {
					r := newRig(t, setup{
						sim:    simengine.Config{Dialect: dialect, Output: output, Format: simengine.Format{StartsInThinking: true}, TokensPerChunk: 3},
						format: xml(reasoning.StartThinking),
					})
					x := r.serve(ask(stream, `"sim":{"thinking":20,"answer":10}`))
					if x.err != nil {
						t.Fatal(x.err)
					}
					run := r.sim.Stats().Runs[0]
					got := x.read()
					if strings.TrimSpace(got.reasoning) != strings.TrimSpace(run.Thinking) || got.content != strings.TrimLeft(run.Answer, "\n") {
						t.Errorf("got  %q | %q\nwant %q | %q", got.reasoning, got.content, run.Thinking, run.Answer)
					}
					if got.finish != "stop" || got.fault != nil || got.roles != 1 || stream && got.done != 1 {
						t.Errorf("got %+v", got)
					}
					if x.idle.Load() != 1 {
						t.Errorf("idle was told %d times", x.idle.Load())
					}
					tok := x.report.Tokens
					if tok.Prompt.N != run.PromptTokens || tok.Completion.N != run.CompletionTokens || tok.Thinking.N+tok.Answer.N != tok.Completion.N || tok.Thinking.N < 20 {
						t.Errorf("the report says %+v, the engine %+v", tok, run)
					}
					if got.usage["completion_tokens"] != float64(run.CompletionTokens) {
						t.Errorf("the client is told %v", got.usage)
					}
					if !x.report.AnswerStarted || x.report.FinishReason != "stop" {
						t.Errorf("the report is %+v", x.report)
					}
				})
			})
		}
	}
}

// TestConnectionIsUsedAgain: a body that was not read to its end costs the next
// run a connection.
func TestConnectionIsUsedAgain(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, setup{sim: simengine.Config{TokensPerSecond: simengine.Fast, PrefillTokensPerSecond: simengine.Fast}})
		dials := r.countDials(setup{})
		for range 5 {
			if x := r.serve(ask(true, "")); x.err != nil {
				t.Fatal(x.err)
			}
		}
		if n := dials(); n != 1 {
			t.Errorf("%d connections for five runs", n)
		}
	})
}

// TestRolesAndOrder: the first chunk alone has the role, usage stands between
// the finish and [DONE], other chunks have null usage, and nothing of the
// engine's own id, model and clock comes through.
func TestRolesAndOrder(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, setup{sim: simengine.Config{Scripts: []script.Script{{
			event(`{"role":"assistant","content":"","reasoning_content":null}`), event(`{"reasoning_content":"a","content":null}`),
			event(`{"content":"b","reasoning_content":null}`), finish("stop"),
			script.Write(`data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}` + "\n\n"), script.Done(),
		}}}})
		x := r.serve(ask(true, ""))
		head := `{"id":"chatcmpl-` + id + `","object":"chat.completion.chunk","created":1764500000,"model":"ripple","choices":[`
		want := []string{
			head + `{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}],"usage":null}`,
			head + `{"index":0,"delta":{"reasoning_content":"a"},"finish_reason":null}],"usage":null}`,
			head + `{"index":0,"delta":{"content":"b"},"finish_reason":null}],"usage":null}`,
			head + `{"index":0,"delta":{},"finish_reason":"stop"}],"usage":null}`,
			head + `],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5,"completion_tokens_details":{"reasoning_tokens":1,"text_tokens":1},"prompt_tokens_details":{"cached_tokens":0}}}`,
			"[DONE]",
		}
		text := "data: " + strings.Join(want, "\n\ndata: ") + "\n\n"
		if got := x.w.got(); got != text {
			t.Errorf("got  %s\nwant %s", got, text)
		}
	})
}

// TestUsageOnlyIfAskedFor.
func TestUsageOnlyIfAskedFor(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, setup{})
		x := r.serve(`{"model":"ripple","messages":[{"role":"user","content":"hi"}],"stream":true}`)
		if text := x.w.got(); x.err != nil || strings.Contains(text, `"usage"`) || strings.Contains(text, `"choices":[]`) {
			t.Errorf("%v: %s", x.err, text)
		}
		if !x.report.Tokens.Completion.Known() {
			t.Errorf("the report has none either: %+v", x.report.Tokens)
		}
		x = r.serve(ask(true, `"stream_options":{"include_usage":true,"include_sources":true}`))
		if got := x.read(); got.usage["oneslot"] == nil {
			t.Errorf("no sources in %v", got.usage)
		}
	})
}

func TestServeAnUnknownSlot(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, setup{})
		if err := r.proxy.Settle(t.Context(), "spark"); err != nil {
			t.Errorf("the slot there is: %v", err)
		}
		if err := r.proxy.Settle(t.Context(), "other"); !errors.Is(err, proxy.ErrEngine) || !strings.Contains(err.Error(), `"other"`) {
			t.Errorf("another one: %v", err)
		}
		r.slot = "other"
		if x := r.serve(ask(true, "")); !errors.Is(x.err, proxy.ErrEngine) || !strings.Contains(x.err.Error(), `"other"`) {
			t.Errorf("serving on it: %v", x.err)
		}
	})
}
