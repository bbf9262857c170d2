package split_test

import (
	"fmt"
	"strings"
	"testing"

	"oneslot/internal/openai"
	"oneslot/proxy/split"
	"oneslot/reasoning"
)

// The tests of this package were tried on these mutants of the code; each makes
// at least one of them fail.
//
// Who splits: blank content decides · blanks before thinking are given out · the
// parser's rest is forgotten when the engine takes over · thinking that comes
// late is trimmed.
//
// Edges: a leaked opener stays · blanks before the answer stay · blanks at the
// end of thinking are given out, or lost at the end · control tokens stay · a
// continued answer is trimmed.
//
// Echo: only a whole one is dropped · what was held is lost · thinking is not
// looked at · the meter gets it.
//
// Stop: the first in the list counts · the last place counts · nothing is held ·
// a whole one is not held for one that began before it · held text is lost at
// the end, or not searched · it acts in thinking.
//
// Probabilities: those of thinking go out · a token over the boundary is taken ·
// the dropped edge breaks them · markers break them · bytes are not read · half
// a character breaks them · text without entries is taken · broken ones go on.

// TestEngineSplitHasTheParsersEdges splits the same text as an engine would and
// leaves the other to the parser: the pieces must be the same.
func TestEngineSplitHasTheParsersEdges(t *testing.T) {
	for _, f := range formats {
		for _, th := range []string{"", " ", "a", "a b", " \na b\t\n", "a\n\n", "\n"} {
			for _, an := range []string{"", "x", "\n\nx y ", " x\n", "  ", "x  " + f.Close[0] + " y", "x" + f.Open[0]} {
				open, close := f.Open[0], f.Close[0]
				cfg := split.Config{Format: &f, Start: reasoning.StartAnswer}
				if th == "" {
					continue // an engine says nothing of an empty block
				}
				raw := open + th + close + an
				if an == "" {
					raw = open + th // nor of the end of thinking that nothing follows
				}
				want := run(t, cfg, content(raw))
				for _, leak := range []string{"", open, " \n" + open} {
					chunks := append(thinking(leak+th), content(an)...)
					if got := run(t, cfg, chunks); !same(got, want) {
						t.Errorf("%s: leak %q, %q | %q: got %+v, want %+v", f.Name, leak, th, an, got, want)
					}
					for cut := range len(leak + th) {
						got := run(t, cfg, append(thinking(leak+th, cut), content(an, each(an)...)...))
						if !same(got, want) {
							t.Errorf("%s: leak %q, %q | %q cut at %d: got %+v, want %+v", f.Name, leak, th, an, cut, got, want)
						}
					}
				}
			}
		}
	}
}

// TestEngineSplitWithoutAnswer keeps the blanks at the end of thinking that
// nothing closed, as the parser does.
func TestEngineSplitWithoutAnswer(t *testing.T) {
	f := formats[0]
	want := run(t, split.Config{Format: &f, Start: reasoning.StartThinking}, content("a b \n"))
	for cut := range 5 {
		got := run(t, split.Config{Format: &f, Start: reasoning.StartThinking}, thinking("a b \n", cut))
		if !same(got, want) || got.thinking != "a b \n" {
			t.Errorf("cut at %d: got %+v, want %+v", cut, got, want)
		}
	}
}

func TestWhoSplits(t *testing.T) {
	f := formats[0]
	c := func(text string) openai.Chunk { return openai.Chunk{Content: text} }
	r := func(text string) openai.Chunk { return openai.Chunk{Reasoning: text} }
	for _, x := range []struct {
		name   string
		start  reasoning.State
		chunks []openai.Chunk
		want   result
	}{
		{"nothing", reasoning.StartThinking, nil, result{}},
		{"empty chunks", reasoning.StartThinking, []openai.Chunk{{}, {}}, result{}},
		{"content is raw until thinking comes", reasoning.StartThinking, []openai.Chunk{c("a</think>b")}, result{thinking: "a", answer: "b"}},
		{"thinking first", reasoning.StartThinking, []openai.Chunk{r("a"), c("b</think>c")}, result{thinking: "a", answer: "b</think>c"}},
		{"both in one chunk", reasoning.StartThinking, []openai.Chunk{{Reasoning: "a ", Content: " b"}}, result{thinking: "a", answer: "b"}},
		{"blank content before thinking", reasoning.StartAnswer, []openai.Chunk{c(" "), c("\n"), r("a"), c("b")}, result{thinking: "a", answer: "b"}},
		{"blank content only", reasoning.StartAnswer, []openai.Chunk{c(" "), c("\n")}, result{answer: " \n"}},
		{"blank content before an answer", reasoning.StartAnswer, []openai.Chunk{c(" "), c("b")}, result{answer: " b"}},
		{"blank content before an opener", reasoning.StartAnswer, []openai.Chunk{c(" "), c("<think>a</think> b")}, result{thinking: "a", answer: "b"}},
		{"a late split", reasoning.StartAnswer, []openai.Chunk{c("Hello <th"), r("a"), c(" b")}, result{thinking: "a", answer: "Hello <thb"}},
		{"a late split inside thinking", reasoning.StartThinking, []openai.Chunk{c("a</th"), r("b"), c("c")}, result{thinking: "a</thb", answer: "c"}},
		{"thinking after the answer", reasoning.StartThinking, []openai.Chunk{r("a "), c(" b "), r(" c "), c(" d ")}, result{thinking: "a c ", answer: "b  d "}},
		{"control tokens", reasoning.StartThinking, []openai.Chunk{r("a<|e"), r("nd|>b"), c("c<|end|>d"), c("<|end")}, result{thinking: "ab", answer: "cd<|end"}},
	} {
		t.Run(x.name, func(t *testing.T) {
			cfg := split.Config{Format: &f, Start: x.start}
			if strings.Contains(x.name, "control") {
				cfg.Format = &formats[2]
			}
			if got := run(t, cfg, x.chunks); !same(got, x.want) {
				t.Errorf("got %+v, want %+v", got, x.want)
			}
		})
	}
}

