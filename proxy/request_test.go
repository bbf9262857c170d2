package proxy_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"oneslot/internal/openai"
	"oneslot/internal/simengine"
	"oneslot/internal/simengine/script"
	"oneslot/proxy"
	"oneslot/proxy/budget"
	"oneslot/proxy/engine"
	"oneslot/reasoning"
)

// short is an engine that says little, at once.
func short(dialect simengine.Dialect) simengine.Config {
	return simengine.Config{Dialect: dialect, Scripts: []script.Script{{script.Thinking("t"), script.Answer("a"), script.Finish("stop"), script.Done()}}}
}

// forwarded is what reaches the engine of a request body.
func forwarded(t *testing.T, s setup, body string) (raw string, members map[string]json.RawMessage) {
	t.Helper()
	inBubble(t, func(t *testing.T) {
		r := newRig(t, s)
		if x := r.serve(body); x.err != nil {
			t.Fatalf("%s: %v", body, x.err)
		}
		raw = string(r.last().Body)
	})
	if err := json.Unmarshal([]byte(raw), &members); err != nil {
		t.Fatalf("the engine got %q: %v", raw, err)
	}
	return raw, members
}

// TestEachDialectIsAskedInItsWay.
func TestEachDialectIsAskedInItsWay(t *testing.T) {
	const body = `{"model":"alias","messages":[{"role":"user","content":"hi"}],"max_completion_tokens":16,"max_tokens":20,"stream":false}`
	for _, x := range []struct {
		dialect string
		sim     simengine.Dialect
		want    map[string]string
	}{
		{engine.SGLang, simengine.SGLang, map[string]string{"stream_options": `{"include_usage":true,"continuous_usage_stats":true}`, "max_tokens": "16", "rid": "*"}},
		{engine.VLLM, simengine.VLLM, map[string]string{"stream_options": `{"include_usage":true,"continuous_usage_stats":true}`, "max_tokens": "16"}},
		{engine.LlamaCpp, simengine.LlamaCPP, map[string]string{"stream_options": `{"include_usage":true}`, "max_tokens": "16", "timings_per_token": "true"}},
		{engine.OpenAI, simengine.SGLang, map[string]string{"stream_options": `{"include_usage":true}`, "max_completion_tokens": "16"}},
	} {
		t.Run(x.dialect, func(t *testing.T) {
			_, got := forwarded(t, setup{sim: short(x.sim), engine: engine.Config{Dialect: x.dialect, Model: "ripple"}}, body)
			if x.want["rid"] != "" {
				var rid string
				if err := json.Unmarshal(got["rid"], &rid); err != nil || len(rid) != 32 || rid == id {
					t.Errorf("rid is %s", got["rid"])
				}
				x.want["rid"] = string(got["rid"])
			}
			x.want["model"], x.want["stream"], x.want["messages"] = `"ripple"`, "true", `[{"role":"user","content":"hi"}]`
			if len(got) != len(x.want) {
				t.Errorf("the engine got %v", got)
			}
			for key, want := range x.want {
				if string(got[key]) != want {
					t.Errorf("%s is %s, want %s", key, got[key], want)
				}
			}
		})
	}
}

