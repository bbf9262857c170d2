package prefix

import (
	"container/list"
	"slices"

	"oneslot/usage"
)

// tree keeps sequences with their common beginnings shared, as the engines do.
type tree struct {
	rule Rule
	root *node
	// used has every node, the one used longest ago first. A node is always used
	// after those below it, so the first one is a leaf.
	used *list.List
	size int // tokens in all nodes
	seen int // tokens remembered in all
	sure bool
}

// node is a run of tokens with nothing branching off inside.
type node struct {
	tokens []uint32
	up     *node
	below  map[uint32]*node // by their first token
	place  *list.Element
}

func newTree(rule Rule, empty bool) *tree {
	return &tree{rule: rule, root: &node{below: map[uint32]*node{}}, used: list.New(), sure: empty}
}

// Predict is Model.Predict.
func (t *tree) Predict(prompt []uint32) usage.Count {
	_, _, common := t.find(prompt)
	return t.rule.count(common, len(prompt), t.sure)
}

// Remember is Model.Remember.
func (t *tree) Remember(tokens []uint32) {
	at, inside, common := t.find(tokens)
	if inside < len(at.tokens) {
		at = t.split(at, inside)
	}
	if rest := tokens[common:]; len(rest) > 0 {
		leaf := &node{tokens: slices.Clone(rest), up: at, below: map[uint32]*node{}}
		leaf.place = t.used.PushBack(leaf)
		at.below[rest[0]] = leaf
		t.size += len(rest)
		at = leaf
	}
	for ; at != t.root; at = at.up {
		t.used.MoveToBack(at.place)
	}
	t.seen += len(tokens)
	t.sure = t.sure || t.seen >= t.rule.all
	t.shrink()
}

// Doubt is Model.Doubt.
func (t *tree) Doubt() { t.sure, t.seen = false, 0 }

// find follows tokens down the tree. It returns the last node reached, how many
// of its tokens belong to the common beginning, and how long that is in all.
func (t *tree) find(tokens []uint32) (at *node, inside, common int) {
	at = t.root
	for common < len(tokens) {
		next := at.below[tokens[common]]
		if next == nil {
			break
		}
		n := commonPrefix(next.tokens, tokens[common:])
		at, inside, common = next, n, common+n
		if n < len(next.tokens) {
			break
		}
	}
	return at, inside, common
}

// split cuts a node in two, of which the upper one, with n tokens, is returned.
func (t *tree) split(low *node, n int) *node {
	high := &node{tokens: slices.Clone(low.tokens[:n]), up: low.up, below: map[uint32]*node{low.tokens[n]: low}}
	high.up.below[high.tokens[0]] = high
	low.tokens, low.up = slices.Clone(low.tokens[n:]), high
	high.place = t.used.InsertAfter(high, low.place)
	return high
}

// shrink drops what was used longest ago, from its end.
func (t *tree) shrink() {
	for t.size > t.rule.Capacity {
		first := t.used.Front().Value.(*node) //nolint:forcetypeassert // the list has nodes only
		over := t.size - t.rule.Capacity
		if over < len(first.tokens) {
			first.tokens = slices.Clone(first.tokens[:len(first.tokens)-over])
			t.size -= over
			return
		}
		t.size -= len(first.tokens)
		delete(first.up.below, first.tokens[0])
		t.used.Remove(first.place)
	}
}
