package openai

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/tidwall/gjson"
)

// maxDepth is how deep JSON from outside may be nested. gjson checks it by
// recursion without a limit of its own, and the engines' decoders give up at
// about a thousand.
const maxDepth = 1000

// errDeep is returned for JSON that is nested too deep.
var errDeep = fmt.Errorf("nested deeper than %d levels", maxDepth)

var errSyntax = errors.New("not valid JSON")

// parse reads one JSON value.
func parse(text string) (gjson.Result, error) {
	if depthAbove(text, maxDepth) {
		return gjson.Result{}, errDeep
	}
	if !gjson.Valid(text) {
		return gjson.Result{}, errSyntax
	}
	return gjson.Parse(text), nil
}

// depthAbove reports whether text nests objects and lists deeper than limit.
// Text with so few brackets that it cannot is only counted, which is fast.
func depthAbove(text string, limit int) bool {
	if strings.Count(text, "[")+strings.Count(text, "{") <= limit {
		return false
	}
	depth, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '[' || c == '{':
			if depth++; depth > limit {
				return true
			}
		case c == ']' || c == '}':
			depth--
		}
	}
	return false
}

// String returns s as raw JSON, for a Member.
func String(s string) string { return string(AppendString(nil, s)) }

// AppendString appends s as a JSON string. It escapes only what JSON demands
// (no HTML escapes, U+2028 stays raw) and replaces invalid UTF-8 by U+FFFD.
func AppendString(b []byte, s string) []byte {
	b = append(b, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if plain[c] {
			i++
			continue
		}
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(s[i:])
			if r != utf8.RuneError || n > 1 {
				i += n
				continue
			}
			b = append(append(b, s[start:i]...), "\uFFFD"...)
		} else {
			b = appendEscape(append(b, s[start:i]...), c)
		}
		i++
		start = i
	}
	return append(append(b, s[start:]...), '"')
}

// plain tells the bytes that a JSON string holds as they are.
var plain = func() (t [256]bool) {
	for c := byte(' '); c < utf8.RuneSelf; c++ {
		t[c] = c != '"' && c != '\\'
	}
	return t
}()

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
