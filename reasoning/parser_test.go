package reasoning_test

import (
	"fmt"
	"strings"
	"testing"

	"oneslot/reasoning"
)

const (
	th = reasoning.Thinking
	an = reasoning.Answer
)

// pairs are the marker pairs each story is told with; O and C in a story stand
// for the markers, o and c for their first character, O' and C' for the rest.
var pairs = []reasoning.Format{
	{Name: "tags", Open: []string{"<think>"}, Close: []string{"</think>"}},
	{Name: "shared prefix", Open: []string{"[[mind"}, Close: []string{"[[mouth"}},
	{Name: "other script", Open: []string{"◁想▷"}, Close: []string{"◁/想▷"}},
	{Name: "phrases", Open: []string{"Here I think:"}, Close: []string{"Here I speak:"}},
	{Name: "two bytes", Open: []string{"{{"}, Close: []string{"}}"}},
}

func tell(f reasoning.Format, story string) string {
	first := func(m string) string { return runes(m)[0] }
	rest := func(m string) string { return strings.TrimPrefix(m, first(m)) }
	o, c := f.Open[0], f.Close[0]
	return strings.NewReplacer("O'", rest(o), "C'", rest(c), "O", o, "C", c, "°o", first(o), "°c", first(c)).Replace(story)
}

// TestStories feeds pieces, separated by |, and wants thinking and answer.
func TestStories(t *testing.T) {
	think, answer := reasoning.StartThinking, reasoning.StartAnswer
	for _, s := range []struct {
		name, pieces     string
		start            reasoning.State
		thinking, answer string
	}{
		{"closer cut after one character", "plan|°c|C'yes", think, "plan", "yes"},
		{"opener cut after one character", "°o|O'secretC|ok", answer, "secret", "ok"},
		{"opener glued to thinking", "Ostep one|, step twoC|done", answer, "step one, step two", "done"},
		{"whole reply in one piece", "OwhyCbecause", answer, "why", "because"},
		{"opened by the prompt", "hmm. |okC|42", think, "hmm. ok", "42"},
		{"opener repeated by the model", "O|a|Cb", think, "a", "b"},
		{"opener repeated after blanks", "\n |O\n|a|Cb", think, "a", "b"},
		{"opener repeated twice", "OOa|Cb", think, "Oa", "b"},
		{"second opener is thinking", "OaOb|Cc", answer, "aOb", "c"},
		{"white space before the opener", "\n|O|a|C|b", answer, "a", "b"},
		{"closer cut off in thinking", "cut off |°c", think, "cut off °c", ""},
		{"closer cut off after white space only", " |°c", think, "°c", ""},
		{"opener begun in the answer", "rC1 |°o", think, "r", "1 °o"},
		{"opener begun at the start", "°o|my-tag| x", answer, "", "°omy-tag x"},
		{"opener begun, then nothing", " \t|°o", answer, "", " \t°o"},
		{"closer quoted in the answer", "rCuse |C| here", think, "r", "use C here"},
		{"closer right after the closer", "rC|C|x", think, "r", "Cx"},
		{"opener right after the closer", "rC|O|x", think, "r", "Ox"},
		{"cut inside thinking", "think |more", think, "think more", ""},
		{"no closer at all", "I conclude 7", think, "I conclude 7", ""},
		{"no thinking at all", "{\"a\":|1}", answer, "", "{\"a\":1}"},
		{"closer without opener is text", "aCb", answer, "", "aCb"},
		{"closer first is text", "Cb", answer, "", "Cb"},
		{"text before the opener makes it text", "a|O|bCc", answer, "", "aObCc"},
		{"white space only pieces", "rC|\n\n|1. a|\n|2. b", think, "r", "1. a\n2. b"},
		{"white space at every edge", "\nr\nC\n\n# T\n", think, "r", "# T\n"},
		{"white space at every edge, opened by the model", "\r\n O\t\nr s\n\n |C \r|\n# T ", answer, "r s", "# T "},
		{"white space within thinking", "a \n| b|\n\nc", think, "a \n b\n\nc", ""},
		{"white space at the end of thinking", "a \n", think, "a \n", ""},
		{"white space at the end of opened thinking", "Oa \n|\t", answer, "a \n\t", ""},
		{"white space before an answer", "\n\n| hi", answer, "", "\n\n hi"},
		{"nothing but white space, answer", " \n|\t", answer, "", " \n\t"},
		{"nothing but white space, thinking", " \n|\t", think, "", ""},
		{"nothing but white space after the opener", "O \n|\t", answer, "", ""},
		{"nothing but white space after the closer", "aC \n|\t", think, "a", ""},
		{"other white space is text", "\u00a0O", answer, "", "\u00a0O"},
		{"other white space in thinking", "\u00a0a\u00a0C\u2003b", think, "\u00a0a\u00a0", "\u2003b"},
		{"empty thinking", "O|C|hey", answer, "", "hey"},
		{"empty thinking, opened by the prompt", "C|hey", think, "", "hey"},
		{"blank thinking", "O\n\n|C\n\n|hey", answer, "", "hey"},
		{"opener and closer only", "OC", answer, "", ""},
		{"nothing", "", answer, "", ""},
		{"nothing, thinking", "", think, "", ""},
		{"no such state is answer", "OaCb", 0, "a", "b"},
		{"auto with an opener", "O|aC|b", reasoning.StartAuto, "a", "b"},
		{"auto without an opener", "a|Cb", reasoning.StartAuto, "", "aCb"},
		{"after visible thinking", " queue.C b", reasoning.StartMidThinking, " queue.", "b"},
		{"after visible thinking, opener", "OaCb", reasoning.StartMidThinking, "Oa", "b"},
		{"after a closer", "\n|\nO|aCb", reasoning.StartClosed, "", "OaCb"},
		{"after visible answer", " OaCb", reasoning.StartMidAnswer, "", " OaCb"},
	} {
		for _, f := range pairs {
			t.Run(s.name+"/"+f.Name, func(t *testing.T) {
				got := split(t, f, s.start, strings.Split(tell(f, s.pieces), "|")...)
				if th, an := tell(f, s.thinking), tell(f, s.answer); got.thinking != th || got.answer != an {
					t.Errorf("thinking %q, answer %q; want %q, %q", got.thinking, got.answer, th, an)
				}
				if want := judge(f, s.start, strings.ReplaceAll(tell(f, s.pieces), "|", "")); got != want {
					t.Errorf("got %+v, oracle %+v", got, want)
				}
			})
		}
	}
}

