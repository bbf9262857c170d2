package simengine_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"oneslot/internal/simengine"
	"oneslot/internal/simengine/script"
	"oneslot/internal/simengine/simtest"
)

var dialects = []simengine.Dialect{simengine.SGLang, simengine.VLLM, simengine.LlamaCPP}

// TestErrorsOfEachDialect are the same faults in three manners.
func TestErrorsOfEachDialect(t *testing.T) {
	long := `"messages":[{"role":"user","content":"` + strings.Repeat(" queue", 60) + `"}]`
	for _, d := range dialects {
		t.Run(string(d), func(t *testing.T) {
			cfg := opening(d)
			cfg.ContextLength = 50
			_, url := simtest.Start(t, cfg)
			for _, body := range []string{`{"model":"tiny",` + long + `}`, `{"model":"tiny"}`, `{"model":"tiny",`, ``} {
				status, text := read(t, url+"/v1/chat/completions", body)
				var got struct {
					Object, Message string
					Error           struct {
						Message string
						Code    int
					}
				}
				if err := json.Unmarshal([]byte(text), &got); err != nil {
					t.Fatalf("%q: %v", text, err)
				}
				flat := got.Object == "error" && got.Message != ""
				nested := got.Error.Code == 400 && got.Error.Message != ""
				if status != 400 || flat == nested || flat != (d == simengine.SGLang) {
					t.Errorf("%s: %d %s", body, status, text)
				}
			}
		})
	}
}

// TestLimitsOfEachDialect: SGLang refuses what the others cut down.
func TestLimitsOfEachDialect(t *testing.T) {
	for _, d := range dialects {
		t.Run(string(d), func(t *testing.T) {
			cfg := opening(d)
			cfg.ContextLength = 50
			e, url := simtest.Start(t, cfg)
			status, text := read(t, url+"/v1/chat/completions", `{"model":"tiny","max_tokens":45,"ignore_eos":true,`+hi+`}`)
			if d == simengine.SGLang {
				if status != 400 || e.Stats().Refused != 1 {
					t.Errorf("%d %s", status, text)
				}
				return
			}
			if r := e.Stats().Runs[0]; status != 200 || r.PromptTokens+r.CompletionTokens != 50 || r.Outcome != simengine.Length {
				t.Errorf("%d, run %+v", status, r)
			}
		})
	}
}

// TestStopsOfEachDialect names what stopped the run as each engine does.
func TestStopsOfEachDialect(t *testing.T) {
	for _, d := range dialects {
		t.Run(string(d), func(t *testing.T) {
			_, url := simtest.Start(t, opening(d))
			whole := chat(t, url, `"model":"tiny",`+hi)
			stop := whole.answer[len(whole.answer)-4:]
			_, body := read(t, url+"/v1/chat/completions", `{"model":"tiny","stream":true,"stop":[`+quoted(stop)+`],`+hi+`}`)
			if s := join(t, body); s.finish != "stop" || s.answer != strings.TrimSuffix(whole.answer, stop) {
				t.Errorf("%+v, want the end at %q", s, stop)
			}
			if got, want := strings.Contains(body, `"matched_stop":`+quoted(stop)), d == simengine.SGLang; got != want {
				t.Errorf("matched_stop: %v", got)
			}
			if got, want := strings.Contains(body, `"stop_reason":`+quoted(stop)), d == simengine.VLLM; got != want {
				t.Errorf("stop_reason: %v", got)
			}
			if got, want := strings.Contains(body, `"timings":{`), d == simengine.LlamaCPP; got != want {
				t.Errorf("timings without usage: %v", got)
			}
		})
	}
}

// TestCompletionsOfEachDialect have a text and no role.
func TestCompletionsOfEachDialect(t *testing.T) {
	for _, d := range dialects {
		t.Run(string(d), func(t *testing.T) {
			_, url := simtest.Start(t, opening(d))
			_, body := read(t, url+"/v1/completions", `{"model":"tiny","prompt":"<think>","max_tokens":999,"stream":true,"stream_options":{"include_usage":true}}`)
			s := join(t, body)
			if s.thinking != "" || !strings.Contains(s.answer, "</think>\n\n") || s.finish != "stop" || !s.done {
				t.Errorf("%+v", s)
			}
			if strings.Contains(body, `"role"`) || strings.Contains(body, `"delta"`) || !strings.Contains(body, `"object":"text_completion"`) {
				t.Errorf("%s", body)
			}
			_, text := read(t, url+"/v1/completions", `{"model":"tiny","prompt":"<think>","max_tokens":999}`)
			var c chunk
			if err := json.Unmarshal([]byte(text), &c); err != nil || c.Choices[0].Text != s.answer || c.Usage.CompletionTokens != s.usage.CompletionTokens {
				t.Errorf("not streamed: %s, %v", text, err)
			}
		})
	}
}

