package openai

import "github.com/tidwall/gjson"

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
	var kept []Member // with raw keys
	at := map[string]int{}
	gjson.ParseBytes(body).ForEach(func(key, value gjson.Result) bool {
		if owned[key.Str] || drop != nil && drop(key.Str) {
			return true
		}
		if i, ok := at[key.Str]; ok {
			kept[i].Raw = value.Raw
			return true
		}
		at[key.Str] = len(kept)
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
