package responses

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"oneslot/internal/openai"

	"github.com/tidwall/gjson"
)

// params are the members of a request that are not null.
type params struct {
	members map[string]gjson.Result
	items   []string // of the conversation, as raw JSON
	before  int      // how many of them were kept
	tools   []tool
	// only holds the names of the tools that may be called; nil means all.
	only []string
}

// A tool is a function that the model may call.
type tool struct {
	raw, name string
}

// kinds are the members that must be of a kind.
var kinds = []struct {
	name, kind string
	is         func(gjson.Result) bool
}{
	{"input", "a string or an array of items", func(v gjson.Result) bool { return v.Type == gjson.String || v.IsArray() }},
	{"instructions", "a string", isText},
	{"previous_response_id", "a string", isText},
	{"store", "a boolean", gjson.Result.IsBool},
	{"background", "a boolean", gjson.Result.IsBool},
	{"include", "an array", gjson.Result.IsArray},
	{"text", "an object", gjson.Result.IsObject},
	{"reasoning", "an object", gjson.Result.IsObject},
	{"metadata", "an object", gjson.Result.IsObject},
	{"tools", "an array", gjson.Result.IsArray},
	{"tool_choice", "a string or an object", func(v gjson.Result) bool { return v.Type == gjson.String || v.IsObject() }},
	{"max_output_tokens", "an integer", isWhole},
	{"top_logprobs", "an integer", isWhole},
}

func isText(v gjson.Result) bool  { return v.Type == gjson.String }
func isWhole(v gjson.Result) bool { return v.Type == gjson.Number && v.Num == float64(int64(v.Num)) }

// read checks what can be checked without knowing what is kept.
func read(body []byte) (*params, error) {
	members, err := openai.ReadMembers(body)
	if err != nil {
		return nil, chatNames.Rename(err)
	}
	p := &params{members: members}
	for _, k := range kinds {
		if v, ok := members[k.name]; ok && !k.is(v) {
			return nil, openai.Invalid(k.name, "invalid_type", "Invalid type for '%s': expected %s.", k.name, k.kind)
		}
	}
	if err := p.refusal(); err != nil {
		return nil, err
	}
	p.readTools()
	return p, nil
}

// refusal names what nobody here can do.
func (p *params) refusal() error {
	switch in := p.members["input"]; {
	case !in.Exists(), in.Type == gjson.String && in.Str == "", in.IsArray() && len(in.Array()) == 0:
		return openai.Invalid("input", "missing_required_parameter", "Missing required parameter: 'input'. Send a text or a list of items.")
	case p.members["background"].Bool():
		return openai.Invalid("background", "unsupported_value", "'background' is not supported: a response lives as long as its connection. Send the request with 'stream: true'; it is kept alive while it waits.")
	case p.members["conversation"].Exists():
		return openai.Invalid("conversation", "unsupported_value", "'conversation' is not supported. Send the conversation as 'input', or name the response before as 'previous_response_id'.")
	case p.members["prompt"].Exists():
		return openai.Invalid("prompt", "unsupported_value", "'prompt' is not supported: there are no prompt templates here. Send the text as 'instructions' and 'input'.")
	}
	return nil
}

func (p *params) text(name string) string { return p.members[name].Str }

// input is the list of new items.
func (p *params) input() []gjson.Result {
	in := p.members["input"]
	if in.Type == gjson.String {
		return []gjson.Result{gjson.Parse(`{"type":"message","role":"user","content":` + in.Raw + `}`)}
	}
	return in.Array()
}

// includes reports whether the client asked for more than is usual.
func (p *params) includes(what string) bool {
	return slices.ContainsFunc(p.members["include"].Array(), func(v gjson.Result) bool { return v.Str == what })
}

// summary reports whether thinking is wanted as a summary.
func (p *params) summary() bool {
	r := p.members["reasoning"]
	s := r.Get("summary")
	if !s.Exists() {
		s = r.Get("generate_summary")
	}
	return s.Type == gjson.String && s.Str != "none"
}

// readTools keeps the functions.
func (p *params) readTools() {
	if choice := p.members["tool_choice"]; choice.Get("type").Str == "allowed_tools" {
		p.only = []string{}
		for _, t := range choice.Get("tools").Array() {
			p.only = append(p.only, t.Get("name").Str)
		}
	}
	for _, t := range p.members["tools"].Array() {
		name := t.Get("name").Str
		if t.Get("type").Str == "function" && name != "" && (p.only == nil || slices.Contains(p.only, name)) {
			p.tools = append(p.tools, tool{t.Raw, name})
		}
	}
}

