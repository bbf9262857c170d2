package budget

import "context"

// A Counter counts tokens of a text; see usage.Counter.
type Counter interface {
	Count(ctx context.Context, text string) (int, error)
}

// A Gauge says when a budget of thinking is used up. Create it with NewGauge.
type Gauge struct {
	limit   int
	counter Counter
	next    int // bytes of thinking at which to count again
	failed  bool
}

// bytesPerToken is what a token is taken for where nobody can count.
const bytesPerToken = 4

// NewGauge returns a Gauge for a budget of tokens, 1 or more. counter may be nil.
func NewGauge(tokens int, counter Counter) *Gauge {
	// No token is shorter than a byte, so before that many bytes nothing can be
	// used up.
	return &Gauge{limit: tokens, counter: counter, next: tokens}
}

// Over reports whether the thinking so far has used the budget up. told is the
// engine's own running figure, known or not; text returns the thinking so far,
// size bytes long, and is called only when it has to be counted.
func (g *Gauge) Over(ctx context.Context, told int, known bool, size int, text func() string) bool {
	switch {
	case known:
		return told >= g.limit
	case size < g.next:
		return false
	case g.counter == nil || g.failed:
		return size >= g.limit*bytesPerToken
	}
	n, err := g.counter.Count(ctx, text())
	if err != nil {
		g.failed = true
		return size >= g.limit*bytesPerToken
	}
	g.next = size + max(g.limit-n, 1)
	return n >= g.limit
}
