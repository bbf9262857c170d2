package line

// tree keeps tickets in order of arrival and counts them: a treap whose nodes know their
// size. Every operation is O(log n) expected. The zero tree is empty. The same
// calls give the same tree, since the priorities come from a fixed sequence.
type tree struct {
	root *node
	made uint64
}

type node struct {
	*Ticket
	left, right *node
	size        int
	priority    uint64
}

func (n *node) len() int {
	if n == nil {
		return 0
	}
	return n.size
}

func (n *node) count() *node {
	n.size = 1 + n.left.len() + n.right.len()
	return n
}

// add puts t, which must not be in the tree, into its place.
func (t *tree) add(ticket *Ticket) *node {
	t.made++
	n := &node{Ticket: ticket, size: 1, priority: scatter(t.made)}
	left, right := split(t.root, ticket)
	t.root = merge(merge(left, n), right)
	return n
}

// remove takes n, which must be in the tree, out of it.
func (t *tree) remove(n *node) {
	link := &t.root
	for *link != n {
		(*link).size--
		if before(n.Ticket, (*link).Ticket) {
			link = &(*link).left
		} else {
			link = &(*link).right
		}
	}
	*link = merge(n.left, n.right)
}

// rank is how many tickets stand before n.
func (t *tree) rank(n *node) int {
	ahead := 0
	for at := t.root; at != n; {
		if before(n.Ticket, at.Ticket) {
			at = at.left
		} else {
			ahead += at.left.len() + 1
			at = at.right
		}
	}
	return ahead + n.left.len()
}

// first is the head of the line, nil when nobody waits.
func (t *tree) first() *node {
	n := t.root
	for n != nil && n.left != nil {
		n = n.left
	}
	return n
}

// at is the ticket that i others stand before; 0 <= i < size.
func (t *tree) at(i int) *Ticket {
	n := t.root
	for left := n.left.len(); left != i; left = n.left.len() {
		if i < left {
			n = n.left
		} else {
			i -= left + 1
			n = n.right
		}
	}
	return n.Ticket
}

// split cuts n into the tickets before t and the others.
func split(n *node, t *Ticket) (left, right *node) {
	if n == nil {
		return nil, nil
	}
	if before(n.Ticket, t) {
		n.right, right = split(n.right, t)
		return n.count(), right
	}
	left, n.left = split(n.left, t)
	return left, n.count()
}

// merge joins two trees, all of left standing before all of right.
func merge(left, right *node) *node {
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