// TestFieldsOnTheirWay: what is the proxy's or could open the engine stays here,
// everything else passes as the same bytes in the same order.
func TestFieldsOnTheirWay(t *testing.T) {
	const kept = `"chat_template_kwargs":{"a" : 1},"top_k":7,"custom_x":{"deep":[1, null],"e":1.50e+1},"tools":[{"type":"function","function":{"name":"f","parameters":null}}],"temperature":0.25,"seed":3,"logit_bias":{"5":-1},"response_format":{"type":"text"}`
	const dropped = `"custom_logit_processor":"x","lora_path":"/x","input_ids":[1],"input_embeds":[],"rid":"mine","priority":9,"return_hidden_states":true,
		"bootstrap_host":"h","bootstrap_room":1,"session_params":{},"session_id":"s","disagg_prefill":1,"data_parallel_rank":0,"kv_transfer_params":{},"api_base":"http://x","base_url":"http://x",
		"store":true,"metadata":{"a":"b"},"user":"someone","safety_identifier":"s","service_tier":"flex","prompt_cache_key":"k","prompt_cache_retention":"24h","prompt_cache_options":{},
		"verbosity":"low","modalities":["text"],"audio":{},"prediction":{},"web_search_options":{},"moderation":{},"include_reasoning":true,"n":1,"stop":["\u0000"],
		"logprobs":null,"presence_penalty":null,"\u0072id":"again","reasoning_effort":"high","reasoning":{"effort":"high"},"thinking":{"type":"enabled"}`
	raw, members := forwarded(t, setup{sim: short(simengine.SGLang), engine: engine.Config{Model: "ripple"}}, ask(true, dropped+","+kept))
	if !strings.Contains(raw, kept) {
		t.Errorf("not as it came: %s", raw)
	}
	var want map[string]json.RawMessage
	if err := json.Unmarshal([]byte(`{"messages":1,"model":1,"stream":1,"stream_options":1,"rid":1,`+kept+`}`), &want); err != nil {
		t.Fatal(err)
	}
	for key := range members {
		if want[key] == nil {
			t.Errorf("%s reached the engine: %s", key, members[key])
		}
	}
	if string(members["rid"]) == `"mine"` || string(members["rid"]) == `"again"` || len(members) != len(want) {
		t.Errorf("the engine got %s", raw)
	}
}

func TestTemperatureOfTheFormat(t *testing.T) {
	cold := xml(reasoning.StartThinking)
	zero := 0.0
	cold.Temperature = &zero
	for _, x := range []struct {
		format  reasoning.Format
		members string
		want    string
	}{
		{cold, ``, "0"},
		{cold, `"temperature":null`, "0"},
		{cold, `"temperature":0.7`, "0.7"},
		{cold, `"temperature":0`, "0"},
		{cold, `"temperature":null,"temperature":0.7`, "0.7"},
		{xml(reasoning.StartThinking), ``, ""},
	} {
		if _, got := forwarded(t, setup{sim: short(simengine.SGLang), format: x.format}, ask(true, x.members)); string(got["temperature"]) != x.want {
			t.Errorf("%q: temperature is %q, want %q", x.members, got["temperature"], x.want)
		}
	}
}

// TestSpecialMarkersAreAskedFor only where the format has them.
func TestSpecialMarkersAreAskedFor(t *testing.T) {
	special := xml(reasoning.StartThinking)
	special.MarkersSpecial = true
	for _, x := range []struct {
		format  reasoning.Format
		dialect simengine.Dialect
		members string
		want    string
	}{
		{special, simengine.SGLang, "", "false"},
		{special, simengine.VLLM, "", "false"},
		{special, simengine.LlamaCPP, "", ""},
		{xml(reasoning.StartThinking), simengine.SGLang, "", ""},
		{xml(reasoning.StartThinking), simengine.SGLang, `"skip_special_tokens":true`, "true"},
	} {
		if _, got := forwarded(t, setup{sim: short(x.dialect), format: x.format}, ask(true, x.members)); string(got["skip_special_tokens"]) != x.want {
			t.Errorf("%s: skip_special_tokens is %q, want %q", x.dialect, got["skip_special_tokens"], x.want)
		}
	}
}

