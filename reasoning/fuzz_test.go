package reasoning_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"oneslot/reasoning"
)

// atoms are the pieces a text for f is made of: its markers, parts of them,
// white space and letters.
func atoms(f reasoning.Format) []string {
	list := []string{"a", " ", "\n", "\t\r\n", "b<", "ü", "x y"}
	for _, set := range sets(f) {
		for _, m := range set {
			list = append(list, m, m[:len(m)/2], m[len(m)/2:], m[:len(m)-1], m[1:])
		}
	}
	return list
}

// write makes a text of atoms chosen by recipe.
func write(f reasoning.Format, recipe []byte) string {
	list := atoms(f)
	var b strings.Builder
	for _, c := range recipe[:min(len(recipe), 64)] {
		b.WriteString(list[int(c)%len(list)])
	}
	return b.String()
}

// cut cuts text into pieces of the given lengths; the rest is the last piece.
func cut(text string, lengths []byte) []string {
	var pieces []string
	for _, n := range lengths {
		k := min(int(n)%12, len(text))
		pieces, text = append(pieces, text[:k]), text[k:]
	}
	return append(pieces, text)
}

// FuzzParser holds the parser to the oracle: a format of the pool, a text made
// of its markers and parts of them, and any cuts.
func FuzzParser(f *testing.F) {
	for i := range pool {
		f.Add(uint8(i), uint8(i), []byte{7, 0, 1, 8, 12, 1, 0, 13}, []byte{1, 2, 3})
		f.Add(uint8(i), uint8(1), []byte{0, 1, 9, 9, 12, 2, 17, 22, 3}, []byte{0, 5, 1})
	}
	p := reasoning.New(nil, 0)
	f.Fuzz(func(t *testing.T, format, start uint8, recipe, lengths []byte) {
		row := pool[int(format)%len(pool)]
		state := starts[int(start)%len(starts)]
		text := write(row, recipe)
		pieces := cut(text, lengths)
		p.Reset(&row, state)
		if got, want := splitWith(t, p, pieces...), judge(row, state, text); got != want {
			t.Errorf("%s from %v: %q = %+v, want %+v", row.Name, state, pieces, got, want)
		}
	})
}

// FuzzFormat does the same with markers made up from a few characters, so that
// they overlap in every way.
func FuzzFormat(f *testing.F) {
	for seed := range uint64(8) {
		f.Add(seed, uint8(seed), []byte{7, 0, 1, 8, 12, 1, 0, 13}, []byte{1, 2, 3})
	}
	p := reasoning.New(nil, 0)
	f.Fuzz(func(t *testing.T, seed uint64, start uint8, recipe, lengths []byte) {
		row := invent(rand.New(rand.NewPCG(seed, 0)))
		state := starts[int(start)%len(starts)]
		text := write(row, recipe)
		pieces := cut(text, lengths)
		p.Reset(&row, state)
		if got, want := splitWith(t, p, pieces...), judge(row, state, text); got != want {
			t.Errorf("%+v from %v: %q = %+v, want %+v", row, state, pieces, got, want)
		}
	})
}

// invent makes a format up. It need not be valid: the parser takes any.
func invent(r *rand.Rand) reasoning.Format {
	set := func(most int) []string {
		markers := make([]string, r.IntN(most+1))
		for i := range markers {
			for range 1 + r.IntN(4) {
				markers[i] += string("aab< \n"[r.IntN(6)])
			}
		}
		return markers
	}
	if r.IntN(3) == 0 {
		return reasoning.Format{Channels: &reasoning.Channels{
			Start: set(1), Channel: set(2), Message: set(2), End: set(2), Thinking: set(2), Last: set(2), Recipient: set(2),
		}}
	}
	return reasoning.Format{
		Open: set(2), Close: set(3), ToolOpen: set(1), ControlTokens: set(2),
		Otherwise: reasoning.State(r.IntN(3)),
	}
}

// FuzzConservation wants that what is given out, in order, is the text without
// markers and white space, whatever the text, and that no more than one opener
// and one closer are missing.
func FuzzConservation(f *testing.F) {
	for i, row := range pool {
		f.Add(uint8(i), uint8(i), strings.Join(row.Open, " ")+" a "+strings.Join(row.Close, "b "), []byte{3, 1, 4})
		f.Add(uint8(i), uint8(2), "a "+strings.Join(row.ToolOpen, " ")+strings.Join(row.ControlTokens, " x"), []byte{1, 1})
	}
	f.Fuzz(func(t *testing.T, format, start uint8, text string, lengths []byte) {
		row := pool[int(format)%len(pool)]
		state := starts[int(start)%len(starts)]
		text = text[:min(len(text), 200)]
		p := reasoning.New(&row, state)
		out, answered := "", false
		give := func(segments []reasoning.Segment) {
			for _, s := range segments {
				out += s.Text
				if answered && s.Kind == reasoning.Thinking {
					t.Errorf("thinking after the answer in %q", text)
				}
				answered = answered || s.Kind == reasoning.Answer
			}
		}
		for _, piece := range cut(text, lengths) {
			give(p.Feed(piece))
		}
		give(p.Close())
		if !conserved(row, text, out) {
			t.Errorf("%s from %v: %q became %q", row.Name, state, text, out)
		}
		if n, ok := p.Boundary(); n < 0 || n > len(text) || !ok && answered {
			t.Errorf("boundary %d, %v of %d bytes, answer %v", n, ok, len(text), answered)
		}
	})
}

// conserved reports whether out is text without white space, control tokens,
// and at most one opener and then one closer. It tries every way to read it.
func conserved(f reasoning.Format, text, out string) bool {
	if f.Channels != nil {
		return conservedByChannels(f.Channels, text, out)
	}
	type place struct {
		at, given int
		removed   int // 0 nothing, 1 the opener, 2 the closer
	}
	todo, seen := []place{{}}, map[place]bool{}
	for len(todo) > 0 {
		p := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if p.at == len(text) && p.given == len(out) {
			return true
		}
		if seen[p] || p.at == len(text) {
			continue
		}
		seen[p] = true
		if p.given < len(out) && text[p.at] == out[p.given] {
			todo = append(todo, place{p.at + 1, p.given + 1, p.removed})
		}
		if strings.IndexByte(blanks, text[p.at]) >= 0 {
			todo = append(todo, place{p.at + 1, p.given, p.removed})
		}
		skip := func(markers []string, from, to int) {
			for _, m := range markers {
				if p.removed <= from && strings.HasPrefix(text[p.at:], m) {
					todo = append(todo, place{p.at + len(m), p.given, max(p.removed, to)})
				}
			}
		}
		skip(f.ControlTokens, 2, 0)
		skip(f.Open, 0, 1)
		skip(f.Close, 1, 2)
	}
	return false
}
