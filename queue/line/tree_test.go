package line

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestTreeOracle holds the tree to a sorted list.
func TestTreeOracle(t *testing.T) {
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 0))
		var tr tree[int]
		var list []*node[int]
		for n := range 400 {
			if len(list) > 0 && r.IntN(5) < 2 {
				i := r.IntN(len(list))
				tr.remove(list[i])
				list = slices.Delete(list, i, i+1)
			} else {
				list = append(list, tr.add(place{int64(r.IntN(10)), int64(r.IntN(4)), fmt.Sprint(r.IntN(1 << 30))}, n))
			}
			slices.SortFunc(list, func(a, b *node[int]) int { return a.compare(b.place) })
			if len(list) == 0 {
				if tr.first() != nil || tr.root.len() != 0 {
					t.Fatalf("seed %d: not empty", seed)
				}
				continue
			}
			i := r.IntN(len(list))
			if tr.rank(list[i]) != i || tr.root.len() != len(list) || tr.first() != list[0] {
				t.Fatalf("seed %d: rank %d is %d; size %d of %d", seed, i, tr.rank(list[i]), tr.root.len(), len(list))
			}
		}
		for i, n := range list {
			if tr.rank(n) != i {
				t.Fatalf("seed %d: %d stands at %d", seed, i, tr.rank(n))
			}
		}
	}
}

// TestTreeDepth: arrivals come in order, the worst case of a plain tree.
func TestTreeDepth(t *testing.T) {
	var tr tree[int]
	for n := range 10_000 {
		tr.add(place{first: int64(n)}, n)
	}
	var depth func(n *node[int]) int
	depth = func(n *node[int]) int {
		if n == nil {
			return 0
		}
		return 1 + max(depth(n.left), depth(n.right))
	}
	if d := depth(tr.root); d > 40 {
		t.Errorf("10000 tickets stand %d deep", d)
	}
}
