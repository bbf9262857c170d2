package usage

import "context"

// splitter divides the completion of one run at its boundary.
type splitter struct {
	*run
	counter  Counter
	omits    int // marker tokens missing in the engine's thinking figure
	total    Count
	boundary int
	// residue is the engine's total less the own count, where both were taken.
	residue int
	// cut says that the run was cut at the boundary, so that what follows it
	// was thrown away.
	cut bool
}

// divide returns the thinking and answer tokens of r.
func (s *splitter) divide(ctx context.Context) (thinking, answer Count) {
	boundary, answers := s.end()
	s.boundary = boundary
	s.total = s.known(ctx)
	switch {
	case s.text.size+s.late.size == 0 && !s.tool:
		return s.unseen()
	case !s.total.Known():
		return s.own(ctx)
	case !answers:
		return s.total, Count{Source: s.total.Source}
	case boundary == 0 && s.late.size == 0:
		return Count{Source: s.total.Source}, s.total
	}
	thinking = s.thinking(ctx)
	return thinking, Count{N: s.total.N - thinking.N, Source: worse(s.total.Source, thinking.Source)}
}

// known is the completion total where the engine told one. Text that came
// after its last total is counted on top, if it can be.
func (s *splitter) known(ctx context.Context) Count {
	if !s.totals.Completion.Known {
		return Count{Source: Unknown}
	}
	total := Count{N: s.totals.Completion.N, Source: Engine}
	if !s.stale {
		return total
	}
	last := s.marks.last()
	if rest, ok := s.count(ctx, s.text.from(last.off)); ok && s.late.size == 0 {
		return Count{N: total.N + rest + s.ending(), Source: Tokenizer}
	}
	total.Source = Estimate
	return total
}

// unseen is a run without text: only the engine can say what its tokens were.
func (s *splitter) unseen() (thinking, answer Count) {
	if !s.total.Known() {
		return Count{Source: Unknown}, Count{Source: Unknown}
	}
	if t := s.totals.Thinking; t.Known && t.N > 0 && t.N <= s.total.N {
		return Count{N: t.N, Source: EngineSplit}, Count{N: s.total.N - t.N, Source: EngineSplit}
	}
	return Count{Source: s.total.Source}, s.total
}

// own counts both parts, each in one go, where the engine told no total.
func (s *splitter) own(ctx context.Context) (thinking, answer Count) {
	t, ok := s.countThinking(ctx, 0)
	a, ok2 := s.count(ctx, s.text.from(s.boundary))
	if !ok || !ok2 {
		return Count{Source: Unknown}, Count{Source: Unknown}
	}
	thinking, answer = Count{N: t, Source: Tokenizer}, Count{N: a, Source: Tokenizer}
	if _, answers := s.end(); answers {
		answer.N += s.ending()
	} else {
		thinking.N += s.ending()
	}
	if s.tool {
		answer.Source = Estimate // the text of a tool call is not at hand
	}
	return thinking, answer
}

// thinking places the boundary inside a known total, by the best source there is.
func (s *splitter) thinking(ctx context.Context) Count {
	exact, b := s.fromTotals()
	if exact.Known() {
		return exact
	}
	if t, ok := s.fromTokenizer(ctx, b); ok {
		return t
	}
	if t, ok := s.fromEngine(b); ok {
		return t
	}
	return s.estimate()
}

// fromTotals reads the running totals around the boundary. They are exact on
// the edge of a chunk, and where the chunk across the boundary had one token:
// the one that ends the close marker, or, if the engine has split the text,
// the first one of the answer.
func (s *splitter) fromTotals() (exact Count, b bracket) {
	switch {
	case s.late.size > 0:
		return Count{}, bracket{high: s.marks.last(), known: len(s.marks.list) > 0}
	case s.bySwitch:
		b = s.marks.aroundSwitch()
	default:
		b = s.marks.around(s.boundary)
	}
	switch {
	case b.exact:
		return Count{N: min(b.low.total, s.total.N), Source: Engine}, b
	case !b.known || b.high.total-b.low.total > 1:
		return Count{}, b
	case s.bySwitch:
		return Count{N: b.low.total, Source: Engine}, b
	default:
		return Count{N: b.high.total, Source: Engine}, b
	}
}

