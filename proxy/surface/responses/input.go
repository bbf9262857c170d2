package responses

import (
	"encoding/base64"
	"strings"

	"oneslot/internal/openai"

	"github.com/tidwall/gjson"
)

// messages makes the list of messages.
func (p *params) messages() (string, error) {
	var m messages
	if instructions := p.text("instructions"); instructions != "" {
		m.list = append(m.list, `{"role":"system","content":`+openai.String(instructions)+`}`)
	}
	for i, raw := range p.items {
		if err := m.add(p.place(i), gjson.Parse(raw)); err != nil {
			return "", err
		}
	}
	m.flush()
	return "[" + strings.Join(m.list, ",") + "]", nil
}

// messages are the messages so far, and the assistant's turn that may still grow.
type messages struct {
	list  []string
	turn  bool
	think string
	text  string // raw JSON; empty is none
	calls []string
}

// flush ends the assistant's turn.
func (m *messages) flush() {
	if !m.turn {
		return
	}
	b := `{"role":"assistant"`
	if m.think != "" {
		b += `,"reasoning_content":` + openai.String(m.think)
	}
	if m.text == "" {
		m.text = `""`
	}
	b += `,"content":` + m.text
	if len(m.calls) > 0 {
		b += `,"tool_calls":[` + strings.Join(m.calls, ",") + `]`
	}
	m.list = append(m.list, b+"}")
	*m = messages{list: m.list}
}

// add takes one item.
func (m *messages) add(param string, item gjson.Result) error {
	if !item.IsObject() {
		return openai.Invalid(param, "invalid_type", "Invalid type for '%s': expected an object.", param)
	}
	switch kind := item.Get("type").Str; kind {
	case "", "message":
		return m.message(param, item)
	case "reasoning":
		if m.text != "" || len(m.calls) > 0 {
			m.flush()
		}
		m.turn = true
		m.think += thinkingOf(item)
	case "function_call", "custom_tool_call":
		m.turn = true
		arguments := item.Get("arguments").Str
		if kind == "custom_tool_call" {
			arguments = `{"input":` + openai.String(item.Get("input").Str) + `}`
		}
		m.calls = append(m.calls, `{"id":`+openai.String(item.Get("call_id").Str)+`,"type":"function","function":{"name":`+
			openai.String(item.Get("name").Str)+`,"arguments":`+openai.String(arguments)+`}}`)
	case "function_call_output", "custom_tool_call_output":
		m.flush()
		content, err := contentOf(param+".output", item.Get("output"), true)
		if err != nil {
			return err
		}
		m.list = append(m.list, `{"role":"tool","tool_call_id":`+openai.String(item.Get("call_id").Str)+`,"content":`+content+`}`)
	}
	// Items of other kinds tell of tools that are left out.
	return nil
}

func (m *messages) message(param string, item gjson.Result) error {
	role := item.Get("role")
	if role.Type != gjson.String {
		return openai.Invalid(param+".role", "missing_required_parameter", "Missing required parameter: '%s.role'.", param)
	}
	assistant := strings.EqualFold(role.Str, "assistant")
	content, err := contentOf(param+".content", item.Get("content"), assistant)
	if err != nil {
		return err
	}
	if !assistant {
		m.flush()
		m.list = append(m.list, `{"role":`+role.Raw+`,"content":`+content+`}`)
		return nil
	}
	if m.text != "" || len(m.calls) > 0 {
		m.flush()
	}
	m.turn, m.text = true, content
	return nil
}

// thinkingOf reads the thinking of a reasoning item: its content, else its
// summary, else what it carries for sending back.
func thinkingOf(item gjson.Result) string {
	for _, name := range []string{"content", "summary"} {
		text := ""
		for _, part := range item.Get(name).Array() {
			text += part.Get("text").Str
		}
		if text != "" {
			return text
		}
	}
	return unsealed(item.Get("encrypted_content").Str)
}

// seal marks thinking that is carried for sending back.
const seal = "oneslot1."

func sealed(thinking string) string {
	return seal + base64.StdEncoding.EncodeToString([]byte(thinking))
}

func unsealed(s string) string {
	rest, ok := strings.CutPrefix(s, seal)
	text, err := base64.StdEncoding.DecodeString(rest)
	if !ok || err != nil {
		return "" // somebody else's, which nobody here can read
	}
	return string(text)
}

// contentOf makes a chat's content of one here: a text, or a list of parts. Parts
// that are all text become one text if joined says so, and a single one always:
// not every template takes lists.
func contentOf(param string, v gjson.Result, joined bool) (string, error) {
	if v.Type == gjson.String {
		return v.Raw, nil
	}
	if !v.IsArray() {
		return "", openai.Invalid(param, "invalid_type", "Invalid type for '%s': expected a string or an array of parts.", param)
	}
	var parts []string
	text, plain := "", true
	for _, part := range v.Array() {
		raw, words, err := partOf(param, part)
		if err != nil {
			return "", err
		}
		parts, text, plain = append(parts, raw), text+words, plain && strings.HasPrefix(raw, textPart)
	}
	if plain && (joined || len(parts) <= 1) {
		return openai.String(text), nil
	}
	return "[" + strings.Join(parts, ",") + "]", nil
}

const textPart = `{"type":"text","text":`

// partOf makes a chat's part of one here.
func partOf(param string, part gjson.Result) (raw, text string, err error) {
	switch kind := part.Get("type").Str; kind {
	case "input_text", "output_text", "text", "summary_text", "reasoning_text":
		text = part.Get("text").Str
		return textPart + openai.String(text) + "}", text, nil
	case "refusal":
		text = part.Get("refusal").Str
		return textPart + openai.String(text) + "}", text, nil
	case "input_image":
		if url := part.Get("image_url"); url.Type == gjson.String {
			detail := ""
			if d := member(part, "detail"); d != "" {
				detail = `,"detail":` + d
			}
			return `{"type":"image_url","image_url":{"url":` + url.Raw + detail + `}}`, "", nil
		}
	case "input_audio":
		if audio := part.Get("input_audio"); audio.IsObject() {
			return `{"type":"input_audio","input_audio":` + audio.Raw + `}`, "", nil
		}
	case "input_file":
		if part.Get("file_data").Exists() {
			return `{"type":"file","file":` + pick(part, "filename", "file_data") + `}`, "", nil
		}
	default:
		return "", "", openai.Invalid(param, "invalid_value", "'%s' has a part of type %.40q; text, images, audio and files can be sent.", param, kind)
	}
	return "", "", openai.Invalid(param, "unsupported_value", "'%s' names a file that is kept elsewhere. Send its content itself: 'image_url' with a data URL, or 'file_data'.", param)
}