// step is one call and what it returns: "" is Close.
type step struct {
	feed  string
	want  []reasoning.Segment
	phase reasoning.Kind
}

// TestSteps wants what is given out at each step, and the channel after it.
func TestSteps(t *testing.T) {
	tags := pairs[0]
	seg := func(k reasoning.Kind, text string) reasoning.Segment { return reasoning.Segment{Kind: k, Text: text} }
	for _, tt := range []struct {
		name   string
		format reasoning.Format
		start  reasoning.State
		steps  []step
	}{
		{"held until it is a closer", tags, reasoning.StartThinking, []step{
			{"a <", []reasoning.Segment{seg(th, "a")}, th},
			{"/thin", nil, th},
			{"k>", nil, an},
			{" b", []reasoning.Segment{seg(an, "b")}, an},
		}},
		{"held until it is none", tags, reasoning.StartThinking, []step{
			{"a <", []reasoning.Segment{seg(th, "a")}, th},
			{"/thin", nil, th},
			{"!", []reasoning.Segment{seg(th, " "), seg(th, "</thin"), seg(th, "!")}, th},
		}},
		{"one segment a channel and piece", tags, reasoning.StartThinking, []step{
			{"if a < b && c<d </think> if a < b", []reasoning.Segment{seg(th, "if a < b && c<d"), seg(an, "if a < b")}, an},
			{" <think>", []reasoning.Segment{seg(an, " <think>")}, an},
		}},
		{"answer is never held", tags, reasoning.StartClosed, []step{
			{"a <", []reasoning.Segment{seg(an, "a <")}, an},
			{"/think> \n", []reasoning.Segment{seg(an, "/think> \n")}, an},
		}},
		{"undecided until a character is seen", tags, reasoning.StartAnswer, []step{
			{" \n", nil, an},
			{"<think", nil, an},
			{">", nil, th},
			{"  ", nil, th},
			{"x", []reasoning.Segment{seg(th, "x")}, th},
			{"", nil, th},
		}},
		{"all that is held comes at the end", tags, reasoning.StartAnswer, []step{
			{"\n<thin", nil, an},
			{"", []reasoning.Segment{seg(an, "\n"), seg(an, "<thin")}, an},
		}},
		{"without opener nothing is held", pool[13], reasoning.StartAnswer, []step{
			{" ", []reasoning.Segment{seg(an, " ")}, an},
		}},
		{"longest closer", pool[4], reasoning.StartThinking, []step{
			{"x</a", []reasoning.Segment{seg(th, "x")}, th},
			{">", nil, th},
			{">y", []reasoning.Segment{seg(an, "y")}, an},
		}},
		{"longest closer that is complete", pool[4], reasoning.StartThinking, []step{
			{"x</a", []reasoning.Segment{seg(th, "x")}, th},
			{"y", []reasoning.Segment{seg(an, "y")}, an},
		}},
		{"held closer counts at the end", pool[4], reasoning.StartThinking, []step{
			{"x</a>", []reasoning.Segment{seg(th, "x")}, th},
			{"", nil, an},
		}},
		{"closer inside a start that failed", reasoning.Format{Close: []string{"abcd", "c"}}, reasoning.StartThinking, []step{
			{"abc", nil, th},
			{"x", []reasoning.Segment{seg(th, "ab"), seg(an, "x")}, an},
		}},
		{"tool opener ends thinking and stays", pool[10], reasoning.StartThinking, []step{
			{"do it\n<ca", []reasoning.Segment{seg(th, "do it")}, th},
			{"ll>{}", []reasoning.Segment{seg(th, "\n"), seg(an, "<call>"), seg(an, "{}")}, an},
			{"</t> <call>", []reasoning.Segment{seg(an, "</t> <call>")}, an},
		}},
		{"tool opener that is not listed", tags, reasoning.StartThinking, []step{
			{"<tool_call>{}</tool_call>", []reasoning.Segment{seg(th, "<tool_call>{}</tool_call>")}, th},
		}},
		{"control tokens in every place", pool[11], reasoning.StartAnswer, []step{
			{"<|e|> <", nil, an},
			{"o> <|e|>", nil, th},
			{" a <|", []reasoning.Segment{seg(th, "a")}, th},
			{"e|> b <|e|> <c> <|e|> <r>", []reasoning.Segment{seg(th, " "), seg(th, " b")}, an},
			{" x<|e|>y <o>", []reasoning.Segment{seg(an, "x"), seg(an, "y ")}, an},
			{"<c>", []reasoning.Segment{seg(an, "<c>")}, an},
		}},
		{"control token breaks a marker", pool[11], reasoning.StartThinking, []step{
			{"a<<|e|>c>b", []reasoning.Segment{seg(th, "a<"), seg(th, "c>b")}, th},
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := reasoning.New(&tt.format, tt.start)
			for i, s := range tt.steps {
				got := p.Feed(s.feed)
				if s.feed == "" {
					got = p.Close()
				}
				if fmt.Sprint(got) != fmt.Sprint(s.want) || p.Phase() != s.phase {
					t.Errorf("step %d %q = %v, phase %v; want %v, %v", i, s.feed, got, p.Phase(), s.want, s.phase)
				}
			}
		})
	}
}

