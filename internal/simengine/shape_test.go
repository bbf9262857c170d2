package simengine_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"oneslot/internal/simengine"
	"oneslot/internal/simengine/simtest"
)

// skeleton writes a JSON text without what differs from reply to reply: its
// keys in order, the kinds of its values, and the values of telling keys.
func skeleton(t *testing.T, text string) string {
	t.Helper()
	dec := json.NewDecoder(strings.NewReader(text))
	var b strings.Builder
	value(t, dec, &b, "")
	return b.String()
}

func value(t *testing.T, dec *json.Decoder, b *strings.Builder, key string) {
	t.Helper()
	tok, err := dec.Token()
	if err != nil {
		t.Fatal(err)
	}
	switch v := tok.(type) {
	case json.Delim:
		b.WriteString(v.String())
		for dec.More() {
			if v == '{' {
				name, err := dec.Token()
				if err != nil {
					t.Fatal(err)
				}
				fmt.Fprintf(b, "%q:", name)
				value(t, dec, b, name.(string))
			} else {
				value(t, dec, b, "")
			}
			b.WriteString(",")
		}
		end, err := dec.Token()
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprint(b, end)
	case string:
		switch key {
		case "object", "finish_reason", "role", "type":
			fmt.Fprintf(b, "%q", v)
		default:
			b.WriteString("S")
		}
	case float64:
		if key == "matched_stop" || key == "code" {
			fmt.Fprint(b, v)
		} else {
			b.WriteString("N")
		}
	default:
		fmt.Fprint(b, v)
	}
}

// outline is the skeletons of the events of a stream; of equal ones in a row
// only the first.
func outline(t *testing.T, stream string) []string {
	t.Helper()
	var out []string
	for event := range strings.SplitSeq(stream, "\n\n") {
		data, ok := strings.CutPrefix(event, "data: ")
		switch {
		case event == "":
			continue
		case !ok:
			t.Fatalf("not an event: %q", event)
		case data != "[DONE]":
			data = skeleton(t, data)
		}
		if len(out) == 0 || out[len(out)-1] != data {
			out = append(out, data)
		}
	}
	if !strings.HasSuffix(stream, "data: [DONE]\n\n") {
		t.Error("the stream does not end with [DONE]")
	}
	return out
}

// opening is a model that writes the opening marker itself, as the one that was
// recorded.
func opening(d simengine.Dialect) simengine.Config {
	cfg := fast()
	cfg.Format = simengine.Format{Open: "<think>", Close: "</think>"}
	cfg.Dialect = d
	cfg.Model = "tiny"
	return cfg
}

// TestStreamShape holds streams against recorded ones: the same keys in the same
// order in the same sequence of events.
func TestStreamShape(t *testing.T) {
	cached := opening(simengine.SGLang)
	cached.RadixCache, cached.CacheReport = true, true
	vllm := opening(simengine.VLLM)
	vllm.CacheReport = true
	const usage = `"stream":true,"stream_options":{"include_usage":true}`
	for _, tc := range []struct {
		recording string
		cfg       simengine.Config
		body      string
	}{
		{"sglang/think_include_usage", opening(simengine.SGLang), usage + "," + hi},
		{"sglang/think_raw_separate_reasoning_false", opening(simengine.SGLang), `"separate_reasoning":false,` + usage + "," + hi},
		{"sglang/chat_continuous_usage", opening(simengine.SGLang), `"max_tokens":8,"stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true},` + hi},
		{"sglang/prefill_closed_thinking_stream", cached, `"continue_final_message":true,` + usage + `,"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"<think>So the queue.</think>\n\n"}]`},
		{"sglang/cut_inside_thinking", cached, `"max_tokens":4,` + usage + "," + hi},
		{"sglang/cache_report", cached, `"max_tokens":18,` + usage + "," + hi},
		{"vllm/think_include_usage", vllm, usage + "," + hi},
		{"vllm/chat_continuous_usage", vllm, `"max_tokens":8,"stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true},` + hi},
		{"llamacpp/think_split_reasoning_content", opening(simengine.LlamaCPP), usage + "," + hi},
	} {
		t.Run(tc.recording, func(t *testing.T) {
			recorded, err := os.ReadFile(filepath.Join("testdata", filepath.FromSlash(tc.recording)+".sse"))
			if err != nil {
				t.Fatal(err)
			}
			_, url := simtest.Start(t, tc.cfg)
			body := `{"model":"tiny",` + tc.body + `}`
			if tc.cfg.RadixCache {
				read(t, url+"/v1/chat/completions", body) // the recordings were not the first of their kind
			}
			_, got := read(t, url+"/v1/chat/completions", body)
			want, have := outline(t, string(recorded)), outline(t, got)
			for i := range max(len(want), len(have)) {
				switch {
				case i >= len(want):
					t.Errorf("event kind %d is one too many: %s", i, have[i])
				case i >= len(have):
					t.Errorf("event kind %d is missing: %s", i, want[i])
				case want[i] != have[i]:
					t.Errorf("event kind %d\n got %s\nwant %s", i, have[i], want[i])
				}
			}
		})
	}
}

