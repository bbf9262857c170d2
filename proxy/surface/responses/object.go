package responses

import (
	"cmp"
	"strconv"

	"oneslot/internal/openai"
	"oneslot/usage"

	"github.com/tidwall/gjson"
)

// object writes the response object of one request.
type object struct {
	id, model string
	created   int64 // Unix seconds
	p         *params
	kept      bool // whether it is kept when it has ended
	thin      bool // without what may be long: for signs of life
}

// state is how far a response is.
type state struct {
	output     []string // items as raw JSON
	usage      string   // raw JSON; empty is null
	problem    *openai.Problem
	incomplete string // why the answer is not complete; empty is null
	ended      int64  // when it was completed, Unix seconds; 0 is not
}

// json returns the object on one line.
func (o *object) json(status string, st state) []byte {
	b := append([]byte(nil), `{"id":`...)
	b = openai.AppendString(b, o.id)
	b = strconv.AppendInt(append(b, `,"object":"response","created_at":`...), o.created, 10)
	b = append(b, `,"status":"`+status+`","background":false,"completed_at":`...)
	if st.ended > 0 {
		b = strconv.AppendInt(b, st.ended, 10)
	} else {
		b = append(b, "null"...)
	}
	b = append(append(b, `,"error":`...), errorOf(st.problem)...)
	b = append(b, `,"incomplete_details":`...)
	if st.incomplete == "" {
		b = append(b, "null"...)
	} else {
		b = append(b, `{"reason":"`+st.incomplete+`"}`...)
	}
	b = openai.AppendString(append(b, `,"model":`...), o.model)
	b = appendList(append(b, `,"output":`...), st.output)
	b = append(b, o.asked()...)
	b = append(append(b, `,"usage":`...), cmp.Or(st.usage, "null")...)
	return append(b, '}')
}

// asked are the members that repeat what the client has asked for.
func (o *object) asked() []byte {
	var b []byte
	put := func(name, raw string) { b = append(append(b, `,"`+name+`":`...), raw...) }
	raw := func(name, otherwise string) { put(name, cmp.Or(o.p.members[name].Raw, otherwise)) }
	if o.thin {
		put("instructions", "null")
		put("tools", "[]")
	} else {
		raw("instructions", "null")
		var tools []string
		for _, t := range o.p.tools {
			tools = append(tools, t.raw)
		}
		b = appendList(append(b, `,"tools":`...), tools)
	}
	for _, name := range []string{"max_output_tokens", "max_tool_calls", "previous_response_id", "prompt_cache_key", "safety_identifier", "user"} {
		raw(name, "null")
	}
	r := o.p.members["reasoning"]
	put("reasoning", `{"effort":`+cmp.Or(member(r, "effort"), "null")+`,"summary":`+cmp.Or(member(r, "summary"), "null")+`}`)
	raw("metadata", "{}")
	raw("parallel_tool_calls", "true")
	raw("temperature", "1.0")
	raw("top_p", "1.0")
	raw("top_logprobs", "0")
	raw("truncation", `"disabled"`)
	raw("service_tier", `"default"`)
	put("text", `{"format":`+cmp.Or(member(o.p.members["text"], "format"), `{"type":"text"}`)+`,"verbosity":`+cmp.Or(member(o.p.members["text"], "verbosity"), `"medium"`)+`}`)
	put("tool_choice", o.choice())
	put("store", strconv.FormatBool(o.kept))
	return b
}

// choice is tool_choice as it holds: a choice of a tool that was left out does not.
func (o *object) choice() string {
	c := o.p.members["tool_choice"]
	if c.Type == gjson.String || c.IsObject() && (o.p.only != nil || o.p.chatChoice() != "") {
		return c.Raw
	}
	return `"auto"`
}

func appendList(b []byte, list []string) []byte {
	b = append(b, '[')
	for i, item := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, item...)
	}
	return append(b, ']')
}

// errorOf is the error member of a response.
func errorOf(p *openai.Problem) string {
	if p == nil {
		return "null"
	}
	return `{"code":` + openai.String(cmp.Or(p.Code, "server_error")) + `,"message":` + openai.String(p.Message) + `}`
}

// usageOf is the usage object. A figure that nobody knows is left out.
func usageOf(r usage.Report, sources bool) string {
	t := r.Tokens
	b := []byte{'{'}
	put := func(name string, c usage.Count) {
		if !c.Known() {
			return
		}
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(append(b, `"`+name+`":`...), int64(c.N), 10)
	}
	details := func(name, detail string, c usage.Count, more string) {
		if c.Known() {
			b = append(b, `,"`+name+`":{"`+detail+`":`+strconv.Itoa(c.N)+more+`}`...)
		}
	}
	put("input_tokens", t.Prompt)
	put("output_tokens", t.Completion)
	if t.Prompt.Known() && t.Completion.Known() {
		put("total_tokens", usage.Count{N: t.Prompt.N + t.Completion.N, Source: t.Prompt.Source})
	}
	if len(b) == 1 {
		return ""
	}
	// What is written to a cache is counted where it is paid for, which here it is not.
	details("input_tokens_details", "cached_tokens", t.CachedPrompt, `,"cache_write_tokens":0`)
	details("output_tokens_details", "reasoning_tokens", t.Thinking, "")
	if sources {
		b = append(append(b, `,"oneslot":`...), gjson.GetBytes(r.Wire(true).AppendJSON(nil), "oneslot").Raw...)
	}
	return string(append(b, '}'))
}
