package words

import "hash/maphash"

// Prefixes remembers the beginnings of token sequences, as an engine's prefix
// cache does. The zero value remembers nothing. It is not safe for concurrent
// use.
type Prefixes struct {
	seed maphash.Seed
	seen map[uint64]struct{} // hashes of all remembered prefixes
}

// room is how many prefixes are kept before all are forgotten: about eight full
// contexts.
const room = 1 << 20

// Add remembers tokens and every beginning of it.
func (p *Prefixes) Add(tokens []string) {
	if p.seen == nil || len(p.seen) > room {
		p.seed = maphash.MakeSeed()
		p.seen = map[uint64]struct{}{}
	}
	var h uint64
	for _, t := range tokens {
		h = p.chain(h, t)
		p.seen[h] = struct{}{}
	}
}

// Longest returns how many of the first tokens were seen before, in one
// sequence.
func (p *Prefixes) Longest(tokens []string) int {
	var h uint64
	for i, t := range tokens {
		if p.seen == nil {
			return 0
		}
		h = p.chain(h, t)
		if _, ok := p.seen[h]; !ok {
			return i
		}
	}
	return len(tokens)
}

// Forget empties p.
func (p *Prefixes) Forget() { p.seen = nil }

func (p *Prefixes) chain(h uint64, token string) uint64 {
	return h*0x9E3779B97F4A7C15 + maphash.String(p.seed, token) | 1
}
