package openai_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"oneslot/internal/openai"
)

const hi = `"messages":[{"role":"user","content":"hi"}]`

// chat is a request with members beside a model and a message.
func chat(members string) string {
	if members != "" {
		members = "," + members
	}
	return `{"model":"m",` + hi + members + `}`
}

func TestDecodeChatRefuses(t *testing.T) {
	deep := strings.Repeat(`[`, 2000) + strings.Repeat(`]`, 2000)
	for _, c := range []struct {
		name, body  string
		param, code string
		words       []string // in the message
	}{
		{"empty", "", "", "", []string{"empty", "'model'", "'messages'"}},
		{"blank", " \n", "", "", []string{"not valid JSON"}},
		{"cut", `{"model":"m",`, "", "", []string{"not valid JSON", "unexpected end", "byte 13"}},
		{"no JSON", `{"model":'m'}`, "", "", []string{"not valid JSON", `'\''`, "byte 10"}},
		{"second object", chat("") + `{}`, "", "", []string{"not valid JSON", "after top-level value"}},
		{"trailing text", chat("") + ` x`, "", "", []string{"after top-level value"}},
		{"byte order mark", "\ufeff" + chat(""), "", "", []string{"not valid JSON"}},
		{"invalid UTF-8", `{"model":"` + "\xff" + `",` + hi + `}`, "", "", []string{"UTF-8"}},
		{"half a character", `{"model":"` + "\xe2\x82" + `",` + hi + `}`, "", "", []string{"UTF-8"}},
		{"an array", `[]`, "", "", []string{"an array", "JSON object"}},
		{"a string", `"x"`, "", "", []string{"a string", "JSON object"}},
		{"null", `null`, "", "", []string{"null", "JSON object"}},
		{"too deep", chat(`"x":` + deep), "", "", []string{"nested deeper than 1000"}},
		{"a flood of brackets", strings.Repeat(`[`, 1<<20), "", "", []string{"nested deeper than 1000"}},

		{"no model", `{` + hi + `}`, "model", "missing_required_parameter", []string{"model", "/v1/models"}},
		{"model null", `{"model":null,` + hi + `}`, "model", "missing_required_parameter", nil},
		{"model empty", `{"model":"",` + hi + `}`, "model", "missing_required_parameter", nil},
		{"model of another spelling", `{"Model":"m",` + hi + `}`, "model", "missing_required_parameter", nil},
		{"model a number", `{"model":5,` + hi + `}`, "model", "invalid_type", []string{"a string", "the number 5"}},

		{"no messages", `{"model":"m"}`, "messages", "missing_required_parameter", []string{"'messages'"}},
		{"messages null", `{"model":"m","messages":null}`, "messages", "missing_required_parameter", nil},
		{"messages a string", `{"model":"m","messages":"hi"}`, "messages", "invalid_type", []string{"an array", "a string"}},
		{"messages an object", `{"model":"m","messages":{}}`, "messages", "invalid_type", []string{"an object"}},
		{"messages empty", `{"model":"m","messages":[]}`, "messages", "empty_array", []string{"at least one"}},
		{"message a string", `{"model":"m","messages":["hi"]}`, "messages[0]", "invalid_type", []string{"messages[0]", "an object"}},
		{"message without role", `{"model":"m","messages":[{"role":"user","content":"a"},{"content":"b"}]}`, "messages[1].role", "missing_required_parameter", []string{"messages[1].role"}},
		{"role null", `{"model":"m","messages":[{"role":null}]}`, "messages[0].role", "invalid_type", []string{"null"}},
		{"role a number", `{"model":"m","messages":[{"role":1}]}`, "messages[0].role", "invalid_type", []string{"the number 1"}},
		{"content a number", `{"model":"m","messages":[{"role":"user","content":7}]}`, "messages[0].content", "invalid_type", []string{"a string or an array of parts"}},
		{"content an object", `{"model":"m","messages":[{"role":"user","content":{}}]}`, "messages[0].content", "invalid_type", []string{"an object"}},

		{"two choices", chat(`"n":2`), "n", "unsupported_value", []string{"'n' is 2", "must be 1"}},
		{"no choices", chat(`"n":0`), "n", "unsupported_value", nil},
		{"to be heard", chat(`"modalities":["text","audio"]`), "modalities", "unsupported_value", []string{"\"audio\"", "text only"}},
		{"modalities no list", chat(`"modalities":"audio"`), "modalities", "invalid_type", []string{"an array"}},
		{"n a string", chat(`"n":"1"`), "n", "invalid_type", []string{"an integer", "a string"}},
		{"n a fraction", chat(`"n":1.5`), "n", "invalid_type", []string{"an integer", "the number 1.5"}},
		{"stream a string", chat(`"stream":"yes"`), "stream", "invalid_type", []string{"a boolean", "a string"}},
		{"stream a number", chat(`"stream":1`), "stream", "invalid_type", nil},
		{"stream_options a list", chat(`"stream_options":[]`), "stream_options", "invalid_type", []string{"an object", "an array"}},
		{"include_usage a string", chat(`"stream_options":{"include_usage":"true"}`), "stream_options.include_usage", "invalid_type", []string{"'stream_options.include_usage'"}},
		{"limit of zero", chat(`"max_tokens":0`), "max_tokens", "integer_below_min_value", []string{"'max_tokens' is 0", "at least 1"}},
		{"negative limit", chat(`"max_completion_tokens":-1`), "max_completion_tokens", "integer_below_min_value", nil},
		{"limit a string", chat(`"max_tokens":"5"`), "max_tokens", "invalid_type", nil},
		{"limit a fraction", chat(`"max_tokens":5.5`), "max_tokens", "invalid_type", nil},
		{"limit beyond numbers", chat(`"max_tokens":1e999`), "max_tokens", "invalid_type", nil},
		{"limit beyond integers", chat(`"max_tokens":99999999999999999999`), "max_tokens", "invalid_type", []string{"the number 99999999999999999999"}},
		{"stop a number", chat(`"stop":3`), "stop", "invalid_type", []string{"a string or an array of strings"}},
		{"stop with a number", chat(`"stop":["a",3]`), "stop[1]", "invalid_type", []string{"stop[1]"}},
		{"stop empty", chat(`"stop":""`), "stop", "invalid_value", []string{"empty"}},
		{"stop with empty", chat(`"stop":["a",""]`), "stop", "invalid_value", nil},
		{"stop with null", chat(`"stop":[null]`), "stop[0]", "invalid_type", nil},
		{"too many stops", chat(`"stop":["` + strings.Join(strings.Split(strings.Repeat("a", 17), ""), `","`) + `"]`), "stop", "array_above_max_length", []string{"17", "16"}},
		{"temperature a string", chat(`"temperature":"hot"`), "temperature", "invalid_type", []string{"a number"}},
		{"top_p a boolean", chat(`"top_p":true`), "top_p", "invalid_type", []string{"a boolean"}},
		{"logprobs a number", chat(`"logprobs":1`), "logprobs", "invalid_type", nil},
		{"top_logprobs a string", chat(`"top_logprobs":"3"`), "top_logprobs", "invalid_type", nil},
		{"tools an object", chat(`"tools":{}`), "tools", "invalid_type", []string{"an array"}},
		{"tool_choice a list", chat(`"tool_choice":[]`), "tool_choice", "invalid_type", []string{"a string or an object"}},
		{"response_format a string", chat(`"response_format":"json"`), "response_format", "invalid_type", nil},
		{"response_format.type a number", chat(`"response_format":{"type":1}`), "response_format.type", "invalid_type", nil},
		{"service_tier a number", chat(`"service_tier":1`), "service_tier", "invalid_type", nil},
		{"reasoning.exclude a string", chat(`"reasoning":{"exclude":"yes"}`), "reasoning.exclude", "invalid_type", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := openai.DecodeChat([]byte(c.body))
			var p *openai.Problem
			if !errors.As(err, &p) {
				t.Fatalf("got %+v, %v; want a Problem", r, err)
			}
			if p.Status != 400 || p.Type != "invalid_request_error" || p.Param != c.param || p.Code != c.code {
				t.Errorf("got status %d, type %q, param %q, code %q; want 400, invalid_request_error, %q, %q", p.Status, p.Type, p.Param, p.Code, c.param, c.code)
			}
			for _, w := range c.words {
				if !strings.Contains(p.Message, w) {
					t.Errorf("message %q does not hold %q", p.Message, w)
				}
			}
			if len(p.Message) > 300 || strings.Contains(p.Message, "Go ") || strings.Contains(p.Message, "gjson") {
				t.Errorf("message is not for a client: %q", p.Message)
			}
		})
	}
}