// limits are the smallest and the largest number of thinking tokens that the
// totals in b allow.
func (s *splitter) limits(b bracket) (low, high int) {
	low, high = b.low.total, s.total.N
	if b.known {
		high = min(b.high.total, high)
	}
	if !s.bySwitch {
		low++ // the token that ends the close marker came after b.low
	}
	if s.visible() && high > 1 {
		high--
	}
	return min(max(low, 1), high), high
}

// fromTokenizer counts from the last safe running total up to the boundary.
func (s *splitter) fromTokenizer(ctx context.Context, b bracket) (Count, bool) {
	start := b.low
	if s.bySwitch {
		// The engine may have counted the close marker with the last thinking.
		start = b.before
	}
	n, ok := s.countThinking(ctx, start.off)
	if !ok {
		return Count{}, false
	}
	t := Count{N: start.total + n, Source: Tokenizer}
	if start.off == 0 && !s.stale {
		t = s.reconcile(ctx, t)
	}
	low, high := s.limits(b)
	t.N = min(max(t.N, low), high)
	return t, true
}

// slack is by how much an own count may exceed the engine's total before the
// tokenizer is taken to be another model's: a tenth, and a few tokens.
const slack = 8

// reconcile compares the own count of the whole text with the engine's total.
// An own count that is far too large is scaled down to it and becomes an
// estimate; one that is too small misses what the text does not show.
func (s *splitter) reconcile(ctx context.Context, thinking Count) Count {
	answer, ok := s.count(ctx, s.text.from(s.boundary))
	if !ok {
		return thinking
	}
	own := thinking.N + answer + s.ending()
	s.residue = s.total.N - own
	if own > s.total.N+s.total.N/10+slack {
		thinking = Count{N: thinking.N * s.total.N / own, Source: Estimate}
	}
	return thinking
}

// fromEngine is the engine's own thinking figure, unless it is known wrong.
// Engines take only the first token of a close marker for its end, count a
// continued message whole, or count nothing at all.
func (s *splitter) fromEngine(b bracket) (Count, bool) {
	t := s.totals.Thinking
	if t.N > 0 {
		t.N += s.omits
	}
	low, high := b.low.total, s.total.N
	if b.known {
		high = min(high, b.high.total)
	}
	switch {
	case s.cut, !t.Known, t.N == 0, t.N < low, t.N > high:
		return Count{}, false
	case t.N == s.total.N && s.visible():
		return Count{}, false
	case 4*t.N < s.estimate().N-slack:
		return Count{}, false
	}
	return Count{N: t.N, Source: EngineSplit}, true
}

// estimate divides the tokens between the totals around the boundary by the
// bytes of text between them.
func (s *splitter) estimate() Count {
	_, b := s.fromTotals()
	low, high := s.limits(b)
	from, to := b.low, mark{off: s.text.size + s.late.size, total: s.total.N}
	if b.known && b.high.off > from.off && s.late.size == 0 {
		to = b.high
	}
	n := from.total
	if width := to.off - from.off; width > 0 {
		n += ((to.total-from.total)*(s.boundary+s.late.size-from.off) + width/2) / width
	}
	return Count{N: min(max(n, low), high), Source: Estimate}
}

// ending is the end-of-turn token, which every engine counts and no text shows.
func (s *splitter) ending() int {
	if s.endToken {
		return 1
	}
	return 0
}

// countThinking counts the thinking from byte off on.
func (s *splitter) countThinking(ctx context.Context, off int) (int, bool) {
	if s.counter == nil {
		return 0, false
	}
	n, ok := s.count(ctx, s.text.buf[min(off, s.boundary):s.boundary])
	late, ok2 := s.count(ctx, s.late.buf)
	return n + late, ok && ok2
}

// count asks the counter, if there is one.
func (s *splitter) count(ctx context.Context, text []byte) (int, bool) {
	if s.counter == nil {
		return 0, false
	}
	if len(text) == 0 {
		return 0, true
	}
	n, err := s.counter.Count(ctx, string(text))
	return n, err == nil && n >= 0
}
