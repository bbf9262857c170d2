package split

import (
	"strings"

	"oneslot/reasoning"
)

// blanks are the characters that count as whitespace at a boundary.
const blanks = " \t\r\n"

// edges gives text that the engine has split the same edges as the parser's.
type edges struct {
	lead      *reasoning.Parser // drops blanks and a leaked opener at the start
	held      string            // blanks that may touch the boundary
	thought   bool              // thinking text has come
	answering bool              // the boundary has passed
	visible   bool              // the answer has begun
}

func newEdges(f *reasoning.Format) edges {
	return edges{lead: reasoning.New(&reasoning.Format{Name: f.Name, Open: f.Open}, reasoning.StartThinking)}
}

func (e *edges) thinking(text string, emit func(reasoning.Kind, string)) {
	e.thought = true
	for _, seg := range e.lead.Feed(text) {
		e.push(seg.Text, emit)
	}
}

func (e *edges) push(text string, emit func(reasoning.Kind, string)) {
	if e.held != "" {
		text = e.held + text
	}
	keep := strings.TrimRight(text, blanks)
	e.held = text[len(keep):]
	if keep != "" {
		emit(reasoning.Thinking, keep)
	}
}

func (e *edges) answer(text string, emit func(reasoning.Kind, string)) {
	if !e.answering {
		e.answering = true
		for _, seg := range e.lead.Close() {
			e.push(seg.Text, emit)
		}
		e.held = ""
	}
	if e.thought && !e.visible {
		if text = strings.TrimLeft(text, blanks); text == "" {
			return
		}
	}
	e.visible = true
	emit(reasoning.Answer, text)
}

func (e *edges) close(emit func(reasoning.Kind, string)) {
	if e.thought && !e.answering {
		for _, seg := range e.lead.Close() {
			e.push(seg.Text, emit)
		}
		if e.held != "" {
			emit(reasoning.Thinking, e.held)
		}
	}
	e.held = ""
}

// echo drops a repeated prefill from the start of the content.
type echo struct {
	rest string // of the prefill, not yet met
	held string // met so far
}

// strip returns the part of text that is not the echo. Text that turns out to
// be no echo comes back whole.
func (e *echo) strip(text string) string {
	if e.rest == "" {
		return text
	}
	switch {
	case strings.HasPrefix(text, e.rest):
		text = text[len(e.rest):]
		*e = echo{}
		return text
	case strings.HasPrefix(e.rest, text):
		e.held += text
		e.rest = e.rest[len(text):]
		return ""
	default:
		text = e.held + text
		*e = echo{}
		return text
	}
}
