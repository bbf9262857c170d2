package reasoning_test

import (
	"strings"
	"testing"

	"oneslot/reasoning"
)

// The tests of this package were tried on these 56 mutants of the code; each
// makes at least one of them fail.
//
// Matching: what the end of the stream decides is left open · the shortest
// marker counts · roles are ignored · a control token comes before a closer ·
// the start of a marker at the end of a piece is seen one byte late, or never ·
// only the first marker, or the first first byte, is looked for · the last first
// byte in a window counts · one byte between windows is skipped · carriage
// return is visible.
//
// Pieces: held text is forgotten when more is held, not taken when it is
// skipped, not taken when it is given out, not counted in offsets · segments
// grow across pieces, across a gap, across channels · Close is a Feed · Reset
// keeps white space, or the start of a marker · long white space is forgotten,
// or given out twice.
//
// Start: otherwise is ignored, or always thinking · mid-thinking is like
// thinking · closed is like mid-answer · mid-answer is like answer · white space
// before an answer is dropped · an undecided stream of white space is lost · no
// opener, or every opener, is dropped after the prompt's · an opener is dropped
// after an opener · white space after an opener stays.
//
// Thinking and answer: the end of thinking is lost · white space before a closer
// stays, after a closer stays, before a tool opener is dropped · the boundary is
// before the closer, or after the tool opener · the tool opener is removed, or
// read again · later closers are removed · a control token at an edge is text ·
// the start of a marker is not held at an edge, or in the text · all held text is
// released when its first byte is text · white space is not held in thinking, is
// held in the answer, is not given out.
//
// Prefill: the last marker counts · the shortest counts · control tokens are
// visible · a tool opener, or a closer, always comes first · of two at one place
// the tool opener counts.

// texts are samples for one format, shared out among the states: of its markers,
// pieces of them, white space and letters every sequence of two, with more
// behind it, and a sixth of the sequences of three.
func texts(f reasoning.Format, start reasoning.State) []string {
	atoms := []string{"a", " ", "\n\t", "<"}
	for _, set := range sets(f) {
		atoms = append(atoms, set...)
		if len(set) > 0 {
			m := set[0]
			atoms = append(atoms, m[:len(m)-1], m[len(m)/2:])
		}
	}
	all := []string{"", strings.Join(atoms, ""), " x" + strings.Join(atoms, " ") + " y"}
	n, pairs := 0, 0
	for _, a := range atoms {
		for _, b := range atoms {
			for _, c := range atoms {
				if n++; n%(6*len(starts)) == int(start) {
					all = append(all, a+b+c)
				}
			}
			if pairs++; pairs%2 == int(start)%2 {
				all = append(all, a+b+a+b, a+" "+b+" z")
			}
		}
	}
	return all
}

// TestEveryCut feeds each sample whole, in two parts cut at every byte, byte by
// byte, and the short ones in all three parts, from every state, and wants what
// the oracle says of the whole.
func TestEveryCut(t *testing.T) {
	for _, f := range pool {
		t.Run(f.Name, func(t *testing.T) {
			t.Parallel()
			wantValid(t, f)
			p := reasoning.New(nil, 0)
			for _, start := range starts {
				for _, text := range texts(f, start) {
					want := judge(f, start, text)
					everyCut(text, func(pieces ...string) {
						p.Reset(&f, start)
						if got := splitWith(t, p, pieces...); got != want {
							t.Fatalf("from %v: %q = %+v, want %+v", start, pieces, got, want)
						}
					})
				}
			}
		})
	}
}

func everyCut(text string, try func(pieces ...string)) {
	try(text)
	try(octets(text)...)
	for i := range len(text) + 1 {
		try(text[:i], text[i:])
		for j := i; len(text) <= 7 && j <= len(text); j++ {
			try(text[:i], text[i:j], text[j:])
		}
	}
}

// TestBoundedDelay wants that no more than the start of a marker is held after
// any prefix of a text, and the white space before it: what Close gives out.
func TestBoundedDelay(t *testing.T) {
	p := reasoning.New(nil, 0)
	for _, f := range pool {
		limit := max(longestMarker(f)-1, 0)
		if f.Channels != nil {
			limit += headerLimit
		}
		for _, start := range starts {
			for _, text := range texts(f, start) {
				for i := range len(text) + 1 {
					p.Reset(&f, start)
					p.Feed(text[:i])
					held := ""
					for _, s := range p.Close() {
						held += s.Text
					}
					if len(strings.TrimLeft(held, blanks)) > limit {
						t.Fatalf("%s from %v: %q holds %q, limit %d", f.Name, start, text[:i], held, limit)
					}
				}
			}
		}
	}
}

// TestCharactersStayWhole wants valid segments from pieces cut between
// characters.
func TestCharactersStayWhole(t *testing.T) {
	f := pool[6]
	for _, text := range []string{"◁想▷ä 日本 ◁◁▷◁/想▷ ü◁", "◁◁/想◁", "日◁/想日◁/◁", "\u00a0◁想◁想▷◁"} {
		for _, start := range starts {
			p := reasoning.New(&f, start)
			for _, r := range runes(text) {
				if got := p.Feed(r); !validUTF8(got) {
					t.Errorf("%q at %q: %q", text, r, got)
				}
			}
			if got := p.Close(); !validUTF8(got) {
				t.Errorf("%q at the end: %q", text, got)
			}
		}
	}
}

// TestFeedDoesNotAllocate feeds streams in several cuts to a parser that has
// warmed up.
func TestFeedDoesNotAllocate(t *testing.T) {
	f := pool[0]
	text := "<think>\n  If a < b </th then\n\n    x  </think>\n\nThe <b>answer</b> is \n 42. </think>"
	feedWithoutAllocating(t, f, text)
	f = harmony(t)
	feedWithoutAllocating(t, f, f.Open[0]+"if a < b\n"+strings.Replace(f.OffPrefill, "final", "commentary to=f json", 1)+"{\"a\": 1} "+f.OffPrefill+"42")
}

func feedWithoutAllocating(t *testing.T, f reasoning.Format, text string) {
	t.Helper()
	for name, pieces := range map[string][]string{
		"whole": {text}, "bytes": octets(text), "words": strings.SplitAfter(text, " "), "lines": strings.SplitAfter(text, "\n"),
	} {
		for _, start := range starts {
			p := reasoning.New(&f, start)
			got := testing.AllocsPerRun(20, func() {
				p.Reset(&f, start)
				for _, piece := range pieces {
					p.Feed(piece)
				}
				p.Close()
			})
			if got != 0 {
				t.Errorf("%s from %v: %v allocations", name, start, got)
			}
		}
	}
}