// TestOtherwise goes where the row says when auto meets no opener.
func TestOtherwise(t *testing.T) {
	f := pairs[0]
	f.Otherwise = reasoning.StartThinking
	for text, want := range map[string]verdict{
		"a</think>b":          {"a", "b", 9, true},
		" <think>a</think> b": {"a", "b", 17, true},
		"a":                   {"a", "", 0, false},
	} {
		p := reasoning.New(&f, reasoning.StartAuto)
		if p.Phase() != th {
			t.Errorf("phase before any text is %v", p.Phase())
		}
		if got := splitWith(t, p, runes(text)...); got != want {
			t.Errorf("%q = %+v, want %+v", text, got, want)
		}
	}
}

// TestBoundary wants the bytes that belong to thinking, and when they are known.
func TestBoundary(t *testing.T) {
	type known struct {
		n  int
		ok bool
	}
	tags := pairs[0]
	for _, tt := range []struct {
		name   string
		format reasoning.Format
		start  reasoning.State
		pieces []string
		want   []known // after New, then after each piece
	}{
		{"closer in one piece", tags, reasoning.StartThinking, []string{"abc", "d</think> e", "f"}, []known{{}, {}, {12, true}, {12, true}}},
		{"closer over pieces", tags, reasoning.StartThinking, []string{"ab</", "think", "> x"}, []known{{}, {}, {}, {10, true}}},
		{"opener counts", tags, reasoning.StartAnswer, []string{" <think>a", "</think>"}, []known{{}, {}, {17, true}}},
		{"characters of several bytes", pairs[2], reasoning.StartThinking, []string{"ä◁/想▷b"}, []known{{}, {12, true}}},
		{"tool opener is not counted", pool[10], reasoning.StartThinking, []string{"a <ca", "ll>"}, []known{{}, {}, {2, true}}},
		{"no closer", tags, reasoning.StartThinking, []string{"a</think"}, []known{{}, {}}},
		{"no thinking", tags, reasoning.StartAnswer, []string{" ", "a", "</think>"}, []known{{}, {}, {0, true}, {0, true}}},
		{"no thinking, nothing visible", tags, reasoning.StartAnswer, []string{" "}, []known{{}, {}}},
		{"closed by a prefill", tags, reasoning.StartClosed, []string{" a"}, []known{{0, true}, {0, true}}},
		{"answer begun by a prefill", tags, reasoning.StartMidAnswer, []string{" a"}, []known{{0, true}, {0, true}}},
		{"no markers", reasoning.Format{}, 0, []string{" a"}, []known{{0, true}, {0, true}}},
		{"later closers", tags, reasoning.StartThinking, []string{"</think>", "</think>"}, []known{{}, {8, true}, {8, true}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := reasoning.New(&tt.format, tt.start)
			for i, want := range tt.want {
				if i > 0 {
					p.Feed(tt.pieces[i-1])
				}
				if n, ok := p.Boundary(); n != want.n || ok != want.ok {
					t.Errorf("after %d pieces: %d, %v; want %d, %v", i, n, ok, want.n, want.ok)
				}
			}
		})
	}
}

