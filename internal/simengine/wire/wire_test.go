package wire_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"oneslot/internal/simengine/wire"
)

var then = time.Unix(1796048567, 0)

func sse(json string) string { return "data: " + json + "\n\n" }

// TestSGLangEvents spells out each event, byte for byte as it was recorded.
func TestSGLangEvents(t *testing.T) {
	r := wire.Reply{Dialect: wire.SGLang, ID: "r", Model: "m"}
	tools, text := r, r
	tools.Tools, text.Text = true, true
	usage := wire.Usage{Prompt: 16, Completion: 8, Thinking: 8, Cached: -1}
	const head = `{"id":"r","object":"chat.completion.chunk","created":1796048567,"model":"m","choices":[{"index":0,"delta":`
	const open = `,"logprobs":null,"finish_reason":null,"matched_stop":null}]`
	for _, tc := range []struct {
		name  string
		reply wire.Reply
		chunk wire.Chunk
		want  string
	}{
		{"role", r, wire.Chunk{Role: true}, head + `{"reasoning_content":null,"role":"assistant","content":""}` + open + `}`},
		{"thinking", r, wire.Chunk{Thinking: "<Zürich> 🙂"}, head + `{"reasoning_content":"<Zürich> 🙂"}` + open + `}`},
		{"answer", r, wire.Chunk{Answer: "\n\n&"}, head + `{"reasoning_content":null,"content":"\n\n&"}` + open + `}`},
		{"running totals", r, wire.Chunk{Thinking: "a", Usage: &usage}, head + `{"reasoning_content":"a"}` + open +
			`,"usage":{"prompt_tokens":16,"total_tokens":24,"completion_tokens":8,"prompt_tokens_details":null,"reasoning_tokens":8}}`},
		{"stop", r, wire.Chunk{Finish: "stop", Matched: 2}, head + `{"reasoning_content":null},"logprobs":null,"finish_reason":"stop","matched_stop":2}]}`},
		{"stop string", r, wire.Chunk{Finish: "stop", Matched: "e"}, head + `{"reasoning_content":null},"logprobs":null,"finish_reason":"stop","matched_stop":"e"}]}`},
		{"tools", tools, wire.Chunk{Answer: "a"}, head + `{"role":null,"content":"a","reasoning_content":null,"tool_calls":null}` + open + `}`},
		{"completion", text, wire.Chunk{Answer: "a"}, `{"id":"r","object":"text_completion","created":1796048567,"model":"m","choices":[{"index":0,"text":"a"` + open + `}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := string(tc.reply.Event(tc.chunk, then)); got != sse(tc.want) {
				t.Errorf("\n got %s\nwant %s", got, sse(tc.want))
			}
		})
	}
	usage.Cached = 15
	want := `{"id":"r","object":"chat.completion.chunk","created":1796048567,"model":"m","choices":[],"usage":{"prompt_tokens":16,"total_tokens":24,"completion_tokens":8,"prompt_tokens_details":{"cached_tokens":15},"reasoning_tokens":8}}`
	if got := string(r.Totals(usage, then)); got != sse(want) {
		t.Errorf("\n got %s\nwant %s", got, sse(want))
	}
}

func TestSGLangBody(t *testing.T) {
	r := wire.Reply{Dialect: wire.SGLang, ID: "r", Model: "m"}
	w := wire.Whole{Thinking: "so", Answer: "OK", Finish: "length", Usage: wire.Usage{Prompt: 1, Completion: 2, Thinking: 1}}
	const usage = `"usage":{"prompt_tokens":1,"total_tokens":3,"completion_tokens":2,"prompt_tokens_details":null,"reasoning_tokens":1},"metadata":{"weight_version":"default","weight_versions":[{"version":"default","start":0,"end":2}]}}`
	want := `{"id":"r","object":"chat.completion","created":1796048567,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"OK","reasoning_content":"so","tool_calls":null},"logprobs":null,"finish_reason":"length","matched_stop":null}],` + usage
	if got := string(r.Body(w, then)); got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
	r.Text = true
	want = `{"id":"r","object":"text_completion","created":1796048567,"model":"m","choices":[{"index":0,"text":"OK","logprobs":null,"finish_reason":"length","matched_stop":null}],` + usage
	if got := string(r.Body(w, then)); got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
}

func TestOtherEvents(t *testing.T) {
	vllm := wire.Reply{Dialect: wire.VLLM, ID: "r", Model: "m"}
	llama := wire.Reply{Dialect: wire.LlamaCPP, ID: "r", Model: "m"}
	usage := wire.Usage{Prompt: 4, Completion: 10, Thinking: 3, Cached: 2, Prefill: time.Second, Decode: 2 * time.Second}
	for _, tc := range []struct{ name, got, want string }{
		{
			"vllm role", string(vllm.Event(wire.Chunk{Role: true}, then)),
			`{"id":"r","object":"chat.completion.chunk","created":1796048567,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}],"prompt_token_ids":null,"prompt_text":null}`,
		},
		{
			"vllm thinking", string(vllm.Event(wire.Chunk{Thinking: "a"}, then)),
			`{"id":"r","object":"chat.completion.chunk","created":1796048567,"model":"m","choices":[{"index":0,"delta":{"reasoning":"a"},"logprobs":null,"finish_reason":null,"token_ids":null}]}`,
		},
		{
			"vllm finish", string(vllm.Event(wire.Chunk{Answer: "a", Finish: "stop", Matched: "x"}, then)),
			`{"id":"r","object":"chat.completion.chunk","created":1796048567,"model":"m","choices":[{"index":0,"delta":{"content":"a"},"logprobs":null,"finish_reason":"stop","stop_reason":"x","token_ids":null}]}`,
		},
		{
			"vllm totals", string(vllm.Totals(usage, then)),
			`{"id":"r","object":"chat.completion.chunk","created":1796048567,"model":"m","choices":[],"usage":{"prompt_tokens":4,"total_tokens":14,"completion_tokens":10,"prompt_tokens_details":{"cached_tokens":2,"created_cache_tokens":0},"completion_tokens_details":{"reasoning_tokens":3}},"system_fingerprint":"vllm-0.32.0-ca555df1"}`,
		},
		{
			"llama role", string(llama.Event(wire.Chunk{Role: true}, then)),
			`{"choices":[{"finish_reason":null,"index":0,"delta":{"role":"assistant","content":null}}],"created":1796048567,"id":"r","model":"m","system_fingerprint":"b0-unknown","object":"chat.completion.chunk"}`,
		},
		{
			"llama thinking", string(llama.Event(wire.Chunk{Thinking: "a"}, then)),
			`{"choices":[{"finish_reason":null,"index":0,"delta":{"reasoning_content":"a"}}],"created":1796048567,"id":"r","model":"m","system_fingerprint":"b0-unknown","object":"chat.completion.chunk"}`,
		},
		{
			"llama finish", string(llama.Event(wire.Chunk{Finish: "stop", Matched: 2, Usage: &usage}, then)),
			`{"choices":[{"finish_reason":"stop","index":0,"delta":{}}],"created":1796048567,"id":"r","model":"m","system_fingerprint":"b0-unknown","object":"chat.completion.chunk","timings":{"cache_n":2,"prompt_n":2,"prompt_ms":1000,"prompt_per_token_ms":500,"prompt_per_second":2,"predicted_n":10,"predicted_ms":2000,"predicted_per_token_ms":200,"predicted_per_second":5}}`,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.got != sse(tc.want) {
				t.Errorf("\n got %s\nwant %s", tc.got, sse(tc.want))
			}
		})
	}
}

// TestOtherBodies reads whole replies as a client would.
func TestOtherBodies(t *testing.T) {
	for _, d := range []wire.Dialect{wire.VLLM, wire.LlamaCPP} {
		for _, text := range []bool{false, true} {
			r := wire.Reply{Dialect: d, ID: "r", Model: "m", Text: text}
			body := r.Body(wire.Whole{Thinking: "so", Answer: "OK", Finish: "stop", Matched: 2, Usage: wire.Usage{Prompt: 1, Completion: 2, Cached: -1}}, then)
			var got struct {
				Object  string
				Choices []struct {
					Message struct {
						Content, Reasoning string
						ReasoningContent   string `json:"reasoning_content"`
					}
					Text         string
					FinishReason string `json:"finish_reason"`
				}
				Usage struct {
					Total int `json:"total_tokens"`
				}
			}
			if err := json.Unmarshal(body, &got); err != nil {
				t.Fatal(err)
			}
			c := got.Choices[0]
			if c.FinishReason != "stop" || got.Usage.Total != 3 || c.Message.Content+c.Text != "OK" {
				t.Errorf("%s: %s", d, body)
			}
			if thinking := c.Message.Reasoning + c.Message.ReasoningContent; (thinking == "so") == text {
				t.Errorf("%s: thinking %q in %s", d, thinking, body)
			}
		}
	}
}

func TestNoTimeNoSpeed(t *testing.T) {
	r := wire.Reply{Dialect: wire.LlamaCPP}
	if got := string(r.Totals(wire.Usage{Cached: -1}, then)); strings.Contains(got, "NaN") || strings.Contains(got, "Inf") || !strings.Contains(got, `"cached_tokens":0`) {
		t.Error(got)
	}
}

func TestProblem(t *testing.T) {
	refused := wire.Refused("no %d", 7)
	for _, tc := range []struct {
		name, kind, want string
		problem          *wire.Problem
		dialect          wire.Dialect
	}{
		{"sglang", "application/json", `{"object":"error","message":"no 7","type":"BadRequestError","param":null,"code":400}`, refused, wire.SGLang},
		{"vllm", "application/json", `{"error":{"message":"no 7","type":"BadRequestError","param":null,"code":400}}`, refused, wire.VLLM},
		{"llama", "application/json", `{"error":{"code":400,"message":"no 7","type":"invalid_request_error"}}`, refused, wire.LlamaCPP},
		{"plain", "text/plain; charset=utf-8", `oops`, &wire.Problem{Status: 500, Message: "oops", Plain: true}, wire.SGLang},
		{"detail", "application/json", `{"detail":"Not Found"}`, &wire.Problem{Status: 404, Message: "Not Found", Detail: true}, wire.VLLM},
	} {
		t.Run(tc.name, func(t *testing.T) {
			body, kind := tc.problem.Body(tc.dialect)
			if string(body) != tc.want || kind != tc.kind {
				t.Errorf("%s %s, want %s %s", kind, body, tc.kind, tc.want)
			}
		})
	}
	if refused.Error() != "no 7" {
		t.Error(refused.Error())
	}
	got := wire.Invalid("/v1/completions", "'a': 'b'").Message
	if strings.Count(got, "{'a': 'b'}") != 2 || !strings.Contains(got, `.py", line 1734, in openai_v1_completions`) {
		t.Error(got)
	}
}
