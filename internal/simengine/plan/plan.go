package plan

import (
	"math"
	"slices"
	"strings"

	"oneslot/internal/simengine/ask"
	"oneslot/internal/simengine/words"
)

// How a reply ends by itself, in the words of finish_reason.
const (
	Stop   = "stop"
	Length = "length"
)

// Options say how the engine speaks and counts.
type Options struct {
	Vocab    *words.Vocab
	Format   ask.Format
	Seed     uint64
	Thinking int // tokens
	Answer   int // tokens
	Budget   int // the most tokens of the whole reply

	Split    bool // thinking goes to a channel of its own, unless the request says otherwise
	Counted  bool // the engine counts thinking at all
	TextOnly bool // …and leaves the markers out of it
	Trimmed  bool // white space after the close marker is not shown
}

// Piece is one token: what it adds to the two channels. Both are empty for a
// marker that does not show and for the end of the turn.
type Piece struct {
	Thinking, Answer string
}

// Plan is a reply before it is spoken.
type Plan struct {
	Pieces  []Piece
	Tokens  []string // as generated; as many as Pieces
	Finish  string   // Stop or Length
	Matched any      // what stopped it: words.TurnEndID, a stop string, or nil

	text     string // without what a stop string cut off
	ends     []int  // where in text each token ends
	thinking span
	answer   span
	visible  int // where the text that is shown ends
	counts   counting
}

// counting is how the engine counts thinking: none, all tokens, or those from
// skip+1 to upto.
type counting struct {
	none, all  bool
	skip, upto int
}

// New plans the reply to req.
func New(req *ask.Request, o Options) *Plan {
	p := compose(req, o)
	end := 0
	for tok := range o.Vocab.Split(p.text) {
		if len(p.Tokens) == o.Budget {
			break
		}
		end += len(tok)
		p.Tokens, p.ends = append(p.Tokens, tok), append(p.ends, end)
	}
	p.Finish, p.visible = Length, end
	if !p.stopAt(req) && len(p.Tokens) < o.Budget {
		p.Finish, p.Matched = Stop, words.TurnEndID
	}
	p.show(req, o)
	p.count(req, o)
	if p.Matched == words.TurnEndID {
		p.endTurn(req)
	}
	if req.Chat && !req.StreamThinking {
		p.holdThinking()
	}
	return p
}

// stopAt ends p at the stop string that is complete first, if there is one. As
// with all engines it may be in the thinking, and its own tokens count.
func (p *Plan) stopAt(req *ask.Request) bool {
	text := p.text[:p.visible]
	first, cut := len(text)+1, 0
	for _, s := range req.Stop {
		if i := strings.Index(text, s); i >= 0 && i+len(s) < first {
			first, cut = i+len(s), i
			p.Finish, p.Matched = Stop, s
		}
	}
	if p.Matched == nil {
		return false
	}
	if req.KeepStop {
		cut = first
	}
	i, _ := slices.BinarySearch(p.ends, first)
	p.Tokens, p.ends, p.visible = p.Tokens[:i+1], p.ends[:i+1], cut
	return true
}

// show fills Pieces.
func (p *Plan) show(req *ask.Request, o Options) {
	split := req.Chat && req.Separate && o.Split
	hide := o.Format.Special && req.SkipSpecial
	marks := o.Format.Marks()
	from := 0
	for i, to := range p.ends {
		whole := span{from, to}.cut(0, p.visible)
		var out Piece
		switch {
		case split && req.Unmarked && req.Prefilled:
			out.Thinking = whole.of(p.text)
		case split:
			out.Thinking = p.thinking.cut(whole.from, whole.to).of(p.text)
			out.Answer = p.shownAnswer(o).cut(whole.from, whole.to).of(p.text)
		case hide && slices.Contains(marks, p.Tokens[i]):
		default:
			out.Answer = whole.of(p.text)
		}
		p.Pieces = append(p.Pieces, out)
		from = to
	}
}

// shownAnswer is the answer without what a trimming engine drops at its start.
func (p *Plan) shownAnswer(o Options) span {
	if !o.Trimmed {
		return p.answer
	}
	text := p.answer.of(p.text)
	return span{p.answer.from + len(text) - len(strings.TrimLeft(text, " \n")), p.answer.to}
}

// count works out how the engine counts thinking: up to and with the first
// token that equals the first token of the close marker, even where a marker is
// several tokens; and all of a continued message.
func (p *Plan) count(req *ask.Request, o Options) {
	p.counts = counting{none: !o.Counted || !req.Chat || req.NoThink, all: req.Prefilled, upto: math.MaxInt}
	if o.TextOnly {
		p.counts.all = false
		p.counts.skip = index(p.ends, p.thinking.from)
		p.counts.upto = max(index(p.ends, p.thinking.to), p.counts.skip)
		return
	}
	for first := range o.Vocab.Split(o.Format.Close) {
		if i := slices.Index(p.Tokens, first); i >= 0 {
			p.counts.upto = i + 1
		}
		return
	}
}

// index returns how many tokens end at or before at.
func index(ends []int, at int) int {
	i, found := slices.BinarySearch(ends, at)
	if found {
		i++
	}
	return i
}

// Thought returns how many of the first n tokens the engine counts as thinking.
func (p *Plan) Thought(n int) int {
	switch {
	case p.counts.none:
		return 0
	case p.counts.all:
		return n
	}
	return max(min(n, p.counts.upto)-p.counts.skip, 0)
}

// endTurn adds the token that ends the turn.
func (p *Plan) endTurn(req *ask.Request) {
	last := Piece{}
	if req.KeepStop && !req.SkipSpecial {
		last.Answer = words.TurnEnd
	}
	p.Pieces = append(p.Pieces, last)
	p.Tokens = append(p.Tokens, words.TurnEnd)
}

// holdThinking moves all thinking to where it ends, in one piece.
func (p *Plan) holdThinking() {
	var all strings.Builder
	last := -1
	for i := range p.Pieces {
		if p.Pieces[i].Thinking != "" {
			all.WriteString(p.Pieces[i].Thinking)
			p.Pieces[i].Thinking, last = "", i
		}
	}
	if last >= 0 {
		p.Pieces[last].Thinking = all.String()
	}
}

// Shown returns what tokens from to to add to the channels.
func (p *Plan) Shown(from, to int) Piece {
	if to == from+1 {
		return p.Pieces[from]
	}
	var thinking, answer strings.Builder
	for _, one := range p.Pieces[from:to] {
		thinking.WriteString(one.Thinking)
		answer.WriteString(one.Answer)
	}
	return Piece{thinking.String(), answer.String()}
}

// Spoken returns the thinking and the answer in the first n tokens, whatever
// channel they went to, without markers.
func (p *Plan) Spoken(n int) (thinking, answer string) {
	end := 0
	if n = min(n, len(p.ends)); n > 0 {
		end = min(p.ends[n-1], p.visible)
	}
	return p.thinking.cut(0, end).of(p.text), p.answer.cut(0, end).of(p.text)
}
