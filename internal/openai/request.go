package openai

import (
	"fmt"
	"strings"

	"github.com/tidwall/gjson"
)

// A Request is a chat request as far as oneslot reads it. Body has the rest.
type Request struct {
	// Body is the client's JSON, as it came.
	Body []byte
	// Model is the name the client asked for.
	Model string
	// Messages is the list of messages as raw JSON.
	Messages string
	// Stream is whether the client wants events; absent and null mean no.
	Stream bool
	// IncludeUsage and IncludeSources are stream_options.
	IncludeUsage, IncludeSources bool
	// MaxTokens is the smaller of max_tokens and max_completion_tokens; thinking
	// counts. Zero means none was given.
	MaxTokens int
	// Temperature is whether the client named one.
	Temperature bool
	// Stop holds the strings that end the answer.
	Stop []string
	// Logprobs is whether token probabilities were asked for.
	Logprobs bool
	// Constrained is whether the output is held to a grammar (JSON modes).
	Constrained bool
	// Continued is whether the client asked that the last message, an
	// assistant's, be continued.
	Continued bool
	// Prefill and PrefillThinking are the text and the thinking of the last
	// message when it is an assistant's: what a run continues where the client
	// asks for it, or the engine always does.
	Prefill, PrefillThinking string
	// HideReasoning is whether the client asked to leave thinking out.
	HideReasoning bool
	// ServiceTier is service_tier, which says how urgent the request is.
	ServiceTier string
}

// DecodeChat reads a chat request. What it refuses comes back as a *Problem
// with status 400 that names the field.
func DecodeChat(body []byte) (*Request, error) {
	f, err := decode(string(body))
	if err != nil {
		return nil, err
	}
	r := &Request{
		Body: body, Model: f["model"].Str, Messages: f["messages"].Raw, ServiceTier: f["service_tier"].Str,
		Stream: f.is("stream"), IncludeUsage: f.is("stream_options.include_usage"), IncludeSources: f.is("stream_options.include_sources"),
		Temperature: f["temperature"].Exists(), Logprobs: f.is("logprobs"), Constrained: f.constrained(),
		HideReasoning: f.isNot("include_reasoning") || f.is("reasoning.exclude"),
	}
	if r.Model == "" {
		return nil, Invalid("model", "missing_required_parameter", "You must provide a model parameter. GET /v1/models lists the names.")
	}
	if n, ok := integerOf(f["n"]); ok && n != 1 {
		return nil, Invalid("n", "unsupported_value", "'n' is %d, but the engine gives one answer at a time: it must be 1.", n)
	}
	for _, step := range []func(fields) error{r.readMessages, r.readLimits, r.readStop} {
		if err := step(f); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// readMessages checks the list lightly (the engine knows its own rules) and
// finds an assistant message that may be continued.
func (r *Request) readMessages(f fields) (err error) {
	if r.Messages == "" {
		return Invalid("messages", "missing_required_parameter", "Missing required parameter: 'messages'.")
	}
	var last gjson.Result
	n := 0
	f["messages"].ForEach(func(_, m gjson.Result) bool {
		err = checkMessage(fmt.Sprintf("messages[%d]", n), m)
		last = m
		n++
		return err == nil
	})
	switch {
	case err != nil:
		return err
	case n == 0:
		return Invalid("messages", "empty_array", "'messages' is empty. Send at least one message.")
	}
	if roleOf(last) == assistant {
		r.Prefill, r.PrefillThinking = textOf(last.Get("content")), thinkingOf(last)
		r.Continued = f.is("continue_final_message")
	}
	return nil
}

func checkMessage(param string, m gjson.Result) error {
	if !m.IsObject() {
		return wrongType(param, "an object", m)
	}
	switch role := m.Get("role"); {
	case !role.Exists():
		return Invalid(param+".role", "missing_required_parameter", "Missing required parameter: '%s.role'.", param)
	case role.Type != gjson.String:
		return wrongType(param+".role", "a string", role)
	}
	if c := m.Get("content"); c.Type != gjson.Null && c.Type != gjson.String && !c.IsArray() {
		return wrongType(param+".content", "a string or an array of parts", c)
	}
	return nil
}

// textOf joins the text of a message's content, a string or a list of parts.
func textOf(content gjson.Result) string {
	if !content.IsArray() {
		return content.String()
	}
	var b strings.Builder
	content.ForEach(func(_, part gjson.Result) bool {
		b.WriteString(part.Get("text").String())
		return true
	})
	return b.String()
}

// readLimits takes the smaller of the two names for the same limit; zero or
// less is refused, since engines disagree on what it means. Both at zero is how
// clients write that neither was set (openai-go's own tests do).
func (r *Request) readLimits(f fields) error {
	first, ok := integerOf(f["max_completion_tokens"])
	second, also := integerOf(f["max_tokens"])
	if ok && also && first == 0 && second == 0 {
		return nil
	}
	for _, name := range []string{"max_completion_tokens", "max_tokens"} {
		n, ok := integerOf(f[name])
		switch {
		case !ok:
		case n < 1:
			return Invalid(name, "integer_below_min_value", "'%s' is %d; it must be at least 1.", name, n)
		case r.MaxTokens == 0 || n < r.MaxTokens:
			r.MaxTokens = n
		}
	}
	return nil
}

// maxStops is more than OpenAI's 4, since SGLang and llama.cpp take more.
const maxStops = 16

func (r *Request) readStop(f fields) (err error) {
	stop := f["stop"]
	if !stop.Exists() {
		return nil
	}
	// A string is visited like a list of one.
	stop.ForEach(func(_, v gjson.Result) bool {
		switch {
		case v.Type != gjson.String:
			err = wrongType(fmt.Sprintf("stop[%d]", len(r.Stop)), "a string", v)
		case v.Str == "":
			err = Invalid("stop", "invalid_value", "'stop' holds an empty string.")
		}
		r.Stop = append(r.Stop, v.Str)
		return err == nil
	})
	if n := len(r.Stop); err == nil && n > maxStops {
		err = Invalid("stop", "array_above_max_length", "'stop' has %d strings; at most %d are allowed.", n, maxStops)
	}
	return err
}
