package messages_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"oneslot/internal/openai"
	"oneslot/proxy/surface"
	"oneslot/proxy/surface/messages"
)

const id = "0123456789abcdef0123456789abcdef"

func decode(t *testing.T, body string) (*openai.Request, surface.Talk) {
	t.Helper()
	req, talk, err := messages.API{}.Decode(surface.In{ID: id, Created: time.Unix(1764500000, 0), Body: []byte(body)})
	if err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	return req, talk
}

// ask is a request with members beside a model and a message.
func ask(members string) string {
	return `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"hi"}]` + members + `}`
}

// history is a request with these messages.
func history(list string) string { return `{"model":"m","max_tokens":9,"messages":` + list + `}` }

// TestRequests compares the chat request that is made with the one wanted, as far
// as members are named.
func TestRequests(t *testing.T) {
	for name, c := range map[string]struct{ in, want string }{
		"plain": {
			ask(`,"temperature":0.5,"top_p":null,"top_k":7,"stop_sequences":["END"],"metadata":{"user_id":"u"},"service_tier":"standard_only","betas":["x"],"container":"c","stream":true`),
			`{"model":"m","max_tokens":9,"stream":true,"temperature":0.5,"top_k":7,"stop":["END"],"user":"u","service_tier":"default","messages":[{"role":"user","content":"hi"}]}`,
		},
		"system text":   {ask(`,"system":"be brief"`), `{"messages":[{"role":"system","content":"be brief"},{"role":"user","content":"hi"}]}`},
		"system blocks": {ask(`,"system":[{"type":"text","text":"a","cache_control":{"type":"ephemeral"}},{"type":"text","text":"b"}]`), `{"messages":[{"role":"system","content":"a\n\nb"},{"role":"user","content":"hi"}]}`},
		"no system":     {ask(`,"system":""`), `{"messages":[{"role":"user","content":"hi"}]}`},
		"system turn":   {history(`[{"role":"user","content":"a"},{"role":"system","content":[{"type":"text","text":"s"}]},{"role":"user","content":"b"}]`), `{"messages":[{"role":"user","content":"a"},{"role":"system","content":"s"},{"role":"user","content":"b"}]}`},
		"blocks":        {history(`[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}]`), `{"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}]}`},
		"one block":     {history(`[{"role":"user","content":[{"type":"text","text":"a"}]}]`), `{"messages":[{"role":"user","content":"a"}]}`},
		"a call is not gone on with": {
			history(`[{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"text","text":"b"},{"type":"tool_use","id":"t","name":"f","input":{}}]}]`),
			`{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b","tool_calls":[{"id":"t","type":"function","function":{"name":"f","arguments":"{}"}}]}]}`,
		},
		"images": {
			history(`[{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"QUJD"}},{"type":"image","source":{"type":"url","url":"https://a/b.png"}},{"type":"text","text":"?"}]}]`),
			`{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,QUJD"}},{"type":"image_url","image_url":{"url":"https://a/b.png"}},{"type":"text","text":"?"}]}]}`,
		},
		"documents": {
			history(`[{"role":"user","content":[{"type":"document","title":"T","context":"C","source":{"type":"text","media_type":"text/plain","data":"d"}},{"type":"document","source":{"type":"content","content":[{"type":"text","text":"e"}]}},{"type":"search_result","title":"S","source":"u","content":[{"type":"text","text":"f"}]}]}]`),
			`{"messages":[{"role":"user","content":[{"type":"text","text":"T"},{"type":"text","text":"C"},{"type":"text","text":"d"},{"type":"text","text":"e"},{"type":"text","text":"S\nu"},{"type":"text","text":"f"}]}]}`,
		},
		"thinking sent back": {
			history(`[{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"x"},{"type":"redacted_thinking","data":"zz"},{"type":"text","text":"b"},{"type":"server_tool_use","id":"s","name":"web_search","input":{}},{"type":"text","text":"c"}]},{"role":"user","content":"d"}]`),
			`{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"bc","reasoning_content":"hm"},{"role":"user","content":"d"}]}`,
		},
		"tools round trip": {
			history(`[{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"tool_use","id":"t1","name":"f","input":{"x": 1}},{"type":"tool_use","id":"t2","name":"g","input":{}}]},` +
				`{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"one"},{"type":"tool_result","tool_use_id":"t2","content":[{"type":"text","text":"two"},{"type":"image","source":{"type":"url","url":"u"}}]},{"type":"tool_result","tool_use_id":"t3","is_error":true},{"type":"text","text":"go on"}]}]`),
			`{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"","tool_calls":[{"id":"t1","type":"function","function":{"name":"f","arguments":"{\"x\": 1}"}},{"id":"t2","type":"function","function":{"name":"g","arguments":"{}"}}]},` +
				`{"role":"tool","tool_call_id":"t1","content":"one"},{"role":"tool","tool_call_id":"t2","content":"two"},{"role":"tool","tool_call_id":"t3","content":"error"},` +
				`{"role":"user","content":[{"type":"image_url","image_url":{"url":"u"}},{"type":"text","text":"go on"}]}]}`,
		},
		"tools": {
			ask(`,"tools":[{"name":"f","description":"d","input_schema":{"type":"object"},"cache_control":{}},{"type":"web_search_20250305","name":"web_search"},{"type":"custom","name":"g","input_schema":{},"strict":true}],"tool_choice":{"type":"any","disable_parallel_tool_use":true}`),
			`{"tools":[{"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object"}}},{"type":"function","function":{"name":"g","parameters":{},"strict":true}}],"tool_choice":"required","parallel_tool_calls":false}`,
		},
		"one tool": {ask(`,"tools":[{"name":"f","input_schema":{}}],"tool_choice":{"type":"tool","name":"f"}`), `{"tool_choice":{"type":"function","function":{"name":"f"}}}`},
		"a choice left out": {
			ask(`,"tools":[{"type":"bash_20250124","name":"bash"},{"name":"f","input_schema":{}}],"tool_choice":{"type":"tool","name":"bash","disable_parallel_tool_use":true}`),
			`{"tools":[{"type":"function","function":{"name":"f","parameters":{}}}],"tool_choice":null,"parallel_tool_calls":false}`,
		},
		"only theirs":     {ask(`,"tools":[{"type":"bash_20250124","name":"bash"}],"tool_choice":{"type":"any"}`), `{"messages":[{"role":"user","content":"hi"}]}`},
		"budget":          {ask(`,"thinking":{"type":"enabled","budget_tokens":2048}`), `{"thinking":{"type":"enabled","budget_tokens":2048}}`},
		"off":             {ask(`,"thinking":{"type":"disabled"}`), `{"thinking":{"type":"disabled"}}`},
		"between tools":   {ask(`,"thinking":{"type":"between_tools"}`), `{"thinking":{"type":"adaptive"}}`},
		"effort, format":  {ask(`,"output_config":{"effort":"low","format":{"type":"json_schema","schema":{"type":"object"}}}`), `{"reasoning_effort":"low","response_format":{"type":"json_schema","json_schema":{"name":"output","strict":true,"schema":{"type":"object"}}}}`},
		"old format":      {ask(`,"output_format":{"type":"json_schema","schema":{"a":1}}`), `{"response_format":{"type":"json_schema","json_schema":{"name":"output","strict":true,"schema":{"a":1}}}}`},
		"prefill":         {history(`[{"role":"user","content":"a"},{"role":"assistant","content":"The answer"}]`), `{"continue_final_message":true,"add_generation_prompt":false}`},
		"repeated member": {`{"model":"x","max_tokens":1,"model":"m","messages":[{"role":"user","content":"hi"}]}`, `{"model":"m"}`},
	} {
		req, _ := decode(t, c.in)
		var got, want map[string]any
		if err := errors.Join(json.Unmarshal(req.Body, &got), json.Unmarshal([]byte(c.want), &want)); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for key, value := range want {
			if !reflect.DeepEqual(got[key], value) {
				t.Errorf("%s: %s is %v, want %v", name, key, got[key], value)
			}
		}
		for _, key := range []string{"top_p", "container", "betas", "system", "metadata", "output_config", "stop_sequences"} {
			if v, ok := got[key]; ok {
				t.Errorf("%s: the chat request has %s: %v", name, key, v)
			}
		}
		if name == "only theirs" && (got["tools"] != nil || got["tool_choice"] != nil) {
			t.Errorf("%s: %s", name, req.Body)
		}
		if _, ok := want["continue_final_message"]; !ok && got["continue_final_message"] != nil {
			t.Errorf("%s: is to be continued: %s", name, req.Body)
		}
	}
}

