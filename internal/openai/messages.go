package openai

import (
	"strings"

	"github.com/tidwall/gjson"
)

// The roles that oneslot tells apart.
const (
	assistant = "assistant"
	developer = "developer"
	system    = "system"
	user      = "user"
)

// A History says which thinking of earlier turns is forwarded. The zero History
// is KeepThinking.
type History uint8

// What may become of the thinking that a client sends back.
const (
	// KeepThinking forwards it all.
	KeepThinking History = iota
	// KeepToolTurn forwards that of the turn which is still calling tools: what
	// follows the last message of the user.
	KeepToolTurn
	// DropThinking forwards none.
	DropThinking
)

// Forwarding says how the messages of a request go to an engine.
type Forwarding struct {
	// History says which earlier thinking goes with them.
	History History
	// ThinkingField is the member of a message in which the engine reads
	// thinking; what came under another of the names that clients use is renamed.
	// Zero means that the names stay as they came.
	ThinkingField string
}

// thinkingFields are the members in which clients send thinking back.
var thinkingFields = []string{"reasoning_content", "reasoning", "reasoning_details"}

// ForwardMessages returns the list of messages, raw JSON, as an engine reads it.
// The role `developer` becomes `system`, which every template knows; leading
// system messages that are plain strings are joined by a blank line, since many
// templates take only one; thinking goes where how says. All else keeps its
// bytes, nulls and lists of parts included: a list in which there is nothing to
// change comes back as it is.
func ForwardMessages(raw string, how Forwarding) string {
	all := gjson.Parse(raw).Array()
	lastUser := -1
	for i, m := range all {
		if roleOf(m) == user {
			lastUser = i
		}
	}
	var out []string
	leading, changed := true, false
	for i, m := range all {
		keep := how.History == KeepThinking || how.History == KeepToolTurn && i > lastUser
		message := forward(m, keep, how.ThinkingField)
		leading = leading && isSystem(m)
		if n := len(out); leading && n > 0 {
			if joined, ok := joinPlain(out[n-1], message); ok {
				out[n-1], changed = joined, true
				continue
			}
		}
		changed = changed || message != m.Raw
		out = append(out, message)
	}
	if !changed {
		return raw
	}
	return "[" + strings.Join(out, ",") + "]"
}

// roleOf is a message's role as the engines read it, without regard to case.
func roleOf(m gjson.Result) string { return strings.ToLower(m.Get("role").Str) }

func isSystem(m gjson.Result) bool { return roleOf(m) == system || roleOf(m) == developer }

// forward returns one message as the engine reads it.
func forward(m gjson.Result, keep bool, field string) string {
	switch roleOf(m) {
	case developer:
		return edit(m, func(key, value string) (string, string) {
			if key == "role" {
				value = `"` + system + `"`
			}
			return key, value
		})
	case assistant:
		return forwardThinking(m, keep, field)
	default:
		return m.Raw
	}
}

// forwardThinking leaves thinking out of a message, or under one name in it:
// that of the first field which has some.
func forwardThinking(m gjson.Result, keep bool, field string) string {
	found, thinking := thinkingField(m)
	if found == "" || keep && field == "" {
		return m.Raw
	}
	return edit(m, func(key, value string) (string, string) {
		switch {
		case !isThinking(key):
			return key, value
		case !keep || key != found:
			return key, ""
		case thinking.Type == gjson.String:
			return field, value
		default:
			return field, String(thinkingText(thinking))
		}
	})
}

func isThinking(key string) bool {
	for _, name := range thinkingFields {
		if key == name {
			return true
		}
	}
	return false
}

// thinkingField finds where a message has thinking.
func thinkingField(m gjson.Result) (string, gjson.Result) {
	for _, name := range thinkingFields {
		if v := m.Get(name); thinkingText(v) != "" {
			return name, v
		}
	}
	return "", gjson.Result{}
}

func thinkingOf(m gjson.Result) string {
	_, v := thinkingField(m)
	return thinkingText(v)
}

// thinkingText reads thinking that is a string, or a list of OpenRouter's
// reasoning_details.
func thinkingText(v gjson.Result) string {
	if v.Type == gjson.String {
		return v.Str
	}
	var b strings.Builder
	if v.IsArray() {
		v.ForEach(func(_, detail gjson.Result) bool {
			b.WriteString(detail.Get("text").String())
			b.WriteString(detail.Get("summary").String())
			return true
		})
	}
	return b.String()
}

// edit returns an object with each member as change returns it. A member whose
// value becomes empty is left out.
func edit(object gjson.Result, change func(key, value string) (string, string)) string {
	b := make([]byte, 0, len(object.Raw)+len(system))
	b = append(b, '{')
	object.ForEach(func(key, value gjson.Result) bool {
		name, raw := change(key.Str, value.Raw)
		if raw == "" {
			return true
		}
		if len(b) > 1 {
			b = append(b, ',')
		}
		if name == key.Str {
			b = append(b, key.Raw...)
		} else {
			b = AppendString(b, name)
		}
		b = append(append(b, ':'), raw...)
		return true
	})
	return string(append(b, '}'))
}

// joinPlain joins two system messages that are a role and a string, no more.
func joinPlain(a, b string) (string, bool) {
	first, ok := plainText(a)
	second, also := plainText(b)
	if !ok || !also {
		return "", false
	}
	between := `\n\n`
	if len(first) <= 2 || len(second) <= 2 {
		between = "" // one of them is empty
	}
	return `{"role":"` + system + `","content":` + first[:len(first)-1] + between + second[1:] + "}", true
}

// plainText returns the content of such a message as raw JSON.
func plainText(message string) (raw string, ok bool) {
	ok = true
	gjson.Parse(message).ForEach(func(key, value gjson.Result) bool {
		switch {
		case key.Str == "content" && value.Type == gjson.String:
			raw = value.Raw
		case key.Str != "role":
			ok = false
		}
		return ok
	})
	return raw, ok && raw != ""
}
