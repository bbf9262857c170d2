package line

import (
	"cmp"
	"strings"
)

// place is what trees are ordered by: two numbers, then a name.
type place struct {
	first, second int64
	name          string
}

func (p place) compare(other place) int {
	return cmp.Or(cmp.Compare(p.first, other.first), cmp.Compare(p.second, other.second), strings.Compare(p.name, other.name))
}

// tree keeps values in the order of their places and counts them: a treap whose nodes know their
// size. Every operation is O(log n) expected. The zero tree is empty. The same
// calls give the same tree, since the priorities come from a fixed sequence.
type tree[T any] struct {
	root *node[T]
	made uint64
}

type node[T any] struct {
	place
	value       T
	left, right *node[T]
	size        int
	priority    uint64
}

func (n *node[T]) len() int {
	if n == nil {
		return 0
	}
	return n.size
}

func (n *node[T]) count() *node[T] {
	n.size = 1 + n.left.len() + n.right.len()
	return n
}

// add puts a value, whose place must be free, into its place.
func (t *tree[T]) add(at place, value T) *node[T] {
	t.made++
	n := &node[T]{place: at, value: value, size: 1, priority: scatter(t.made)}
	left, right := split(t.root, at)
	t.root = merge(merge(left, n), right)
	return n
}

// remove takes n, which must be in the tree, out of it.
func (t *tree[T]) remove(n *node[T]) {
	link := &t.root
	for *link != n {
		(*link).size--
		if n.compare((*link).place) < 0 {
			link = &(*link).left
		} else {
			link = &(*link).right
		}
	}
	*link = merge(n.left, n.right)
}

// rank is how many values stand before n.
func (t *tree[T]) rank(n *node[T]) int {
	ahead := 0
	for at := t.root; at != n; {
		if n.compare(at.place) < 0 {
			at = at.left
		} else {
			ahead += at.left.len() + 1
			at = at.right
		}
	}
	return ahead + n.left.len()
}

// first is the head, nil when the tree is empty.
func (t *tree[T]) first() *node[T] {
	n := t.root
	for n != nil && n.left != nil {
		n = n.left
	}
	return n
}

// split cuts n into the values before a place and the others.
func split[T any](n *node[T], at place) (left, right *node[T]) {
	if n == nil {
		return nil, nil
	}
	if n.compare(at) < 0 {
		n.right, right = split(n.right, at)
		return n.count(), right
	}
	left, n.left = split(n.left, at)
	return left, n.count()
}

// merge joins two trees, all of left standing before all of right.
func merge[T any](left, right *node[T]) *node[T] {
	switch {
	case left == nil:
		return right
	case right == nil:
		return left
	case left.priority > right.priority:
		left.right = merge(left.right, right)
		return left.count()
	default:
		right.left = merge(left, right.left)
		return right.count()
	}
}

// scatter turns a counter into a well-mixed number (SplitMix64's finaliser).
func scatter(x uint64) uint64 {
	x *= 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
