package messages

import (
	"fmt"
	"strings"

	"oneslot/internal/openai"

	"github.com/tidwall/gjson"
)

// messages makes the list of chat messages: what the system says, then the turns.
func (r *request) messages() error {
	v, ok := r.from["messages"]
	switch {
	case !ok:
		return openai.Invalid("messages", "missing_required_parameter", "Missing required parameter: 'messages'.")
	case !v.IsArray():
		return wrong("messages", "an array")
	}
	h := history{}
	if system, ok := r.from["system"]; ok {
		text, err := textIn("system", system)
		if err != nil {
			return err
		}
		if text != "" {
			h.say("system", openai.String(text))
		}
	}
	for i, m := range v.Array() {
		if err := h.message(fmt.Sprintf("messages[%d]", i), m); err != nil {
			return err
		}
	}
	r.put("messages", "["+strings.Join(h.list, ",")+"]")
	if h.prefilled {
		r.put("continue_final_message", "true")
		r.put("add_generation_prompt", "false")
	}
	return nil
}

// history is the list so far.
type history struct {
	list      []string
	prefilled bool // the last message is the beginning of the answer
}

func (h *history) say(role, content string) {
	h.list = append(h.list, `{"role":"`+role+`","content":`+content+`}`)
}

func (h *history) message(at string, m gjson.Result) error {
	if !m.IsObject() {
		return wrong(at, "an object")
	}
	h.prefilled = false
	content := m.Get("content")
	if content.Type != gjson.String && !content.IsArray() {
		return wrong(at+".content", "a string or an array of blocks")
	}
	switch role := m.Get("role").Str; role {
	case "user":
		return h.user(at+".content", content)
	case "assistant":
		return h.assistant(at+".content", content)
	case "system":
		text, err := textIn(at+".content", content)
		h.say("system", openai.String(text))
		return err
	default:
		return openai.Invalid(at+".role", "invalid_value", "'%s.role' must be user, assistant or system.", at)
	}
}

// user adds what the tools brought, which must follow their calls, and then the
// user's own words and pictures, those of the tools' among them.
func (h *history) user(at string, content gjson.Result) error {
	if content.Type == gjson.String {
		h.say("user", content.Raw)
		return nil
	}
	var own, shown parts
	for i, block := range content.Array() {
		here := fmt.Sprintf("%s[%d]", at, i)
		if block.Get("type").Str != "tool_result" {
			if err := own.add(here, block); err != nil {
				return err
			}
			continue
		}
		var result parts
		if err := result.addAll(here+".content", block.Get("content")); err != nil {
			return err
		}
		text := result.text()
		if text == "" && block.Get("is_error").Bool() {
			text = "error"
		}
		h.list = append(h.list, `{"role":"tool","tool_call_id":`+openai.String(block.Get("tool_use_id").Str)+`,"content":`+openai.String(text)+`}`)
		shown = append(shown, result.pictures()...)
	}
	if own = append(shown, own...); len(own) > 0 {
		h.say("user", own.json())
	}
	return nil
}

// assistant adds an earlier answer: what was thought, said and called. Blocks that
// only Anthropic's servers can make are left out.
func (h *history) assistant(at string, content gjson.Result) error {
	if content.Type == gjson.String {
		h.say("assistant", content.Raw)
		h.prefilled = content.Str != ""
		return nil
	}
	var thinking, text strings.Builder
	var calls []string
	for i, block := range content.Array() {
		switch block.Get("type").Str {
		case "text":
			text.WriteString(block.Get("text").Str)
		case "thinking":
			thinking.WriteString(block.Get("thinking").Str)
		case "tool_use":
			input := block.Get("input")
			if !input.Exists() {
				return wrong(fmt.Sprintf("%s[%d].input", at, i), "an object")
			}
			calls = append(calls, `{"id":`+openai.String(block.Get("id").Str)+`,"type":"function","function":{"name":`+openai.String(block.Get("name").Str)+
				`,"arguments":`+openai.String(input.Raw)+`}}`)
		}
	}
	m := `{"role":"assistant","content":` + openai.String(text.String())
	if thinking.Len() > 0 {
		m += `,"reasoning_content":` + openai.String(thinking.String())
	}
	if len(calls) > 0 {
		m += `,"tool_calls":[` + strings.Join(calls, ",") + "]"
	}
	h.list = append(h.list, m+"}")
	h.prefilled = len(calls) == 0 && text.Len() > 0
	return nil
}

// textIn is a text, or the texts of blocks with a blank line between them.
func textIn(at string, v gjson.Result) (string, error) {
	switch {
	case v.Type == gjson.String:
		return v.Str, nil
	case !v.IsArray():
		return "", wrong(at, "a string or an array of text blocks")
	}
	var texts []string
	for i, block := range v.Array() {
		if block.Get("type").Str != "text" {
			return "", wrong(fmt.Sprintf("%s[%d]", at, i), "a text block")
		}
		texts = append(texts, block.Get("text").Str)
	}
	return strings.Join(texts, "\n\n"), nil
}
