package split

import (
	"slices"
	"strings"

	"oneslot/reasoning"

	"github.com/tidwall/gjson"
)

// probs aligns the token probabilities of a stream with its text. The texts of
// the entries, end to end, must be the text of the stream; they may run ahead of
// it within a character, since an engine holds half a character back.
type probs struct {
	off     bool     // nobody asked for them
	broken  bool     // alignment was lost; nothing more is passed on
	markers []string // tokens that the answer's text may lack

	entries []entry
	at      int    // end of the last entry's text in the stream
	ahead   string // text of entries that the stream has not brought yet

	given string // answer text that went out and that no entry has covered yet
	begun bool   // an entry has covered answer text, so blanks are no edge any more
}

// entry is one token: where its text begins in the stream, and its JSON.
type entry struct {
	at        int
	text, raw string
}

func newProbs(f *reasoning.Format, on bool) probs {
	return probs{off: !on, markers: slices.Concat(f.Open, f.Close, f.ControlTokens)}
}

// idle reports that entries are of no use.
func (p *probs) idle() bool { return p.off || p.broken }

// add takes the entries of a chunk that brought text. They are held to it only
// if it is raw: text that the engine has split lacks the markers.
func (p *probs) add(logprobs, text string, raw bool) {
	spelled := p.ahead
	gjson.Get(logprobs, "content").ForEach(func(_, token gjson.Result) bool {
		t := tokenText(token)
		p.entries = append(p.entries, entry{at: p.at, text: t, raw: token.Raw})
		p.at += len(t)
		spelled += t
		return true
	})
	ok := text == "" || len(p.entries) > 0
	if raw {
		p.ahead, ok = strings.CutPrefix(spelled, text)
	}
	if !ok {
		p.fail()
	}
}

func (p *probs) fail() {
	p.broken, p.entries, p.given, p.ahead = true, nil, "", ""
}

// restart drops all entries: those that follow belong to another text.
func (p *probs) restart() { p.entries, p.ahead = nil, "" }

// forget drops the entries before offset to, which are thinking.
func (p *probs) forget(to int) {
	n := 0
	for n < len(p.entries) && p.entries[n].at+len(p.entries[n].text) <= to {
		n++
	}
	p.entries = p.entries[n:]
}

// tokenText prefers `bytes`: `token` cannot hold half a character.
func tokenText(token gjson.Result) string {
	list := token.Get("bytes")
	if !list.IsArray() {
		return token.Get("token").String()
	}
	var b []byte
	list.ForEach(func(_, v gjson.Result) bool {
		b = append(b, byte(v.Int()))
		return true
	})
	return string(b)
}

// take returns the logprobs object for answer text that is going out, empty when
// no token is complete with it. Entries before the boundary belong to thinking
// or to a marker.
func (p *probs) take(text string, boundary int) string {
	if p.idle() {
		return ""
	}
	p.forget(boundary)
	p.given += text
	var b strings.Builder
	for len(p.entries) > 0 && p.given != "" {
		e := p.entries[0]
		n := p.cover(&e, boundary)
		if n < 0 {
			break
		}
		if n > 0 {
			if b.Len() > 0 {
				b.WriteByte(',')
			}
			b.WriteString(e.raw)
			p.given, p.begun = p.given[n:], true
		}
		p.entries = p.entries[1:]
	}
	if p.broken || b.Len() == 0 {
		return ""
	}
	return `{"content":[` + b.String() + `],"refusal":null}`
}

// cover returns how much of the text given out the entry covers: 0 if it has no
// place in the answer, less than 0 if that is not yet known or never will be.
func (p *probs) cover(e *entry, boundary int) int {
	text := e.text
	if !p.begun {
		text = strings.TrimLeft(text, blanks)
	}
	switch {
	case e.at < boundary:
		// One token holds the end of the marker and the start of the answer.
		p.fail()
		return -1
	case strings.HasPrefix(p.given, e.text):
		return len(e.text)
	case strings.HasPrefix(p.given, text): // the edge before the answer was dropped
		return len(text)
	case slices.Contains(p.markers, strings.Trim(e.text, blanks)):
		return 0
	case strings.HasPrefix(text, p.given):
		return -1
	}
	p.fail()
	return -1
}
