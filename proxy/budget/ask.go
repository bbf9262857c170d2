package budget

import (
	"maps"
	"math"
	"slices"
	"strings"

	"oneslot/internal/openai"

	"github.com/tidwall/gjson"
)

// NoLimit is the budget of a request that may think as long as it likes.
const NoLimit = -1

// Efforts maps the words of reasoning_effort to tokens; NoLimit is no limit.
type Efforts map[string]int

// Ask is what a request wants of the model's thinking.
type Ask struct {
	// Tokens is the budget: NoLimit, 0 for no thinking, or the number of tokens.
	Tokens int
	// Room is how many tokens thinking may use at the very most, so that those kept
	// for the answer are left. Zero means any number.
	Room int
	// Named is whether the request said anything about it.
	Named bool
}

// Fields are the request fields that Read understands. They are the proxy's to
// act on and are not forwarded.
func Fields() []string {
	return []string{"reasoning_effort", "reasoning", "thinking", "enable_thinking", "thinking_budget", "thinking_budget_tokens", "thinking_token_budget", "reasoning_budget_tokens"}
}

// reader gathers what the spellings say.
type reader struct {
	efforts Efforts
	off     bool
	tokens  int // smallest number given; NoLimit: none
	word    int // of an effort; NoLimit: none or no limit
	named   bool
	err     error
}

// Read finds what a request body, a valid JSON object, wants. The error is an
// *openai.Problem that names the field.
func Read(body []byte, efforts Efforts) (Ask, error) {
	r := &reader{efforts: efforts, tokens: NoLimit, word: NoLimit}
	read := append(Fields(), "chat_template_kwargs")
	root := members(gjson.ParseBytes(body), func(key string) bool { return slices.Contains(read, key) })
	r.effort("reasoning_effort", root["reasoning_effort"])
	for _, field := range []string{"thinking_budget", "thinking_budget_tokens", "thinking_token_budget", "reasoning_budget_tokens"} {
		r.number(field, root[field], NoLimit) // so their engines' documentation has it
	}
	r.flag("enable_thinking", root["enable_thinking"])
	if kwargs := root["chat_template_kwargs"]; kwargs.IsObject() {
		m := members(kwargs, all)
		r.flag("chat_template_kwargs.enable_thinking", m["enable_thinking"])
		r.flag("chat_template_kwargs.thinking", m["thinking"])
	}
	r.openRouter(root["reasoning"])
	r.anthropic(root["thinking"])
	if r.err != nil {
		return Ask{}, r.err
	}
	return r.ask(), nil
}

// members are those of an object's own that are wanted, found in one pass: most of a
// body is messages. Of a repeated key the last value counts, as it does for package
// openai and the engines.
func members(object gjson.Result, wanted func(key string) bool) (out map[string]gjson.Result) {
	object.ForEach(func(key, value gjson.Result) bool {
		if wanted(key.Str) {
			if out == nil { // most requests have none
				out = map[string]gjson.Result{}
			}
			out[key.Str] = value
		}
		return true
	})
	return out
}

func all(string) bool { return true }

func (r *reader) ask() Ask {
	switch {
	case r.off:
		return Ask{Tokens: 0, Named: true}
	case r.tokens != NoLimit:
		return Ask{Tokens: r.tokens, Named: true}
	default:
		return Ask{Tokens: r.word, Named: r.named}
	}
}

func (r *reader) fail(field, format string, args ...any) {
	if r.err == nil {
		r.err = openai.Invalid(field, "invalid_value", format, args...)
	}
}

// effort reads a word, or SGLang's fraction of the highest effort with a limit.
func (r *reader) effort(field string, v gjson.Result) {
	switch {
	case v.Type == gjson.Null:
		return
	case v.Type == gjson.Number && v.Num >= 0 && v.Num <= 1:
		r.named = true
		r.word = int(math.Round(v.Num * float64(slices.Max(append(slices.Collect(maps.Values(r.efforts)), 0)))))
		r.off = r.off || r.word == 0
		return
	case v.Type == gjson.String:
		if n, ok := r.efforts[strings.ToLower(v.Str)]; ok {
			r.named, r.word = true, n
			r.off = r.off || n == 0
			return
		}
	}
	names := slices.Sorted(maps.Keys(r.efforts))
	r.fail(field, "'%s' must be one of %s.", field, strings.Join(names, ", "))
}

// number reads tokens, of which least are the fewest: 0, or NoLimit where a spelling
// has that.
func (r *reader) number(field string, v gjson.Result, least float64) {
	switch {
	case v.Type == gjson.Null:
	case v.Type != gjson.Number || v.Num != math.Trunc(v.Num) || math.Abs(v.Num) > 1<<40:
		r.fail(field, "'%s' must be a whole number of tokens.", field)
	case v.Num < least && least == NoLimit:
		r.fail(field, "'%s' must be at least 0, or -1 for no limit.", field)
	case v.Num < least:
		r.fail(field, "'%s' must be at least 0. Leave it out for no limit.", field)
	case v.Num < 0:
		r.named = true
	case v.Num == 0:
		r.named, r.off = true, true
	default:
		r.named = true
		if n := int(v.Num); r.tokens == NoLimit || n < r.tokens {
			r.tokens = n
		}
	}
}

func (r *reader) flag(field string, v gjson.Result) {
	switch v.Type {
	case gjson.Null:
	case gjson.True:
		r.named = true
	case gjson.False:
		r.named, r.off = true, true
	default:
		r.fail(field, "'%s' must be true or false.", field)
	}
}

// openRouter reads reasoning: {effort, max_tokens, enabled}.
func (r *reader) openRouter(v gjson.Result) {
	if v.Type == gjson.Null {
		return
	}
	if !v.IsObject() {
		r.fail("reasoning", "'reasoning' must be an object such as {\"effort\":\"low\"} or {\"max_tokens\":1024}.")
		return
	}
	m := members(v, all)
	r.effort("reasoning.effort", m["effort"])
	r.number("reasoning.max_tokens", m["max_tokens"], 0)
	r.flag("reasoning.enabled", m["enabled"])
}

// anthropic reads thinking: {type, budget_tokens}.
func (r *reader) anthropic(v gjson.Result) {
	switch {
	case v.Type == gjson.Null:
		return
	case v.Type == gjson.True || v.Type == gjson.False:
		r.flag("thinking", v)
		return
	case !v.IsObject():
		r.fail("thinking", "'thinking' must be an object such as {\"type\":\"enabled\",\"budget_tokens\":1024}.")
		return
	}
	m := members(v, all)
	switch kind := m["type"]; kind.Str {
	case "disabled":
		r.named, r.off = true, true
	case "enabled", "adaptive", "auto", "":
		r.named = true
		r.number("thinking.budget_tokens", m["budget_tokens"], 0)
	default:
		r.fail("thinking.type", "'thinking.type' is %q; it must be enabled or disabled.", kind.Str)
	}
}

// Guard lowers a budget so that of maxTokens at least reserve are left for the
// answer. maxTokens 0 means that there is no limit to fit into.
func (a Ask) Guard(maxTokens, reserve int) Ask {
	if maxTokens == 0 || reserve == 0 {
		return a
	}
	room := max(maxTokens-reserve, 0)
	a.Room = max(room, 1)
	if a.Tokens == NoLimit || a.Tokens > room {
		a.Tokens = room
	}
	return a
}
