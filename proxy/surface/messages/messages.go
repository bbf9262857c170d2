package messages

import (
	"net/http"
	"strconv"

	"oneslot/internal/openai"
	"oneslot/proxy/downstream"
	"oneslot/proxy/surface"
	"oneslot/usage"
)

// API is Messages. The zero value is ready.
type API struct{}

// names are what members of a chat that a refusal may be about are called here.
var names = openai.Names{"stop": "stop_sequences", "reasoning_effort": "output_config.effort"}

// Decode makes a chat request of the client's.
func (API) Decode(in surface.In) (*openai.Request, surface.Talk, error) {
	body, hide, err := chat(in.Body)
	if err != nil {
		return nil, nil, err
	}
	req, err := openai.DecodeChat(body)
	if err != nil {
		return nil, nil, names.Rename(err)
	}
	req.Names = names
	req.HideReasoning = req.HideReasoning || hide
	return req, &talk{id: in.ID, model: req.Model, stream: req.Stream}, nil
}

// IDHeader is where Problem looks for the id of the request, of which Anthropic's
// error object holds a copy.
const IDHeader = "X-Request-Id"

// Problem is Anthropic's error object.
func (API) Problem(p *openai.Problem) []byte { return problem(p, p.Header[IDHeader]) }

func problem(p *openai.Problem, id string) []byte {
	b := append([]byte(nil), `{"type":"error","error":{"type":`...)
	b = append(openai.AppendString(b, kindOf(p)), `,"message":`...)
	b = append(openai.AppendString(b, p.Message), `},"request_id":`...)
	if id == "" {
		return append(b, "null}"...)
	}
	return append(openai.AppendString(b, id), '}')
}

// kindOf is error.type, which follows from the status.
func kindOf(p *openai.Problem) string {
	switch p.Status {
	case http.StatusUnauthorized:
		return "authentication_error"
	case http.StatusForbidden:
		return "permission_error"
	case http.StatusNotFound:
		return "not_found_error"
	case http.StatusConflict:
		return "conflict_error"
	case http.StatusRequestEntityTooLarge:
		return "request_too_large"
	case http.StatusTooManyRequests:
		return "rate_limit_error"
	case http.StatusRequestTimeout, http.StatusGatewayTimeout:
		return "timeout_error"
	case http.StatusServiceUnavailable:
		return "overloaded_error"
	}
	if p.Status >= http.StatusInternalServerError {
		return "api_error"
	}
	return "invalid_request_error"
}

// talk is one request.
type talk struct {
	id, model string
	stream    bool
	begun     bool // message_start is out
}

// begin adds message_start, once. Its usage has the prompt where an engine has told
// it by then, and else 0, since clients want a number; message_delta has the true one.
func (t *talk) begin(e *downstream.Events, prompt, cached usage.Count) {
	if t.begun {
		return
	}
	t.begun = true
	b := append(t.head([]byte(`{"type":"message_start","message":`)), `"content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":`...)
	b = strconv.AppendInt(b, int64(uncached(prompt, cached)), 10)
	b = append(b, `,"cache_creation_input_tokens":0,"cache_read_input_tokens":`...)
	if cached.Known() {
		b = strconv.AppendInt(b, int64(cached.N), 10)
	} else {
		b = append(b, "null"...)
	}
	e.Named("message_start", append(b, `,"output_tokens":0}}}`...))
}

// head appends the members that a message begins with.
func (t *talk) head(b []byte) []byte {
	b = openai.AppendString(append(b, `{"id":`...), surface.MessageID+t.id)
	return append(openai.AppendString(append(b, `,"type":"message","role":"assistant","model":`...), t.model), ',')
}

// Beat is a ping, after a comment that says why.
func (t *talk) Beat(e *downstream.Events, s downstream.Sign) {
	t.begin(e, usage.Count{}, usage.Count{})
	if s.Text != "" {
		e.Comment(s.Text)
	}
	e.Named("ping", []byte(`{"type":"ping"}`))
}

// Fail is an error event, which ends a stream.
func (t *talk) Fail(e *downstream.Events, p *openai.Problem) { e.Named("error", t.Problem(p)) }

// Problem is Anthropic's error object.
func (t *talk) Problem(p *openai.Problem) []byte { return problem(p, t.id) }

// Sink writes events or gathers one object.
func (t *talk) Sink(st surface.Stage) surface.Sink {
	if t.stream {
		return &stream{talk: t, stage: st}
	}
	return &whole{talk: t, stage: st}
}
