package openai

import (
	"cmp"
	"slices"

	"github.com/tidwall/gjson"
)

// ToolCalls gathers the tool-call deltas of a stream into whole calls, by
// index, for clients that do not stream. The zero value is empty and ready.
type ToolCalls struct {
	calls []toolCall
}

// toolCall is a call so far: of a function with arguments, or of a custom tool
// with input, which are text both.
type toolCall struct {
	index       int64
	id          string
	custom      bool
	name, input []byte
}

// Add takes the raw `tool_calls` list of one delta. Fragments of one index are
// joined in the order in which they come. An entry without an index continues
// the latest call, unless it brings another id: then it begins a new one.
func (t *ToolCalls) Add(raw string) {
	gjson.Parse(raw).ForEach(func(_, d gjson.Result) bool {
		if !d.IsObject() {
			return true
		}
		id := d.Get("id").String()
		c := t.at(d.Get("index"), id)
		if id != "" {
			c.id = id
		}
		body, input := d.Get("function"), "arguments"
		if custom := d.Get("custom"); custom.IsObject() {
			c.custom, body, input = true, custom, "input"
		}
		c.name = append(c.name, body.Get("name").String()...)
		c.input = append(c.input, body.Get(input).String()...)
		return true
	})
}

func (t *ToolCalls) at(index gjson.Result, id string) *toolCall {
	n := index.Int()
	if index.Type != gjson.Number && len(t.calls) > 0 {
		last := &t.calls[len(t.calls)-1]
		if id == "" || last.id == "" || id == last.id {
			return last
		}
		n = last.index + 1
	}
	for i := range t.calls {
		if t.calls[i].index == n {
			return &t.calls[i]
		}
	}
	t.calls = append(t.calls, toolCall{index: n})
	return &t.calls[len(t.calls)-1]
}

// JSON returns the `tool_calls` list of a message in the order of the indexes,
// or nil when there were no calls.
func (t *ToolCalls) JSON() []byte {
	if len(t.calls) == 0 {
		return nil
	}
	calls := slices.Clone(t.calls)
	slices.SortStableFunc(calls, func(a, b toolCall) int { return cmp.Compare(a.index, b.index) })
	b := []byte{'['}
	for i, c := range calls {
		if i > 0 {
			b = append(b, ',')
		}
		b = AppendString(append(b, `{"id":`...), c.id)
		kind, input := "function", "arguments"
		if c.custom {
			kind, input = "custom", "input"
		}
		b = append(append(append(b, `,"type":"`...), kind...), `","`...)
		b = append(append(b, kind...), `":{"name":`...)
		b = AppendString(b, string(c.name))
		b = append(append(append(b, `,"`...), input...), `":`...)
		b = append(AppendString(b, string(c.input)), "}}"...)
	}
	return append(b, ']')
}

// A ToolCall is one call of a tool.
type ToolCall struct {
	// ID is the engine's; empty if it gave none.
	ID string
	// Name is the tool's. Input is what it is called with: JSON of a function's
	// arguments, or the text of a custom tool.
	Name, Input string
	// Custom is whether the tool is one that takes text.
	Custom bool
}

// Len is how many calls have come so far.
func (t *ToolCalls) Len() int { return len(t.calls) }

// Call returns the call that came as the i-th, as far as it has come.
func (t *ToolCalls) Call(i int) ToolCall {
	c := &t.calls[i]
	return ToolCall{ID: c.id, Name: string(c.name), Input: string(c.input), Custom: c.custom}
}

// Input returns the input of the i-th call from a byte on, so that what has been
// told of it need not be copied again.
func (t *ToolCalls) Input(i, from int) string { return string(t.calls[i].input[from:]) }

// Refusal finds the words with which a model declines among the members of a delta,
// raw and joined by commas; empty if there are none.
func Refusal(members string) (words string) {
	if members == "" {
		return ""
	}
	Members("{"+members+"}", func(name, value string) {
		if name == "refusal" {
			words = gjson.Parse(value).Str
		}
	})
	return words
}
