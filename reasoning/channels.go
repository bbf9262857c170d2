package reasoning

// maxHeader bounds a header, in bytes: what is longer is text.
const maxHeader = 256

// head is what is known of a header, and of the message behind it.
type head struct {
	at    int  // offset of the header
	named bool // a name would stand here
	edge  bool // a recipient would stand here
	name  role // thinks, lasts, or 0
	tool  bool // it names a recipient

	last bool // of the message: nothing but an end of it can follow
	call bool // of the message: it is a tool call, passed as it stands
}

// startChannels puts p where a stream begins.
func (p *Parser) startChannels(start State) {
	switch start {
	case StartThinking:
		p.state, p.phase = fresh, Thinking
	case StartMidThinking:
		p.state, p.phase = spoken, Thinking
	case StartClosed:
		p.answers(0)
		p.state, p.head.last = fresh, true
	case StartMidAnswer:
		p.answers(0)
		p.state, p.head.last = spoken, true
	case StartAnswer, StartAuto:
		fallthrough
	default:
		p.state, p.phase = headless, Answer
	}
}

// answers says that what follows is answer, and that thinking, if this is its
// first end, ended after n bytes.
func (p *Parser) answers(n int) {
	p.phase = Answer
	if !p.ended {
		p.end, p.ended = n, true
	}
}

// headless is before the first visible text, where the prompt may have begun the
// header. Text that is none is the answer.
func headless(p *Parser) stateFn {
	m, visible := p.edge(headers | message | recipient)
	switch {
	case m != nil && m.role&headers != 0:
		return p.enter(m)
	case m != nil:
		p.head = head{at: p.offset(), edge: true}
		return header
	case visible || p.final:
		p.release(Answer)
		p.answers(0)
		p.head.last = true
		return spoken
	}
	return nil
}

// enter begins a header with the marker m, which is unread.
func (p *Parser) enter(m *marker) stateFn {
	p.head = head{at: p.offset(), named: m.role == label, edge: true, last: p.head.last, call: p.head.call}
	p.holdMarker(m)
	return header
}

// header is inside a header, which is held until it is whole. One that the end of
// the stream cuts off is dropped.
func header(p *Parser) stateFn {
	for p.unread() > 0 {
		roles := headers | message | ender
		if p.head.named {
			roles |= thinks | lasts
		}
		if p.head.edge {
			roles |= recipient
		}
		m, whole := p.match(roles)
		switch {
		case p.offset()-p.head.at >= maxHeader:
			return p.broken()
		case m == nil && p.newline():
			return p.broken()
		case m == nil:
			p.head.named, p.head.edge = false, p.blank()
			p.hold(p.take(1))
		case !whole:
			p.keep(m)
			return nil
		case m.role == message:
			return p.headed(m)
		case m.role == begin || m.role == ender:
			return p.broken()
		default:
			p.note(m)
			p.holdMarker(m)
		}
	}
	if p.final {
		p.drop()
	}
	return nil
}

// note takes what m says of the message.
func (p *Parser) note(m *marker) {
	if m.role == recipient {
		p.head.tool = true
	}
	if m.role&(thinks|lasts) != 0 {
		p.head.name = m.role
	}
	p.head.named, p.head.edge = m.role == label, m.role == label
}

func (p *Parser) newline() bool {
	if p.part != "" {
		return p.part[0] == '\n'
	}
	return p.text[p.pos] == '\n'
}

// broken gives out what was taken for a header: it is text of the message that it
// stands in, or the answer if there is none.
func (p *Parser) broken() stateFn {
	p.release(p.phase)
	if p.phase == Answer && !p.ended {
		p.answers(0)
		p.head.last = true
	}
	return spoken
}

// headed goes from a header, whose end m is unread, to its message.
func (p *Parser) headed(m *marker) stateFn {
	h := p.head
	p.head = head{last: h.name == lasts, call: h.tool}
	p.holdMarker(m)
	switch {
	case h.tool:
		p.answers(h.at)
		p.head.last = false
		p.release(Answer)
		return spoken
	case h.name == thinks:
		p.phase = Thinking
	default:
		p.answers(p.offset())
	}
	p.drop()
	return fresh
}

// ends are the roles that count in the message being read.
func (p *Parser) ends() role {
	switch {
	case p.head.call:
		return headers
	case p.head.last:
		return ender
	default:
		return headers | ender
	}
}

// fresh is after a header, before the first visible text.
func fresh(p *Parser) stateFn {
	m, visible := p.edge(p.ends())
	if m != nil || visible || p.final {
		p.drop()
	}
	switch {
	case m != nil:
		return p.leaveText(m)
	case visible:
		return spoken
	}
	return nil
}

// spoken runs to what ends the message.
func spoken(p *Parser) stateFn {
	starts := &p.lex.thinking
	if p.head.last {
		starts = &p.lex.answer
	}
	if m := p.body(p.ends(), starts); m != nil {
		return p.leaveText(m)
	}
	if p.final {
		p.release(p.phase)
	}
	return nil
}

// leaveText leaves the text of a message for the marker m, which is unread. Without
// an end before the header, white space there stays.
func (p *Parser) leaveText(m *marker) stateFn {
	if m.role == ender {
		p.holdMarker(m)
		return closing
	}
	p.release(p.phase)
	return p.enter(m)
}

// closing is after the end of a message, which is held until it is known whether
// it is one.
func closing(p *Parser) stateFn {
	m, visible := p.edge(p.ends())
	switch {
	case m != nil && m.role == ender:
		p.holdMarker(m)
		return closing
	case m != nil:
		p.drop()
		return p.enter(m)
	case visible:
		p.release(p.phase)
		return spoken
	case p.final:
		p.drop()
	}
	return nil
}

// holdMarker takes the marker m, which is unread, and holds it.
func (p *Parser) holdMarker(m *marker) {
	p.hold(run{m.text, p.offset()})
	p.skip(len(m.text))
}