func TestDecodeChatReads(t *testing.T) {
	for _, c := range []struct {
		name, members string
		want          openai.Request
	}{
		{"least", "", openai.Request{}},
		{
			"everything", `"stream":true,"stream_options":{"include_usage":true,"include_sources":true},"max_tokens":9,"max_completion_tokens":7,
			"temperature":0,"stop":["a","b"],"logprobs":true,"response_format":{"type":"json_object"},"service_tier":"flex","include_reasoning":false,"n":1`,
			openai.Request{Stream: true, IncludeUsage: true, IncludeSources: true, MaxTokens: 7, Temperature: true, Stop: []string{"a", "b"}, Logprobs: true, Constrained: true, ServiceTier: "flex", HideReasoning: true},
		},
		{"nulls", `"stream":null,"stream_options":null,"max_tokens":null,"max_completion_tokens":null,"temperature":null,"stop":null,"logprobs":null,
			"response_format":null,"service_tier":null,"include_reasoning":null,"n":null,"tools":null,"tool_choice":null,"reasoning":null,"grammar":null,"seed":null`, openai.Request{}},
		{"inner nulls", `"stream_options":{"include_usage":null},"response_format":{"type":null},"reasoning":{"exclude":null}`, openai.Request{}},
		{"false", `"stream":false,"logprobs":false,"include_reasoning":true,"reasoning":{"exclude":false}`, openai.Request{}},
		{"of a repeated key the last", `"stream":false,"stream":true,"stop":"a","stop":"b","max_tokens":1,"max_tokens":2`, openai.Request{Stream: true, Stop: []string{"b"}, MaxTokens: 2}},
		{"of a repeated key the last null", `"stream":true,"stream":null,"temperature":1,"temperature":null`, openai.Request{}},
		{"of a repeated object only the last", `"stream_options":{"include_usage":true},"stream_options":{"include_sources":true}`, openai.Request{IncludeSources: true}},
		{"an escaped key", `"str\u0065am":true`, openai.Request{Stream: true}},
		{"other spellings are other fields", `"STREAM":true,"Stop":"x","N":2,"Max_Tokens":"many"`, openai.Request{}},
		{"a dotted name is no path", `"stream_options.include_usage":true`, openai.Request{}},
		{"whole numbers written as fractions", `"max_tokens":1e2,"n":1.0,"top_logprobs":3.0`, openai.Request{MaxTokens: 100}},
		{"the smaller limit", `"max_tokens":3,"max_completion_tokens":8`, openai.Request{MaxTokens: 3}},
		{"one stop", `"stop":"\n"`, openai.Request{Stop: []string{"\n"}}},
		{"no stop", `"stop":[]`, openai.Request{}},
		{"text format", `"response_format":{"type":"text"}`, openai.Request{}},
		{"schema", `"response_format":{"type":"json_schema","json_schema":{}}`, openai.Request{Constrained: true}},
		{"SGLang's grammar", `"regex":"a+"`, openai.Request{Constrained: true}},
		{"vLLM's grammar", `"structured_outputs":{"choice":["a"]}`, openai.Request{Constrained: true}},
		{"llama.cpp's grammar", `"grammar":"root ::= x"`, openai.Request{Constrained: true}},
		{"empty grammar", `"grammar":""`, openai.Request{}},
		{"OpenRouter's exclude", `"reasoning":{"exclude":true,"effort":"high"}`, openai.Request{HideReasoning: true}},
		{"continue without an assistant's message", `"continue_final_message":true`, openai.Request{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			body := chat(c.members)
			got, err := openai.DecodeChat([]byte(body))
			if err != nil {
				t.Fatal(err)
			}
			want := c.want
			want.Body, want.Model, want.Messages = []byte(body), "m", `[{"role":"user","content":"hi"}]`
			if !reflect.DeepEqual(*got, want) {
				t.Errorf("got  %+v\nwant %+v", *got, want)
			}
		})
	}
}

