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
