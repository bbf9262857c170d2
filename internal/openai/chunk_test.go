package openai_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"oneslot/internal/openai"
)

// events are the data of the events of a recorded stream. This reader knows only
// the form in which the recordings are: one line of data an event.
func events(t *testing.T, file string) (out []string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if data, ok := strings.CutPrefix(strings.TrimRight(line, "\r\n"), "data: "); ok && data != "[DONE]" {
			out = append(out, data)
		}
	}
	return out
}

// wireChunk is an event as encoding/json reads it.
type wireChunk struct {
	Choices []struct {
		Delta        map[string]json.RawMessage
		FinishReason *string `json:"finish_reason"`
		Logprobs     json.RawMessage
		MatchedStop  any             `json:"matched_stop"`
		StopReason   json.RawMessage `json:"stop_reason"`
	}
	Usage, Timings, Error json.RawMessage
}

// oracle is what ParseChunk must find, by another decoder.
func oracle(t *testing.T, data string) (c openai.Chunk) {
	t.Helper()
	var w wireChunk
	if err := json.Unmarshal([]byte(data), &w); err != nil {
		t.Fatalf("%s: %v", data, err)
	}
	c.Usage, c.Timings, c.Error = known(w.Usage), known(w.Timings), known(w.Error)
	if len(w.Choices) == 0 {
		return c
	}
	first := w.Choices[0]
	if first.FinishReason != nil {
		c.FinishReason = *first.FinishReason
	}
	_, token := first.MatchedStop.(float64)
	c.EndToken = c.FinishReason == "stop" && (token || string(first.StopReason) == "null")
	c.Logprobs = known(first.Logprobs)
	for key, raw := range first.Delta {
		var s string
		_ = json.Unmarshal(raw, &s)
		switch key {
		case "content":
			c.Content = s
		case "reasoning_content", "reasoning":
			c.Reasoning += s
		case "refusal":
			c.Refusal = s
		case "tool_calls":
			c.ToolCalls = known(raw)
		case "role":
		default:
			t.Errorf("the recordings have no delta key %q", key)
		}
	}
	return c
}

func known(raw json.RawMessage) string {
	if string(raw) == "null" {
		return ""
	}
	return string(raw)
}

// TestParseChunkRecordings reads every event of real engines.
func TestParseChunkRecordings(t *testing.T) {
	files, err := filepath.Glob("testdata/*/*.sse")
	if err != nil || len(files) < 20 {
		t.Fatalf("%d recordings, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(filepath.Dir(file))+"/"+filepath.Base(file), func(t *testing.T) {
			finishes := 0
			for _, data := range events(t, file) {
				got, err := openai.ParseChunk(data)
				if err != nil {
					t.Fatalf("%s: %v", data, err)
				}
				if want := oracle(t, data); !reflect.DeepEqual(got, want) {
					t.Errorf("%s\ngot  %+v\nwant %+v", data, got, want)
				}
				if got.FinishReason != "" {
					finishes++
				}
			}
			if want := 1; finishes != want && !strings.Contains(file, "sigterm") && !strings.Contains(file, "nonstream") {
				t.Errorf("%d finish reasons, want %d", finishes, want)
			}
		})
	}
}