func TestDecodeChatFindsWhatIsContinued(t *testing.T) {
	for _, c := range []struct {
		name, last, members string
		continued           bool
		prefill, thinking   string
	}{
		{"asked for", `{"role":"assistant","content":"<t>a"}`, `,"continue_final_message":true`, true, "<t>a", ""},
		{"not asked for", `{"role":"assistant","content":"a"}`, ``, false, "a", ""},
		{"any case", `{"role":"Assistant","content":"a"}`, `,"continue_final_message":true`, true, "a", ""},
		{"parts", `{"role":"assistant","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}`, ``, false, "ab", ""},
		{"with thinking", `{"role":"assistant","reasoning_content":"t","content":""}`, ``, false, "", "t"},
		{"with thinking under another name", `{"role":"assistant","reasoning":"t","content":null}`, ``, false, "", "t"},
		{"with details", `{"role":"assistant","reasoning_details":[{"text":"t"},{"summary":"u"}],"content":"a"}`, ``, false, "a", "tu"},
		{"a tool's message", `{"role":"tool","content":"a"}`, `,"continue_final_message":true`, false, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := openai.DecodeChat([]byte(`{"model":"m","messages":[{"role":"user","content":"hi"},` + c.last + `]` + c.members + `}`))
			if err != nil {
				t.Fatal(err)
			}
			if r.Continued != c.continued || r.Prefill != c.prefill || r.PrefillThinking != c.thinking {
				t.Errorf("got %v, %q, %q; want %v, %q, %q", r.Continued, r.Prefill, r.PrefillThinking, c.continued, c.prefill, c.thinking)
			}
		})
	}
}

