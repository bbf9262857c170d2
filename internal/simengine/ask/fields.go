package ask

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"oneslot/internal/simengine/wire"
)

// fields is the body of a request. The first fault met stays in problem, and
// every later read gives zero values.
type fields struct {
	path    string
	raw     map[string]json.RawMessage
	problem *wire.Problem
}

// notNull are the fields for which SGLang refuses null.
var notNull = [...]string{
	"logprobs", "n", "stream", "frequency_penalty", "presence_penalty", "parallel_tool_calls", "min_tokens", "skip_special_tokens",
}

// parse reads body as a JSON object.
func parse(path string, body []byte) (*fields, *wire.Problem) {
	f := &fields{path: path}
	trimmed := bytes.TrimSpace(body)
	switch {
	case len(trimmed) == 0:
		return nil, wire.Invalid(path, "'type': 'missing', 'loc': ('body',), 'msg': 'Field required', 'input': None")
	case trimmed[0] == '[' && json.Valid(trimmed):
		return nil, &wire.Problem{Status: 500, Message: "Internal Server Error", Plain: true}
	case !utf8.Valid(body):
		return nil, notJSON(path, 0, "str is not valid UTF-8: surrogates not allowed")
	}
	if at := loneSurrogate(body); at >= 0 {
		return nil, notJSON(path, at, "no low surrogate in string")
	}
	if err := json.Unmarshal(body, &f.raw); err != nil || f.raw == nil {
		at := len(body)
		if syntax, ok := err.(*json.SyntaxError); ok { //nolint:errorlint // Unmarshal returns it bare
			at = int(syntax.Offset)
		}
		return nil, notJSON(path, at, "unexpected end of data")
	}
	for _, name := range notNull {
		if string(f.raw[name]) == "null" {
			f.invalid(name, "none_not_allowed", "Input should not be None")
		}
	}
	return f, nil
}

func notJSON(path string, at int, why string) *wire.Problem {
	return wire.Invalid(path, fmt.Sprintf(
		"'type': 'json_invalid', 'loc': ('body', %d), 'msg': 'JSON decode error', 'input': {}, 'ctx': {'error': '%s'}", at, why))
}

// loneSurrogate returns where body has an escaped surrogate without its other
// half, which Go's decoder lets pass; -1 when nowhere.
func loneSurrogate(body []byte) int {
	for at := 0; at < len(body); at++ {
		next := bytes.IndexByte(body[at:], '\\')
		if next < 0 {
			return -1
		}
		at += next + 1 // at the escaped character
		r := escaped(body[at-1:])
		switch {
		case !utf16.IsSurrogate(r):
		case utf16.DecodeRune(r, escaped(body[min(at+5, len(body)):])) == utf8.RuneError:
			return at - 1
		default:
			at += 10
		}
	}
	return -1
}

// escaped returns the rune of the escape \uXXXX at the start of b, else -1.
func escaped(b []byte) rune {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return -1
	}
	n, err := strconv.ParseUint(string(b[2:6]), 16, 16)
	if err != nil {
		return -1
	}
	return rune(n)
}

// has reports whether name is there and not null.
func (f *fields) has(name string) bool {
	raw, ok := f.raw[name]
	return ok && string(raw) != "null"
}

// fail records p unless there was a problem before.
func (f *fields) fail(p *wire.Problem) {
	if f.problem == nil {
		f.problem = p
	}
}

func (f *fields) invalid(name, kind, message string) {
	f.fail(wire.Invalid(f.path, fmt.Sprintf("'type': '%s', 'loc': ('body', '%s'), 'msg': '%s', 'input': %s",
		kind, name, message, pythonish(f.raw[name]))))
}

// pythonish shows a JSON value nearly as the engine's language prints it.
func pythonish(raw json.RawMessage) string {
	var text string
	switch {
	case json.Unmarshal(raw, &text) == nil && string(raw) != "null":
		return "'" + text + "'"
	case string(raw) == "null" || len(raw) == 0:
		return "None"
	}
	return string(raw)
}

// scalar returns a string, number or boolean as text.
func (f *fields) scalar(name string) (string, bool) {
	if !f.has(name) {
		return "", false
	}
	raw := f.raw[name]
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text, true
	}
	return string(raw), true
}

// text returns a string field, "" if it is absent.
func (f *fields) text(name string) string {
	if !f.has(name) {
		return ""
	}
	var s string
	if json.Unmarshal(f.raw[name], &s) != nil {
		f.invalid(name, "string_type", "Input should be a valid string")
	}
	return s
}

// flag returns a boolean field, which may also be a word such as "yes".
func (f *fields) flag(name string, absent bool) bool {
	s, ok := f.scalar(name)
	if !ok {
		return absent
	}
	switch strings.ToLower(s) {
	case "true", "1", "yes", "y", "on", "t":
		return true
	case "false", "0", "no", "n", "off", "f":
		return false
	}
	f.invalid(name, "bool_parsing", "Input should be a valid boolean, unable to interpret input")
	return absent
}

// whole returns an integer field, which may also be a string of digits.
func (f *fields) whole(name string, absent int) int {
	s, ok := f.scalar(name)
	if !ok {
		return absent
	}
	n, err := strconv.ParseFloat(s, 64)
	if err != nil || n != float64(int(n)) {
		f.invalid(name, "int_parsing", "Input should be a valid integer, unable to parse string as an integer")
		return absent
	}
	return int(n)
}

// number checks a field that must be a number and otherwise does not matter.
func (f *fields) number(name string) {
	s, ok := f.scalar(name)
	if !ok {
		return
	}
	if _, err := strconv.ParseFloat(s, 64); err != nil {
		f.invalid(name, "float_parsing", "Input should be a valid number, unable to parse string as a number")
	}
}

// words returns a field that is a string or a list of strings, without empty
// ones.
func (f *fields) words(name string) []string {
	if !f.has(name) {
		return nil
	}
	var many []string
	if json.Unmarshal(f.raw[name], &many) != nil {
		many = []string{f.text(name)}
	}
	return slices.DeleteFunc(many, func(s string) bool { return s == "" })
}

// object returns a field that is an object, as fields of its own. An absent
// field is an empty object.
func (f *fields) object(name string) *fields {
	sub := &fields{path: f.path}
	if f.has(name) && json.Unmarshal(f.raw[name], &sub.raw) != nil {
		f.invalid(name, "dict_type", "Input should be a valid dictionary")
	}
	return sub
}
