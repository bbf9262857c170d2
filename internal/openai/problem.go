package openai

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/tidwall/gjson"
)

// The statuses that have a meaning here, of RFC 9110.
const (
	badRequest    = 400
	unauthorized  = 401
	forbidden     = 403
	tooMany       = 429
	internalError = 500
	badGateway    = 502
	unavailable   = 503
)

// A Problem is an error in the shape OpenAI's clients read: an HTTP status and
// the four fields of `error` (all four keys are always present; see the Error
// schema of OpenAI's published API description).
type Problem struct {
	// Status is the HTTP status, 400 to 599.
	Status int
	// Type is the class clients switch on, such as "invalid_request_error".
	Type string
	// Code says which error it is; empty means null.
	Code string
	// Reason says the same where OpenAI has no code for it.
	Reason string
	// Param names the request field at fault; empty means null.
	Param string
	// Message is for a person: what was wrong, where, what to do.
	Message string
	// Header holds further response headers, such as Retry-After.
	Header map[string]string
}

// Error returns the message, so that a Problem can travel as an error.
func (p *Problem) Error() string { return p.Message }

// JSON returns the envelope {"error":{...}} on one line.
func (p *Problem) JSON() []byte {
	b := append([]byte(nil), `{"error":{"message":`...)
	b = AppendString(b, p.Message)
	b = append(b, `,"type":`...)
	b = AppendString(b, p.Type)
	b = append(b, `,"param":`...)
	b = appendNullable(b, p.Param)
	b = append(b, `,"code":`...)
	b = appendNullable(b, p.Code)
	return append(b, "}}"...)
}

func appendNullable(b []byte, s string) []byte {
	if s == "" {
		return append(b, "null"...)
	}
	return AppendString(b, s)
}

// Invalid returns the 400 for a request field that cannot be taken.
func Invalid(param, code, format string, args ...any) *Problem {
	return &Problem{Status: badRequest, Type: "invalid_request_error", Code: code, Param: param, Message: fmt.Sprintf(format, args...)}
}

// Names maps members of a request body to what the client, of another API, calls
// them.
type Names map[string]string

// Rename returns a refusal in the client's words: its param, and each name that its
// message quotes. Any other error it returns as it is.
func (n Names) Rename(err error) error {
	var p *Problem
	if len(n) == 0 || !errors.As(err, &p) {
		return err
	}
	var pairs []string
	out := *p
	for from, to := range n {
		for _, end := range []string{"'", ".", "["} { // the name itself, or the way to what is inside
			pairs = append(pairs, "'"+from+end, "'"+to+end)
		}
		if rest, ok := strings.CutPrefix(p.Param, from); ok && (rest == "" || rest[0] == '.' || rest[0] == '[') {
			out.Param = to + rest
		}
	}
	out.Message = strings.NewReplacer(pairs...).Replace(p.Message)
	return &out
}

// maxEngineText bounds how much of an engine's own words is passed on, in bytes.
const maxEngineText = 2000

// EngineProblem reads an engine's error body of any of the known shapes (flat
// as SGLang's, nested as vLLM's and llama.cpp's, FastAPI's `detail`, plain
// text) into a Problem with the engine's status. Texts of a 5xx are replaced
// and texts of a 4xx lose file paths and stack frames, which say more about
// the engine's host than a client should know. A refusal of the proxy's own
// credentials is no fault of the client and becomes a 502, as does whatever is
// no error status at all.
func EngineProblem(status int, body string) *Problem {
	switch {
	case status == unavailable:
		return &Problem{Status: unavailable, Type: "service_unavailable_error", Code: "engine_down", Message: "The engine is busy or not ready. Try again later."}
	case status == unauthorized || status == forbidden:
		return &Problem{Status: badGateway, Type: "server_error", Code: "upstream_error", Message: "The engine refused the proxy's own credentials. The operator has to correct the engine's api_key."}
	case status >= internalError || status < badRequest:
		return &Problem{Status: badGateway, Type: "server_error", Code: "upstream_error", Message: "The engine failed on this request. Its own log says why."}
	}
	e := engineError(body)
	p := &Problem{Status: status, Type: "invalid_request_error", Message: clean(engineText(e, body))}
	if status == tooMany {
		p.Type = "rate_limit_error"
	}
	p.Code, p.Param = engineCode(e.Get("code"), p.Message), engineParam(e.Get("param"))
	if p.Message == "" {
		p.Message = fmt.Sprintf("The engine refused the request with status %d and no text.", status)
	}
	return p
}

// engineParam makes the name of a request field of an engine's: vLLM begins it
// with the place it was found in, and has one of its own for the prompt.
func engineParam(param gjson.Result) string {
	name := strings.TrimPrefix(param.Str, "body.")
	switch {
	case name == "input_text":
		return "messages"
	case !fieldName.MatchString(name), name == "body":
		return ""
	}
	return name
}

// engineError finds the object that tells the error. A body that was cut off is
// read as far as its members are whole.
func engineError(body string) gjson.Result {
	e := gjson.Parse(body)
	if !e.IsObject() || depthAbove(body, maxDepth) {
		return gjson.Result{}
	}
	if inner := e.Get("error"); inner.IsObject() {
		return inner
	}
	return e
}

func engineText(e gjson.Result, body string) string {
	for _, name := range []string{"message", "detail", "error"} {
		switch v := e.Get(name); {
		case v.Type == gjson.String:
			return v.Str
		case v.IsArray() || v.IsObject():
			return v.Raw
		}
	}
	if strings.HasPrefix(body, "{") || strings.HasPrefix(body, "[") {
		return "" // JSON that says nothing
	}
	return body
}

// contextWords are how the engines say that a prompt does not fit.
var contextWords = regexp.MustCompile(`(?i)context length|context size|maximum context|longer than the model|max_completion_tokens is too large|max_model_len`)

// engineCode makes OpenAI's string code of an engine's, which is often the
// status as a number.
func engineCode(c gjson.Result, message string) string {
	if contextWords.MatchString(message) {
		return "context_length_exceeded"
	}
	if fieldName.MatchString(c.Str) {
		return c.Str
	}
	return ""
}

var (
	frameLine = regexp.MustCompile(`(?m)^\s*File ".*$|^\s*Traceback.*$`)
	filePath  = regexp.MustCompile(`(?:<[\w.-]+>)?(?:/[\w.+@-]+){2,}|[A-Za-z]:(?:[\\/][\w.+@ -]+)+`)
	fieldName = regexp.MustCompile(`^[A-Za-z_][\w.\[\]-]{0,99}$`)
)

// clean takes stack frames, the lines that follow them, and file paths out of
// an engine's text and bounds its length.
func clean(text string) string {
	if at := frameLine.FindStringIndex(text); at != nil {
		text = text[:at[0]]
	}
	text = filePath.ReplaceAllStringFunc(text, func(path string) string {
		if strings.HasPrefix(path, "/v1/") {
			return path
		}
		return "…"
	})
	text = strings.TrimSpace(text)
	if len(text) > maxEngineText {
		text = strings.ToValidUTF8(text[:maxEngineText], "") + "…"
	}
	return text
}

var _ json.Marshaler = (*Problem)(nil)

// MarshalJSON is JSON, for encoders that meet a Problem inside a larger value.
func (p *Problem) MarshalJSON() ([]byte, error) { return p.JSON(), nil }
