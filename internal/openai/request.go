package openai

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/tidwall/gjson"
)

// A Request is a chat request as far as oneslot reads it. Body has the rest.
type Request struct {
	// Body is the client's JSON, as it came.
	Body []byte
	// Model is the name the client asked for.
	Model string
	// Stream is whether the client wants events; absent and null mean no.
	Stream bool
	// IncludeUsage, IncludeSources and ContinuousUsage are stream_options.
	IncludeUsage, IncludeSources, ContinuousUsage bool
	// MaxTokens is the smaller of max_tokens and max_completion_tokens; thinking
	// counts. Zero means none was given.
	MaxTokens int
	// Stop holds the strings that end the answer.
	Stop []string
	// Logprobs is whether token probabilities were asked for.
	Logprobs bool
	// Constrained is whether the output is held to a grammar (JSON modes).
	Constrained bool
	// Continued is whether the last message is an assistant's, to be continued;
	// Prefill is then its text.
	Continued bool
	Prefill   string
	// HideReasoning is whether the client asked to leave thinking out.
	HideReasoning bool
	// ServiceTier is service_tier, which says how urgent the request is.
	ServiceTier string
}

// fields is the typed part of the body. Pointers tell null and absent from a value.
type fields struct {
	Model    *string         `json:"model"`
	Messages json.RawMessage `json:"messages"`
	Stream   *bool           `json:"stream"`
	Options  *struct {
		Usage      *bool `json:"include_usage"`
		Sources    *bool `json:"include_sources"`
		Continuous *bool `json:"continuous_usage_stats"`
	} `json:"stream_options"`
	N              *int            `json:"n"`
	MaxTokens      *int            `json:"max_tokens"`
	MaxCompletion  *int            `json:"max_completion_tokens"`
	Stop           json.RawMessage `json:"stop"`
	Logprobs       *bool           `json:"logprobs"`
	TopLogprobs    *int            `json:"top_logprobs"`
	Temperature    *float64        `json:"temperature"`
	TopP           *float64        `json:"top_p"`
	ResponseFormat *struct {
		Type string `json:"type"`
	} `json:"response_format"`
	Continue         *bool `json:"continue_final_message"`
	IncludeReasoning *bool `json:"include_reasoning"`
	Reasoning        *struct {
		Exclude *bool `json:"exclude"`
	} `json:"reasoning"`
	Tier  *string `json:"service_tier"`
	EBNF  *string `json:"ebnf"`
	Regex *string `json:"regex"`
}

// DecodeChat reads a chat request. What it refuses comes back as a *Problem
// with status 400 that names the field.
func DecodeChat(body []byte) (*Request, error) {
	if !utf8.Valid(body) {
		return nil, Invalid("", "", "The request body is not valid UTF-8. Send JSON encoded as UTF-8.")
	}
	var f fields
	dec := json.NewDecoder(bytes.NewReader(body))
	if err := dec.Decode(&f); err != nil {
		return nil, decodeProblem(err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, Invalid("", "", "The request body has more after its JSON object. Send exactly one object.")
	}
	return f.request(body)
}

func decodeProblem(err error) error {
	var wrong *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &wrong) && wrong.Field != "":
		return Invalid(wrong.Field, "invalid_type", "Invalid type for '%s': got %s where %s is expected.", wrong.Field, article(wrong.Value), article(wrong.Type.String()))
	case errors.As(err, &wrong):
		return Invalid("", "", "The request body is %s. Send a JSON object.", article(wrong.Value))
	case errors.As(err, &syntax):
		return Invalid("", "", "The request body is not valid JSON: %s at byte %d.", strings.TrimPrefix(syntax.Error(), "json: "), syntax.Offset)
	case errors.Is(err, io.EOF):
		return Invalid("", "", "The request body is empty. Send a JSON object with 'model' and 'messages'.")
	default:
		return Invalid("", "", "The request body is not valid JSON: it ends too early.")
	}
}

func article(name string) string {
	switch strings.TrimPrefix(name, "*") {
	case "int":
		return "an integer"
	case "float64":
		return "a number"
	case "bool":
		return "a boolean"
	case "array", "object":
		return "an " + name
	}
	if strings.Contains(name, "struct") {
		return "an object"
	}
	return "a " + strings.TrimPrefix(name, "*")
}

