package reasoning

// stateFn takes some of the unread text and returns the next state, or nil when
// all that is left, if anything, is held back. It holds nothing back once the
// stream has ended.
type stateFn func(*Parser) stateFn

// undecided is before the first visible text: an opener begins thinking,
// anything else the answer.
func undecided(p *Parser) stateFn {
	m, visible := p.edge(opener)
	switch {
	case m != nil:
		p.skip(len(m.text))
		p.phase = Thinking
		return opened
	case visible || p.final:
		p.release(Answer)
		return p.settle(answer, 0)
	}
	return nil
}

// prompted is inside thinking that the prompt opened, before the first visible
// text: an opener is dropped.
func prompted(p *Parser) stateFn {
	m, visible := p.edge(opener | closer | tool)
	if m != nil && m.role == opener {
		p.skip(len(m.text))
		return opened
	}
	return p.begin(m, visible)
}

// opened is after the opener, before the first visible text.
func opened(p *Parser) stateFn {
	m, visible := p.edge(closer | tool)
	return p.begin(m, visible)
}

// begin leaves the edge of thinking for what comes first: the marker m, or
// visible text. It drops what white space was held since the stream began.
func (p *Parser) begin(m *marker, visible bool) stateFn {
	if m != nil || visible || p.final {
		p.drop()
	}
	switch {
	case m != nil:
		return p.leave(m)
	case visible:
		return thinking
	}
	return nil
}

// thinking runs to the closer or to a tool opener.
func thinking(p *Parser) stateFn {
	if m := p.body(closer|tool, &p.lex.thinking); m != nil {
		return p.leave(m)
	}
	if p.final {
		p.release(Thinking)
	}
	return nil
}

// leave ends thinking at m, which is unread.
func (p *Parser) leave(m *marker) stateFn {
	if m.role == closer {
		p.skip(len(m.text))
		p.drop()
		return p.settle(closed, p.offset())
	}
	p.release(Thinking)
	next := p.settle(answer, p.offset())
	p.put(Answer, run{m.text, p.offset()})
	p.skip(len(m.text))
	return next
}

// closed is after the closer, before the first visible text.
func closed(p *Parser) stateFn {
	_, visible := p.edge(0)
	if visible || p.final {
		p.drop()
	}
	if visible {
		return answer
	}
	return nil
}

// answer runs to the end.
func answer(p *Parser) stateFn {
	p.body(0, &p.lex.answer)
	return nil
}

// edge reads the white space and control tokens that stand before the first
// visible text or marker of the given roles, and holds the white space. It
// returns that marker, unread, or whether visible text follows; neither, if
// that is not yet known.
func (p *Parser) edge(roles role) (m *marker, visible bool) {
	for p.unread() > 0 {
		m, whole := p.match(roles)
		switch {
		case m != nil && !whole:
			p.keep(m)
			return nil, false
		case m != nil && m.role != control:
			return m, false
		case m != nil:
			p.skip(len(m.text))
		case !p.blank():
			return nil, true
		default:
			p.hold(p.take(1))
		}
	}
	return nil, false
}

// blank reports whether the first unread byte is white space.
func (p *Parser) blank() bool {
	if p.part != "" {
		return isBlank(p.part[0])
	}
	return isBlank(p.text[p.pos])
}

// body gives out text up to a marker of the given roles, which it returns
// unread, without the control tokens in it. It returns nil when there is no
// more text, but for what may be the start of a marker. Starts finds the markers
// that count.
func (p *Parser) body(roles role, starts *needles) *marker {
	for p.unread() > 0 {
		if p.part == "" {
			p.say(p.take(starts.find(p.text[p.pos:])))
			if p.unread() == 0 {
				return nil
			}
		}
		m, whole := p.match(roles)
		switch {
		case m == nil:
			p.say(p.take(p.literal(roles)))
		case !whole:
			p.keep(m)
			return nil
		case m.role == control:
			p.skip(len(m.text))
		default:
			return m
		}
	}
	return nil
}

// literal returns how many unread bytes, the first of which begins no marker,
// are surely text.
func (p *Parser) literal(roles role) int {
	n := 1
	for n < len(p.part) {
		if m, _ := p.lex.match(p.part[n:], p.text, roles|control, p.final); m != nil {
			break
		}
		n++
	}
	return n
}

// say gives text of the present channel out. In thinking it holds back white
// space at its end, which the closer may follow.
func (p *Parser) say(r run) {
	end := len(r.text)
	for p.phase == Thinking && end > 0 && isBlank(r.text[end-1]) {
		end--
	}
	if end > 0 {
		p.release(p.phase)
		p.put(p.phase, run{r.text[:end], r.at})
	}
	if end < len(r.text) {
		p.hold(run{r.text[end:], r.at + end})
	}
}
