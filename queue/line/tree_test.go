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
		var tr tree
		var list []*node
		for range 400 {
			if len(list) > 0 && r.IntN(5) < 2 {
				i := r.IntN(len(list))
				tr.remove(list[i])
				list = slices.Delete(list, i, i+1)
			} else {
				list = append(list, tr.add(&Ticket{ID: fmt.Sprint(r.IntN(1 << 30)), Arrival: int64(r.IntN(40))}))
			}
			slices.SortFunc(list, func(a, b *node) int {
				if before(a.Ticket, b.Ticket) {
					return -1
				}
				return 1
			})
			if len(list) == 0 {
				if tr.first() != nil || tr.root.len() != 0 {
					t.Fatalf("seed %d: not empty", seed)
				}
				continue
			}
			i := r.IntN(len(list))
			if tr.rank(list[i]) != i || tr.at(i) != list[i].Ticket || tr.root.len() != len(list) || tr.first() != list[0] {
				t.Fatalf("seed %d: rank %d is %d; size %d of %d", seed, i, tr.rank(list[i]), tr.root.len(), len(list))
			}
		}
		for i, n := range list {
			if tr.at(i) != n.Ticket {
				t.Fatalf("seed %d: %d. is %s, not %s", seed, i, tr.at(i).ID, n.ID)
			}
		}
	}
}

// TestTreeDepth: arrivals come in order, the worst case of a plain tree.
func TestTreeDepth(t *testing.T) {
	var tr tree
	for n := range 10_000 {
		tr.add(&Ticket{Arrival: int64(n)})
	}
	var depth func(n *node) int
	depth = func(n *node) int {
		if n == nil {
			return 0
		}
		return 1 + max(depth(n.left), depth(n.right))
	}
	if d := depth(tr.root); d > 40 {
		t.Errorf("10000 tickets stand %d deep", d)
	}
}