// TestTokensOfEachDialect goes from text to tokens and back, by each engine's
// names.
func TestTokensOfEachDialect(t *testing.T) {
	names := map[simengine.Dialect][2]string{
		simengine.SGLang: {"prompt", "text"}, simengine.VLLM: {"prompt", "prompt"}, simengine.LlamaCPP: {"content", "content"},
	}
	const text = "<think>so 東京\n\n🙂</think>"
	for d, name := range names {
		t.Run(string(d), func(t *testing.T) {
			_, url := simtest.Start(t, opening(d))
			_, body := read(t, url+"/tokenize", `{"`+name[0]+`":`+quoted(text)+`}`)
			var got struct{ Tokens []int }
			if err := json.Unmarshal([]byte(body), &got); err != nil || len(got.Tokens) != 6 {
				t.Fatalf("%s, %v", body, err)
			}
			ids, _ := json.Marshal(got.Tokens) // numbers always encode
			_, body = read(t, url+"/detokenize", `{"tokens":`+string(ids)+`}`)
			var back map[string]string
			if err := json.Unmarshal([]byte(body), &back); err != nil || back[name[1]] != text {
				t.Errorf("%s, %v", body, err)
			}
		})
	}
}

// TestScriptsOfEachDialect write thinking in the field of the engine.
func TestScriptsOfEachDialect(t *testing.T) {
	for _, d := range dialects {
		cfg := opening(d)
		cfg.Scripts = []script.Script{{script.Thinking("so"), script.Answer("OK"), script.Finish("length"), script.Done()}}
		_, url := simtest.Start(t, cfg)
		_, body := read(t, url+"/v1/chat/completions", `{"model":"tiny","stream":true,`+hi+`}`)
		if s := join(t, body); s.thinking != "so" || s.answer != "OK" || s.finish != "length" || !s.done {
			t.Errorf("%s: %+v", d, s)
		}
		if got, want := strings.Contains(body, `"reasoning":"so"`), d == simengine.VLLM; got != want {
			t.Errorf("%s: %s", d, body)
		}
	}
}

// TestVLLMInLine sends the head before the slot is free, and takes one that has
// left out of the line at once.
func TestVLLMInLine(t *testing.T) {
	cfg := paced()
	cfg.Dialect, cfg.Model = simengine.VLLM, "tiny"
	bubble(t, cfg, func(t *testing.T, e *simengine.Engine, client *http.Client) {
		body := `{"model":"tiny","stream":true,"stream_options":{"include_usage":true},` + hi + `}`
		first := background(t.Context(), t, client, body)
		await(t, e, func(s simengine.Stats) bool { return s.Running == 1 })
		ctx, cancel := context.WithCancel(t.Context())
		begin := time.Now()
		res, err := ask(ctx, t, client, body)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if took := time.Since(begin); took != 0 || e.Stats().Waiting != 1 {
			t.Errorf("the head came after %v: %+v", took, e.Stats())
		}
		cancel()
		await(t, e, func(s simengine.Stats) bool { return s.Waiting == 0 })
		if took := time.Since(begin); took != 0 || e.Stats().Runs[1].Outcome != simengine.Left {
			t.Errorf("left the line after %v: %+v", took, e.Stats().Runs[1])
		}
		if s := <-first; s.finish != "stop" || s.usage == nil {
			t.Errorf("%+v", s)
		}
	})
}

// TestLlamaInLine sends nothing before the slot is free.
func TestLlamaInLine(t *testing.T) {
	cfg := paced()
	cfg.Dialect = simengine.LlamaCPP
	bubble(t, cfg, func(t *testing.T, e *simengine.Engine, client *http.Client) {
		first := background(t.Context(), t, client, streamed("first"))
		await(t, e, func(s simengine.Stats) bool { return s.Running == 1 })
		headed, events := arrivals(t, client, streamed("second"))
		if want := 2*2*time.Second + 700*time.Millisecond; headed != want || events[0].at != want {
			t.Errorf("the head came after %v, the first event after %v; want %v", headed, events[0].at, want)
		}
		if s := <-first; s.finish != "stop" || !strings.HasPrefix(s.id, "chatcmpl-") {
			t.Errorf("%+v", s)
		}
	})
}
