package prefix

import (
	"slices"

	"oneslot/usage"
)

// slot keeps one sequence, and some that were put aside.
type slot struct {
	rule Rule
	now  []uint32
	// aside has the sequences put aside, the newest last.
	aside [][]uint32
	sure  bool
}

// take returns the sequence with which the engine begins a prompt, where it is
// kept aside (negative for the one in the slot), and how much of it is common.
func (s *slot) take(prompt []uint32) (at, common int) {
	common = commonPrefix(s.now, prompt)
	at = -1
	if 2*common >= len(s.now) && len(s.now) > 0 {
		return at, common
	}
	kept := share(common, len(s.now))
	for i, other := range s.aside {
		n := commonPrefix(other, prompt)
		if k := share(n, len(other)); n > common && k > kept && 4*n >= len(other) {
			at, common, kept = i, n, k
		}
	}
	return at, common
}

func share(part, all int) float64 {
	if all == 0 {
		return -1
	}
	return float64(part) / float64(all)
}

// Predict is Model.Predict.
func (s *slot) Predict(prompt []uint32) usage.Count {
	_, common := s.take(prompt)
	return s.rule.count(common, len(prompt), s.sure)
}

// Remember is Model.Remember.
func (s *slot) Remember(tokens []uint32) {
	at, _ := s.take(tokens)
	if common := commonPrefix(s.now, tokens); 2*common < len(s.now) {
		s.put()
	}
	if at >= 0 {
		s.aside = slices.Delete(s.aside, at, at+1)
	}
	s.now = tokens
	for size := s.size(); size > s.rule.Capacity && len(s.aside) > 0; size = s.size() {
		s.aside = slices.Delete(s.aside, 0, 1)
	}
}

// Doubt is Model.Doubt.
func (s *slot) Doubt() { s.now, s.sure = nil, false }

// put puts the sequence in the slot aside, unless another one has all of it.
func (s *slot) put() {
	for _, other := range s.aside {
		if commonPrefix(other, s.now) == len(s.now) {
			return
		}
	}
	s.aside = append(s.aside, s.now)
}

func (s *slot) size() int {
	n := len(s.now)
	for _, other := range s.aside {
		n += len(other)
	}
	return n
}
