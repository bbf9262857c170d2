package ask

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"oneslot/internal/simengine/wire"
	"oneslot/internal/simengine/words"
)

// message is one message of a chat.
type message struct {
	Role      string          `json:"role"`
	Content   json.RawMessage `json:"content"`
	ToolCalls json.RawMessage `json:"tool_calls"`

	text string // Content as one text
}

// roles are those SGLang takes, whatever their case.
var roles = [...]string{"system", "user", "assistant", "tool", "function", "developer", "latest_reminder"}

// messages reads and checks the field "messages".
func (f *fields) messages() []message {
	raw, ok := f.raw["messages"]
	if !ok {
		f.invalid("messages", "missing", "Field required")
		return nil
	}
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil || list == nil {
		f.invalid("messages", "list_type", "Input should be a valid list")
		return nil
	}
	if len(list) == 0 {
		f.fail(wire.Refused("Messages cannot be empty."))
		return nil
	}
	out := make([]message, len(list))
	for i, one := range list {
		if json.Unmarshal(one, &out[i]) != nil {
			f.at(i, "model_type", "Input should be a valid message")
			return nil
		}
		f.check(i, &out[i])
	}
	return out
}

// at fails with a validation error of message i.
func (f *fields) at(i int, kind, words string) {
	f.fail(wire.Invalid(f.path, fmt.Sprintf("'type': '%s', 'loc': ('body', 'messages', %d), 'msg': '%s'", kind, i, words)))
}

// check validates m and fills in its text.
func (f *fields) check(i int, m *message) {
	m.Role = strings.ToLower(m.Role)
	switch {
	case m.Role == "":
		f.at(i, "missing", "Field required: role")
	case !slices.Contains(roles[:], m.Role):
		f.at(i, "value_error", "Value error, role must be one of "+strings.Join(roles[:], ", "))
	}
	f.checkCalls(m.ToolCalls)
	if len(m.Content) == 0 || string(m.Content) == "null" {
		if m.Role == "user" || m.Role == "system" {
			f.at(i, "string_type", "Input should be a valid string")
		}
		return
	}
	if json.Unmarshal(m.Content, &m.text) == nil {
		return
	}
	var parts []struct{ Type, Text string }
	if json.Unmarshal(m.Content, &parts) != nil {
		f.at(i, "list_type", "Input should be a valid list")
	}
	for j, p := range parts {
		if p.Type != "text" {
			f.fail(wire.Refused("Model only supports text input; received unsupported content type '%s'.", p.Type))
		}
		if j > 0 {
			m.text += "\n"
		}
		m.text += p.Text
	}
}

// checkCalls refuses calls in the history whose arguments are not an object.
func (f *fields) checkCalls(raw json.RawMessage) {
	var calls []struct{ Function struct{ Arguments *string } }
	if json.Unmarshal(raw, &calls) != nil {
		return
	}
	for _, c := range calls {
		var object map[string]json.RawMessage
		if args := c.Function.Arguments; args != nil && (json.Unmarshal([]byte(*args), &object) != nil || object == nil) {
			f.fail(wire.Refused("Tool call arguments in the history must be a JSON object."))
		}
	}
}

// Render returns messages, a JSON list, as a prompt that asks for a reply. It
// is what a tokenizer endpoint counts.
func (r Reader) Render(path string, body []byte) (string, *wire.Problem) {
	f, problem := parse(path, body)
	if problem != nil {
		return "", problem
	}
	req := &Request{}
	r.chat(f, req)
	return req.Prompt, f.problem
}

// render writes the chat template. A continued message follows the beginning of
// the reply, whatever the template has put there.
func (f Format) render(messages []message, tools json.RawMessage, req *Request) string {
	var b strings.Builder
	if req.Tools {
		turn(&b, "system", "tools: "+string(tools))
	}
	prefill := ""
	for i, m := range messages {
		if req.Prefilled && i == len(messages)-1 {
			prefill = m.text
			break
		}
		if len(m.ToolCalls) > 0 && string(m.ToolCalls) != "null" {
			m.text += string(m.ToolCalls)
		}
		turn(&b, m.Role, m.text)
	}
	b.WriteString(words.TurnStart + "assistant\n")
	switch {
	case req.NoThink:
		b.WriteString(f.Open + "\n\n" + f.Close + "\n\n")
	case f.StartsInThinking:
		b.WriteString(f.Open)
	}
	b.WriteString(prefill)
	return b.String()
}

func turn(b *strings.Builder, role, text string) {
	b.WriteString(words.TurnStart + role + "\n" + text + words.TurnEnd + "\n")
}
