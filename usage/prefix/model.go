package prefix

import (
	"math"

	"oneslot/usage"
)

// Kind is how an engine keeps prompts.
type Kind uint8

// The kinds of caches. The zero value is none that is known.
const (
	None Kind = iota
	Tree
	Slot
)

// maxTokens bounds what a model keeps where the engine's own bound is not known,
// or larger: eight contexts of 131,072 tokens.
const maxTokens = 1 << 20

// Rule says how an engine's prefix cache behaves.
type Rule struct {
	// Kind is how it keeps prompts.
	Kind Kind
	// Block is the number of tokens the engine caches together: 1 for SGLang's
	// default page size, vLLM's block size. Zero means 1.
	Block int
	// Capacity is the number of tokens the cache holds. Zero means 1,048,576, and
	// so does more.
	Capacity int
	// all is the number of tokens after which nothing from before can be left.
	all int
}

// A Model follows one cache.
type Model interface {
	// Predict returns the number of tokens of prompt that the engine will find in
	// its cache, or an unknown count.
	Predict(prompt []uint32) usage.Count
	// Remember says that the engine has run tokens, a prompt and its output, and
	// keeps them. The model takes tokens over.
	Remember(tokens []uint32)
	// Doubt says that the engine has run something that nobody could tokenize.
	Doubt()
}

// New returns a model of an engine that follows rule, or nil where nobody knows
// how its cache works. Empty says that the engine has answered nothing yet.
func New(rule Rule, empty bool) Model {
	rule.Block = max(rule.Block, 1)
	rule.all = rule.Capacity
	if rule.Capacity <= 0 {
		rule.all = math.MaxInt
	}
	rule.Capacity = min(rule.all, maxTokens)
	switch rule.Kind {
	case Tree:
		return newTree(rule, empty)
	case Slot:
		return &slot{rule: rule, sure: empty}
	case None:
	}
	return nil
}

// count is what a model says that has found common tokens of n.
func (r Rule) count(common, n int, sure bool) usage.Count {
	if common == 0 && !sure && n > 1 {
		return usage.Count{Source: usage.Unknown}
	}
	return usage.Count{N: max(min(common, n-1), 0) / r.Block * r.Block, Source: usage.Predicted}
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