func TestParseChunk(t *testing.T) {
	for _, c := range []struct {
		name, data string
		want       openai.Chunk
	}{
		{"empty object", `{}`, openai.Chunk{}},
		{"no choices", `{"choices":[]}`, openai.Chunk{}},
		{"choices null", `{"choices":null,"usage":null,"error":null}`, openai.Chunk{}},
		{"choices of another kind", `{"choices":"x"}`, openai.Chunk{}},
		{"a choice of another kind", `{"choices":[7]}`, openai.Chunk{}},
		{"delta null", `{"choices":[{"index":0,"delta":null,"finish_reason":null}]}`, openai.Chunk{}},
		{"delta of another kind", `{"choices":[{"delta":"x"}]}`, openai.Chunk{}},
		{"all null", `{"choices":[{"delta":{"role":null,"content":null,"reasoning_content":null,"tool_calls":null},"logprobs":null,"finish_reason":null,"matched_stop":null}]}`, openai.Chunk{}},
		{"text", `{"choices":[{"delta":{"content":"a\u00e9\ud83d\ude42\n"}}]}`, openai.Chunk{Content: "aé🙂\n"}},
		{"vLLM's name", `{"choices":[{"delta":{"reasoning":"r"}}]}`, openai.Chunk{Reasoning: "r"}},
		{"both names", `{"choices":[{"delta":{"reasoning":"r","reasoning_content":"c"}}]}`, openai.Chunk{Reasoning: "c"}},
		{"both names, the other order", `{"choices":[{"delta":{"reasoning_content":"c","reasoning":"r"}}]}`, openai.Chunk{Reasoning: "c"}},
		{"both names, one empty", `{"choices":[{"delta":{"reasoning":"r","reasoning_content":""}}]}`, openai.Chunk{Reasoning: "r"}},
		{"both names, one empty, the other order", `{"choices":[{"delta":{"reasoning_content":"","reasoning":"r"}}]}`, openai.Chunk{Reasoning: "r"}},
		{"a text that is none", `{"choices":[{"delta":{"content":[{"text":"a"}],"refusal":7}}]}`, openai.Chunk{Content: `[{"text":"a"}]`, Refusal: "7"}},
		{"details repeat the thinking", `{"choices":[{"delta":{"reasoning":"r","reasoning_details":[{"text":"r"}]}}]}`, openai.Chunk{Reasoning: "r"}},
		{"refusal", `{"choices":[{"delta":{"refusal":"no"}}]}`, openai.Chunk{Refusal: "no"}},
		{"no tool calls", `{"choices":[{"delta":{"tool_calls":[]}}]}`, openai.Chunk{}},
		{"tool calls", `{"choices":[{"delta":{"tool_calls":[{"index":0}],"function_call":{"name":"f"}}}]}`, openai.Chunk{ToolCalls: `[{"index":0}]`, FunctionCall: `{"name":"f"}`}},
		{"unknown delta keys", `{"choices":[{"delta":{"a":1,"b":null,"c\"":{"d":[]}}}]}`, openai.Chunk{Extra: `"a":1,"c\"":{"d":[]}`}},
		{"only the first choice", `{"choices":[{"delta":{"content":"a"}},{"delta":{"content":"b"},"finish_reason":"stop"}]}`, openai.Chunk{Content: "a"}},
		{"finish of another kind", `{"choices":[{"finish_reason":1}]}`, openai.Chunk{}},
		{"ended by a token", `{"choices":[{"finish_reason":"stop","matched_stop":2}]}`, openai.Chunk{FinishReason: "stop", EndToken: true}},
		{"ended by a string", `{"choices":[{"finish_reason":"stop","matched_stop":"x"}]}`, openai.Chunk{FinishReason: "stop"}},
		{"cut by the limit", `{"choices":[{"finish_reason":"length","stop_reason":null}]}`, openai.Chunk{FinishReason: "length"}},
		{"vLLM ended by a token", `{"choices":[{"stop_reason":null,"finish_reason":"stop"}]}`, openai.Chunk{FinishReason: "stop", EndToken: true}},
		{"usage beside choices", `{"choices":[{"delta":{"content":"a"}}],"usage":{"total_tokens":3}}`, openai.Chunk{Content: "a", Usage: `{"total_tokens":3}`}},
		{"nested error", `{"error":{"message":"m","code":500}}`, openai.Chunk{Error: `{"message":"m","code":500}`}},
		{"error as text", `{"error":"m"}`, openai.Chunk{Error: `"m"`}},
		{"flat error", `{"object":"error","message":"m","code":503}`, openai.Chunk{Error: `{"object":"error","message":"m","code":503}`}},
		{"several lines", "{\"choices\":[{\"delta\":{\"tool_calls\":[{\n\"index\":\r\n0}]}}]}", openai.Chunk{ToolCalls: `[{ "index":  0}]`}},
		{"of a repeated key the last", `{"choices":[{"delta":{"content":"a","content":"b"}}]}`, openai.Chunk{Content: "b"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := openai.ParseChunk(c.data)
			if err != nil || !reflect.DeepEqual(got, c.want) {
				t.Errorf("got  %+v, %v\nwant %+v", got, err, c.want)
			}
		})
	}
}