func TestEchoIsDropped(t *testing.T) {
	f := formats[0]
	for _, x := range []struct {
		name           string
		start          reasoning.State
		echo, echoThin string
		th, an         string // what the engine sends
		want           result
	}{
		{"raw", reasoning.StartClosed, "<think>So.</think>\n\n", "", "", "<think>So.</think>\n\nOK", result{answer: "OK"}},
		{"raw, inside thinking", reasoning.StartMidThinking, "<think>So", "", "", "<think>So what</think>OK", result{thinking: " what", answer: "OK"}},
		{"content", reasoning.StartMidAnswer, "OK! RED", "", "", "OK! RED AVOIDS", result{answer: " AVOIDS"}},
		{"thinking and content", reasoning.StartMidAnswer, "OK! RED", "So the queue.", "So the queue.", "OK! RED AVOIDS", result{answer: " AVOIDS"}},
		{"thinking alone", reasoning.StartClosed, "", "So the queue.", "So the queue.", "\n\nOK", result{answer: "OK"}},
		{"thinking that goes on", reasoning.StartMidThinking, "", "So the", "So the queue.", " OK", result{thinking: "queue.", answer: "OK"}},
		{"no echo", reasoning.StartMidAnswer, "OK! RED", "", "", " AVOIDS", result{answer: " AVOIDS"}},
		{"half an echo", reasoning.StartMidAnswer, "OK! RED", "", "", "OK! BLUE", result{answer: "OK! BLUE"}},
		{"the start of an echo", reasoning.StartMidAnswer, "OK! RED", "", "", "OK", result{answer: "OK"}},
		{"the start of an echo, by the engine", reasoning.StartMidAnswer, "OK! RED", "", "think", "OK", result{thinking: "think", answer: "OK"}},
		{"the start of an echo of thinking", reasoning.StartMidThinking, "", "So the queue.", "So", "", result{thinking: "So"}},
	} {
		t.Run(x.name, func(t *testing.T) {
			cfg := split.Config{Format: &f, Start: x.start, Echo: x.echo, EchoThinking: x.echoThin}
			for a := range len(x.th) + 1 {
				for b := range len(x.an) + 1 {
					got := run(t, cfg, append(thinking(x.th, a), content(x.an, b)...))
					if !same(got, x.want) {
						t.Fatalf("cut at %d and %d: got %+v, want %+v", a, b, got, x.want)
					}
				}
			}
			if got := run(t, cfg, append(thinking(x.th, each(x.th)...), content(x.an, each(x.an)...)...)); !same(got, x.want) {
				t.Errorf("byte by byte: got %+v, want %+v", got, x.want)
			}
		})
	}
}

// TestTextLeavesTheEchoOut is what the meter counts: it must not see a prefill
// that the engine has not counted.
func TestTextLeavesTheEchoOut(t *testing.T) {
	f := formats[0]
	s := split.New(split.Config{Format: &f, Start: reasoning.StartMidAnswer, Echo: "abc", EchoThinking: "xyz"})
	var got []string
	note := func() {
		th, an := s.Text()
		got = append(got, th+"|"+an)
	}
	for _, c := range []openai.Chunk{{Reasoning: "xyzt"}, {Content: "a"}, {Content: "bcd"}, {Content: "e"}} {
		s.Add(&c)
		note()
	}
	s.Close()
	note()
	if want := "[t| | |d |e |]"; fmt.Sprint(got) != want {
		t.Errorf("got %v, want %v", got, want)
	}
	s = split.New(split.Config{Format: &f, Start: reasoning.StartMidAnswer, Echo: "abc"})
	s.Add(&openai.Chunk{Content: "ab"})
	s.Close()
	if _, an := s.Text(); an != "ab" {
		t.Errorf("what was no echo is %q at the end", an)
	}
}

