package messages

import (
	"fmt"
	"slices"

	"oneslot/internal/openai"

	"github.com/tidwall/gjson"
)

// chat makes the body of a chat request. hide says that the client has not asked
// for blocks of thinking.
func chat(body []byte) (chat []byte, hide bool, err error) {
	m, err := openai.ReadMembers(body)
	if err != nil {
		return nil, false, err
	}
	r := &request{from: m}
	for _, step := range []func() error{r.plain, r.thinking, r.output, r.stops, r.tools, r.messages} {
		if err := step(); err != nil {
			return nil, false, err
		}
	}
	return openai.Rewrite([]byte("{}"), r.set, nil), r.hide, nil
}

// request is a request on its way from one API to the other.
type request struct {
	from map[string]gjson.Result
	set  []openai.Member
	hide bool
}

func (r *request) put(key, raw string) { r.set = append(r.set, openai.Member{Key: key, Raw: raw}) }

// same are the members that both APIs have, and those of the engines' own.
var same = []string{
	"model", "stream", "max_tokens", "temperature", "top_p", "top_k", "min_p", "seed", "presence_penalty", "frequency_penalty",
	"repetition_penalty", "logit_bias", "chat_template_kwargs", "stream_options",
}

// plain takes over what is the same but for a name.
func (r *request) plain() error {
	for _, key := range same {
		r.put(key, r.from[key].Raw)
	}
	if tier := r.from["service_tier"]; tier.Str == "standard_only" {
		r.put("service_tier", `"default"`)
	} else {
		r.put("service_tier", tier.Raw)
	}
	if user := r.from["metadata"].Get("user_id"); user.Type == gjson.String {
		r.put("user", user.Raw)
	}
	return nil
}

// thinking takes over the budget; a client that is to see nothing of it gets no
// blocks.
func (r *request) thinking() error {
	v, ok := r.from["thinking"]
	switch {
	case !ok:
		r.hide = true
		return nil
	case !v.IsObject():
		return wrong("thinking", "an object such as {\"type\":\"enabled\",\"budget_tokens\":4096}")
	}
	r.hide = v.Get("display").Str == "omitted"
	raw := v.Raw
	if v.Get("type").Str == "between_tools" {
		raw = `{"type":"adaptive"}` // when it thinks is the model's to choose
	}
	r.put("thinking", raw)
	return nil
}

// output takes over how hard the model is to think and what form its text has.
func (r *request) output() error {
	config := r.from["output_config"]
	r.put("reasoning_effort", config.Get("effort").Raw)
	format := config.Get("format")
	if old := r.from["output_format"]; !format.IsObject() {
		format = old
	}
	if schema := format.Get("schema"); schema.IsObject() {
		r.put("response_format", `{"type":"json_schema","json_schema":{"name":"output","strict":true,"schema":`+schema.Raw+`}}`)
	}
	return nil
}

func (r *request) stops() error {
	v, ok := r.from["stop_sequences"]
	switch {
	case !ok:
		return nil
	case !v.IsArray():
		return wrong("stop_sequences", "an array of strings")
	}
	if len(v.Array()) > 0 {
		r.put("stop", v.Raw)
	}
	return nil
}

// tools takes over the tools that say what they take. Others are Anthropic's, and
// the model has not been trained on them.
func (r *request) tools() error {
	v, ok := r.from["tools"]
	if !ok {
		return nil
	}
	if !v.IsArray() {
		return wrong("tools", "an array")
	}
	var list []byte
	var names []string
	for i, tool := range v.Array() {
		schema := tool.Get("input_schema")
		if kind := tool.Get("type").Str; kind != "" && kind != "custom" && !schema.Exists() {
			continue
		}
		at := fmt.Sprintf("tools[%d]", i)
		switch {
		case tool.Get("name").Str == "":
			return openai.Invalid(at+".name", "missing_required_parameter", "'%s.name' is missing.", at)
		case !schema.IsObject():
			return wrong(at+".input_schema", "a JSON schema")
		}
		function := openai.Rewrite([]byte("{}"), []openai.Member{
			{Key: "name", Raw: tool.Get("name").Raw},
			{Key: "description", Raw: tool.Get("description").Raw},
			{Key: "parameters", Raw: schema.Raw},
			{Key: "strict", Raw: tool.Get("strict").Raw},
		}, nil)
		list = append(append(append(list, `,{"type":"function","function":`...), function...), '}')
		names = append(names, tool.Get("name").Str)
	}
	if len(list) == 0 {
		return nil
	}
	r.put("tools", "["+string(list[1:])+"]")
	return r.choice(names)
}

// choice takes over which tool is to be called, of those that are sent: a choice of
// what was left out is left out too, since no engine can call what it is not told of.
func (r *request) choice(names []string) error {
	v, ok := r.from["tool_choice"]
	if !ok {
		return nil
	}
	switch kind := v.Get("type").Str; kind {
	case "auto", "none":
		r.put("tool_choice", v.Get("type").Raw)
	case "any":
		r.put("tool_choice", `"required"`)
	case "tool":
		if name := v.Get("name").Str; slices.Contains(names, name) {
			r.put("tool_choice", `{"type":"function","function":{"name":`+openai.String(name)+`}}`)
		}
	default:
		return openai.Invalid("tool_choice.type", "invalid_value", "'tool_choice.type' must be auto, any, tool or none.")
	}
	if v.Get("disable_parallel_tool_use").Type == gjson.True {
		r.put("parallel_tool_calls", "false")
	}
	return nil
}

// wrong says what a member must be.
func wrong(param, want string) error {
	return openai.Invalid(param, "invalid_type", "'%s' must be %s.", param, want)
}
