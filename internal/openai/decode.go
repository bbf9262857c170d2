package openai

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/tidwall/gjson"
)

// kind is what a field must be.
type kind uint8

const (
	text kind = iota + 1
	flag
	integer
	number
	object
	list
	textOrList
	textOrObject
	anything
)

func (k kind) String() string {
	return [...]string{
		"", "a string", "a boolean", "an integer", "a number", "an object", "an array",
		"a string or an array of strings", "a string or an object", "a value",
	}[k]
}

func (k kind) accepts(v gjson.Result) bool {
	switch k {
	case text:
		return v.Type == gjson.String
	case flag:
		return v.IsBool()
	case integer:
		_, ok := integerOf(v)
		return ok
	case number:
		return v.Type == gjson.Number
	case object:
		return v.IsObject()
	case list:
		return v.IsArray()
	case textOrList:
		return v.Type == gjson.String || v.IsArray()
	case textOrObject:
		return v.Type == gjson.String || v.IsObject()
	case anything:
		return true
	}
	return false
}

// integerOf reads a whole number, also one that is written as 100.0 or 1e2.
func integerOf(v gjson.Result) (int, bool) {
	if v.Type != gjson.Number {
		return 0, false
	}
	if n, err := strconv.Atoi(v.Raw); err == nil {
		return n, true
	}
	const exact = 1 << 53
	return int(v.Num), v.Num == math.Trunc(v.Num) && math.Abs(v.Num) < exact
}

// kinds are the fields that are checked before a request may wait, and nested
// the members of those that are objects. All others are the engine's to judge.
var (
	kinds = map[string]kind{
		"model": text, "messages": list, "stream": flag, "stream_options": object, "n": integer,
		"max_tokens": integer, "max_completion_tokens": integer, "stop": textOrList,
		"logprobs": flag, "top_logprobs": integer, "seed": integer, "top_k": integer,
		"temperature": number, "top_p": number, "min_p": number,
		"frequency_penalty": number, "presence_penalty": number, "repetition_penalty": number,
		"response_format": object, "tools": list, "tool_choice": textOrObject, "parallel_tool_calls": flag,
		"chat_template_kwargs": object, "continue_final_message": flag, "add_generation_prompt": flag,
		"include_reasoning": flag, "reasoning": object, "service_tier": text, "modalities": list,
		"user": anything, "safety_identifier": anything,
		// The engines' own fields that hold the output to a grammar.
		"ebnf": anything, "regex": anything, "structural_tag": anything, "grammar": anything, "json_schema": anything,
		"guided_json": anything, "guided_regex": anything, "guided_choice": anything, "guided_grammar": anything,
		"structured_outputs": anything,
	}
	// rawKinds are those of a completion that differ from a chat's.
	rawKinds = map[string]kind{
		"prompt": textOrList, "echo": flag, "suffix": text, "best_of": integer, "logprobs": integer,
		"messages": 0, "tools": 0, "tool_choice": 0, "parallel_tool_calls": 0, "top_logprobs": 0, "modalities": 0,
	}
	nested = []struct {
		name  string
		kinds map[string]kind
	}{
		{"stream_options", map[string]kind{"include_usage": flag, "include_sources": flag}},
		{"response_format", map[string]kind{"type": text}},
		{"reasoning", map[string]kind{"exclude": flag}},
	}
)

// fields are the known members of a request that are not null, by name, those
// of nested objects as "object.member".
type fields map[string]gjson.Result

// decode reads a request body whose members are of the given kinds.
func decode(body string, known map[string]kind) (fields, error) {
	root, err := readObject(body, subject(known))
	if err != nil {
		return nil, err
	}
	f := fields{}
	if err := f.read("", known, root); err != nil {
		return nil, err
	}
	for _, n := range nested {
		if err := f.read(n.name+".", n.kinds, f[n.name]); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// subject is the member that says what is asked.
func subject(known map[string]kind) string {
	if known["prompt"] != 0 {
		return "prompt"
	}
	return "messages"
}

// ReadMembers returns the members of a request body that are not null, of a
// repeated one the last, each as whole and valid JSON. What is no object comes
// back as a *Problem with status 400.
func ReadMembers(body []byte) (map[string]gjson.Result, error) {
	root, err := readObject(string(body), "messages")
	if err != nil {
		return nil, err
	}
	out := map[string]gjson.Result{}
	root.ForEach(func(key, value gjson.Result) bool {
		if out[key.Str] = value; value.Type == gjson.Null {
			delete(out, key.Str)
		}
		return true
	})
	return out, nil
}

// readObject reads a body that has to be an object with the member subject.
func readObject(body, subject string) (gjson.Result, error) {
	if !utf8.ValidString(body) {
		return gjson.Result{}, unreadable("The request body is not valid UTF-8. Send JSON encoded as UTF-8.")
	}
	root, err := parse(body)
	switch {
	case body == "":
		p := Invalid("", "", "The request body is empty. Send a JSON object with 'model' and '%s'.", subject)
		p.Reason = "empty_body"
		return root, p
	case errors.Is(err, errDeep):
		return root, unreadable("The request body is %v.", err)
	case err != nil:
		return root, syntaxProblem(body)
	case !root.IsObject():
		return root, unreadable("The request body is %s. Send a JSON object.", nameOf(root))
	}
	return root, nil
}

// unreadable is the refusal of a body of which nothing can be read. OpenAI's code is null.
func unreadable(format string, args ...any) *Problem {
	p := Invalid("", "", format, args...)
	p.Reason = "invalid_json"
	return p
}

// syntaxProblem says where the JSON is broken.
func syntaxProblem(body string) error {
	var raw json.RawMessage
	err := json.Unmarshal([]byte(body), &raw)
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		return unreadable("The request body is not valid JSON: %v at byte %d.", syntax, syntax.Offset)
	}
	return unreadable("The request body is not valid JSON.")
}

// read notes the known members of an object, the last value of each.
func (f fields) read(prefix string, known map[string]kind, from gjson.Result) (err error) {
	from.ForEach(func(key, value gjson.Result) bool {
		want := known[key.Str]
		switch {
		case want == 0:
		case value.Type == gjson.Null:
			delete(f, prefix+key.Str)
		case !want.accepts(value):
			err = wrongType(prefix+key.Str, want.String(), value)
		default:
			f[prefix+key.Str] = value
		}
		return err == nil
	})
	return err
}

// is reports whether a flag is set.
func (f fields) is(name string) bool { return f[name].Type == gjson.True }

// constrained reports whether a grammar holds the output.
func (f fields) constrained() bool {
	for name, v := range f {
		if kinds[name] == anything && v.String() != "" {
			return true
		}
	}
	format := f["response_format.type"].Str
	return format != "" && format != "text"
}

// isNot reports whether a flag is there and not set.
func (f fields) isNot(name string) bool { return f[name].Type == gjson.False }

func wrongType(param, want string, got gjson.Result) error {
	return Invalid(param, "invalid_type", "Invalid type for '%s': expected %s, but got %s.", param, want, nameOf(got))
}

// nameOf names what a value is.
func nameOf(v gjson.Result) string {
	switch v.Type {
	case gjson.String:
		return "a string"
	case gjson.Number:
		return fmt.Sprintf("the number %.40s", v.Raw)
	case gjson.True, gjson.False:
		return "a boolean"
	case gjson.Null:
		return "null"
	default:
		if v.IsArray() {
			return "an array"
		}
		return "an object"
	}
}
