package openai

import (
	"cmp"
	"fmt"
	"maps"
	"strings"

	"github.com/tidwall/gjson"
)

// A Request is a request as far as oneslot reads it: a chat, or a completion of
// raw text. Body has the rest.
type Request struct {
	// Body is the JSON that an engine is sent, but for what the proxy owns of it:
	// the client's as it came, or made of that.
	Body []byte
	// Model is the name the client asked for.
	Model string
	// Messages is the list of messages as raw JSON; empty for raw text.
	Messages string
	// Prompt is the prompt of a completion of raw text as JSON: a string, or a
	// list of token ids. Empty for a chat.
	Prompt string
	// Verbatim is whether the text of the answer is left as it comes: it is not
	// split, and stop strings are the engine's business.
	Verbatim bool
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
	// User is whom the request is for among those who share a key, by the client's own
	// word: safety_identifier, else user. It is personal.
	User string
	// Names are what the client calls members of Body. Nil means the same.
	Names Names
}

// DecodeChat reads a chat request. What it refuses comes back as a *Problem
// with status 400 that names the field.
func DecodeChat(body []byte) (*Request, error) {
	f, err := decode(string(body), kinds)
	if err != nil {
		return nil, err
	}
	r := newRequest(body, f)
	r.Messages, r.Logprobs = f["messages"].Raw, f.is("logprobs")
	return r.read(f, r.readMessages)
}

// DecodeCompletion reads a request for the completion of raw text, as DecodeChat
// does a chat.
func DecodeCompletion(body []byte) (*Request, error) {
	known := maps.Clone(kinds)
	maps.Copy(known, rawKinds)
	f, err := decode(string(body), known)
	if err != nil {
		return nil, err
	}
	r := newRequest(body, f)
	r.Logprobs = f["logprobs"].Exists()
	return r.read(f, r.readPrompt)
}

// newRequest reads what a chat and a completion have in common.
func newRequest(body []byte, f fields) *Request {
	return &Request{
		Body: body, Model: f["model"].Str, ServiceTier: f["service_tier"].Str, User: cmp.Or(f["safety_identifier"].Str, f["user"].Str),
		Stream: f.is("stream"), IncludeUsage: f.is("stream_options.include_usage"), IncludeSources: f.is("stream_options.include_sources"),
		Temperature: f["temperature"].Exists(), Constrained: f.constrained(),
		HideReasoning: f.isNot("include_reasoning") || f.is("reasoning.exclude"),
	}
}

func (r *Request) read(f fields, subject func(fields) error) (*Request, error) {
	if r.Model == "" {
		return nil, Invalid("model", "missing_required_parameter", "You must provide a model parameter. GET /v1/models lists the names.")
	}
	if n, ok := integerOf(f["n"]); ok && n != 1 {
		return nil, Invalid("n", "unsupported_value", "'n' is %d, but the engine gives one answer at a time: it must be 1.", n)
	}
	for _, step := range []func(fields) error{subject, r.readLimits, r.readStop, readModalities} {
		if err := step(f); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// readPrompt takes one prompt: a text or a list of token ids, alone or as the
// only element of a list. Two are two answers.
func (r *Request) readPrompt(f fields) error {
	p := f["prompt"]
	if list := p.Array(); p.IsArray() && len(list) > 0 && list[0].Type != gjson.Number {
		if len(list) > 1 {
			return Invalid("prompt", "unsupported_value", "'prompt' is a list of %d prompts, but the engine gives one answer at a time. Send them one by one.", len(list))
		}
		p = list[0]
	}
	switch {
	case !p.Exists() || p.IsArray() && len(p.Array()) == 0 || p.Type == gjson.String && p.Str == "":
		return Invalid("prompt", "missing_required_parameter", "Missing required parameter: 'prompt'. Send a text, or a list of token ids.")
	case p.Type != gjson.String && !p.IsArray():
		return wrongType("prompt", "a string, or an array of token ids", p)
	}
	for _, id := range p.Array() {
		if n, ok := integerOf(id); p.IsArray() && (!ok || n < 0) {
			return wrongType("prompt", "a string, or an array of token ids", id)
		}
	}
	r.Prompt = p.Raw
	return nil
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
		r.Prefill, r.PrefillThinking = TextOf(last.Get("content")), thinkingOf(last)
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

// TextOf joins the text of a message's content, a string or a list of parts.
func TextOf(content gjson.Result) string {
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

// readModalities refuses an answer that is to be heard: who waits for it would get a
// text in its place.
func readModalities(f fields) error {
	for _, m := range f["modalities"].Array() {
		if m.Str != "text" {
			return Invalid("modalities", "unsupported_value", "'modalities' has %q, but the engine answers in text only.", m.String())
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
