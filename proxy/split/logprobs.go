package split

import (
	"strings"

	"github.com/tidwall/gjson"
)

// probs aligns the token probabilities of a stream with its text. The zero
// value aligns; off passes nothing.
type probs struct {
	off     bool
	broken  bool // alignment was lost; nothing more is passed on
	entries []entry
	begun   bool // answer text has come out, so blanks are no longer edges
	owed    int  // answer bytes given out that no entry has covered yet
}

// entry is one token: where its text begins in the raw stream, and its JSON.
type entry struct {
	at   int
	text string
	raw  string
}

// add takes the logprobs of a chunk whose text begins at raw offset at. mixed
// says that the chunk also carried thinking that the engine had split away.
func (p *probs) add(logprobs, text string, at int, mixed bool) {
	if p.off || p.broken {
		return
	}
	rest := text
	gjson.Get(logprobs, "content").ForEach(func(_, token gjson.Result) bool {
		t := tokenText(token)
		if mixed || !strings.HasPrefix(rest, t) {
			p.broken = true
			return false
		}
		p.entries = append(p.entries, entry{at: at + len(text) - len(rest), text: t, raw: token.Raw})
		rest = rest[len(t):]
		return true
	})
	if rest != "" {
		p.broken = true
	}
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

// take returns the logprobs object for answer text that is going out. Entries
// that begin before the boundary belong to thinking or to a marker.
func (p *probs) take(text string, boundary int) string {
	if p.off || p.broken {
		return ""
	}
	p.owed += len(text)
	var b strings.Builder
	n := 0
	for _, e := range p.entries {
		edge := !p.begun && strings.Trim(e.text, blanks) == "" && boundary > 0
		switch {
		case e.at < boundary && e.at+len(e.text) > boundary:
			// One token holds the end of the marker and the start of the answer.
			p.broken = true
			return ""
		case e.at < boundary, edge:
		case len(e.text) > p.owed && p.begun, p.owed <= 0:
			p.entries = p.entries[n:]
			return object(b.String())
		default:
			p.begun = true
			p.owed = max(p.owed-len(e.text), 0)
			if b.Len() > 0 {
				b.WriteByte(',')
			}
			b.WriteString(e.raw)
		}
		n++
	}
	p.entries = p.entries[:0]
	return object(b.String())
}

func object(entries string) string {
	if entries == "" {
		return ""
	}
	return `{"content":[` + entries + `],"refusal":null}`
}
