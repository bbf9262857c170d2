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

// A Reading is how much thinking there is so far.
type Reading struct {
	// Told is the engine's own running figure in tokens; it counts if Known.
	Told  int
	Known bool
	// Bytes is the length of the thinking. Text returns it, and is called only
	// when it has to be counted.
	Bytes int
	Text  func() string
}

// Over reports whether the budget is used up.
func (g *Gauge) Over(ctx context.Context, r Reading) bool {
	switch {
	case r.Known:
		return r.Told >= g.limit
	case r.Bytes < g.next:
		return false
	case g.counter == nil || g.failed:
		return r.Bytes >= g.limit*bytesPerToken
	}
	n, err := g.counter.Count(ctx, r.Text())
	if err != nil {
		g.failed = true
		return r.Bytes >= g.limit*bytesPerToken
	}
	g.next = r.Bytes + max(g.limit-n, 1)
	return n >= g.limit
}