// TestErrorShape sends the requests of errors.json and compares status, content
// type and keys with what was recorded.
func TestErrorShape(t *testing.T) {
	raw, err := os.ReadFile("testdata/sglang/errors.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Case        string
		Request     json.RawMessage
		Status      int
		ContentType string `json:"content_type"`
		Body        string
	}
	if err := json.Unmarshal(raw, &cases); err != nil {
		t.Fatal(err)
	}
	// What the simulation leaves out, and requests whose record was shortened.
	other := map[string]bool{
		"n=2": true, "n=2 stream": true, "logprobs": true, "response_format json_schema": true, "invalid utf8": true,
		"prompt > context": true, "prompt > context, stream": true, "prompt + max_tokens > context": true,
	}
	cfg := opening(simengine.SGLang)
	cfg.ContextLength = 2048
	_, url := simtest.Start(t, cfg)
	for _, tc := range cases {
		if other[tc.Case] {
			continue
		}
		t.Run(tc.Case, func(t *testing.T) {
			status, contentType, body := sendCase(t, url+"/v1/chat/completions", tc.Case, tc.Request)
			if status != tc.Status || contentType != tc.ContentType {
				t.Errorf("got %d %s, want %d %s\n%s", status, contentType, tc.Status, tc.ContentType, body)
			}
			switch {
			case json.Valid([]byte(tc.Body)): // some records were shortened
				if got, want := skeleton(t, body), skeleton(t, tc.Body); !alike(got, want) {
					t.Errorf("\n got %s\nwant %s", got, want)
				}
			case strings.HasPrefix(tc.Body, "data: "), strings.HasPrefix(tc.Body, "{"):
			case body != tc.Body:
				t.Errorf("got %q, want %q", body, tc.Body)
			}
		})
	}
}

// alike compares skeletons apart from whether there was any thinking before the
// cut, which depends on the text.
func alike(a, b string) bool {
	flat := strings.NewReplacer(`"reasoning_content":null`, `"reasoning_content":S`)
	return flat.Replace(a) == flat.Replace(b)
}

// sendCase sends request, which is a JSON string when the body was not JSON.
func sendCase(t *testing.T, url, name string, request json.RawMessage) (status int, contentType, body string) {
	t.Helper()
	method, kind := http.MethodPost, "application/json"
	var text string
	if json.Unmarshal(request, &text) != nil {
		text = string(request)
	}
	switch name {
	case "GET":
		method, text = http.MethodGet, ""
	case "wrong content-type":
		kind = "text/plain"
	case "lone surrogate": // decoding the record has lost it
		text = `{"model":"tiny","max_tokens":2,"messages":[{"role":"user","content":"\ud800"}]}`
	}
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", kind)
	return do(t, req)
}

// TestErrorWords are the messages a proxy reads numbers from.
func TestErrorWords(t *testing.T) {
	cfg := fast()
	cfg.ContextLength = 100
	_, url := simtest.Start(t, cfg)
	long := `"messages":[{"role":"user","content":"` + strings.Repeat(" the queue", 60) + `"}]`
	short := `"messages":[{"role":"user","content":"` + strings.Repeat(" the queue", 30) + `"}]`
	for _, tc := range []struct{ name, body, want string }{
		{"prompt", long, "The input (130 tokens) is longer than the model's context length (100 tokens)."},
		{"prompt that fills it", `"messages":[{"role":"user","content":"` + strings.Repeat(" queue", 90) + `"}]`, "The input (100 tokens) is longer than the model's context length (100 tokens)."},
		{"prompt, stream", `"stream":true,` + long, "The input (130 tokens) is longer than the model's context length (100 tokens)."},
		{"sum", `"max_tokens":50,` + short, "Requested token count exceeds the model's maximum context length of 100 tokens. You requested a total of 120 tokens: 70 tokens from the input messages and 50 tokens for the completion. Please reduce the number of tokens in the input messages or the completion to fit within the limit."},
		{"max_tokens", `"max_tokens":101,` + hi, "max_completion_tokens is too large: 101.This model supports at most 100 completion tokens."},
		{"negative", `"max_tokens":-1,` + hi, "max_new_tokens must be at least 0, got -1."},
		{"two choices", `"n":2,` + hi, "The simulated engine gives one choice, n was 2."},
	} {
		t.Run(tc.name, func(t *testing.T) {
			status, body := read(t, url+"/v1/chat/completions", "{"+tc.body+"}")
			var got struct {
				Object, Message, Type string
				Param                 any
				Code                  int
			}
			if err := json.Unmarshal([]byte(body), &got); err != nil {
				t.Fatal(err)
			}
			if status != 400 || got.Code != 400 || got.Object != "error" || got.Message != tc.want {
				t.Errorf("%d %s\nwant %q", status, body, tc.want)
			}
		})
	}
}

// TestValidationNamesFiles keeps the engine's bad habit, which the proxy has to
// hide.
func TestValidationNamesFiles(t *testing.T) {
	_, url := simtest.Start(t, fast())
	for _, body := range []string{
		`{"stream":null,` + hi + `}`, `{"n":null,` + hi + `}`, `{"logprobs":null,` + hi + `}`,
		`{"messages":[{"role":"user","content":"\udc00\ud800"}]}`, "{\"messages\":[{\"role\":\"user\",\"content\":\"\xff\"}]}",
		`{"messages":[7]}`, `{"stop":7,` + hi + `}`, `{"max_tokens":1.5,` + hi + `}`, `{"stream":"perhaps",` + hi + `}`,
		`{"stream_options":7,` + hi + `}`, `{"sim":7,` + hi + `}`, `7`,
	} {
		status, got := read(t, url+"/v1/chat/completions", body)
		if status != 400 || !strings.Contains(got, "http_server.py") {
			t.Errorf("%s: %d %s", body, status, got)
		}
	}
	status, got := read(t, url+"/v1/chat/completions", `{"messages":[{"role":"user","content":"\ud83d\ude42 \\ud800"}]}`)
	if status != 200 {
		t.Errorf("a whole pair and an escaped backslash were refused: %s", got)
	}
}
