package openai

import (
	"strings"
	"unicode/utf8"

	"github.com/tidwall/gjson"
)

// A Member is one key of a JSON object with its value as raw JSON.
type Member struct {
	Key, Raw string
}

// Rewrite returns the JSON object body with the members of set added or put in
// the place of members of the same name, without the members that drop names
// and without those that are null (SGLang refuses null for fields that are not
// optional). What is kept keeps its bytes and order; of a repeated key the last
// value counts, as in Go's and Python's decoders. body must be a valid object.
func Rewrite(body []byte, set []Member, drop func(key string) bool) []byte {
	owned := make(map[string]bool, len(set))
	for _, m := range set {
		owned[m.Key] = true
	}
	kept := make([]Member, 0, 16+len(set)) // with raw keys
	at := map[string]int{}
	gjson.ParseBytes(body).ForEach(func(key, value gjson.Result) bool {
		if owned[key.Str] || drop != nil && drop(key.Str) {
			return true
		}
		name := key.Str
		if !utf8.ValidString(name) {
			name = string([]rune(name)) // such bytes are all the same to a decoder
		}
		if i, ok := at[name]; ok {
			kept[i].Raw = value.Raw
			return true
		}
		at[name] = len(kept)
		kept = append(kept, Member{key.Raw, value.Raw})
		return true
	})
	for _, m := range set {
		kept = append(kept, Member{String(m.Key), m.Raw})
	}
	out := append(make([]byte, 0, len(body)+256), '{')
	for _, m := range kept {
		if m.Raw == "null" || m.Raw == "" {
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(append(out, m.Key...), ':'), m.Raw...)
	}
	return append(out, '}')
}

// edit returns an object with each member as change returns it. A member whose
// value becomes empty is left out.
func edit(object gjson.Result, change func(key, value string) (string, string)) string {
	b := make([]byte, 0, len(object.Raw)+len(system))
	b = append(b, '{')
	object.ForEach(func(key, value gjson.Result) bool {
		name, raw := change(key.Str, value.Raw)
		if raw == "" {
			return true
		}
		if len(b) > 1 {
			b = append(b, ',')
		}
		if name == key.Str {
			b = append(b, key.Raw...)
		} else {
			b = AppendString(b, name)
		}
		b = append(append(b, ':'), raw...)
		return true
	})
	return string(append(b, '}'))
}

// joinPlain joins two system messages that are a role and a string, no more.
func joinPlain(a, b string) (string, bool) {
	first, ok := plainText(a)
	second, also := plainText(b)
	if !ok || !also {
		return "", false
	}
	between := `\n\n`
	if len(first) <= 2 || len(second) <= 2 {
		between = "" // one of them is empty
	}
	return `{"role":"` + system + `","content":` + first[:len(first)-1] + between + second[1:] + "}", true
}

// plainText returns the content of such a message as raw JSON.
func plainText(message string) (raw string, ok bool) {
	ok = true
	gjson.Parse(message).ForEach(func(key, value gjson.Result) bool {
		switch {
		case key.Str == "content" && value.Type == gjson.String:
			raw = value.Raw
		case key.Str != "role":
			ok = false
		}
		return ok
	})
	return raw, ok && raw != ""
}

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

// Join joins two lists of `"key":value` pairs by a comma; either may be empty.
func Join(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "," + b
}

// MergeMembers joins lists of `"key":value` pairs as the deltas of one message
// are joined: of a key that two have, texts and lists are strung together,
// objects are merged, and of anything else the later one counts; null changes
// nothing.
func MergeMembers(lists ...string) string {
	switch len(lists) {
	case 0:
		return ""
	case 1:
		return lists[0]
	}
	// By halves, since what has been joined is copied with every join.
	half := len(lists) / 2
	a, b := MergeMembers(lists[:half]...), MergeMembers(lists[half:]...)
	if a == "" || b == "" {
		return a + b
	}
	merged := mergeObjects(gjson.Parse("{"+a+"}"), gjson.Parse("{"+b+"}"))
	return merged[1 : len(merged)-1]
}

func mergeObjects(a, b gjson.Result) string {
	var members []Member
	at := map[string]int{}
	for _, object := range []gjson.Result{a, b} {
		object.ForEach(func(key, value gjson.Result) bool {
			i, again := at[key.Str]
			if again {
				members[i].Raw = mergeValues(gjson.Parse(members[i].Raw), value)
				return true
			}
			at[key.Str] = len(members)
			members = append(members, Member{key.Str, value.Raw})
			return true
		})
	}
	out := []byte{'{'}
	for _, m := range members {
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(AppendString(out, m.Key), ':'), m.Raw...)
	}
	return string(append(out, '}'))
}

func mergeValues(a, b gjson.Result) string {
	switch {
	case b.Type == gjson.Null:
		return a.Raw
	case a.Type == gjson.String && b.Type == gjson.String:
		return a.Raw[:len(a.Raw)-1] + b.Raw[1:]
	case a.IsObject() && b.IsObject():
		return mergeObjects(a, b)
	case a.IsArray() && b.IsArray():
		return mergeLists(a, b)
	default:
		return b.Raw
	}
}

func mergeLists(a, b gjson.Result) string {
	head, tail := strings.TrimSpace(a.Raw[1:len(a.Raw)-1]), strings.TrimSpace(b.Raw[1:len(b.Raw)-1])
	if head != "" && tail != "" {
		head += ","
	}
	return "[" + head + tail + "]"
}

// Members visits the members of a JSON object in their order, each with its name
// and its value as raw JSON. It reports whether raw is an object and no more;
// what was visited before a fault is not to be used.
func Members(raw string, member func(name, value string)) bool {
	s := scanner{text: raw}
	return s.next() == '{' && s.object(func(name string) bool {
		value, ok := s.value()
		if ok {
			member(name, value)
		}
		return ok
	}) && s.next() == 0 && s.pos == len(raw)
}