func TestBoundaryAndPhase(t *testing.T) {
	f := formats[0]
	s := split.New(split.Config{Format: &f, Start: reasoning.StartThinking})
	check := func(when string, own bool, phase reasoning.Kind, boundary int, ended bool) {
		t.Helper()
		n, ok := s.Boundary()
		if s.Own() != own || s.Phase() != phase || n != boundary || ok != ended {
			t.Errorf("%s: own %v, phase %v, boundary %d %v", when, s.Own(), s.Phase(), n, ok)
		}
	}
	check("at first", true, reasoning.Thinking, 0, false)
	s.Add(&openai.Chunk{Content: " ab</thi"})
	check("in thinking", true, reasoning.Thinking, 0, false)
	s.Add(&openai.Chunk{Content: "nk>x"})
	check("in the answer", true, reasoning.Answer, 11, true)

	s = split.New(split.Config{Format: &f, Start: reasoning.StartThinking})
	s.Add(&openai.Chunk{Reasoning: "ab"})
	check("in the engine's thinking", false, reasoning.Thinking, 0, false)
	s.Add(&openai.Chunk{Content: "x"})
	check("in the engine's answer", false, reasoning.Answer, 0, false)
}

// FuzzSplitter demands that text comes to the same however it is cut, and that
// nothing but blanks, markers and an opener that leaked is lost.
func FuzzSplitter(f *testing.F) {
	f.Add("a<think>b", " c</think> d", uint8(3), uint8(2), uint8(1))
	f.Add(" <thi", "x", uint8(1), uint8(0), uint8(0))
	f.Add("", "<think>a b </think>\n\nc", uint8(0), uint8(9), uint8(2))
	f.Add("\xd5", " \xac", uint8(0), uint8(0), uint8(0))
	f.Fuzz(func(t *testing.T, th, an string, a, b, start uint8) {
		cfg := split.Config{Format: &formats[0], Start: reasoning.State(start%3) + reasoning.StartThinking, Stop: []string{"cd", "d e"}}
		whole := run(t, cfg, append(thinking(th), content(an)...))
		cut := run(t, cfg, append(thinking(th, int(a)), content(an, int(b))...))
		if !same(whole, cut) {
			t.Fatalf("%q | %q: whole %+v, cut at %d and %d %+v", th, an, whole, a, b, cut)
		}
		fine := run(t, cfg, append(thinking(th, each(th)...), content(an, each(an)...)...))
		if !same(whole, fine) {
			t.Fatalf("%q | %q: whole %+v, byte by byte %+v", th, an, whole, fine)
		}
		if got, want := ink(whole.thinking+whole.answer), ink(th+an); th != "" && !whole.stopped && got != want && got != strings.Replace(want, "<think>", "", 1) {
			t.Fatalf("%q | %q: got %+v", th, an, whole)
		}
	})
}

// ink is text without its blanks, byte by byte: runes would see another text
// where two halves of one meet.
func ink(text string) string {
	return strings.NewReplacer(" ", "", "\t", "", "\r", "", "\n", "").Replace(text)
}

// TestVerbatim: nothing of the text is read, and the probabilities go with it.
func TestVerbatim(t *testing.T) {
	s := split.New(split.Config{Format: &reasoning.Format{Name: "x", Open: []string{"<a>"}, Close: []string{"</a>"}}, Stop: []string{"b"}, Verbatim: true})
	for _, c := range []openai.Chunk{{Content: "\n <a>a"}, {Content: "b</a>", Logprobs: `{"tokens":["b"]}`}, {Logprobs: `{"tokens":["half"]}`}, {Content: "  "}} {
		pieces := s.Add(&c)
		if len(pieces) != 1 || pieces[0] != (split.Piece{Kind: reasoning.Answer, Text: c.Content, Logprobs: c.Logprobs}) {
			t.Errorf("%+v becomes %+v", c, pieces)
		}
		if thinking, content := s.Text(); thinking != "" || content != c.Content {
			t.Errorf("the text is %q, %q", thinking, content)
		}
	}
	if len(s.Add(&openai.Chunk{FinishReason: "stop"})) > 0 || len(s.Close()) > 0 || s.Stopped() || s.Own() || s.Phase() != reasoning.Answer {
		t.Error("it reads the text")
	}
	if _, ok := s.Boundary(); ok {
		t.Error("it has a boundary")
	}
}
