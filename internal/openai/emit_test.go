package openai_test

import (
	"encoding/json"
	"strings"
	"testing"

	"oneslot/internal/openai"
)

const head = `{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1764500000,"model":"m\"","choices":[`

func TestEmitter(t *testing.T) {
	for _, c := range []struct {
		name  string
		field openai.ReasoningField
		usage bool // null usage in each chunk
		write func(e *openai.Emitter) []byte
		want  string // after head
	}{
		{
			"role", 0, false, func(e *openai.Emitter) []byte { return e.Delta(nil, openai.Delta{Role: true}) },
			`{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}`,
		},
		{
			"content", 0, false, func(e *openai.Emitter) []byte { return e.Delta(nil, openai.Delta{Content: "a\n\"é<\u2028"}) },
			`{"index":0,"delta":{"content":"a\n\"é<` + "\u2028" + `"},"finish_reason":null}]}`,
		},
		{
			"thinking", 0, false, func(e *openai.Emitter) []byte { return e.Delta(nil, openai.Delta{Reasoning: "t"}) },
			`{"index":0,"delta":{"reasoning_content":"t"},"finish_reason":null}]}`,
		},
		{
			"thinking under the other name", openai.FieldReasoning, false, func(e *openai.Emitter) []byte { return e.Delta(nil, openai.Delta{Reasoning: "t"}) },
			`{"index":0,"delta":{"reasoning":"t"},"finish_reason":null}]}`,
		},
		{
			"thinking under both", openai.FieldBoth, false, func(e *openai.Emitter) []byte { return e.Delta(nil, openai.Delta{Reasoning: "t"}) },
			`{"index":0,"delta":{"reasoning_content":"t","reasoning":"t"},"finish_reason":null}]}`,
		},
		{
			"all at once", 0, true, func(e *openai.Emitter) []byte {
				return e.Delta(nil, openai.Delta{Role: true, Reasoning: "t", Raw: `"tool_calls":[{"index":0}]`, Logprobs: `{"content":[]}`})
			},
			`{"index":0,"delta":{"role":"assistant","content":"","reasoning_content":"t","tool_calls":[{"index":0}]},"logprobs":{"content":[]},"finish_reason":null}],"usage":null}`,
		},
		{
			"nothing", 0, false, func(e *openai.Emitter) []byte { return e.Delta(nil, openai.Delta{}) },
			`{"index":0,"delta":{},"finish_reason":null}]}`,
		},
		{
			"finish", 0, false, func(e *openai.Emitter) []byte { return e.Finish(nil, "stop") },
			`{"index":0,"delta":{},"finish_reason":"stop"}]}`,
		},
		{
			"finish beside null usage", 0, true, func(e *openai.Emitter) []byte { return e.Finish(nil, "length") },
			`{"index":0,"delta":{},"finish_reason":"length"}],"usage":null}`,
		},
		{
			"usage", 0, true, func(e *openai.Emitter) []byte { return e.Usage(nil, []byte(`{"prompt_tokens":1}`)) },
			`],"usage":{"prompt_tokens":1}}`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := openai.NewEmitter("chatcmpl-1", `m"`, 1764500000, c.usage)
			e.SetField(c.field)
			got := string(c.write(e))
			if got != head+c.want {
				t.Errorf("got  %s\nwant %s", got, head+c.want)
			}
			if !json.Valid([]byte(got)) || strings.ContainsAny(got, "\n\r") {
				t.Errorf("not JSON on one line: %s", got)
			}
			if again := string(c.write(e)); again != got {
				t.Errorf("a second one differs: %s", again)
			}
		})
	}
}

func TestEmitterAppends(t *testing.T) {
	e := openai.NewEmitter("i", "m", 1, false)
	buf := append(make([]byte, 0, 4096), "x"...)
	if got := e.Delta(buf, openai.Delta{Content: "y"}); got[0] != 'x' || &got[0] != &buf[0] {
		t.Error("it does not append to the buffer it is given")
	}
	if n := testing.AllocsPerRun(100, func() { e.Delta(buf[:0], openai.Delta{Content: "some text", Reasoning: "more"}) }); n > 0 {
		t.Errorf("a chunk costs %v allocations", n)
	}
}

func TestMessage(t *testing.T) {
	whole := openai.Message{
		ID: "chatcmpl-1", Model: "m", Created: 7, Content: "a", Reasoning: "t", Raw: `"refusal":null`,
		Logprobs: `{"content":[]}`, FinishReason: "stop", Usage: []byte(`{"total_tokens":3}`),
	}
	for _, c := range []struct {
		name   string
		change func(*openai.Message)
		want   string
	}{
		{"whole", func(*openai.Message) {}, `"message":{"role":"assistant","reasoning_content":"t","content":"a","refusal":null},"logprobs":{"content":[]},"finish_reason":"stop"}],"usage":{"total_tokens":3}}`},
		{"under the other name", func(m *openai.Message) { m.Field = openai.FieldReasoning }, `"message":{"role":"assistant","reasoning":"t","content":"a","refusal":null},"logprobs":{"content":[]},"finish_reason":"stop"}],"usage":{"total_tokens":3}}`},
		{"bare", func(m *openai.Message) { m.Reasoning, m.Content, m.Raw, m.Logprobs = "", "", "", "" }, `"message":{"role":"assistant","content":""},"logprobs":null,"finish_reason":"stop"}],"usage":{"total_tokens":3}}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := whole
			c.change(&m)
			want := `{"id":"chatcmpl-1","object":"chat.completion","created":7,"model":"m","choices":[{"index":0,` + c.want
			if got := string(m.JSON()); got != want || !json.Valid([]byte(got)) {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		})
	}
}

func TestReasoningFieldNames(t *testing.T) {
	for _, name := range []string{"reasoning_content", "reasoning", "both", "content_tags", "hidden"} {
		var f openai.ReasoningField
		if err := f.UnmarshalText([]byte(name)); err != nil || f.String() != name {
			t.Errorf("%q is read as %v, %v", name, f, err)
		}
		if text, err := f.MarshalText(); err != nil || string(text) != name {
			t.Errorf("%q is written as %q, %v", name, text, err)
		}
	}
	f := openai.FieldHidden
	if err := f.UnmarshalText(nil); err != nil || f != openai.FieldReasoningContent {
		t.Errorf("nothing is read as %v, %v", f, err)
	}
	if err := f.UnmarshalText([]byte("thoughts")); err == nil || !strings.Contains(err.Error(), "content_tags") {
		t.Errorf("an unknown name gives %v", err)
	}
	if got := openai.ReasoningField(9).String(); got != "ReasoningField(9)" {
		t.Errorf("an unknown field is called %q", got)
	}
}
