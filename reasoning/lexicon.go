package reasoning

import (
	"cmp"
	"slices"
	"strings"
)

// blanks is the white space that a marker takes with it.
const blanks = " \t\r\n"

func isBlank(c byte) bool {
	return c == ' ' || c == '\n' || c == '\t' || c == '\r'
}

// role is what a marker does; a set of roles says which markers count.
type role uint16

const (
	opener role = 1 << iota
	closer
	tool
	control
	// Of channels.
	begin     // of a header
	label     // before a channel's name; it begins a header too
	message   // end of a header
	ender     // of a message
	thinks    // name of a channel of thinking
	lasts     // name of a channel that ends a reply
	recipient // of a tool call
)

// headers are the roles that begin a header.
const headers = begin | label

// marker is one spelling with its role.
type marker struct {
	text string
	role role
}

// lexicon holds the markers of one format, ready for matching.
type lexicon struct {
	// markers stand longest first, and by role among those of one length, so
	// that the first that matches is the one that counts.
	markers  []marker
	thinking needles // for what counts inside thinking
	answer   needles // for what counts inside the answer
}

// load replaces the contents by the markers of f. It reuses memory.
func (l *lexicon) load(f *Format) {
	l.markers = l.markers[:0]
	l.thinking.reset()
	l.answer.reset()
	if f == nil {
		return
	}
	if f.Channels != nil {
		l.channels(f.Channels)
	} else {
		l.add(opener, f.Open)
		l.add(closer, f.Close)
		l.add(tool, f.ToolOpen)
		l.add(control, f.ControlTokens)
	}
	slices.SortStableFunc(l.markers, func(a, b marker) int { return cmp.Compare(len(b.text), len(a.text)) })
}

func (l *lexicon) add(r role, markers []string) {
	for _, m := range markers {
		if m == "" {
			continue
		}
		l.markers = append(l.markers, marker{m, r})
		if r&(closer|tool|control|headers|ender) != 0 {
			l.thinking.add(m)
		}
		if r&(control|ender) != 0 {
			l.answer.add(m)
		}
	}
}

func (l *lexicon) channels(c *Channels) {
	l.add(begin, c.Start)
	l.add(label, c.Channel)
	l.add(message, c.Message)
	l.add(ender, c.End)
	l.add(thinks, c.Thinking)
	l.add(lasts, c.Last)
	l.add(recipient, c.Recipient)
}

// has reports whether any marker has one of the roles.
func (l *lexicon) has(r role) bool {
	return slices.ContainsFunc(l.markers, func(m marker) bool { return m.role&r != 0 })
}

// match reads one marker of the given roles at the start of a+b and returns it,
// or nil. If a+b may be the start of a longer one, it returns that with whole
// false, unless no more text will come, which final says.
func (l *lexicon) match(a, b string, roles role, final bool) (m *marker, whole bool) {
	for i := range l.markers {
		m := &l.markers[i]
		if m.role&roles == 0 {
			continue
		}
		if len(a) >= len(m.text) {
			if strings.HasPrefix(a, m.text) {
				return m, true
			}
			continue
		}
		if !strings.HasPrefix(m.text, a) {
			continue
		}
		rest := m.text[len(a):]
		if strings.HasPrefix(b, rest) {
			return m, true
		}
		if !final && strings.HasPrefix(rest, b) {
			return m, false
		}
	}
	return nil, false
}

// needles finds where one of some markers may begin, at the speed of memory.
type needles struct {
	common string // what all of them begin with
	first  []byte // their first bytes, each once; empty without markers
}

func (n *needles) reset() {
	n.common, n.first = "", n.first[:0]
}

func (n *needles) add(m string) {
	if len(n.first) == 0 {
		n.common = m
	}
	for !strings.HasPrefix(m, n.common) {
		n.common = n.common[:len(n.common)-1]
	}
	if !slices.Contains(n.first, m[0]) {
		n.first = append(n.first, m[0])
	}
}

// find returns the index of the first byte in s at which a marker may begin, be
// it one that the end of s cuts off, or len(s).
func (n *needles) find(s string) int {
	switch {
	case len(n.first) == 0:
		return len(s)
	case n.common == "":
		return n.findFirst(s)
	}
	if i := strings.Index(s, n.common); i >= 0 {
		return i
	}
	for i := max(0, len(s)-len(n.common)+1); i < len(s); i++ {
		if strings.HasPrefix(n.common, s[i:]) {
			return i
		}
	}
	return len(s)
}

// window bounds how far one first byte is looked for before the others are, so
// that one that is nowhere does not cost a pass over the whole text each time
// another is found.
const window = 4096

// findFirst is find for markers that have no beginning in common.
func (n *needles) findFirst(s string) int {
	for at := 0; at < len(s); at += window {
		w := s[at:min(at+window, len(s))]
		found := false
		for _, c := range n.first {
			if i := strings.IndexByte(w, c); i >= 0 {
				w, found = w[:i], true
			}
		}
		if found {
			return at + len(w)
		}
	}
	return len(s)
}