func TestMessagesOnTheirWay(t *testing.T) {
	drop, turn := xml(reasoning.StartThinking), xml(reasoning.StartThinking)
	drop.History, turn.History = reasoning.HistoryDrop, reasoning.HistoryKeepLastToolTurn
	const nulls = `[{"role":"user","content":"a"},{"role":"assistant","content":null,"tool_calls":[{"id":"k","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"k","content":"1"},{"role":"assistant","content":"","tool_calls":null},{"role":"user","content":"b"}]`
	const thought = `[{"role":"user","content":"a"},{"role":"assistant","content":"b","reasoning":"c"},{"role":"user","content":"d"}]`
	for _, x := range []struct {
		name    string
		format  reasoning.Format
		dialect string
		in      string
		want    string // empty: as it came
	}{
		{"nulls", reasoning.Format{}, "", nulls, ""},
		{"parts", reasoning.Format{}, "", `[{"role":"user","content":[{"type":"text","text":"a"}, {"type":"text","text":"b"}]}]`, ""},
		{
			"developer",
			reasoning.Format{},
			"", `[{"role":"developer","content":"Answer in Latin."},{"role":"system","content":"Be brief."},{"role":"user","content":"hi"}]`,
			`[{"role":"system","content":"Answer in Latin.\n\nBe brief."},{"role":"user","content":"hi"}]`,
		},
		{"thinking", reasoning.Format{}, "", thought, strings.Replace(thought, `"reasoning"`, `"reasoning_content"`, 1)},
		{"thinking for an engine of unknown taste", reasoning.Format{}, "openai", thought, ""},
		{"thinking dropped", drop, "", thought, strings.Replace(thought, `,"reasoning":"c"`, "", 1)},
		{"thinking of an earlier turn", turn, "", thought, strings.Replace(thought, `,"reasoning":"c"`, "", 1)},
	} {
		t.Run(x.name, func(t *testing.T) {
			_, got := forwarded(t, setup{sim: short(simengine.SGLang), format: x.format, engine: engine.Config{Dialect: x.dialect}}, ask(true, `"messages":`+x.in))
			want := x.want
			if want == "" {
				want = x.in
			}
			if string(got["messages"]) != want {
				t.Errorf("got  %s\nwant %s", got["messages"], want)
			}
		})
	}
}

// TestLimitFitsTheContext where the engine would refuse a longer one. The
// prompt is counted only if that may be so.
func TestLimitFitsTheContext(t *testing.T) {
	for _, x := range []struct {
		name    string
		sim     simengine.Dialect
		members string
		limit   string // what the engine is told
		asked   bool   // it had to count the prompt
	}{
		{"none", simengine.SGLang, ``, ``, false},
		{"fits by its bytes", simengine.SGLang, `"max_tokens":100`, `100`, false},
		{"fits by its tokens", simengine.SGLang, `"max_tokens":2900`, `2900`, true},
		{"too long", simengine.SGLang, `"max_tokens":100000`, `*`, true},
		{"too long, with tools", simengine.SGLang, `"max_tokens":100000,"tools":[{"type":"function","function":{"name":"a_tool","description":"of many words in the prompt"}}]`, `*`, true},
		{"llama.cpp shortens it", simengine.LlamaCPP, `"max_tokens":100000`, `100000`, false},
	} {
		t.Run(x.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				sim := short(x.sim)
				sim.ContextLength = 3000
				r := newRig(t, setup{sim: sim, count: bytesOf{}})
				if x := r.serve(ask(true, x.members)); x.err != nil {
					t.Fatal(x.err)
				}
				var got map[string]json.RawMessage
				run := r.last()
				if err := json.Unmarshal(run.Body, &got); err != nil {
					t.Fatal(err)
				}
				want := x.limit
				if want == "*" {
					b, _ := json.Marshal(3000 - 2 - run.PromptTokens)
					want = string(b)
				}
				if string(got["max_tokens"]) != want {
					t.Errorf("the limit is %s, want %s (prompt %d)", got["max_tokens"], want, run.PromptTokens)
				}
				counts := r.sim.Stats().Calls["/tokenize"]
				if counted := counts > 0; counted != x.asked && x.sim == simengine.SGLang {
					t.Errorf("the prompt was counted %d times", counts)
				}
			})
		})
	}
}

// bytesOf counts without asking the engine.
type bytesOf struct{}

func (bytesOf) Count(_ context.Context, text string) (int, error) { return len(text), nil }

// wordsOf counts words.
type wordsOf struct{}

func (wordsOf) Count(_ context.Context, text string) (int, error) {
	return len(strings.Fields(text)), nil
}

// TestPromptBeyondTheContext is the engine's to refuse, in its words.
func TestPromptBeyondTheContext(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, setup{sim: simengine.Config{ContextLength: 50}})
		x := r.serve(ask(true, `"max_tokens":10,"messages":[{"role":"user","content":"`+strings.Repeat("word ", 100)+`"}]`))
		p, ok := x.err.(*openai.Problem) //nolint:errorlint // Serve returns a refusal bare
		if !ok || p.Status != 400 || p.Code != "context_length_exceeded" || x.idle.Load() != 1 {
			t.Errorf("got %v", x.err)
		}
	})
}

