package split

import (
	"strings"

	"oneslot/reasoning"
)

// blanks are the characters that count as whitespace at a boundary.
const blanks = " \t\r\n"

func isBlank(text string) bool { return strings.Trim(text, blanks) == "" }

// edges gives text that the engine has split the same edges as the parser's.
// Thinking that comes after the answer has begun is passed as it is.
type edges struct {
	format  *reasoning.Format
	inside  bool              // the answer goes on in the middle of one
	lead    *reasoning.Parser // drops blanks and a leaked opener at the start
	tail    *reasoning.Parser // drops blanks before the answer; nil until it begins
	held    []byte            // blanks of thinking that may touch the boundary
	thought bool              // thinking text has come
}

// newEdges makes the edges of a stream that begins in start.
func newEdges(f *reasoning.Format, start reasoning.State) edges {
	lead := &reasoning.Format{Open: f.Open, ControlTokens: f.ControlTokens}
	return edges{format: f, inside: start == reasoning.StartMidAnswer, lead: reasoning.New(lead, reasoning.StartThinking)}
}

func (e *edges) thinking(text string, emit func(reasoning.Kind, string)) {
	if e.tail != nil {
		emit(reasoning.Thinking, text)
		return
	}
	e.thought = true
	for _, seg := range e.lead.Feed(text) {
		e.push(seg.Text, emit)
	}
}

// push gives out text up to its last visible character.
func (e *edges) push(text string, emit func(reasoning.Kind, string)) {
	ink := strings.TrimRight(text, blanks)
	switch {
	case ink == "":
	case len(e.held) == 0:
		emit(reasoning.Thinking, ink)
	default:
		emit(reasoning.Thinking, string(append(e.held, ink...)))
		e.held = e.held[:0]
	}
	e.held = append(e.held, text[len(ink):]...)
}

func (e *edges) answer(text string, emit func(reasoning.Kind, string)) {
	if e.tail == nil {
		e.turn(emit)
	}
	for _, seg := range e.tail.Feed(text) {
		emit(reasoning.Answer, seg.Text)
	}
}

// turn ends the thinking.
func (e *edges) turn(emit func(reasoning.Kind, string)) {
	for _, seg := range e.lead.Close() {
		e.push(seg.Text, emit)
	}
	e.held = nil
	start := reasoning.StartClosed
	if e.inside && !e.thought {
		start = reasoning.StartMidAnswer
	}
	e.tail = reasoning.New(&reasoning.Format{ControlTokens: e.format.ControlTokens}, start)
}

func (e *edges) answering() bool { return e.tail != nil }

func (e *edges) close(emit func(reasoning.Kind, string)) {
	if e.tail != nil {
		for _, seg := range e.tail.Close() {
			emit(reasoning.Answer, seg.Text)
		}
		return
	}
	for _, seg := range e.lead.Close() {
		e.push(seg.Text, emit)
	}
	if len(e.held) > 0 {
		emit(reasoning.Thinking, string(e.held))
		e.held = nil
	}
}

// echo drops a repeated prefill from the start of a channel.
type echo struct {
	rest string // of the prefill, not yet met
	met  string // of the prefill, met so far
}

// strip returns the part of text that is not the echo. Text that turns out to
// be no echo comes back whole.
func (e *echo) strip(text string) string {
	switch {
	case e.rest == "" || text == "":
		return text
	case strings.HasPrefix(text, e.rest):
		text = text[len(e.rest):]
		*e = echo{}
		return text
	case strings.HasPrefix(e.rest, text):
		e.met += text
		e.rest = e.rest[len(text):]
		return ""
	default:
		return e.close() + text
	}
}

// close returns what looked like an echo and was none.
func (e *echo) close() string {
	met := e.met
	*e = echo{}
	return met
}
