package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"oneslot/internal/simengine"
)

// ask is a chat request with more members.
func ask(stream bool, more string) string {
	return fmt.Sprintf(`{"model":"ripple","stream":%v,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"hi"}]%s}`, stream, more)
}

// A thinking budget on an engine that has none of its own: the run is cut, the
// engine goes on behind closed thinking in the same hold, and the client sees
// one answer with one usage.
func TestThinkingBudgetIsCut(t *testing.T) {
	for _, output := range []simengine.Output{simengine.Split, simengine.Raw} {
		for _, stream := range []bool{true, false} {
			t.Run(fmt.Sprintf("%v/stream=%v", output, stream), func(t *testing.T) {
				inBubble(t, func(t *testing.T) {
					p := start(t, simengine.Config{Thinking: 200, Answer: 20, Output: output, Ghost: true}, "")
					r := p.post(t.Context(), ask(stream, `,"thinking_budget":24`), nil)
					a := (&r).answer(t)
					s := p.engine.Stats()
					if len(s.Runs) != 2 || s.Runs[0].Outcome != "abort" || s.MaxRunning != 1 || s.MaxWaiting != 0 || s.Ghosts != 0 {
						t.Fatalf("the engine saw %+v", s)
					}
					if a.content == "" || strings.ToUpper(a.content) != a.content || a.content != strings.TrimSpace(s.Runs[1].Answer) || a.finish != "stop" {
						t.Errorf("the client got content %q, finish %q; the engine wrote %q", a.content, a.finish, s.Runs[1].Answer)
					}
					if !strings.HasPrefix(s.Runs[0].Thinking, a.reasoning) || a.reasoning == "" {
						t.Errorf("the client got thinking %q, the engine wrote %q", a.reasoning, s.Runs[0].Thinking)
					}
					details, _ := a.usage["completion_tokens_details"].(map[string]any)
					if details["reasoning_tokens"] != 24.0 || details["text_tokens"] != float64(s.Runs[1].CompletionTokens) || a.usage["completion_tokens"] != 24+float64(s.Runs[1].CompletionTokens) {
						t.Errorf("usage is %v; the second run had %d tokens", a.usage, s.Runs[1].CompletionTokens)
					}
					record := p.record(r)
					if record["budget"] != "cut" || record["runs"] != 2.0 || record["outcome"] != "served" || record["finish_reason"] != "stop" {
						t.Errorf("its record is %v", record)
					}
				})
			})
		}
	}
}

// Thinking that is switched off is closed from the start, in one run.
func TestThinkingOff(t *testing.T) {
	for _, spelling := range []string{
		`"reasoning_effort":"none"`, `"thinking":{"type":"disabled"}`, `"enable_thinking":false`, `"chat_template_kwargs":{"enable_thinking":false}`,
		`"reasoning":{"enabled":false}`, `"reasoning":{"effort":"none"}`, `"thinking_budget":0`,
	} {
		inBubble(t, func(t *testing.T) {
			p := start(t, simengine.Config{Thinking: 200, Answer: 20}, "")
			r := p.post(t.Context(), ask(true, ","+spelling), nil)
			a := (&r).answer(t)
			if a.reasoning != "" || a.content == "" || strings.ToUpper(a.content) != a.content || a.finish != "stop" {
				t.Errorf("%s: the client got %+v", spelling, a)
			}
			if s := p.engine.Stats(); len(s.Runs) != 1 {
				t.Errorf("%s: the engine saw %d runs", spelling, len(s.Runs))
			}
			if record := p.record(r); record["budget"] != "off" || tokens(record, "thinking") != 0.0 {
				t.Errorf("%s: its record is %v", spelling, record)
			}
		})
	}
}

// A budget that is not used up changes nothing.
func TestThinkingBudgetIsKept(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := start(t, simengine.Config{Thinking: 20, Answer: 20}, "")
		r := p.post(t.Context(), ask(true, `,"reasoning":{"max_tokens":500}`), nil)
		if a := (&r).answer(t); a.finish != "stop" || a.reasoning == "" {
			t.Errorf("the client got %+v", a)
		}
		if record := p.record(r); record["budget"] != "kept" || record["runs"] != 1.0 {
			t.Errorf("its record is %v", record)
		}
	})
}

// An engine with a budget of its own is asked to keep it.
func TestNativeThinkingBudget(t *testing.T) {
	for dialect, field := range map[string]string{"vllm": "thinking_token_budget", "llamacpp": "thinking_budget_tokens"} {
		inBubble(t, func(t *testing.T) {
			guise := simengine.VLLM
			if dialect == "llamacpp" {
				guise = simengine.LlamaCPP
			}
			p := start(t, simengine.Config{Thinking: 20, Answer: 20, Dialect: guise, Metrics: true},
				`engines: [{name: spark, url: "http://engine.test", model: ripple, dialect: `+dialect+`}]`)
			r := p.post(t.Context(), ask(true, `,"reasoning_effort":"low"`), nil)
			if got := p.upstream()[field]; got != 1024.0 {
				t.Errorf("%s: the engine got %s %v", dialect, field, got)
			}
			if record := p.record(r); record["budget"] != "native" {
				t.Errorf("%s: its record is %v", dialect, record)
			}
		})
	}
}

