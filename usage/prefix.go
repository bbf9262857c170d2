package usage

import "slices"

// PrefixRule says how an engine's prefix cache behaves.
type PrefixRule struct {
	// Block is the number of tokens the engine caches together: 1 for SGLang's
	// default page size, vLLM's block size. Zero means 1.
	Block int
	// Capacity is the number of tokens the cache holds. Zero means that nothing
	// is ever dropped.
	Capacity int
	// Empty says that the engine has answered nothing yet. Zero means that it
	// may hold prompts this model has not seen.
	Empty bool
}

// PrefixModel predicts how much of a prompt an engine takes from its prefix
// cache, for engines that have one and do not tell: the longest common prefix
// with any earlier prompt and its output, at most the prompt less one token,
// rounded down to a block. Measured on SGLang and vLLM, this is exact.
//
// It is not safe for concurrent use.
type PrefixModel struct {
	rule PrefixRule
	// held are prompts with their outputs, the one used last at the end.
	held []sequence
	size int // sum of sequence.own
	seen int // tokens remembered since the engine's contents were unknown
	sure bool
}

type sequence struct {
	tokens []uint32
	// own is the part that no other sequence had brought when it came.
	own int
}

// NewPrefixModel returns a model of an engine that follows rule.
func NewPrefixModel(rule PrefixRule) *PrefixModel {
	rule.Block = max(rule.Block, 1)
	return &PrefixModel{rule: rule, sure: rule.Empty}
}

// Predict returns the number of tokens of prompt that the engine will find in
// its cache. It is unknown while the engine may hold a longer part from a time
// that this model has not seen.
func (p *PrefixModel) Predict(prompt []uint32) Count {
	most := p.rounded(len(prompt) - 1)
	_, common := p.best(prompt)
	n := min(p.rounded(common), most)
	if !p.sure && n < most {
		return Count{Source: Unknown}
	}
	return Count{N: n, Source: Predicted}
}

// Remember says that the engine has run tokens, a prompt and its output, and
// keeps them. The model takes tokens over.
func (p *PrefixModel) Remember(tokens []uint32) {
	at, common := p.best(tokens)
	own := len(tokens) - common
	if common > 0 && common == len(p.held[at].tokens) {
		own += p.held[at].own // a turn added to an earlier one
		p.drop(at)
	}
	p.held = append(p.held, sequence{tokens: tokens, own: own})
	p.size += own
	p.seen += len(tokens)
	if c := p.rule.Capacity; c > 0 {
		p.sure = p.sure || p.seen >= c
		for p.size > c && len(p.held) > 1 {
			p.drop(0)
		}
	}
}

// Restarted says that the engine has been started anew, with an empty cache.
func (p *PrefixModel) Restarted() {
	p.held, p.size, p.seen, p.sure = nil, 0, 0, true
}

func (p *PrefixModel) rounded(n int) int { return max(n, 0) / p.rule.Block * p.rule.Block }

// best returns the sequence that shares most with tokens, the newest of
// equals, and how much.
func (p *PrefixModel) best(tokens []uint32) (at, common int) {
	for i, s := range p.held {
		if n := commonPrefix(s.tokens, tokens); n >= common {
			at, common = i, n
		}
	}
	return at, common
}

func (p *PrefixModel) drop(at int) {
	p.size -= p.held[at].own
	p.held = slices.Delete(p.held, at, at+1)
}

func commonPrefix(a, b []uint32) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}