// TestWhereTheTextBegins follows from the request.
func TestWhereTheTextBegins(t *testing.T) {
	json5 := xml(reasoning.StartThinking)
	json5.ConstrainedStartsIn = reasoning.StartThinking
	continued := func(last, members string) string {
		return `"messages":[{"role":"user","content":"hi"},` + last + `]` + members
	}
	for _, x := range []struct {
		name                    string
		format                  reasoning.Format
		dialect                 simengine.Dialect
		members                 string
		says                    string
		wantThinking, wantWords string
	}{
		{"as the format says", xml(reasoning.StartThinking), "", ``, "a</think>b", "a", "b"},
		{"as another format says", xml(reasoning.StartAnswer), "", ``, "a", "", "a"},
		{"constrained", xml(reasoning.StartThinking), "", `"response_format":{"type":"json_object"}`, "{}", "", "{}"},
		{"constrained, but thinking", json5, "", `"response_format":{"type":"json_object"}`, "a</think>{}", "a", "{}"},
		{"continued in the answer", xml(reasoning.StartThinking), "", continued(`{"role":"assistant","content":"<think>a</think>b"}`, `,"continue_final_message":true`), " c</think>", "", " c</think>"},
		{"continued in thinking", xml(reasoning.StartAnswer), "", continued(`{"role":"assistant","content":"<think>a"}`, `,"continue_final_message":true`), " b</think>c", " b", "c"},
		{"continued behind thinking apart", xml(reasoning.StartThinking), "", continued(`{"role":"assistant","reasoning_content":"a","content":""}`, `,"continue_final_message":true`), "\n\nb", "", "b"},
		{"not continued", xml(reasoning.StartThinking), "", continued(`{"role":"assistant","content":"<think>a</think>b"}`, ``), "c</think>d", "c", "d"},
		{"not continued, so nothing is an echo", xml(reasoning.StartThinking), "", continued(`{"role":"assistant","content":"c"}`, ``), "c</think>d", "c", "d"},
		{"continued by an engine that does not echo", xml(reasoning.StartThinking), "", continued(`{"role":"assistant","content":"</think>ha "}`, `,"continue_final_message":true`), "</think>ha ha", "", "</think>ha ha"},
		{"always continued and echoed", xml(reasoning.StartThinking), simengine.LlamaCPP, continued(`{"role":"assistant","content":"<think>a</think>b"}`, ``), "<think>a</think>b c", "", " c"},
	} {
		t.Run(x.name, func(t *testing.T) {
			bothWays(t, func(t *testing.T, stream bool) {
				text, _ := json.Marshal(x.says)
				r := newRig(t, setup{format: x.format, sim: simengine.Config{Dialect: x.dialect, Scripts: []script.Script{{event(`{"content":` + string(text) + `}`), finish("stop"), script.Done()}}}})
				got := r.serve(ask(stream, x.members))
				if reply := got.read(); got.err != nil || reply.reasoning != x.wantThinking || reply.content != x.wantWords {
					t.Errorf("%v: got %q | %q, want %q | %q", got.err, reply.reasoning, reply.content, x.wantThinking, x.wantWords)
				}
			})
		})
	}
}

// TestRequestIsNotChanged: the caller's may be shared.
func TestRequestIsNotChanged(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		body := ask(true, `"messages":[{"role":"developer","content":"a"}],"stop":"x","max_tokens":9`)
		before, err := openai.DecodeChat([]byte(body))
		if err != nil {
			t.Fatal(err)
		}
		r := newRig(t, setup{sim: short(simengine.SGLang)})
		x := r.serve(body)
		if after, _ := openai.DecodeChat([]byte(body)); x.err != nil || !reflect.DeepEqual(before, after) {
			t.Errorf("%v: %+v became %+v", x.err, before, after)
		}
	})
}

