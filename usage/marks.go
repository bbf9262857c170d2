package usage

// mark says that the engine had counted total tokens when off bytes of text
// had come.
type mark struct {
	off, total int
	// text says that the event which told total also brought text, so that off
	// is where its last token ends.
	text bool
	// answer says that the engine had changed to the answer by then.
	answer bool
}

// marks are the running totals in the order they came, both fields rising.
// Only those around the boundary matter, so few are kept.
type marks struct {
	list []mark
}

// keptMarks bounds the list while the boundary is not known yet. A boundary
// becomes known when the last byte of the close marker comes, a few events
// after the one it lies in at most.
const keptMarks = 64

// add takes a running total. boundary is negative while it is not known.
func (m *marks) add(next mark, boundary int) {
	// A step of the engine may come as several events with the same total: its
	// tokens then cover the text of them all. A total that falls replaces those
	// above it.
	for n := len(m.list); n > 0 && m.list[n-1].total >= next.total; n-- {
		last := m.list[n-1]
		if last.total == next.total {
			next.text = next.text || last.text && next.off == last.off
		}
		m.list = m.list[:n-1]
	}
	switch n := len(m.list); {
	case boundary < 0 && n == keptMarks:
		m.list = append(m.list[:0], m.list[n/2:]...)
	case boundary >= 0 && n >= 2 && m.list[n-2].after(boundary):
		m.list = m.list[:n-1]
	}
	if m.list == nil {
		m.list = make([]mark, 0, keptMarks/8) // short answers are many
	}
	m.list = append(m.list, next)
}

// after reports whether m lies behind the boundary for sure.
func (m mark) after(boundary int) bool {
	return m.answer || m.off > boundary || m.off == boundary && !m.text
}

// last is the newest running total; without one it is the zero mark.
func (m *marks) last() mark {
	if len(m.list) == 0 {
		return mark{}
	}
	return m.list[len(m.list)-1]
}

// bracket is what the running totals say about a boundary.
type bracket struct {
	// before and low are the last two totals told before the boundary, low the
	// later one; high is the first one after it. Known says which were told.
	before, low, high mark
	known             bool
	// exact says that low.total is the count up to the boundary.
	exact bool
}

// aroundSwitch looks up the totals around the change of channels. They are
// never exact: the close marker is in neither channel.
func (m *marks) aroundSwitch() bracket {
	var b bracket
	for _, next := range m.list {
		if next.answer {
			b.high, b.known = next, true
			break
		}
		b.before, b.low = b.low, next
	}
	return b
}

// around looks up the totals around the byte offset boundary.
func (m *marks) around(boundary int) bracket {
	var b bracket
	for _, next := range m.list {
		switch {
		case next.off < boundary:
			b.before, b.low = b.low, next
		case next.off == boundary && next.text && !b.exact:
			b.before, b.low, b.exact = b.low, next, true
		case !b.known:
			b.high, b.known = next, true
		}
	}
	return b
}
