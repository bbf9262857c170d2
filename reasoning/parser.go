package reasoning

import "strings"

// Parser splits one stream. Feed it the text as it comes, then Close it. It
// belongs to one stream and is not safe for concurrent use. Make one with New,
// or Reset an old one.
type Parser struct {
	lex   lexicon
	state stateFn
	phase Kind // channel in which the next text would land

	text  string // the piece being read
	pos   int    // where the unread part of text begins
	part  string // unread text of earlier pieces, the start of a marker; pos is 0 while there is any
	held  []run  // white space that is dropped if a marker follows
	read  int    // bytes fed before text
	final bool   // nothing follows text

	out []Segment
	at  int // offset in the stream of the last segment

	end   int  // see Boundary
	ended bool // see Boundary

	head head // of the message being read, in a format with channels
}

// run is text with its offset in the stream.
type run struct {
	text string
	at   int
}

// New returns a Parser for one stream in format f that begins in state start:
// usually f.StartsIn, else what the request implies, as f.ConstrainedStartsIn or
// the result of StartAfter. A nil f is the zero Format.
func New(f *Format, start State) *Parser {
	p := new(Parser)
	p.Reset(f, start)
	return p
}

// Reset makes p as New returns it, for another stream, and keeps its memory.
func (p *Parser) Reset(f *Format, start State) {
	clear(p.held[:cap(p.held)])
	clear(p.out[:cap(p.out)])
	*p = Parser{lex: p.lex, held: p.held[:0], out: p.out[:0]}
	p.lex.load(f)
	if start == StartAuto && f != nil {
		start = f.Otherwise
	}
	if f != nil && f.Channels != nil {
		p.startChannels(start)
		return
	}
	switch start {
	case StartThinking:
		p.state, p.phase = prompted, Thinking
	case StartMidThinking:
		p.state, p.phase = thinking, Thinking
	case StartClosed:
		p.state = p.settle(closed, 0)
	case StartMidAnswer:
		p.state = p.settle(answer, 0)
	case StartAnswer, StartAuto:
		fallthrough
	default:
		p.state, p.phase = undecided, Answer
		if !p.lex.has(opener) {
			p.state = p.settle(answer, 0)
		}
	}
}

// Feed reads the next piece of the stream and returns what is now certain, in
// order. The result is valid until the next call; the texts in it stay valid.
// They are parts of the pieces fed, so it does not allocate once p has warmed
// up.
func (p *Parser) Feed(text string) []Segment {
	p.read += len(p.text)
	p.text, p.pos, p.out = text, 0, p.out[:0]
	for next := p.state(p); next != nil; next = p.state(p) {
		p.state = next
	}
	return p.out
}

// Close says that the stream has ended and returns what was held back. A second
// Close returns nothing.
func (p *Parser) Close() []Segment {
	p.final = true
	return p.Feed("")
}

// Boundary returns how many of the bytes fed belong to thinking: up to and
// including the closer, or up to the tool opener, that ended it. It is ok once
// thinking has ended; n is then fixed, and 0 if the stream turned out to have no
// thinking.
func (p *Parser) Boundary() (n int, ok bool) {
	return p.end, p.ended
}

// Phase returns the channel in which the next text would land, as far as the
// text read so far says.
func (p *Parser) Phase() Kind {
	return p.phase
}

// settle says that thinking ended after n bytes of the stream, and returns next.
func (p *Parser) settle(next stateFn, n int) stateFn {
	p.phase, p.end, p.ended = Answer, n, true
	return next
}

// offset is how many bytes of the stream have been taken.
func (p *Parser) offset() int {
	return p.read + p.pos - len(p.part)
}

// unread is how many bytes are left to take.
func (p *Parser) unread() int {
	return len(p.part) + len(p.text) - p.pos
}

// match reads a marker of the given roles, or a control token, at the first
// unread byte. See lexicon.match.
func (p *Parser) match(roles role) (m *marker, whole bool) {
	return p.lex.match(p.part, p.text[p.pos:], roles|control, p.final)
}

// skip takes n bytes.
func (p *Parser) skip(n int) {
	k := min(n, len(p.part))
	p.part = p.part[k:]
	p.pos += n - k
}

// take takes n bytes, which do not reach from part into text, and returns them.
func (p *Parser) take(n int) run {
	r := run{at: p.offset()}
	if p.part != "" {
		r.text = p.part[:n]
	} else {
		r.text = p.text[p.pos : p.pos+n]
	}
	p.skip(n)
	return r
}

// keep holds all unread text, the start of m, for the next piece. Taking it from
// the marker joins it without a copy.
func (p *Parser) keep(m *marker) {
	p.part = m.text[:p.unread()]
	p.pos = len(p.text)
}

// put gives r out. It grows the last segment if r follows it in the piece being
// read, so that a piece that is all one channel stays one segment.
func (p *Parser) put(kind Kind, r run) {
	if n := len(p.out) - 1; n >= 0 && p.out[n].Kind == kind {
		if text, ok := p.join(run{p.out[n].Text, p.at}, r); ok {
			p.out[n].Text = text
			return
		}
	}
	p.out, p.at = append(p.out, Segment{kind, r.text}), r.at
}

// join returns a and b as one if b follows a in the piece being read.
func (p *Parser) join(a, b run) (string, bool) {
	if a.at < p.read || a.at+len(a.text) != b.at {
		return "", false
	}
	return p.text[a.at-p.read : b.at-p.read+len(b.text)], true
}

// maxHeld bounds how many runs of white space are held one by one.
const maxHeld = 64

// hold keeps white space back until it is known whether a marker follows.
func (p *Parser) hold(r run) {
	n := len(p.held) - 1
	if n >= 0 {
		if text, ok := p.join(p.held[n], r); ok {
			p.held[n].text = text
			return
		}
	}
	if n+1 == maxHeld {
		var b strings.Builder
		for _, h := range p.held {
			b.WriteString(h.text)
		}
		p.held = append(p.held[:0], run{b.String(), -1})
	}
	p.held = append(p.held, r)
}

// release gives held white space out.
func (p *Parser) release(kind Kind) {
	for _, r := range p.held {
		p.put(kind, r)
	}
	p.drop()
}

// drop forgets held white space.
func (p *Parser) drop() {
	p.held = p.held[:0]
}