func TestParseChunkRefuses(t *testing.T) {
	for _, data := range []string{
		"", " ", "null", "[]", "{}{}", "{} x", `{"a"}`, `{"a":}`, `{"a":1,}`, `{,}`, `{"a":1 "b":2}`, `{a:1}`, `{"a":[1,]}`, `{"a":[1}}`, `{"a":tru}`, `{"a":01}`, `{"a":1.}`, `{"a":.1}`, `{"a":1e}`, `{"a":-}`, `{"a":+1}`,
		`{"a":"\x"}`, `{"a":"\u12g4"}`, `{"a":"\u12"}`, `{"a":"\`, `{"a":"`, "{\"a\":\"\n\"}", "{\"a\":\"\x7f\x00\"}", `"x"`, "1", "{", `{"choices":[`, `{"a":1}x`, `{"a":"` + "\x01" + `"}`, "[DONE]",
		`{"choices":` + strings.Repeat("[", 1<<20),
		`{"choices":` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + `}`,
	} {
		if c, err := openai.ParseChunk(data); !errors.Is(err, openai.ErrNotChunk) {
			t.Errorf("%.40q gives %+v, %v", data, c, err)
		}
	}
}

// FuzzParseChunk demands that no event panics, that only JSON objects are taken,
// and that what passes as raw JSON stands on one line.
func FuzzParseChunk(f *testing.F) {
	for _, seed := range []string{
		`{"choices":[{"index":0,"delta":{"content":"a","x":{"y":[]}},"logprobs":{"content":[]},"finish_reason":"stop","matched_stop":2}],"usage":{}}`,
		`{"error":{}}`, `{"object":"error"}`, "{\n}", `{"choices":[{"delta":{"reasoning":"\ud800"}}]}`, `[]`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data string) {
		c, err := openai.ParseChunk(data)
		var object map[string]any
		if valid := json.Unmarshal([]byte(data), &object) == nil && object != nil; valid != (err == nil) {
			t.Fatalf("%q: %v", data, err)
		}
		for _, raw := range []string{c.ToolCalls, c.FunctionCall, c.Logprobs, c.Usage, c.Timings, c.Error, "{" + c.Extra + "}"} {
			if raw != "" && (!json.Valid([]byte(raw)) || strings.ContainsAny(raw, "\n\r")) {
				t.Fatalf("%q gives %q", data, raw)
			}
		}
	})
}

func BenchmarkParseChunk(b *testing.B) {
	for name, data := range map[string]string{
		"sglang": `{"id":"5f5cda6f56bd43b1a02955429ad5cf85","object":"chat.completion.chunk","created":1796049006,"model":"tiny","choices":[{"index":0,"delta":{"reasoning_content":null,"content":" NINE"},"logprobs":null,"finish_reason":null,"matched_stop":null}],"usage":{"prompt_tokens":23,"total_tokens":30,"completion_tokens":7,"prompt_tokens_details":null,"reasoning_tokens":7}}`,
		"llama":  `{"choices":[{"finish_reason":null,"index":0,"delta":{"content":" OK"}}],"created":1796047416,"id":"chatcmpl-T8emuwlEZMxkKBTXCS9ropAVALYStjfP","model":"tiny-bigram.gguf","system_fingerprint":"b0-unknown","object":"chat.completion.chunk"}`,
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := openai.ParseChunk(data); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