// TestPromptIsCountedAhead: what the limit needs to know is asked for before the slot is
// there, and once; where nothing has to be known, or something else, it does not count.
func TestPromptIsCountedAhead(t *testing.T) {
	for _, x := range []struct {
		name, members string
		budget        int
		before, after int // calls to count, by then
	}{
		{"too long", `"max_tokens":100000`, budget.NoLimit, 1, 1},
		{"too long, with thinking closed", `"max_tokens":100000`, 0, 1, 1},
		{"fits", `"max_tokens":100`, budget.NoLimit, 0, 0},
		{"no limit", ``, budget.NoLimit, 0, 0},
	} {
		t.Run(x.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				sim := short(simengine.SGLang)
				sim.ContextLength = 3000
				r := newRig(t, setup{sim: sim, count: bytesOf{}})
				if _, err := r.engine.Info(t.Context()); err != nil {
					t.Fatal(err)
				}
				r.budget = x.budget
				r.before = func(call *proxy.Call) func() {
					end := r.proxy.Ahead(t.Context(), call, []string{"spark"})
					synctest.Wait()
					if n := r.sim.Stats().Calls["/tokenize"]; n != x.before || r.sim.Stats().Arrivals != 0 {
						t.Errorf("%d counts ahead, want %d", n, x.before)
					}
					return end
				}
				if x := r.serve(ask(true, x.members)); x.err != nil {
					t.Fatal(x.err)
				}
				if n := r.sim.Stats().Calls["/tokenize"]; n != x.after {
					t.Errorf("%d counts in all, want %d", n, x.after)
				}
			})
		})
	}
}

// TestCountedAheadIsSmall: a request in line keeps how long its prompt is, not the prompt's
// tokens, where nobody asks for them.
func TestCountedAheadIsSmall(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		sim := short(simengine.SGLang)
		sim.ContextLength, sim.RadixCache = 3000, false
		const tokens, requests = 100_000, 16
		many := func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
				if req.URL.Path == "/tokenize" {
					_, _ = io.WriteString(w, `{"tokens":[1`+strings.Repeat(",1", tokens-1)+`]}`)
					return
				}
				next.ServeHTTP(w, req)
			})
		}
		r := newRigBehind(t, setup{sim: sim, count: bytesOf{}}, many)
		if _, err := r.engine.Info(t.Context()); err != nil {
			t.Fatal(err)
		}
		req, err := openai.DecodeChat([]byte(ask(true, `"max_tokens":100000`)))
		if err != nil {
			t.Fatal(err)
		}
		var waiting [requests]proxy.Call
		before := inUse()
		for i := range waiting {
			waiting[i] = proxy.Call{Request: req, Budget: budget.Ask{Tokens: budget.NoLimit}}
			end := r.proxy.Ahead(t.Context(), &waiting[i], []string{"spark"})
			synctest.Wait()
			end()
		}
		if grown := inUse() - before; grown > requests*tokens {
			t.Errorf("%d requests in line hold %d bytes", requests, grown)
		}
		runtime.KeepAlive(&waiting)
	})
}

// inUse is how much memory is held.
func inUse() int {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// TestCountingAheadHangs: it ends with the wait.
func TestCountingAheadHangs(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		sim := short(simengine.SGLang)
		sim.ContextLength = 3000
		hangs := func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
				if req.URL.Path == "/tokenize" {
					_, _ = io.Copy(io.Discard, req.Body) // else nobody sees that the caller has left
					<-req.Context().Done()
					return
				}
				next.ServeHTTP(w, req)
			})
		}
		r := newRigBehind(t, setup{sim: sim, count: bytesOf{}}, hangs)
		if _, err := r.engine.Info(t.Context()); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		r.before = func(call *proxy.Call) func() {
			end := r.proxy.Ahead(t.Context(), call, []string{"spark"})
			<-time.After(time.Second)
			end()
			return func() {}
		}
		x := r.serve(ask(true, `"max_tokens":100000`)) // which the engine refuses, as it stands
		if p := (*openai.Problem)(nil); !errors.As(x.err, &p) || time.Since(began) > 2*time.Second {
			t.Errorf("after %v: %v", time.Since(began), x.err)
		}
	})
}
