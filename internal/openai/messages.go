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
	// Split divides a text at the format's markers, for clients that send the
	// whole of an answer back as content; ok says that there was thinking in it.
	// Zero means that contents stay as they came.
	Split func(text string) (thinking, answer string, ok bool)
	// Prefill says that the last message is to be continued and stays as it came.
	Prefill bool
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
		message := m.Raw
		if !how.Prefill || i < len(all)-1 {
			message = forward(m, keep, how)
		}
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
func forward(m gjson.Result, keep bool, how Forwarding) string {
	switch roleOf(m) {
	case developer:
		return edit(m, func(key, value string) (string, string) {
			if key == "role" {
				value = `"` + system + `"`
			}
			return key, value
		})
	case assistant:
		return forwardThinking(m, keep, how)
	default:
		return m.Raw
	}
}

// forwardThinking leaves thinking out of a message, or under one name in it:
// that of the first field which has some, else what stands in its content.
func forwardThinking(m gjson.Result, keep bool, how Forwarding) string {
	found, thinking := thinkingField(m)
	text, content, inside := thinkingText(thinking), "", false
	if found == "" {
		text, content, inside = contentThinking(m.Get("content"), how)
	}
	if found == "" && !inside || keep && how.ThinkingField == "" {
		return m.Raw
	}
	message := edit(m, func(key, value string) (string, string) {
		switch {
		case inside && key == "content":
			return key, content
		case !isThinking(key):
			return key, value
		case !keep || key != found:
			return key, ""
		case thinking.Type == gjson.String:
			return how.ThinkingField, value
		default:
			return how.ThinkingField, String(text)
		}
	})
	if inside && keep {
		message = message[:len(message)-1] + "," + String(how.ThinkingField) + ":" + String(text) + "}"
	}
	return message
}

// contentThinking finds thinking that a client sends back inside the content: as
// parts of type thinking or reasoning, or between the format's markers. content
// is what is left without it, as raw JSON.
func contentThinking(v gjson.Result, how Forwarding) (text, content string, found bool) {
	if v.Type == gjson.String && how.Split != nil {
		thinking, answer, ok := how.Split(v.Str)
		return thinking, String(answer), ok
	}
	if !v.IsArray() {
		return "", "", false
	}
	var thinking strings.Builder
	var rest []string
	v.ForEach(func(_, part gjson.Result) bool {
		switch part.Get("type").Str {
		case "thinking", "reasoning":
			found = true
			thinking.WriteString(part.Get("thinking").String() + part.Get("text").String())
		case "redacted_thinking":
			found = true // nobody but who made it can read it
		default:
			rest = append(rest, part.Raw)
		}
		return true
	})
	return thinking.String(), "[" + strings.Join(rest, ",") + "]", found
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
