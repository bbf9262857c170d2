package simengine

import (
	"hash/fnv"
	"slices"
	"strings"

	"oneslot/internal/simengine/ask"
	"oneslot/internal/simengine/words"
)

// piece is one generated token: what it adds to the two channels. Both are
// empty for a marker that does not show and for the end of the turn.
type piece struct {
	thinking, answer string
}

// plan is a reply before it is spoken.
type plan struct {
	pieces  []piece
	tokens  []string // as generated, for the prefix cache
	finish  Outcome
	matched any
	marked  int  // tokens up to and including the end of thinking; 0 means it does not end
	counts  bool // thinking tokens are counted at all

	thinking, answer span // of the whole text, without markers
	text             string
}

// span is a part of a text in bytes.
type span struct{ from, to int }

func (s span) of(text string) string {
	to := min(s.to, len(text))
	return text[min(s.from, to):to]
}

// cut returns the part of s between from and to.
func (s span) cut(from, to int) span {
	from = max(s.from, from)
	return span{from, max(from, min(s.to, to))}
}

// thoughtOf returns how many of the first n tokens the engine counts as
// thinking.
func (p *plan) thoughtOf(n int) int {
	switch {
	case !p.counts:
		return 0
	case p.marked == 0:
		return n
	default:
		return min(n, p.marked)
	}
}

// plan composes the reply to req within budget tokens.
func (e *Engine) plan(req *ask.Request, set settings, budget int) *plan {
	p := e.compose(req, set, budget)
	var at []int // where each token ends
	end := 0
	for tok := range e.vocab.Split(p.text) {
		if len(p.tokens) == budget {
			break
		}
		end += len(tok)
		p.tokens, at = append(p.tokens, tok), append(at, end)
	}
	p.finish = Length
	visible := end
	if cut, n, stop := firstStop(p.text[:end], at, req); stop != "" {
		p.finish, p.matched, visible, end = Stopped, stop, cut, at[n-1]
		p.tokens, at = p.tokens[:n], at[:n]
	}
	e.show(p, req, at, visible)
	if p.finish == Length && len(p.tokens) < budget {
		p.finish, p.matched = Stopped, words.TurnEndID
		p.tokens = append(p.tokens, words.TurnEnd)
		last := piece{}
		if req.KeepStop && !req.SkipSpecial {
			last.answer = words.TurnEnd
		}
		p.pieces = append(p.pieces, last)
	}
	p.text = p.text[:visible]
	p.count(e, req)
	if !req.StreamThinking && req.Chat {
		p.holdThinking()
	}
	return p
}

// compose writes the whole text, markers included, and notes its parts.
func (e *Engine) compose(req *ask.Request, set settings, budget int) *plan {
	format := e.cfg.Format
	h := fnv.New64a()
	_, _ = h.Write([]byte(req.Prompt)) // a hash takes everything
	seed := e.cfg.Seed ^ h.Sum64()
	thinking, answer := min(set.thinking, e.cfg.ContextLength), min(set.answer, e.cfg.ContextLength)
	if req.IgnoreEOS {
		answer = max(answer, budget)
	}
	var b strings.Builder
	p := &plan{}
	opens := req.Start == ask.Opening && thinking > 0
	if opens {
		b.WriteString(format.Open)
	}
	p.thinking.from = b.Len()
	if opens || req.Start == ask.InThinking {
		b.WriteString(words.Compose(words.Thinking, thinking, seed))
		p.thinking.to = b.Len()
		b.WriteString(format.Close)
		p.answer.from = b.Len()
		b.WriteString("\n\n")
	}
	b.WriteString(words.Compose(words.Answer, answer, seed))
	p.answer.to = b.Len()
	p.text = b.String()
	return p
}

// firstStop finds the stop string that is complete first. cut is where the text
// ends for it, n how many tokens were generated until it was there: as with all
// engines it may be in the thinking, and its own tokens count.
func firstStop(text string, at []int, req *ask.Request) (cut, n int, stop string) {
	first := len(text) + 1
	for _, s := range req.Stop {
		if i := strings.Index(text, s); i >= 0 && i+len(s) < first {
			first, cut, stop = i+len(s), i, s
		}
	}
	if stop == "" {
		return 0, 0, ""
	}
	i, _ := slices.BinarySearch(at, first)
	if req.KeepStop {
		cut = first
	}
	return cut, i + 1, stop
}

// show fills p.pieces: what each token, ending where at says, adds to the
// channels, up to visible.
func (e *Engine) show(p *plan, req *ask.Request, at []int, visible int) {
	split := req.Chat && req.Separate && e.cfg.Output == Split
	hide := e.cfg.Format.Special && req.SkipSpecial
	from := 0
	for i, to := range at {
		whole := span{from, to}.cut(0, visible)
		var out piece
		switch {
		case split && req.Unmarked:
			out.thinking = whole.of(p.text)
		case split:
			out.thinking = p.thinking.cut(whole.from, whole.to).of(p.text)
			out.answer = p.answer.cut(whole.from, whole.to).of(p.text)
		case hide && slices.Contains(e.cfg.Format.Marks(), p.tokens[i]):
		default:
			out.answer = whole.of(p.text)
		}
		p.pieces = append(p.pieces, out)
		from = to
	}
}

// count sets how the engine counts thinking: up to the first token that equals
// the first token of the close marker, and everything in a continued message.
func (p *plan) count(e *Engine, req *ask.Request) {
	p.counts = req.Chat && e.cfg.Output == Split && !req.NoThink
	if req.Prefilled {
		return
	}
	for first := range e.vocab.Split(e.cfg.Format.Close) {
		p.marked = slices.Index(p.tokens, first) + 1
		return
	}
}

// holdThinking moves all thinking to where it ends, in one piece.
func (p *plan) holdThinking() {
	var all strings.Builder
	last := -1
	for i := range p.pieces {
		if p.pieces[i].thinking != "" {
			all.WriteString(p.pieces[i].thinking)
			p.pieces[i].thinking, last = "", i
		}
	}
	if last >= 0 {
		p.pieces[last].thinking = all.String()
	}
}