// Where nothing can be done, the request runs on and says so.
func TestUnsupportedThinkingBudget(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := start(t, simengine.Config{Thinking: 60, Answer: 20}, `engines: [{name: spark, url: "http://engine.test", model: ripple, dialect: openai}]`)
		r := p.post(t.Context(), ask(false, `,"thinking_budget":10`), nil)
		if a := (&r).answer(t); a.finish != "stop" || a.content == "" || r.header.Get("X-Oneslot-Budget") != "unsupported" {
			t.Errorf("the client got %v %+v", r.header, a)
		}
		if record := p.record(r); record["budget"] != "unsupported" {
			t.Errorf("its record is %v", record)
		}
	})
}

// The answer guard: max_tokens that would run out inside thinking leave room for
// an answer.
func TestAnswerReserve(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := start(t, simengine.Config{Thinking: 5000, Answer: 100}, "reasoning: {answer_reserve: 30}")
		r := p.post(t.Context(), ask(true, `,"max_tokens":100`), nil)
		a := (&r).answer(t)
		if a.content == "" || a.finish != "length" || a.usage["completion_tokens"] != 100.0 {
			t.Errorf("the client got %+v", a)
		}
	})
}

// Words that mean nothing are refused with the words that do.
func TestUnknownEffort(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := start(t, simengine.Config{}, "")
		r := p.post(t.Context(), ask(true, `,"reasoning_effort":"huge"`), nil)
		if r.status != 400 || !strings.Contains(r.body, "reasoning_effort") || !strings.Contains(r.body, "medium") {
			t.Errorf("the client got %d %s", r.status, r.body)
		}
	})
}

// closedRun reports whether a request is to go on behind closed thinking.
func closedRun(body string) bool { return strings.Contains(body, `"continue_final_message":true`) }

// An engine that refuses to go on behind closed thinking: an answer that was cut
// ends as length, one that was to begin there begins as usual, and later
// requests know.
func TestEngineThatCannotContinue(t *testing.T) {
	refusing := func(t *testing.T) *proxyUnderTest {
		return start(t, simengine.Config{Thinking: 200, Answer: 20}, "", func(w http.ResponseWriter, body string) bool {
			if !closedRun(body) {
				return false
			}
			w.WriteHeader(http.StatusBadRequest)
			_, err := io.WriteString(w, `{"object":"error","message":"no such thing","type":"BadRequestError","param":null,"code":400}`)
			return err == nil
		})
	}
	t.Run("behind a cut", func(t *testing.T) {
		inBubble(t, func(t *testing.T) {
			p := refusing(t)
			r := p.post(t.Context(), ask(true, `,"thinking_budget":24`), nil)
			if a := (&r).answer(t); a.finish != "length" || a.reasoning == "" || a.content != "" || a.err != nil {
				t.Errorf("the client got %+v", a)
			}
			record := p.record(r)
			if record["outcome"] != "served" || record["budget"] != "unsupported" || record["answer_started"] != false || tokens(record, "thinking") != 24.0 {
				t.Errorf("its record is %v", record)
			}
			r = p.post(t.Context(), ask(false, `,"thinking_budget":24`), nil)
			if a := (&r).answer(t); a.finish != "stop" || r.header.Get("X-Oneslot-Budget") != "unsupported" {
				t.Errorf("the next client got %v %+v", r.header, a)
			}
		})
	})
	t.Run("from the start", func(t *testing.T) {
		inBubble(t, func(t *testing.T) {
			p := refusing(t)
			r := p.post(t.Context(), ask(true, `,"reasoning_effort":"none"`), nil)
			if a := (&r).answer(t); a.finish != "stop" || a.reasoning == "" || a.content == "" {
				t.Errorf("the client got %+v", a)
			}
			if record := p.record(r); record["budget"] != "unsupported" {
				t.Errorf("its record is %v", record)
			}
		})
	})
}

// A client that leaves at the cut gets no second run.
func TestClientLeavesAtTheCut(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := start(t, simengine.Config{Thinking: 200, Answer: 20, Ghost: true}, "")
		ctx, leave := context.WithCancel(t.Context())
		s := p.open(ctx, ask(true, `,"thinking_budget":24`))
		p.until(func(s simengine.Stats) bool { return len(s.Runs) == 1 && !s.Runs[0].Aborted.IsZero() })
		leave()
		record := p.settledRecord(s.header.Get("X-Request-Id"))
		if o := record["outcome"]; o != "client_gone" && o != "served" {
			t.Errorf("its record is %v", record)
		}
		r := p.post(t.Context(), hello, nil)
		if a := (&r).answer(t); a.finish != "stop" {
			t.Errorf("the next client got %+v", a)
		}
		if s := p.engine.Stats(); s.MaxRunning != 1 || s.Ghosts != 0 {
			t.Errorf("the engine saw %d at once, %d ghosts", s.MaxRunning, s.Ghosts)
		}
	})
}