func (f *fields) request(body []byte) (*Request, error) {
	r := &Request{Body: body, Stream: isTrue(f.Stream), Logprobs: isTrue(f.Logprobs)}
	if f.Model == nil || *f.Model == "" {
		return nil, Invalid("model", "missing_required_parameter", "You must provide a model parameter. GET /v1/models lists the names.")
	}
	r.Model = *f.Model
	if f.N != nil && *f.N != 1 {
		return nil, Invalid("n", "unsupported_value", "'n' is %d, but the engine gives one answer at a time: it must be 1.", *f.N)
	}
	if o := f.Options; o != nil {
		r.IncludeUsage, r.IncludeSources, r.ContinuousUsage = isTrue(o.Usage), isTrue(o.Sources), isTrue(o.Continuous)
	}
	for _, step := range []func(*Request) error{f.messages, f.limits, f.stop} {
		if err := step(r); err != nil {
			return nil, err
		}
	}
	if rf := f.ResponseFormat; rf != nil {
		r.Constrained = rf.Type == "json_object" || rf.Type == "json_schema"
	}
	r.Constrained = r.Constrained || isSet(f.EBNF) || isSet(f.Regex)
	if f.Tier != nil {
		r.ServiceTier = *f.Tier
	}
	r.HideReasoning = f.IncludeReasoning != nil && !*f.IncludeReasoning || f.Reasoning != nil && isTrue(f.Reasoning.Exclude)
	return r, nil
}

func isTrue(b *bool) bool { return b != nil && *b }

func isSet(s *string) bool { return s != nil && *s != "" }

// messages checks the list lightly (the engine knows its own rules) and finds
// an assistant message that is to be continued.
func (f *fields) messages(r *Request) error {
	list := gjson.ParseBytes(f.Messages)
	if !list.Exists() || list.Type == gjson.Null {
		return Invalid("messages", "missing_required_parameter", "Missing required parameter: 'messages'.")
	}
	if !list.IsArray() {
		return Invalid("messages", "invalid_type", "Invalid type for 'messages': an array of objects is expected.")
	}
	var err error
	var last gjson.Result
	n := 0
	list.ForEach(func(_, m gjson.Result) bool {
		if role := m.Get("role"); !m.IsObject() || role.Type != gjson.String {
			err = Invalid("messages", "invalid_type", "Invalid 'messages[%d]': an object with a string 'role' is expected.", n)
		}
		last = m
		n++
		return err == nil
	})
	if err == nil && n == 0 {
		err = Invalid("messages", "empty_array", "'messages' is empty. Send at least one message.")
	}
	if err == nil && isTrue(f.Continue) && strings.EqualFold(last.Get("role").Str, "assistant") {
		r.Continued, r.Prefill = true, textOf(last.Get("content"))
	}
	return err
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

// limits takes the smaller of the two names for the same limit; zero or less
// is refused, since engines disagree on what it means.
func (f *fields) limits(r *Request) error {
	for _, l := range []struct {
		name  string
		value *int
	}{{"max_completion_tokens", f.MaxCompletion}, {"max_tokens", f.MaxTokens}} {
		if l.value == nil {
			continue
		}
		if *l.value < 1 {
			return Invalid(l.name, "integer_below_min_value", "'%s' is %d; it must be at least 1.", l.name, *l.value)
		}
		if r.MaxTokens == 0 || *l.value < r.MaxTokens {
			r.MaxTokens = *l.value
		}
	}
	return nil
}

func (f *fields) stop(r *Request) error {
	s := gjson.ParseBytes(f.Stop)
	switch {
	case !s.Exists() || s.Type == gjson.Null:
		return nil
	case s.Type == gjson.String:
		r.Stop = []string{s.Str}
	case s.IsArray():
		for _, v := range s.Array() {
			if v.Type != gjson.String {
				return Invalid("stop", "invalid_type", "Invalid type for 'stop': strings are expected.")
			}
			r.Stop = append(r.Stop, v.Str)
		}
	default:
		return Invalid("stop", "invalid_type", "Invalid type for 'stop': a string or an array of strings is expected.")
	}
	if len(r.Stop) > maxStops {
		return Invalid("stop", "array_above_max_length", "'stop' has %d strings; at most %d are allowed.", len(r.Stop), maxStops)
	}
	for _, v := range r.Stop {
		if v == "" {
			return Invalid("stop", "invalid_value", "'stop' holds an empty string.")
		}
	}
	return nil
}

// maxStops is more than OpenAI's 4, since SGLang and llama.cpp take more.
const maxStops = 16
