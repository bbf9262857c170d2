package configs

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"oneslot/configs/lines"
)

// A fault is what is wrong with a key. Its error is the whole text.
type fault struct {
	key string
	error
}

// wrong is a fault whose text begins with the key.
func wrong(key, format string, args ...any) error {
	return fault{key, fmt.Errorf("%s: %w", key, fmt.Errorf(format, args...))}
}

// keyOf is the key that an error is a fault of, or nothing.
func keyOf(err error) string {
	var f fault
	errors.As(err, &f)
	return f.key
}

// each are the errors that were joined to one, and those that were joined to them.
func each(err error) (out []error) {
	if err == nil {
		return nil
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	for _, one := range joined.Unwrap() {
		out = append(out, each(one)...)
	}
	return out
}

// fault notes what is wrong with a key.
func (r *reader) fault(key, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if r.from != nil {
		if where := r.from(key); where != "" {
			text += " (set by " + where + ")"
		}
	}
	r.faults = append(r.faults, wrong(key, "%s", text))
	r.keys = append(r.keys, key)
}

// news returns those of further faults that do not just follow from one that was
// found in reading: that a value is missing where it was of the wrong kind.
func (r *reader) news(err error) error {
	return errors.Join(slices.DeleteFunc(each(err), func(err error) bool {
		return slices.ContainsFunc(r.keys, func(key string) bool {
			rest, below := strings.CutPrefix(keyOf(err), key)
			return below && (rest == "" || strings.IndexAny(rest, ".[") == 0)
		})
	})...)
}

// placed says of each fault of the file where it is, in the order of the file; those
// of other places follow.
func (l *loaded) placed(err error, file lines.Lines) error {
	byLine := map[int][]error{}
	for _, err := range each(err) {
		key := keyOf(err)
		line := file.Near(key)
		if line > 0 && l.origin[key] == "" {
			err = fmt.Errorf("%s:%d: %w", l.path, line, err)
		} else {
			line = math.MaxInt
		}
		byLine[line] = append(byLine[line], err)
	}
	var out []error
	for _, line := range slices.Sorted(maps.Keys(byLine)) {
		out = append(out, byLine[line]...)
	}
	return errors.Join(out...)
}

// unknown notes a key that is none.
func (r *reader) unknown(prefix, key string, known []string) {
	if near := nearest(key, known); near != "" {
		r.fault(prefix+key, "no such key; did you mean %s?", prefix+near)
		return
	}
	r.fault(prefix+key, "no such key; the keys here are %s", strings.Join(known, ", "))
}

// isOne reports whether a value is neither a list nor a group.
func isOne(value any) bool {
	switch value.(type) {
	case []any, map[string]any:
		return false
	}
	return true
}

// said is a value as a fault repeats it, where it can be no secret.
func said(value any) string {
	if isOne(value) {
		return fmt.Sprintf("%q", fmt.Sprint(value))
	}
	return kindOf(value)
}

// kindOf says what a value of the file is, without the value.
func kindOf(value any) string {
	switch value.(type) {
	case string:
		return "a text"
	case bool:
		return "true or false"
	case []any:
		return "a list"
	case map[string]any:
		return "a group of keys"
	case int, int64, uint64, float64:
		return "a number"
	default:
		return "a date"
	}
}

// nearest returns the known word that an unknown one may have been meant to be,
// or nothing.
func nearest(word string, known []string) string {
	best, least := "", len(word)/3+1
	for _, k := range known {
		if d := distance(word, k); d < least {
			best, least = k, d
		}
	}
	return best
}

// distance is the number of letters to add, drop or change from a to b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before := row[0]
		row[0] = i + 1
		for j := range len(b) {
			next := before
			if a[i] != b[j] {
				next = 1 + min(before, row[j], row[j+1])
			}
			before, row[j+1] = row[j+1], next
		}
	}
	return row[len(b)]
}

// hideUser takes user and password out of an address.
func hideUser(address string) string {
	scheme, rest, ok := strings.Cut(address, "://")
	at := strings.LastIndexByte(rest, '@')
	if !ok || at < 0 {
		return address
	}
	return scheme + "://" + rest[at+1:]
}

// quoted shows where a text begins and ends if it does not show by itself.
func quoted(s string) string {
	if s == "" || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r == ',' }) {
		return fmt.Sprintf("%q", s)
	}
	return s
}
