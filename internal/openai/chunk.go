package openai

import (
	"errors"
	"strings"
)

// ErrNotChunk is returned by ParseChunk for data that is not a JSON object.
var ErrNotChunk = errors.New("openai: the engine sent an event that is not a JSON object")

// A Chunk is what the proxy reads of one event of an engine's stream. Absent
// and null fields are empty. The strings may share memory with the event.
type Chunk struct {
	// Content, Reasoning and Refusal are the texts of choices[0].delta. Content
	// is also the text of a completion, which is choices[0].text.
	// Reasoning is `reasoning_content`, else `reasoning` (vLLM's name).
	Content, Reasoning, Refusal string
	// ToolCalls and FunctionCall are raw JSON.
	ToolCalls, FunctionCall string
	// Extra holds the other keys of the delta that are not null, as raw
	// `"key":value` pairs joined by commas, on one line.
	Extra string
	// Logprobs is choices[0].logprobs as raw JSON.
	Logprobs string
	// FinishReason is choices[0].finish_reason.
	FinishReason string
	// EndToken is whether the engine told that the run ended by an end-of-turn
	// token: an integer matched_stop (SGLang), or a null stop_reason beside a
	// finish "stop" (vLLM).
	EndToken bool
	// Usage is the usage object as raw JSON.
	Usage string
	// Timings is llama.cpp's `timings` object as raw JSON: its running totals.
	Timings string
	// Error is a non-null error member as raw JSON; the engine failed.
	Error string
}

// ParseChunk reads one event. Events without choices, with a null delta or
// with unknown keys are valid chunks that say little (engines send them). An
// event that came on several lines is read as one, so that what passes as raw
// JSON fits into one line.
func ParseChunk(data string) (Chunk, error) {
	r := reader{scanner: scanner{text: data}}
	if !r.read() {
		return Chunk{}, ErrNotChunk
	}
	if strings.IndexByte(data, '\n') >= 0 || strings.IndexByte(data, '\r') >= 0 {
		// JSON strings hold neither, so these are blanks between tokens.
		r = reader{scanner: scanner{text: strings.NewReplacer("\n", " ", "\r", " ").Replace(data)}}
		r.read()
	}
	return r.chunk, nil
}

// A reader reads one event.
type reader struct {
	scanner
	chunk Chunk
}

// read reports whether the text is an object and no more.
func (r *reader) read() bool {
	return r.next() == '{' && r.object(r.member) && r.next() == 0 && r.pos == len(r.text)
}

func (r *reader) member(key string) bool {
	switch key {
	case "choices":
		return r.choices()
	case "usage":
		return r.known(&r.chunk.Usage)
	case "timings":
		return r.known(&r.chunk.Timings)
	case "error":
		return r.known(&r.chunk.Error)
	case "object":
		raw, ok := r.value()
		if raw == `"error"` {
			// SGLang's flat form: {"object":"error","message":…}.
			r.chunk.Error = r.text
		}
		return ok
	}
	return r.skip("")
}

// known takes a value that is not null as raw JSON.
func (r *reader) known(raw *string) bool {
	value, ok := r.value()
	if value == "null" {
		value = ""
	}
	*raw = value
	return ok
}

// choices reads the first choice; oneslot never asks for more than one.
func (r *reader) choices() bool {
	if r.next() != '[' {
		return r.skip("")
	}
	rest := false
	return r.array(func(string) bool {
		if rest || r.next() != '{' {
			rest = true
			return r.skip("")
		}
		rest = true
		ok := r.object(r.choice)
		r.chunk.EndToken = r.chunk.EndToken && r.chunk.FinishReason == "stop"
		return ok
	})
}

func (r *reader) choice(key string) bool {
	switch key {
	case "delta":
		if r.next() == '{' {
			return r.object(r.delta)
		}
	case "text":
		raw, ok := r.value()
		if ok && raw[0] == '"' {
			r.chunk.Content = unquote(raw)
		}
		return ok
	case "finish_reason":
		raw, ok := r.value()
		if ok && raw[0] == '"' {
			r.chunk.FinishReason = unquote(raw)
		}
		return ok
	case "logprobs":
		return r.known(&r.chunk.Logprobs)
	case "matched_stop":
		raw, ok := r.value()
		r.chunk.EndToken = ok && (raw[0] == '-' || raw[0] >= '0' && raw[0] <= '9')
		return ok
	case "stop_reason":
		raw, ok := r.value()
		r.chunk.EndToken = raw == "null"
		return ok
	}
	return r.skip("")
}

func (r *reader) delta(key string) bool {
	raw, ok := r.value()
	if !ok || raw == "null" {
		return ok
	}
	c := &r.chunk
	switch key {
	case "content":
		c.Content = textIn(raw)
	case "reasoning_content":
		if text := textIn(raw); text != "" {
			c.Reasoning = text
		}
	case "reasoning":
		if c.Reasoning == "" {
			c.Reasoning = textIn(raw)
		}
	case "refusal":
		c.Refusal = textIn(raw)
	case "tool_calls":
		if raw != "[]" {
			c.ToolCalls = raw
		}
	case "function_call":
		c.FunctionCall = raw
	case "role", "reasoning_details": // the latter repeats the thinking
	default:
		if c.Extra != "" {
			c.Extra += ","
		}
		c.Extra += String(key) + ":" + raw
	}
	return true
}

// textIn is the text of a value; what is no string is taken as it is written.
func textIn(raw string) string {
	if raw[0] == '"' {
		return unquote(raw)
	}
	return raw
}
