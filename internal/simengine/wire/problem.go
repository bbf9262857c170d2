package wire

import "fmt"

// Problem is an error as an engine tells it. It is also a Go error.
type Problem struct {
	Status  int
	Type    string
	Message string
	Plain   bool // the body is the message itself, as text
	Detail  bool // the body is {"detail": message}, as of the web framework
}

// Error returns the message.
func (p *Problem) Error() string { return p.Message }

// Refused returns a refusal of the engine itself: status 400 and its words.
func Refused(format string, args ...any) *Problem {
	return &Problem{Status: 400, Type: "BadRequestError", Message: fmt.Sprintf(format, args...)}
}

// Invalid returns a validation error of SGLang's web layer: detail is what its
// validator prints for the field. As in the engine the message names the source
// file, which a proxy must not pass on.
func Invalid(path, detail string) *Problem {
	const source = "/opt/sglang/python/sglang/srt/entrypoints/http_server.py"
	handler := "openai_v1_chat_completions"
	if path == "/v1/completions" {
		handler = "openai_v1_completions"
	}
	return &Problem{Status: 400, Type: "Bad Request", Message: fmt.Sprintf(
		"1 validation error:\n  {%s}\n\n  File \"%s\", line 1734, in %s\n    POST %s [{%s}]",
		detail, source, handler, path, detail)}
}

type flatError struct {
	Object  string `json:"object"`
	Message string `json:"message"`
	Type    string `json:"type"`
	Param   any    `json:"param"`
	Code    int    `json:"code"`
}

type nestedError struct {
	Error any `json:"error"`
}

// Body returns the body of p and its content type in the manner of d.
func (p *Problem) Body(d Dialect) (body []byte, contentType string) {
	const asJSON = "application/json"
	switch {
	case p.Plain:
		return []byte(p.Message), "text/plain; charset=utf-8"
	case p.Detail:
		return JSON(map[string]string{"detail": p.Message}), asJSON
	case d == VLLM:
		return JSON(nestedError{struct {
			Message string `json:"message"`
			Type    string `json:"type"`
			Param   any    `json:"param"`
			Code    int    `json:"code"`
		}{p.Message, p.Type, nil, p.Status}}), asJSON
	case d == LlamaCPP:
		return JSON(nestedError{struct {
			Code    int    `json:"code"`
			Message string `json:"message"`
			Type    string `json:"type"`
		}{p.Status, p.Message, "invalid_request_error"}}), asJSON
	default:
		return JSON(flatError{"error", p.Message, p.Type, nil, p.Status}), asJSON
	}
}
