package responses_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"oneslot/internal/openai"
	"oneslot/proxy/surface"
	"oneslot/proxy/surface/responses"
)

// translated is the chat request that is made of a request.
func translated(t *testing.T, body string) map[string]json.RawMessage {
	t.Helper()
	req, _, err := newAPI(t, responses.Config{}).Decode(surface.In{ID: id, Created: time.Now(), Body: []byte(body)})
	if err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	var out map[string]json.RawMessage
	if err := json.Unmarshal(req.Body, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// messages are those that are made of an input.
func messages(t *testing.T, input string) string {
	t.Helper()
	return string(translated(t, `{"model":"m","input":`+input+`}`)["messages"])
}

func TestInput(t *testing.T) {
	for _, c := range []struct{ name, input, want string }{
		{"a text", `"hi"`, `[{"role":"user","content":"hi"}]`},
		{"easy messages", `[{"role":"developer","content":"d"},{"role":"user","content":"u"}]`, `[{"role":"developer","content":"d"},{"role":"user","content":"u"}]`},
		{"one part", `[{"type":"message","role":"user","content":[{"type":"input_text","text":"a"}]}]`, `[{"role":"user","content":"a"}]`},
		{
			"parts", `[{"role":"user","content":[{"type":"input_text","text":"a"},{"type":"input_image","image_url":"data:x","detail":"low"},{"type":"input_audio","input_audio":{"data":"d","format":"wav"}},{"type":"input_file","filename":"f","file_data":"d","file_id":null}]}]`,
			`[{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":"data:x","detail":"low"}},{"type":"input_audio","input_audio":{"data":"d","format":"wav"}},{"type":"file","file":{"filename":"f","file_data":"d"}}]}]`,
		},
		{
			"an answer sent back", `[{"role":"user","content":"q"},{"type":"reasoning","id":"rs_1","summary":[],"content":[{"type":"reasoning_text","text":"so"}]},{"type":"message","id":"msg_1","role":"assistant","status":"completed","content":[{"type":"output_text","text":"a","annotations":[]},{"type":"output_text","text":"b"}]},{"role":"user","content":"r"}]`,
			`[{"role":"user","content":"q"},{"role":"assistant","reasoning_content":"so","content":"ab"},{"role":"user","content":"r"}]`,
		},
		{
			"a round of tools", `[{"role":"user","content":"q"},{"type":"reasoning","summary":[{"type":"summary_text","text":"so"}],"encrypted_content":"x"},{"type":"function_call","call_id":"a","name":"f","arguments":"{}"},{"type":"function_call","call_id":"b","name":"g","arguments":"{\"x\":1}"},{"type":"function_call_output","call_id":"a","output":"1"},{"type":"function_call_output","call_id":"b","output":[{"type":"input_text","text":"2"},{"type":"input_text","text":"3"}]}]`,
			`[{"role":"user","content":"q"},{"role":"assistant","reasoning_content":"so","content":"","tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}},{"id":"b","type":"function","function":{"name":"g","arguments":"{\"x\":1}"}}]},{"role":"tool","tool_call_id":"a","content":"1"},{"role":"tool","tool_call_id":"b","content":"23"}]`,
		},
		{
			"text before a call", `[{"role":"assistant","content":"I look"},{"type":"function_call","call_id":"a","name":"f","arguments":"{}"},{"role":"assistant","content":"found"}]`,
			`[{"role":"assistant","content":"I look","tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"assistant","content":"found"}]`,
		},
		{
			"two answers", `[{"type":"reasoning","content":[{"text":"a"}]},{"role":"assistant","content":"b"},{"type":"reasoning","content":[{"text":"c"}]},{"role":"assistant","content":"d"}]`,
			`[{"role":"assistant","reasoning_content":"a","content":"b"},{"role":"assistant","reasoning_content":"c","content":"d"}]`,
		},
		{
			"a custom tool", `[{"type":"custom_tool_call","call_id":"a","name":"f","input":"x\n"},{"type":"custom_tool_call_output","call_id":"a","output":"ok"}]`,
			`[{"role":"assistant","content":"","tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{\"input\":\"x\\n\"}"}}]},{"role":"tool","tool_call_id":"a","content":"ok"}]`,
		},
		{"items of other tools", `[{"role":"user","content":"q"},{"type":"web_search_call","id":"ws"},{"type":"mcp_list_tools"}]`, `[{"role":"user","content":"q"}]`},
		{"thinking that nobody can read", `[{"role":"user","content":"q"},{"type":"reasoning","summary":[],"encrypted_content":"gAAA"},{"role":"assistant","content":"a"}]`, `[{"role":"user","content":"q"},{"role":"assistant","content":"a"}]`},
		{"a refusal sent back", `[{"role":"assistant","content":[{"type":"refusal","refusal":"no"}]}]`, `[{"role":"assistant","content":"no"}]`},
	} {
		if got := messages(t, c.input); !same(t, json.RawMessage(got), c.want) {
			t.Errorf("%s:\ngot  %s\nwant %s", c.name, got, c.want)
		}
	}
}

func TestFields(t *testing.T) {
	body := translated(t, `{"model":"m","input":"hi","instructions":"be brief","stream":true,"max_output_tokens":5,"temperature":0.1,"top_p":null,"reasoning":{"effort":"high","summary":"auto","max_tokens":9,"exclude":true},
		"text":{"format":{"type":"json_schema","name":"n","schema":{"type":"object"},"strict":true,"description":null},"verbosity":"low"},"include":["message.output_text.logprobs"],"top_logprobs":3,
		"tools":[{"type":"function","name":"f","description":"d","parameters":{"type":"object"},"strict":null,"async":true},{"type":"web_search"},{"type":"custom","name":"c"},{"type":"namespace","name":"ns"}],"tool_choice":{"type":"function","name":"f"},
		"parallel_tool_calls":false,"store":false,"truncation":"auto","service_tier":"flex","metadata":{"a":"b"},"chat_template_kwargs":{"k":1},"prompt_cache_key":"p","client_metadata":{},"previous_response_id":null}`)
	for name, want := range map[string]string{
		"messages": `[{"role":"system","content":"be brief"},{"role":"user","content":"hi"}]`, "max_completion_tokens": "5", "temperature": "0.1", "reasoning_effort": `"high"`, "thinking_budget": "9", "include_reasoning": "false",
		"response_format": `{"type":"json_schema","json_schema":{"name":"n","schema":{"type":"object"},"strict":true}}`, "logprobs": "true", "top_logprobs": "3",
		"tools": `[{"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object"}}}]`, "tool_choice": `{"type":"function","function":{"name":"f"}}`,
		"parallel_tool_calls": "false", "service_tier": `"flex"`, "chat_template_kwargs": `{"k":1}`,
	} {
		if !same(t, body[name], want) {
			t.Errorf("%s is %s, want %s", name, body[name], want)
		}
	}
	for _, name := range []string{"input", "instructions", "reasoning", "text", "include", "truncation", "previous_response_id", "client_metadata", "max_output_tokens", "top_p"} {
		if body[name] != nil {
			t.Errorf("%s is left: %s", name, body[name])
		}
	}
}

func TestToolChoice(t *testing.T) {
	tools := `,"tools":[{"type":"function","name":"f"},{"type":"function","name":"g"},{"type":"web_search"}],"tool_choice":`
	for choice, want := range map[string][2]string{
		`"required"`:                        {`"required"`, "fg"},
		`"none"`:                            {`"none"`, "fg"},
		`{"type":"web_search"}`:             {"", "fg"},
		`{"type":"function","name":"gone"}`: {"", "fg"},
		`{"type":"allowed_tools","mode":"required","tools":[{"type":"function","name":"g"}]}`: {`"required"`, "g"},
	} {
		body := translated(t, ask(tools+choice))
		names := ""
		var list []struct{ Function struct{ Name string } }
		_ = json.Unmarshal(body["tools"], &list)
		for _, tool := range list {
			names += tool.Function.Name
		}
		if string(body["tool_choice"]) != want[0] || names != want[1] {
			t.Errorf("%s becomes %s of %s", choice, body["tool_choice"], names)
		}
	}
	if body := translated(t, ask(`,"tools":[{"type":"web_search"}],"tool_choice":"required"`)); body["tools"] != nil || body["tool_choice"] != nil {
		t.Errorf("without tools there is %v", body)
	}
}

func TestRefusals(t *testing.T) {
	for _, c := range []struct{ body, param, code string }{
		{``, "", ""},
		{`{"input":"hi"}`, "model", "missing_required_parameter"},
		{`{"model":"m"}`, "input", "missing_required_parameter"},
		{`{"model":"m","input":[]}`, "input", "missing_required_parameter"},
		{`{"model":"m","input":5}`, "input", "invalid_type"},
		{`{"model":"m","input":[5]}`, "input[0]", "invalid_type"},
		{`{"model":"m","input":[{"content":"x"}]}`, "input[0].role", "missing_required_parameter"},
		{`{"model":"m","input":[{"role":"user","content":7}]}`, "input[0].content", "invalid_type"},
		{`{"model":"m","input":[{"role":"user","content":[{"type":"hologram"}]}]}`, "input[0].content", "invalid_value"},
		{`{"model":"m","input":[{"role":"user","content":[{"type":"input_image","file_id":"f"}]}]}`, "input[0].content", "unsupported_value"},
		{`{"model":"m","input":[{"role":"user","content":[{"type":"input_file","file_url":"f"}]}]}`, "input[0].content", "unsupported_value"},
		{ask(`,"background":true`), "background", "unsupported_value"},
		{ask(`,"conversation":"c"`), "conversation", "unsupported_value"},
		{ask(`,"prompt":{"id":"p"}`), "prompt", "unsupported_value"},
		{ask(`,"previous_response_id":"resp_x"`), "previous_response_id", "previous_response_not_found"},
		{`{"model":"m","input":[{"type":"item_reference","id":"rs_x"}]}`, "input[0].id", "item_not_found"},
		{ask(`,"max_output_tokens":0`), "max_output_tokens", "integer_below_min_value"},
		{ask(`,"max_output_tokens":"5"`), "max_output_tokens", "invalid_type"},
		{ask(`,"stop":[""]`), "stop", "invalid_value"},
		{ask(`,"stream":"yes"`), "stream", "invalid_type"},
		{ask(`,"tools":{}`), "tools", "invalid_type"},
	} {
		_, talk, err := newAPI(t, responses.Config{}).Decode(surface.In{ID: id, Body: []byte(c.body)})
		var p *openai.Problem
		if talk != nil || !errors.As(err, &p) || p.Status != 400 || p.Param != c.param || p.Code != c.code || strings.Contains(p.Message, "messages") {
			t.Errorf("%s: got %+v", c.body, p)
		}
	}
}
