package reasoning_test

import (
	"strings"
	"testing"

	"oneslot/reasoning"
)

// texts are samples for one format: every sequence of two of its markers, pieces
// of them, white space and letters, some longer ones, and, shared out among the
// states, a sixth of the sequences of three.
func texts(f reasoning.Format, start reasoning.State) []string {
	atoms := []string{"a", " ", "\n\t", "<"}
	for _, set := range [][]string{f.Open, f.Close, f.ToolOpen, f.ControlTokens} {
		for _, m := range set {
			atoms = append(atoms, m)
		}
		if len(set) > 0 {
			m := set[0]
			atoms = append(atoms, m[:len(m)-1], m[len(m)/2:])
		}
	}
	all := []string{"", strings.Join(atoms, ""), " x" + strings.Join(atoms, " ") + " y"}
	n := 0
	for _, a := range atoms {
		for _, b := range atoms {
			for _, c := range atoms {
				if n++; n%(6*len(starts)) == int(start) {
					all = append(all, a+b+c)
				}
			}
			all = append(all, a+b+a+b, a+" "+b+" z")
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
