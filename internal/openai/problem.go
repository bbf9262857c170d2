package openai

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"github.com/tidwall/gjson"
)

// The statuses that have a meaning here, of RFC 9110.
const (
	badRequest    = 400
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

// maxEngineText bounds how much of an engine's own words is passed on, in bytes.
const maxEngineText = 2000

// EngineProblem reads an engine's error body of any of the known shapes (flat
// as SGLang's, nested as vLLM's and llama.cpp's, FastAPI's `detail`, plain
// text) into a Problem with the engine's status. Texts of a 5xx are replaced
// and texts of a 4xx lose file paths and stack frames, which say more about
// the engine's host than a client should know.
func EngineProblem(status int, body string) *Problem {
	p := &Problem{Status: status, Type: "invalid_request_error"}
	var e gjson.Result
	if gjson.Valid(body) {
		if e = gjson.Parse(body); e.Get("error").IsObject() {
			e = e.Get("error")
		}
	}
	p.Message = engineText(e, body)
	p.Param = stringOf(e.Get("param"))
	p.Code = engineCode(e.Get("code"), p.Message)
	switch {
	case status == tooMany:
		p.Type = "rate_limit_error"
	case status == unavailable:
		p.Type, p.Code, p.Message = "service_unavailable_error", "engine_unavailable", "The engine is busy or not ready. Try again later."
	case status >= internalError, status < badRequest:
		p.Status, p.Type, p.Code, p.Message = badGateway, "server_error", "upstream_error", "The engine failed on this request. Its own log says why."
	case p.Message == "":
		p.Message = fmt.Sprintf("The engine refused the request with status %d and no text.", status)
	}
	return p
}

func engineText(e gjson.Result, body string) string {
	text := ""
	switch {
	case e.Get("message").Type == gjson.String:
		text = e.Get("message").String()
	case e.Get("detail").Exists():
		text = stringOf(e.Get("detail"))
	case e.Get("error").Type == gjson.String:
		text = e.Get("error").String()
	case !e.Exists():
		text = body
	}
	return clean(text)
}

// contextWords are how the engines say that a prompt does not fit.
var contextWords = regexp.MustCompile(`(?i)context length|context size|maximum context|longer than the model|max_completion_tokens is too large|exceed_context`)

// engineCode makes OpenAI's string code of an engine's, which is often the
// status as a number.
func engineCode(c gjson.Result, message string) string {
	if contextWords.MatchString(message) {
		return "context_length_exceeded"
	}
	if c.Type == gjson.String {
		return c.String()
	}
	return ""
}

func stringOf(r gjson.Result) string {
	switch r.Type {
	case gjson.String:
		return r.String()
	case gjson.Null:
		return ""
	default:
		return r.Raw
	}
}

var (
	frameLine = regexp.MustCompile(`(?m)^\s*File ".*$|^\s*Traceback.*$`)
	filePath  = regexp.MustCompile(`(?:[A-Za-z]:)?(?:<[\w.-]+>)?(?:/[\w.+@-]+){2,}`)
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

// AppendString appends s as a JSON string. It escapes only what JSON demands
// (no HTML escapes, U+2028 stays raw) and replaces invalid UTF-8 by U+FFFD.
func AppendString(b []byte, s string) []byte {
	b = append(b, '"')
	start := 0
	for i := 0; i < len(s); i++ {
		if c := s[i]; c >= ' ' && c != '"' && c != '\\' && c < 0x80 {
			continue
		} else if c >= 0x80 {
			n := validRune(s[i:])
			if n > 0 {
				i += n - 1
				continue
			}
			b = append(append(b, s[start:i]...), "\uFFFD"...)
		} else {
			b = appendEscape(append(b, s[start:i]...), c)
		}
		start = i + 1
	}
	return append(append(b, s[start:]...), '"')
}

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

var _ json.Marshaler = (*Problem)(nil)

// MarshalJSON is JSON, for encoders that meet a Problem inside a larger value.
func (p *Problem) MarshalJSON() ([]byte, error) { return p.JSON(), nil }