// ours are the members that are this API's, or mean something else in a chat.
var ours = []string{
	"input", "instructions", "previous_response_id", "background", "include", "text", "truncation", "max_output_tokens", "max_tool_calls",
	"reasoning", "tools", "tool_choice", "context_management", "top_logprobs", "client_metadata", "image", "access_programs", "n",
}

// chat makes the body of a chat request.
func (p *params) chat(body []byte) ([]byte, error) {
	messages, err := p.messages()
	if err != nil {
		return nil, err
	}
	set := []openai.Member{{Key: "messages", Raw: messages}}
	put := func(key, raw string) {
		if raw != "" {
			set = append(set, openai.Member{Key: key, Raw: raw})
		}
	}
	put("max_completion_tokens", p.members["max_output_tokens"].Raw)
	put("reasoning_effort", member(p.members["reasoning"], "effort"))
	put("thinking_budget", member(p.members["reasoning"], "max_tokens"))
	if p.members["reasoning"].Get("exclude").Bool() {
		put("include_reasoning", "false")
	}
	put("response_format", responseFormat(p.members["text"].Get("format")))
	if p.includes("message.output_text.logprobs") {
		put("logprobs", "true")
		put("top_logprobs", p.members["top_logprobs"].Raw)
	}
	if len(p.tools) > 0 {
		put("tools", p.chatTools())
		put("tool_choice", p.chatChoice())
	}
	return openai.Rewrite(body, set, func(key string) bool { return slices.Contains(ours, key) }), nil
}

// member is a member of an object as raw JSON, empty for none and null.
func member(v gjson.Result, name string) string {
	if m := v.Get(name); m.Type != gjson.Null {
		return m.Raw
	}
	return ""
}

// responseFormat is the chat's form of text.format.
func responseFormat(f gjson.Result) string {
	switch f.Get("type").Str {
	case "json_object":
		return `{"type":"json_object"}`
	case "json_schema":
		return `{"type":"json_schema","json_schema":` + pick(f, "name", "description", "schema", "strict") + `}`
	}
	return ""
}

// pick makes an object of some members of another.
func pick(v gjson.Result, names ...string) string {
	var parts []string
	for _, name := range names {
		if raw := member(v, name); raw != "" {
			parts = append(parts, strconv.Quote(name)+":"+raw)
		}
	}
	return "{" + strings.Join(parts, ",") + "}"
}

func (p *params) chatTools() string {
	list := make([]string, len(p.tools))
	for i, t := range p.tools {
		list[i] = `{"type":"function","function":` + pick(gjson.Parse(t.raw), "name", "description", "parameters", "strict") + `}`
	}
	return "[" + strings.Join(list, ",") + "]"
}

// chatChoice is the chat's form of tool_choice. A choice of what was left out is
// left out too.
func (p *params) chatChoice() string {
	choice := p.members["tool_choice"]
	switch {
	case choice.Type == gjson.String:
		return choice.Raw
	case p.only != nil:
		return member(choice, "mode")
	case choice.Get("type").Str != "function":
		return ""
	}
	name := choice.Get("name").Str
	if !slices.ContainsFunc(p.tools, func(t tool) bool { return t.name == name }) {
		return ""
	}
	return `{"type":"function","function":{"name":` + openai.String(name) + `}}`
}

// chatNames are what members of a chat that a refusal may be about are called here.
var chatNames = openai.Names{"max_completion_tokens": "max_output_tokens", "response_format": "text.format", "messages": "input"}

// names are those and what this request's thinking is asked for by. A client may send
// the chat's own names for it as well, which are passed on as they are.
func (p *params) names() openai.Names {
	out := maps.Clone(chatNames)
	if member(p.members["reasoning"], "effort") != "" {
		out["reasoning_effort"] = "reasoning.effort"
	}
	if member(p.members["reasoning"], "max_tokens") != "" {
		out["thinking_budget"] = "reasoning.max_tokens"
	}
	return out
}

// place names an item of the client's own input.
func place(i int) string { return fmt.Sprintf("input[%d]", i) }

// place names an item of the conversation as the client knows it.
func (p *params) place(i int) string {
	if i < p.before {
		return "previous_response_id"
	}
	return place(i - p.before)
}
