package transcript

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	longText = 40 // characters; a longer one is only counted
	deep     = 6  // levels of a value that are shown
	wide     = 150
)

// times are the members that hold one.
var times = []string{"created", "created_at", "completed_at"}

// schemas are the members that hold the form of a tool's input.
var schemas = []string{"parameters", "input_schema"}

// compact is the shape of a JSON value on one line.
func compact(text string) (string, bool) {
	var v any
	if json.Unmarshal([]byte(text), &v) != nil {
		return "", false
	}
	return encode(reduce("", v, 0), ""), true
}

// shaped is the same on several lines if one is too long.
func shaped(text string) (string, bool) {
	shape, ok := compact(text)
	if !ok || utf8.RuneCountInString(shape) <= wide {
		return shape, ok
	}
	var v any
	if json.Unmarshal([]byte(text), &v) != nil {
		return "", false
	}
	return encode(reduce("", v, 0), "  "), true
}

func encode(v any, indent string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", indent)
	if e.Encode(v) != nil {
		return ""
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// reduce is a value without what is long, deep, or of one run; name is the member
// that holds it.
func reduce(name string, v any, level int) any {
	switch v := v.(type) {
	case string:
		text := plain(v)
		if n := utf8.RuneCountInString(text); n > longText {
			return fmt.Sprintf("(text of %d characters)", n)
		}
		return text
	case float64:
		if slices.Contains(times, name) {
			return "TIME"
		}
	case []any:
		if level >= deep && len(v) > 0 {
			return []any{fmt.Sprintf("(%d)", len(v))}
		}
		out := []any{}
		for i, item := range v {
			if i == 2 && len(v) > 3 {
				out = append(out, fmt.Sprintf("(%d more)", len(v)-i))
				break
			}
			out = append(out, reduce("", item, level+1))
		}
		return out
	case map[string]any:
		switch {
		case slices.Contains(schemas, name) && len(v) > 0:
			return "(schema)"
		case level >= deep && len(v) > 0:
			return map[string]any{"…": fmt.Sprintf("(%d members)", len(v))}
		}
		out := map[string]any{}
		for key, value := range v {
			out[plain(key)] = reduce(key, value, level+1)
		}
		return out
	}
	return v
}

// kindOf tells events apart by what they have, not by what it is.
func kindOf(data string) string {
	var o map[string]any
	if json.Unmarshal([]byte(data), &o) != nil {
		return data
	}
	kind := fmt.Sprint(o["type"], slices.Sorted(maps.Keys(o)), o["usage"] != nil)
	choices, _ := o["choices"].([]any)
	for _, choice := range choices {
		c, _ := choice.(map[string]any)
		delta, _ := c["delta"].(map[string]any)
		kind += fmt.Sprint(slices.Sorted(maps.Keys(delta)), c["finish_reason"])
	}
	return kind
}
