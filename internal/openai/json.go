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

// A scanner reads JSON in one pass: what is of interest is taken where it
// stands, all else is checked and skipped. Its methods report whether the text
// was valid so far.
type scanner struct {
	text  string
	pos   int
	depth int
}

// visit takes the value of one member of an object; the index of an element
// comes without a key.
type visit func(key string) bool

// skip is the visit that wants nothing.
func (s *scanner) skip(string) bool {
	_, ok := s.value()
	return ok
}

// next skips blanks and returns the byte that follows, 0 at the end.
func (s *scanner) next() byte {
	for ; s.pos < len(s.text); s.pos++ {
		if c := s.text[s.pos]; c > ' ' || c != ' ' && c != '\n' && c != '\t' && c != '\r' {
			return c
		}
	}
	return 0
}

// value takes one value and returns it as raw JSON.
func (s *scanner) value() (raw string, ok bool) {
	c := s.next()
	from := s.pos
	switch c {
	case '"':
		ok = s.quoted()
	case '{':
		ok = s.object(s.skip)
	case '[':
		ok = s.array(s.skip)
	case 't':
		ok = s.word("true")
	case 'f':
		ok = s.word("false")
	case 'n':
		ok = s.word("null")
	default:
		ok = s.number()
	}
	return s.text[from:s.pos], ok
}

func (s *scanner) word(w string) bool {
	ok := strings.HasPrefix(s.text[s.pos:], w)
	s.pos = min(s.pos+len(w), len(s.text))
	return ok
}

// quoted takes a string, which begins here.
func (s *scanner) quoted() bool {
	for i := s.pos + 1; i < len(s.text); i++ {
		switch c := s.text[i]; {
		case plain[c] || c >= utf8.RuneSelf:
		case c == '"':
			s.pos = i + 1
			return true
		case c != '\\':
			return false // a control character
		default:
			n := escapeLength(s.text[i:])
			if n == 0 {
				return false
			}
			i += n - 1
		}
	}
	return false
}

// escapeLength is the length of the escape that text begins with, 0 if it is none.
func escapeLength(text string) int {
	if len(text) < 2 {
		return 0
	}
	if text[1] != 'u' {
		if strings.IndexByte(`"\/bfnrt`, text[1]) < 0 {
			return 0
		}
		return 2
	}
	if len(text) < 6 || strings.Trim(text[2:6], "0123456789abcdefABCDEF") != "" {
		return 0
	}
	return 6
}

func (s *scanner) number() bool {
	if s.pos < len(s.text) && s.text[s.pos] == '-' {
		s.pos++
	}
	if s.pos < len(s.text) && s.text[s.pos] == '0' {
		s.pos++
	} else if !s.digits() {
		return false
	}
	if s.pos < len(s.text) && s.text[s.pos] == '.' {
		if s.pos++; !s.digits() {
			return false
		}
	}
	if s.pos < len(s.text) && s.text[s.pos]|' ' == 'e' {
		if s.pos++; s.pos < len(s.text) && (s.text[s.pos] == '+' || s.text[s.pos] == '-') {
			s.pos++
		}
		return s.digits()
	}
	return true
}

func (s *scanner) digits() bool {
	from := s.pos
	for s.pos < len(s.text) && s.text[s.pos] >= '0' && s.text[s.pos] <= '9' {
		s.pos++
	}
	return s.pos > from
}

// object takes an object, which begins here, with a visit to each member.
func (s *scanner) object(member visit) bool {
	return s.list('}', func() bool {
		if s.next() != '"' {
			return false
		}
		from := s.pos
		if !s.quoted() {
			return false
		}
		key := unquote(s.text[from:s.pos])
		if s.next() != ':' {
			return false
		}
		s.pos++
		s.next()
		return member(key)
	})
}

// array takes a list, which begins here, with a visit to each element.
func (s *scanner) array(element visit) bool {
	return s.list(']', func() bool {
		s.next()
		return element("")
	})
}

// list takes what stands between brackets, separated by commas.
func (s *scanner) list(end byte, item func() bool) bool {
	if s.depth++; s.depth > maxDepth {
		return false
	}
	s.pos++
	for first := true; ; first = false {
		switch c := s.next(); {
		case c == end && first:
		case first:
			if !item() {
				return false
			}
			continue
		case c == ',':
			if s.pos++; !item() {
				return false
			}
			continue
		case c != end:
			return false
		}
		s.depth--
		s.pos++
		return true
	}
}

// unquote reads a valid JSON string.
func unquote(raw string) string {
	if strings.IndexByte(raw, '\\') < 0 {
		return raw[1 : len(raw)-1]
	}
	return gjson.Parse(raw).Str
}
