package openai

import (
	"errors"
	"strings"

	"github.com/tidwall/gjson"
)

// ErrNotChunk is returned by ParseChunk for data that is not a JSON object.
var ErrNotChunk = errors.New("openai: the engine sent an event that is not a JSON object")

// A Chunk is what the proxy reads of one event of an engine's stream. Absent
// and null fields are empty. The strings may share memory with the event.
type Chunk struct {
	// Content, Reasoning and Refusal are the texts of choices[0].delta.
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
	var c Chunk
	root, err := parse(data)
	if err != nil || !root.IsObject() {
		return c, ErrNotChunk
	}
	if strings.IndexByte(data, '\n') >= 0 || strings.IndexByte(data, '\r') >= 0 {
		// JSON strings hold neither, so these are blanks between tokens.
		data = strings.NewReplacer("\n", " ", "\r", " ").Replace(data)
		root = gjson.Parse(data)
	}
	root.ForEach(func(key, value gjson.Result) bool {
		switch key.Str {
		case "choices":
			c.choice(value)
		case "usage":
			c.Usage = rawOf(value)
		case "timings":
			c.Timings = rawOf(value)
		case "error":
			c.Error = rawOf(value)
		case "object":
			// SGLang's flat form: {"object":"error","message":…}.
			if value.Str == "error" {
				c.Error = data
			}
		}
		return true
	})
	return c, nil
}

// choice reads the first choice; oneslot never asks for more than one.
func (c *Chunk) choice(choices gjson.Result) {
	if !choices.IsArray() {
		return
	}
	choices.ForEach(func(_, first gjson.Result) bool {
		first.ForEach(func(key, value gjson.Result) bool {
			switch key.Str {
			case "delta":
				c.delta(value)
			case "finish_reason":
				c.FinishReason = value.Str
			case "logprobs":
				c.Logprobs = rawOf(value)
			case "matched_stop":
				c.EndToken = value.Type == gjson.Number
			case "stop_reason":
				c.EndToken = value.Type == gjson.Null
			}
			return true
		})
		c.EndToken = c.EndToken && c.FinishReason == "stop"
		return false
	})
}

func (c *Chunk) delta(delta gjson.Result) {
	if !delta.IsObject() {
		return
	}
	delta.ForEach(func(key, value gjson.Result) bool {
		if value.Type == gjson.Null {
			return true
		}
		switch key.Str {
		case "content":
			c.Content = value.String()
		case "reasoning_content":
			c.Reasoning = value.String()
		case "reasoning":
			if c.Reasoning == "" {
				c.Reasoning = value.String()
			}
		case "refusal":
			c.Refusal = value.String()
		case "tool_calls":
			if value.Raw != "[]" {
				c.ToolCalls = value.Raw
			}
		case "function_call":
			c.FunctionCall = value.Raw
		case "role", "reasoning_details": // the latter repeats the thinking
		default:
			if c.Extra != "" {
				c.Extra += ","
			}
			c.Extra += key.Raw + ":" + value.Raw
		}
		return true
	})
}

func rawOf(r gjson.Result) string {
	if r.Type == gjson.Null {
		return ""
	}
	return r.Raw
}
