package wire

import (
	"bytes"
	"encoding/json"
	"time"
)

// Dialect is whose manner of speaking is used.
type Dialect string

// The known dialects.
const (
	SGLang   Dialect = "sglang"
	VLLM     Dialect = "vllm"
	LlamaCPP Dialect = "llamacpp"
)

// Done is the last event of a stream.
const Done = "data: [DONE]\n\n"

// Reply is what all chunks of one reply have in common.
type Reply struct {
	Dialect Dialect
	ID      string
	Model   string
	Text    bool // of /v1/completions: objects are text_completion
	Tools   bool // the request had tools, which changes SGLang's deltas
}

// Usage is the engine's count of one run, in tokens.
type Usage struct {
	Prompt     int
	Completion int           // thinking, markers and the end of turn included
	Thinking   int           // as the engine counts it, which may be wrong
	Cached     int           // of the prompt; negative means not reported
	Prefill    time.Duration // time from the start to the first token
	Decode     time.Duration // time from the first token to the end
}

// Chunk is one event of a stream. At most one of Thinking, Answer and Finish is
// set, but for vLLM, which may finish with the last text; the first chunk of a
// chat has Role.
type Chunk struct {
	Role     bool
	Thinking string
	Answer   string
	Finish   string // finish reason, empty while the run goes on
	Matched  any    // what stopped it: a token id, a string, or nil
	Usage    *Usage // running totals, nil when there are to be none
}

// Whole is a reply that is not streamed.
type Whole struct {
	Thinking string
	Answer   string
	Finish   string
	Matched  any
	Usage    Usage
}

// writers are the ways in which the engines write one thing.
type writers[T any] struct {
	sglang, vllm, llama func(r Reply, one T, now time.Time) any
}

// of returns the one of r's dialect.
func (w writers[T]) of(r Reply) func(r Reply, one T, now time.Time) any {
	switch r.Dialect {
	case VLLM:
		return w.vllm
	case LlamaCPP:
		return w.llama
	case SGLang:
	}
	return w.sglang
}

// Event returns c as one server-sent event, stamped with now.
func (r Reply) Event(c Chunk, now time.Time) []byte {
	return event(writers[Chunk]{Reply.sglangChunk, Reply.vllmChunk, Reply.llamaChunk}.of(r)(r, c, now))
}

// Totals returns the usage event, which has no choices.
func (r Reply) Totals(u Usage, now time.Time) []byte {
	return event(writers[Usage]{Reply.sglangTotals, Reply.vllmTotals, Reply.llamaTotals}.of(r)(r, u, now))
}

// Body returns w as the JSON body of a reply that is not streamed.
func (r Reply) Body(w Whole, now time.Time) []byte {
	return JSON(writers[Whole]{Reply.sglangWhole, Reply.vllmWhole, Reply.llamaWhole}.of(r)(r, w, now))
}

// object names the JSON object: of a chunk, or of a whole reply.
func (r Reply) object(chunk bool) string {
	switch {
	case r.Text:
		return "text_completion"
	case chunk:
		return "chat.completion.chunk"
	default:
		return "chat.completion"
	}
}

// JSON returns v without escapes beyond what JSON needs, as the engines write
// it. It panics when v cannot be encoded, which is a mistake in this program.
func JSON(v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic("wire: " + err.Error())
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

func event(v any) []byte {
	return append(append([]byte("data: "), JSON(v)...), "\n\n"...)
}

// optional returns nil for an empty string, so that it becomes null.
func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
