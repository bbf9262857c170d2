package plan

import (
	"hash/fnv"
	"strings"
	"unicode"
	"unicode/utf8"

	"oneslot/internal/simengine/ask"
	"oneslot/internal/simengine/words"
)

// span is a part of a text in bytes.
type span struct{ from, to int }

func (s span) of(text string) string { return text[s.from:s.to] }

// cut returns the part of s between from and to.
func (s span) cut(from, to int) span {
	from = max(s.from, from)
	return span{from, max(from, min(s.to, to))}
}

// compose writes the whole text, markers included, and notes its parts. The
// text follows the prompt and the seed.
func compose(req *ask.Request, o Options) *Plan {
	h := fnv.New64a()
	_, _ = h.Write([]byte(req.Prompt)) // a hash takes everything
	seed := o.Seed ^ h.Sum64()
	answer := o.Answer
	if req.IgnoreEOS {
		answer = max(answer, o.Budget)
	}
	p := &Plan{}
	var b strings.Builder
	opens := req.Start == ask.Opening && o.Thinking > 0
	speaks := o.Thinking > 0 || req.Start == ask.InAnswer
	switch last, _ := utf8.DecodeLastRuneInString(req.Prompt); {
	case opens:
		b.WriteString(o.Format.Open)
		p.thinking = span{b.Len(), b.Len()}
	case speaks && (unicode.IsLetter(last) || unicode.IsDigit(last)):
		b.WriteByte(' ') // a continued text goes on with a new word
	}
	if opens || req.Start == ask.InThinking {
		b.WriteString(words.Compose(words.Thinking, o.Thinking, seed))
		p.thinking.to = b.Len()
		b.WriteString(o.Format.Close)
		p.answer.from = b.Len()
		b.WriteString("\n\n")
	}
	b.WriteString(words.Compose(words.Answer, answer, seed))
	p.answer.to = b.Len()
	p.text = b.String()
	return p
}
