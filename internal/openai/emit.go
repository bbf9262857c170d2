package openai

import (
	"fmt"
	"strconv"
	"unicode/utf8"
)

// A ReasoningField says where thinking goes in what a client receives.
type ReasoningField uint8

// The places for thinking. The zero value is the one most clients read.
const (
	// FieldReasoningContent is `reasoning_content` (DeepSeek, SGLang).
	FieldReasoningContent ReasoningField = iota
	// FieldReasoning is `reasoning` (OpenRouter, Ollama, newer vLLM).
	FieldReasoning
	// FieldBoth writes both keys with the same text.
	FieldBoth
	// FieldContentTags writes thinking into content between the format's markers.
	FieldContentTags
	// FieldHidden leaves thinking out; it is still counted.
	FieldHidden
)

var fieldNames = [...]string{"reasoning_content", "reasoning", "both", "content_tags", "hidden"}

// String returns the name that configuration and requests use.
func (f ReasoningField) String() string {
	if int(f) < len(fieldNames) {
		return fieldNames[f]
	}
	return "ReasoningField(" + strconv.Itoa(int(f)) + ")"
}

// UnmarshalText reads a name that String returns. The empty text is the default.
func (f *ReasoningField) UnmarshalText(text []byte) error {
	for i, name := range fieldNames {
		if string(text) == name || i == 0 && len(text) == 0 {
			*f = ReasoningField(i)
			return nil
		}
	}
	return fmt.Errorf("reasoning field %q is none of %v", text, fieldNames)
}

// MarshalText is String.
func (f ReasoningField) MarshalText() ([]byte, error) { return []byte(f.String()), nil }

// A Delta is what one chunk to the client says. Empty fields are left out.
type Delta struct {
	// Role is set in the first chunk only; it then also carries content "".
	Role bool
	// Content and Reasoning are the texts of the two channels.
	Content, Reasoning string
	// Raw is `"key":value` pairs that pass as they came, joined by commas.
	Raw string
	// Logprobs is the raw JSON of the choice's logprobs.
	Logprobs string
}

// An Emitter writes the chunks of one response: the same id, created and model
// in each, as OpenAI does (SGLang's `created` moves with the clock). The zero
// value is not usable; call NewEmitter.
type Emitter struct {
	head  []byte
	tail  string
	field ReasoningField
}

// NewEmitter returns an Emitter for the response id ("chatcmpl-…"), created in
// Unix seconds. With nullUsage every chunk carries `"usage":null`, which
// OpenAI does when the client asked for include_usage.
func NewEmitter(id, model string, created int64, nullUsage bool) *Emitter {
	e := &Emitter{tail: "}]}", head: make([]byte, 0, 128+len(id)+len(model))}
	if nullUsage {
		e.tail = `}],"usage":null}`
	}
	e.head = AppendString(append(e.head, `{"id":`...), id)
	e.head = append(e.head, `,"object":"chat.completion.chunk","created":`...)
	e.head = strconv.AppendInt(e.head, created, 10)
	e.head = AppendString(append(e.head, `,"model":`...), model)
	e.head = append(e.head, `,"choices":[`...)
	return e
}

// SetField chooses where thinking goes. FieldContentTags and FieldHidden are
// the caller's business: an Emitter writes Reasoning as reasoning_content then.
func (e *Emitter) SetField(f ReasoningField) { e.field = f }

// Delta appends one chunk with finish_reason null.
func (e *Emitter) Delta(b []byte, d Delta) []byte {
	b = append(append(b, e.head...), `{"index":0,"delta":{`...)
	mark := len(b)
	if d.Role {
		b = append(b, `"role":"assistant","content":"",`...)
	}
	if d.Reasoning != "" {
		b = append(e.field.AppendMembers(b, d.Reasoning), ',')
	}
	if d.Content != "" {
		b = append(AppendString(append(b, `"content":`...), d.Content), ',')
	}
	if d.Raw != "" {
		b = append(append(b, d.Raw...), ',')
	}
	if len(b) > mark {
		b = b[:len(b)-1]
	}
	b = append(b, '}')
	if d.Logprobs != "" {
		b = append(append(b, `,"logprobs":`...), d.Logprobs...)
	}
	b = append(b, `,"finish_reason":null`...)
	return append(b, e.tail...)
}

