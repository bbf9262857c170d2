package reasoning_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"oneslot/reasoning"
)

// pool is the formats the tests draw from: no family's, but every awkward
// relation between markers that a row can have.
var pool = []reasoning.Format{
	{Name: "tags", Open: []string{"<think>"}, Close: []string{"</think>"}, StartsIn: reasoning.StartAnswer},
	{Name: "shared", Open: []string{"[[a"}, Close: []string{"[[b"}, StartsIn: reasoning.StartThinking},
	{Name: "close-begins-like-open", Open: []string{"ab"}, Close: []string{"abb"}, StartsIn: reasoning.StartThinking},
	{Name: "open-begins-like-close", Open: []string{"abab"}, Close: []string{"ab"}, StartsIn: reasoning.StartThinking},
	{Name: "prefix-spellings", Open: []string{"<a", "<a:x"}, Close: []string{"</a", "</a>", "</a>>"}, StartsIn: reasoning.StartAnswer},
	{Name: "one-byte", Open: []string{"("}, Close: []string{")"}, StartsIn: reasoning.StartAuto},
	{Name: "other-script", Open: []string{"◁想▷"}, Close: []string{"◁/想▷", "◁◁"}, StartsIn: reasoning.StartAuto, Otherwise: reasoning.StartThinking},
	{Name: "phrases", Open: []string{"I think: ", "I think"}, Close: []string{"I say: ", "I say"}, StartsIn: reasoning.StartAnswer},
	{Name: "blanks-inside", Open: []string{"\n(", " ( "}, Close: []string{"\n)", ") )"}, StartsIn: reasoning.StartAnswer},
	{Name: "repeats", Open: []string{"aaa"}, Close: []string{"aab", "ba"}, StartsIn: reasoning.StartThinking},
	{Name: "tools", Open: []string{"<t>"}, Close: []string{"</t>"}, ToolOpen: []string{"<call>", "<c", "</t>c"}, StartsIn: reasoning.StartThinking},
	{
		Name: "control", Open: []string{"<o>"}, Close: []string{"<c>", "<r>"}, ToolOpen: []string{"<w>"}, StartsIn: reasoning.StartThinking,
		MarkersSpecial: true, ControlTokens: []string{"<r>", "<|e|>", "<|", "<o>"},
	},
	{
		Name: "tangle", Open: []string{"xyx", "x"}, Close: []string{"yx", "yxy", "zx"}, ToolOpen: []string{"yz", "yy"}, StartsIn: reasoning.StartAuto,
		MarkersSpecial: true, ControlTokens: []string{"zz", "xz", "z", "y y"},
	},
	{Name: "prompt-only", Close: []string{"</think>"}, StartsIn: reasoning.StartThinking},
	{Name: "no-markers"},
	{Name: "channels", StartsIn: reasoning.StartAnswer, Channels: &reasoning.Channels{
		Start: []string{"[s"}, Channel: []string{"<c>"}, Message: []string{"(m)"}, End: []string{"{e", "<r>", "~t"},
		Thinking: []string{"analysis"}, Last: []string{"final"}, Recipient: []string{"to="},
	}},
	{Name: "channels-without-a-start", StartsIn: reasoning.StartThinking, Channels: &reasoning.Channels{
		Channel: []string{"ab", "a"}, Message: []string{":", "ab:"}, Thinking: []string{"a:", "t", "te"}, End: []string{"::", "\n:", "abb"},
	}},
	{Name: "tangled-channels", StartsIn: reasoning.StartAuto, Channels: &reasoning.Channels{
		Start: []string{"x", "xyx"}, Channel: []string{"xy", "y"}, Message: []string{"z"}, End: []string{"zx", "yy", " x"},
		Thinking: []string{"zz", "x "}, Last: []string{"yz", "w"}, Recipient: []string{"xz", "w="},
	}},
	{Name: "control-only", MarkersSpecial: true, ControlTokens: []string{"<|end|>", "<|"}, StartsIn: reasoning.StartAnswer},
}

var starts = []reasoning.State{
	0, reasoning.StartThinking, reasoning.StartAnswer, reasoning.StartAuto,
	reasoning.StartMidThinking, reasoning.StartClosed, reasoning.StartMidAnswer,
}

// sets are all markers of a format, by what they do.
func sets(f reasoning.Format) [][]string {
	all := [][]string{f.Open, f.Close, f.ToolOpen, f.ControlTokens}
	if c := f.Channels; c != nil {
		all = append(all, c.Start, c.Channel, c.Message, c.End, c.Thinking, c.Last, c.Recipient)
	}
	return all
}

// longestMarker is the length that bounds what may be held back.
func longestMarker(f reasoning.Format) int {
	n := 0
	for _, set := range sets(f) {
		for _, m := range set {
			n = max(n, len(m))
		}
	}
	return n
}

// join adds up segments, which must not be empty.
func join(t testing.TB, segments []reasoning.Segment, v *verdict) {
	t.Helper()
	for _, s := range segments {
		switch {
		case s.Text == "":
			t.Errorf("empty %v segment", s.Kind)
		case s.Kind == reasoning.Thinking:
			v.thinking += s.Text
		case s.Kind == reasoning.Answer:
			v.answer += s.Text
		default:
			t.Errorf("segment of kind %v", s.Kind)
		}
	}
}

// split runs the pieces through a parser.
func split(t testing.TB, f reasoning.Format, start reasoning.State, pieces ...string) verdict {
	t.Helper()
	return splitWith(t, reasoning.New(&f, start), pieces...)
}

func splitWith(t testing.TB, p *reasoning.Parser, pieces ...string) verdict {
	t.Helper()
	var v verdict
	for _, piece := range pieces {
		join(t, p.Feed(piece), &v)
	}
	join(t, p.Close(), &v)
	v.boundary, v.ended = p.Boundary()
	if again := p.Close(); len(again) > 0 {
		t.Errorf("second Close gave %v", again)
	}
	return v
}

// runes cuts text into its characters.
func runes(text string) []string {
	return strings.Split(text, "")
}

// octets cuts text into its bytes.
func octets(text string) []string {
	pieces := make([]string, len(text))
	for i := range len(text) {
		pieces[i] = text[i : i+1]
	}
	return pieces
}

// wantValid fails if f is not what a configuration may hold.
func wantValid(t testing.TB, f reasoning.Format) {
	t.Helper()
	if err := f.Validate(); err != nil {
		t.Errorf("%s: %v", f.Name, err)
	}
}

func validUTF8(segments []reasoning.Segment) bool {
	for _, s := range segments {
		if !utf8.ValidString(s.Text) {
			return false
		}
	}
	return true
}