// TestWhoSeesThinking: clients that have asked for it.
func TestWhoSeesThinking(t *testing.T) {
	for members, hidden := range map[string]bool{
		"": true, `,"thinking":null`: true, `,"thinking":{"type":"enabled","budget_tokens":1024,"display":"omitted"}`: true,
		`,"thinking":{"type":"enabled","budget_tokens":1024}`: false, `,"thinking":{"type":"adaptive","display":"summarized"}`: false, `,"thinking":{"type":"disabled"}`: false,
	} {
		if req, _ := decode(t, ask(members)); req.HideReasoning != hidden {
			t.Errorf("%s: hidden is %v", members, req.HideReasoning)
		}
	}
}

// TestRefusals say where the fault is, in the client's own words for it.
func TestRefusals(t *testing.T) {
	for body, want := range map[string]string{
		"": "empty", "{": "not valid JSON", "[]": "an array", "{}": "'messages'", `{"model":"m","messages":{}}`: "'messages' must be an array",
		`{"messages":[{"role":"user","content":"x"}]}`: "model",
		history(`[]`):  "'messages' is empty",
		history(`[7]`): "'messages[0]' must be an object",
		history(`[{"role":"tool","content":"x"}]`): "'messages[0].role'",
		history(`[{"role":"user"}]`):               "'messages[0].content'",
		history(`[{"role":"user","content":[{"type":"document","source":{"type":"base64","data":"x"}}]}]`):             "PDF",
		history(`[{"role":"user","content":[{"type":"image","source":{"type":"file","file_id":"x"}}]}]`):               "messages[0].content[0].source.type",
		history(`[{"role":"user","content":[{"type":"image","source":{"type":"url"}}]}]`):                              "'messages[0].content[0].source.url'",
		history(`[{"role":"user","content":[{"type":"image","source":{"type":"url","url":""}}]}]`):                     "'messages[0].content[0].source.url'",
		history(`[{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png"}}]}]`):  "'messages[0].content[0].source.data'",
		history(`[{"role":"user","content":[{"type":"hologram"}]}]`):                                                   "hologram",
		history(`[{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":[{"type":"sound"}]}]}]`): "messages[0].content[0].content[0]",
		history(`[{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":7}]}]`):                  "messages[0].content[0].content",
		history(`[{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"b"}]}]`):                          "input",
		history(`[{"role":"system","content":[{"type":"image"}]}]`):                                                    "a text block",
		ask(`,"system":7`): "'system'", ask(`,"thinking":true`): "'thinking'", ask(`,"stop_sequences":"x"`): "'stop_sequences'",
		ask(`,"stop_sequences":[""]`): "'stop_sequences' holds an empty string", ask(`,"stop_sequences":[7]`): "'stop_sequences[0]'", ask(`,"tools":{}`): "'tools'",
		ask(`,"tools":[{"input_schema":{}}]`): "tools[0].name", ask(`,"tools":[{"name":"f"}]`): "tools[0].input_schema", ask(`,"tools":[{"name":"f","input_schema":{}}],"tool_choice":{}`): "tool_choice.type",
		ask(`,"temperature":"hot"`): "temperature", ask(`,"stream":1`): "stream",
	} {
		_, _, err := messages.API{}.Decode(surface.In{ID: id, Body: []byte(body)})
		var p *openai.Problem
		if !errors.As(err, &p) || p.Status != 400 || !strings.Contains(p.Message, want) {
			t.Errorf("%s: %v, want %q", body, err, want)
		}
	}
}

// TestErrorShape is what Anthropic's clients read: a type that follows from the
// status, a message, and the request's id.
func TestErrorShape(t *testing.T) {
	for status, want := range map[int]string{
		400: "invalid_request_error", 401: "authentication_error", 403: "permission_error", 404: "not_found_error", 405: "invalid_request_error", 408: "timeout_error",
		409: "conflict_error", 413: "request_too_large", 415: "invalid_request_error", 429: "rate_limit_error", 500: "api_error", 502: "api_error", 503: "overloaded_error", 504: "timeout_error",
	} {
		p := &openai.Problem{Status: status, Type: "x", Message: `no "way"`, Header: map[string]string{messages.IDHeader: "abc"}}
		if got := string(messages.API{}.Problem(p)); got != `{"type":"error","error":{"type":"`+want+`","message":"no \"way\""},"request_id":"abc"}` {
			t.Errorf("%d: %s", status, got)
		}
	}
	if got := string(messages.API{}.Problem(&openai.Problem{Status: 400})); !strings.HasSuffix(got, `"request_id":null}`) {
		t.Errorf("without an id: %s", got)
	}
}