// AppendMembers appends the members in which a client finds thinking, without a comma
// behind them: reasoning_content where f names no other.
func (f ReasoningField) AppendMembers(b []byte, text string) []byte {
	if f != FieldReasoning {
		b = AppendString(append(b, `"reasoning_content":`...), text)
	}
	if f == FieldBoth {
		b = append(b, ',')
	}
	if f == FieldReasoning || f == FieldBoth {
		b = AppendString(append(b, `"reasoning":`...), text)
	}
	return b
}

// Finish appends the chunk that ends the choice.
func (e *Emitter) Finish(b []byte, reason string) []byte {
	b = append(append(b, e.head...), `{"index":0,"delta":{},"finish_reason":`...)
	return append(AppendString(b, reason), e.tail...)
}

// Usage appends the chunk with empty choices and the usage object, which goes
// between the finish chunk and [DONE].
func (e *Emitter) Usage(b, usage []byte) []byte {
	b = append(append(b, e.head...), `],"usage":`...)
	return append(append(b, usage...), '}')
}

// A Message is a whole answer, for clients that do not stream.
type Message struct {
	// ID is "chatcmpl-…"; Model is what the client asked for.
	ID, Model string
	// Created is in Unix seconds.
	Created int64
	// Content and Reasoning are the joined texts of the two channels.
	Content, Reasoning string
	// Raw is further `"key":value` pairs of the message, joined by commas.
	Raw string
	// Logprobs is raw JSON; empty means null.
	Logprobs string
	// FinishReason is why the answer ended.
	FinishReason string
	// Usage is the usage object as JSON.
	Usage []byte
	// Field is where Reasoning goes.
	Field ReasoningField
}

// JSON returns the chat.completion object on one line. `content` is always
// present, since typed SDKs require the key.
func (m *Message) JSON() []byte {
	b := AppendString([]byte(`{"id":`), m.ID)
	b = append(b, `,"object":"chat.completion","created":`...)
	b = strconv.AppendInt(b, m.Created, 10)
	b = AppendString(append(b, `,"model":`...), m.Model)
	b = append(b, `,"choices":[{"index":0,"message":{"role":"assistant",`...)
	if m.Reasoning != "" {
		b = append(m.Field.AppendMembers(b, m.Reasoning), ',')
	}
	b = AppendString(append(b, `"content":`...), m.Content)
	if m.Raw != "" {
		b = append(append(b, ','), m.Raw...)
	}
	b = append(b, `},"logprobs":`...)
	if m.Logprobs == "" {
		b = append(b, "null"...)
	}
	b = append(b, m.Logprobs...)
	b = AppendString(append(b, `,"finish_reason":`...), m.FinishReason)
	b = append(append(b, `}],"usage":`...), m.Usage...)
	return append(b, '}')
}

// String returns s as raw JSON, for a Member.
func String(s string) string {
	var room [64]byte // most are short
	return string(AppendString(room[:0], s))
}

// AppendString appends s as a JSON string. It escapes only what JSON demands
// (no HTML escapes, U+2028 stays raw) and replaces invalid UTF-8 by U+FFFD.
func AppendString(b []byte, s string) []byte {
	b = append(b, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if plain[c] {
			i++
			continue
		}
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(s[i:])
			if r != utf8.RuneError || n > 1 {
				i += n
				continue
			}
			b = append(append(b, s[start:i]...), "\uFFFD"...)
		} else {
			b = appendEscape(append(b, s[start:i]...), c)
		}
		i++
		start = i
	}
	return append(append(b, s[start:]...), '"')
}

// plain tells the bytes that a JSON string holds as they are.
var plain = func() (t [256]bool) {
	for c := byte(' '); c < utf8.RuneSelf; c++ {
		t[c] = c != '"' && c != '\\'
	}
	return t
}()

func appendEscape(b []byte, c byte) []byte {
	const hex = "0123456789abcdef"
	switch c {
	case '"', '\\':
		return append(b, '\\', c)
	case '\n':
		return append(b, '\\', 'n')
	case '\r':
		return append(b, '\\', 'r')
	case '\t':
		return append(b, '\\', 't')
	default:
		return append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
	}
}