// TestDecodeChatTakesLargeBodies reads 30 MB in one message. It is here for the
// profile and the memory, not for the clock.
func TestDecodeChatTakesLargeBodies(t *testing.T) {
	body := `{"model":"m","messages":[{"role":"user","content":"` + strings.Repeat(`w [{\"[\\`, 4<<20) + `"}],"stream":true}`
	r, err := openai.DecodeChat([]byte(body))
	if err != nil || !r.Stream || len(r.Messages) < 30<<20 {
		t.Fatalf("got %v", err)
	}
	many := `{"model":"m","messages":[` + strings.TrimSuffix(strings.Repeat(`{"role":"user","content":[]},`, 1<<15), ",") + `]}`
	if _, err := openai.DecodeChat([]byte(many)); err != nil {
		t.Fatalf("many brackets are not deep: %v", err)
	}
}

// FuzzDecodeChat holds what is accepted to encoding/json: the same texts are
// JSON, and the fields have the values that it finds.
func FuzzDecodeChat(f *testing.F) {
	for _, seed := range []string{chat(""), chat(`"n":1,"stop":["a\u0000"],"max_tokens":5.0`), `{"a":[1,2,{"b":null}],"a":"\ud800"}`, "\x00", `{"model":"m"`, `{"":-0.0e+1}`, `[]`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		r, err := openai.DecodeChat([]byte(body))
		var p *openai.Problem
		if err != nil {
			if !errors.As(err, &p) || p.Status != 400 || !json.Valid(p.JSON()) || p.Message == "" {
				t.Fatalf("%q is refused with %v", body, err)
			}
			if strings.Contains(p.Message, "not valid JSON") && json.Valid([]byte(body)) {
				t.Fatalf("%q is JSON", body)
			}
			return
		}
		var want map[string]any
		if err := json.Unmarshal([]byte(body), &want); err != nil {
			t.Fatalf("%q was accepted: %v", body, err)
		}
		if want["model"] != r.Model || r.Stream != (want["stream"] == true) {
			t.Fatalf("%q: got %+v", body, r)
		}
	})
}

// Both limits at zero mean that there is none; one at zero is refused.
func TestZeroLimits(t *testing.T) {
	const messages = `"model":"m","messages":[{"role":"user","content":"hi"}]`
	if r, err := openai.DecodeChat([]byte(`{` + messages + `,"max_tokens":0,"max_completion_tokens":0}`)); err != nil || r.MaxTokens != 0 {
		t.Errorf("both at zero: %+v, %v", r, err)
	}
	for _, one := range []string{`"max_tokens":0`, `"max_completion_tokens":0`, `"max_tokens":5,"max_completion_tokens":0`} {
		if _, err := openai.DecodeChat([]byte(`{` + messages + `,` + one + `}`)); err == nil {
			t.Errorf("%s was taken", one)
		}
	}
}