// TestBoundaryAtClose: a stream of white space had no thinking.
func TestBoundaryAtClose(t *testing.T) {
	p := reasoning.New(&pairs[0], reasoning.StartAnswer)
	p.Feed(" ")
	p.Close()
	if n, ok := p.Boundary(); n != 0 || !ok {
		t.Errorf("Boundary = %d, %v; want 0, true", n, ok)
	}
}

// TestReset uses one parser for many streams, some of them left unfinished.
func TestReset(t *testing.T) {
	p := reasoning.New(nil, 0)
	if got := splitWith(t, p, " a"); got != (verdict{answer: " a", ended: true}) {
		t.Errorf("zero format: %+v", got)
	}
	for round := range 4 {
		for _, f := range pool {
			for _, start := range starts {
				text := " " + strings.Join(f.Open, "") + " a " + strings.Join(f.Close, "") + " b"
				p.Reset(&f, start)
				if got, want := splitWith(t, p, runes(text)...), judge(f, start, text); got != want {
					t.Errorf("%s from %v: %+v, want %+v", f.Name, start, got, want)
				}
				p.Reset(&f, start)
				p.Feed(text[:len(text)/2])
				if round%2 == 0 {
					p.Feed(" ")
				}
			}
		}
	}
}

// TestLongWhiteSpace holds any amount of it, and gives it out whole.
func TestLongWhiteSpace(t *testing.T) {
	f := pairs[0]
	for _, n := range []int{1, 63, 64, 65, 200, 10_000} {
		blank := strings.Repeat(" \n\t\r", n)[:n]
		for text, want := range map[string]verdict{
			"a" + blank + "b":                 {thinking: "a" + blank + "b"},
			"a" + blank:                       {thinking: "a" + blank},
			"a" + blank + "</think>" + "b":    {"a", "b", n + 9, true},
			blank + "a</think>" + blank:       {"a", "", n + 9, true},
			"a</think>" + blank + "b" + blank: {"a", "b" + blank, 9, true},
		} {
			if got := split(t, f, reasoning.StartThinking, runes(text)...); got != want {
				t.Errorf("%d blanks: %.40q… = %.200q", n, text, fmt.Sprint(got))
			}
		}
		if got := split(t, f, reasoning.StartAnswer, octets(blank+"a")...); got.answer != blank+"a" {
			t.Errorf("%d blanks before an answer: %d bytes", n, len(got.answer))
		}
	}
}

// TestLongText has its marker anywhere in a text of several windows of the scan.
func TestLongText(t *testing.T) {
	for _, f := range []reasoning.Format{
		{Close: []string{"</think>"}},
		{Close: []string{"</think>", "◁/t▷", "[T]"}, ToolOpen: []string{"(never"}},
	} {
		for _, n := range []int{0, 1, 4090, 4095, 4096, 4097, 4099, 8191, 8192, 10_000} {
			for _, closer := range f.Close {
				text := strings.Repeat("x", n) + closer + strings.Repeat("y", 5000) + closer
				want := judge(f, reasoning.StartThinking, text)
				for _, cut := range []int{0, n, n + 1, n + len(closer), len(text)} {
					if got := split(t, f, reasoning.StartThinking, text[:cut], text[cut:]); got != want {
						t.Errorf("%q after %d bytes, cut at %d: boundary %d of %d", closer, n, cut, got.boundary, want.boundary)
					}
				}
			}
		}
	}
}
