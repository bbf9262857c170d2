package openai

import (
	"strings"

	"github.com/tidwall/gjson"
)

// DropNulls returns raw JSON without the members that are null, at any depth.
// SGLang fills tool-call deltas with null keys, which typed clients refuse.
func DropNulls(raw string) string {
	if !strings.Contains(raw, "null") {
		return raw
	}
	return string(appendWithoutNulls(nil, gjson.Parse(raw)))
}

func appendWithoutNulls(b []byte, v gjson.Result) []byte {
	if !v.IsObject() && !v.IsArray() {
		return append(b, v.Raw...)
	}
	object := v.IsObject()
	b = append(b, v.Raw[0])
	mark := len(b)
	v.ForEach(func(key, value gjson.Result) bool {
		if object && value.Type == gjson.Null {
			return true
		}
		if len(b) > mark {
			b = append(b, ',')
		}
		if object {
			b = append(append(b, key.Raw...), ':')
		}
		b = appendWithoutNulls(b, value)
		return true
	})
	if object {
		return append(b, '}')
	}
	return append(b, ']')
}

// ToolCalls gathers the tool-call deltas of a stream into whole calls, by
// index, for clients that do not stream. The zero value is empty and ready.
type ToolCalls struct {
	calls []toolCall
}

type toolCall struct {
	index                          int64
	id, kind, name, arguments, raw string
}

// Add takes the raw `tool_calls` list of one delta. Fragments of one index are
// joined in the order in which they come; an entry without an index continues
// the latest call, or begins the first.
func (t *ToolCalls) Add(raw string) {
	gjson.Parse(raw).ForEach(func(_, d gjson.Result) bool {
		c := t.at(d.Get("index"))
		if id := d.Get("id").String(); id != "" {
			c.id = id
		}
		if kind := d.Get("type").String(); kind != "" {
			c.kind = kind
		}
		c.name += d.Get("function.name").String()
		c.arguments += d.Get("function.arguments").String()
		if custom := d.Get("custom"); custom.IsObject() {
			c.raw = custom.Raw
		}
		return true
	})
}

func (t *ToolCalls) at(index gjson.Result) *toolCall {
	n := index.Int()
	if !index.Exists() && len(t.calls) > 0 {
		return &t.calls[len(t.calls)-1]
	}
	for i := range t.calls {
		if t.calls[i].index == n {
			return &t.calls[i]
		}
	}
	t.calls = append(t.calls, toolCall{index: n})
	return &t.calls[len(t.calls)-1]
}

// JSON returns the `tool_calls` list of a message, or nil when there were none.
func (t *ToolCalls) JSON() []byte {
	if len(t.calls) == 0 {
		return nil
	}
	b := []byte{'['}
	for i, c := range t.calls {
		if i > 0 {
			b = append(b, ',')
		}
		b = AppendString(append(b, `{"id":`...), c.id)
		if c.raw != "" {
			b = append(append(append(b, `,"type":"custom","custom":`...), c.raw...), '}')
			continue
		}
		b = AppendString(append(b, `,"type":"function","function":{"name":`...), c.name)
		b = AppendString(append(b, `,"arguments":`...), c.arguments)
		b = append(b, "}}"...)
	}
	return append(b, ']')
}

// MergeMembers joins two lists of `"key":value` pairs as the deltas of one
// message are joined: of a key that both have, texts and lists are strung
// together, objects are merged, and of anything else the later one counts.
func MergeMembers(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	merged := mergeObjects(gjson.Parse("{"+a+"}"), gjson.Parse("{"+b+"}"))
	return merged[1 : len(merged)-1]
}

func mergeObjects(a, b gjson.Result) string {
	late := b.Map()
	var set []Member
	b.ForEach(func(key, value gjson.Result) bool {
		set = append(set, Member{key.Str, value.Raw})
		return true
	})
	early := a.Map()
	for i, m := range set {
		if before, ok := early[m.Key]; ok {
			set[i].Raw = mergeValues(before, late[m.Key])
		}
	}
	out := []byte{'{'}
	a.ForEach(func(key, value gjson.Result) bool {
		if _, again := late[key.Str]; !again {
			out = appendMember(out, Member{key.Str, value.Raw})
		}
		return true
	})
	for _, m := range set {
		out = appendMember(out, m)
	}
	return string(append(out, '}'))
}

func appendMember(b []byte, m Member) []byte {
	if len(b) > 1 {
		b = append(b, ',')
	}
	return append(append(AppendString(b, m.Key), ':'), m.Raw...)
}

func mergeValues(a, b gjson.Result) string {
	switch {
	case a.Type == gjson.String && b.Type == gjson.String:
		return String(a.Str + b.Str)
	case a.IsObject() && b.IsObject():
		return mergeObjects(a, b)
	case a.IsArray() && b.IsArray() && a.Raw != "[]" && b.Raw != "[]":
		return a.Raw[:len(a.Raw)-1] + "," + b.Raw[1:]
	case b.Type == gjson.Null:
		return a.Raw
	default:
		return b.Raw
	}
}
