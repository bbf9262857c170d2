package plan_test

import (
	"fmt"
	"strings"
	"testing"

	"oneslot/internal/simengine/ask"
	"oneslot/internal/simengine/plan"
	"oneslot/internal/simengine/words"
)

// request is a chat at the start of a turn, as ask reads it.
func request() *ask.Request {
	return &ask.Request{Chat: true, Separate: true, StreamThinking: true, SkipSpecial: true, Prompt: "hi\n"}
}

func options(f ask.Format) plan.Options {
	f = f.WithDefaults()
	return plan.Options{
		Vocab: words.New(f.Marks()...), Format: f, Thinking: 30, Answer: 20, Budget: 1000, Split: true, Counted: true,
	}
}

var formats = []ask.Format{
	{},
	{Open: "<think>", Close: "</think>"},
	{Open: "<think>", Close: "</think>", Plain: true},
	{Open: "OPEN", Close: "CLOSE", Plain: true},
	{Open: "<a", Close: "<ab"},
	{Open: "(", Close: "\n)\n", Plain: true},
}

// TestPlanIsItsTokens checks for every format and budget that the tokens are
// those of the text, that what they show adds up, and that a shorter budget
// gives a beginning of the longer reply.
func TestPlanIsItsTokens(t *testing.T) {
	for i, f := range formats {
		for _, start := range []ask.Phase{ask.Opening, ask.InThinking, ask.InAnswer} {
			req, o := request(), options(f)
			req.Start = start
			whole := plan.New(req, o)
			if whole.Finish != plan.Stop || whole.Matched != words.TurnEndID {
				t.Fatalf("format %d phase %d: %s, %v", i, start, whole.Finish, whole.Matched)
			}
			all := whole.Shown(0, len(whole.Pieces))
			text := strings.Join(whole.Tokens[:len(whole.Tokens)-1], "")
			if n := o.Vocab.Count(text) + 1; n != len(whole.Tokens) || n != len(whole.Pieces) {
				t.Errorf("format %d phase %d: %d tokens, the text has %d", i, start, len(whole.Tokens), n)
			}
			if !strings.HasSuffix(text, all.Answer) || !strings.Contains(text, all.Thinking) || (all.Thinking == "") != (start == ask.InAnswer) {
				t.Errorf("format %d phase %d: %q shows %q and %q", i, start, text, all.Thinking, all.Answer)
			}
			for budget := range len(whole.Tokens) {
				o.Budget = budget
				p := plan.New(req, o)
				if p.Finish != plan.Length || p.Matched != nil || len(p.Tokens) != budget || len(p.Pieces) != budget {
					t.Fatalf("format %d phase %d budget %d: %s, %d tokens", i, start, budget, p.Finish, len(p.Tokens))
				}
				if got := p.Shown(0, budget); got != whole.Shown(0, budget) {
					t.Errorf("format %d phase %d budget %d: %+v is no beginning", i, start, budget, got)
				}
			}
		}
	}
}

func TestShownInAnyStep(t *testing.T) {
	p := plan.New(request(), options(formats[1]))
	want := p.Shown(0, len(p.Pieces))
	for step := 1; step < 20; step++ {
		var got plan.Piece
		for at := 0; at < len(p.Pieces); at += step {
			s := p.Shown(at, min(at+step, len(p.Pieces)))
			got.Thinking += s.Thinking
			got.Answer += s.Answer
		}
		if got != want {
			t.Errorf("in steps of %d: %+v, want %+v", step, got, want)
		}
	}
}

func TestThought(t *testing.T) {
	opens := formats[1] // one token each: open, 30, close, gap, 20, end
	for _, tc := range []struct {
		name    string
		change  func(*ask.Request, *plan.Options)
		n, want int
	}{
		{"in thinking", nil, 10, 10},
		{"with both markers", nil, 54, 32},
		{"raw engine", func(_ *ask.Request, o *plan.Options) { o.Counted = false }, 54, 0},
		{"completion", func(r *ask.Request, _ *plan.Options) { r.Chat = false }, 54, 0},
		{"switched off", func(r *ask.Request, _ *plan.Options) { r.NoThink, r.Start = true, ask.InAnswer }, 21, 0},
		{"continued", func(r *ask.Request, _ *plan.Options) { r.Prefilled, r.Start = true, ask.InAnswer }, 21, 21},
		{"text only", func(_ *ask.Request, o *plan.Options) { o.TextOnly = true }, 54, 30},
		{"text only, begun", func(_ *ask.Request, o *plan.Options) { o.TextOnly = true }, 5, 4},
		{"text only, at once", func(_ *ask.Request, o *plan.Options) { o.TextOnly = true }, 0, 0},
		{"text only, continued", func(r *ask.Request, o *plan.Options) { o.TextOnly, r.Prefilled, r.Start = true, true, ask.InAnswer }, 21, 0},
		{"plain markers", func(_ *ask.Request, o *plan.Options) { o.Format.Plain, o.Vocab = true, words.New() }, 50, 1},
		{"none at all", func(_ *ask.Request, o *plan.Options) { o.Thinking = 0 }, 21, 21},
	} {
		t.Run(tc.name, func(t *testing.T) {
			req, o := request(), options(opens)
			if tc.change != nil {
				tc.change(req, &o)
			}
			p := plan.New(req, o)
			if got := p.Thought(tc.n); got != tc.want {
				t.Errorf("of %d tokens %d are thinking, want %d (of %d in all)", tc.n, got, tc.want, len(p.Tokens))
			}
		})
	}
}

func TestNoThinking(t *testing.T) {
	req, o := request(), options(formats[1])
	o.Thinking = 0
	if p := plan.New(req, o); len(p.Tokens) != 21 || p.Shown(0, 21).Thinking != "" {
		t.Errorf("a model that opens itself writes no markers: %q", p.Tokens)
	}
	req.Start = ask.InThinking
	if p := plan.New(req, o); p.Tokens[0] != "</think>" || len(p.Tokens) != 23 {
		t.Errorf("an open block is closed: %q", p.Tokens)
	}
	req.Prompt = "So the"
	if p := plan.New(req, o); p.Tokens[0] != "</think>" {
		t.Errorf("nothing stands before the marker: %q", p.Tokens)
	}
	o.Thinking = 5
	if p := plan.New(req, o); !strings.HasPrefix(p.Shown(0, 3).Thinking, " ") || len(p.Tokens) != 28 {
		t.Errorf("a word is continued without a space: %q", p.Tokens)
	}
	o.Thinking, o.Answer = 0, 0
	if p := plan.New(req, o); len(p.Tokens) != 3 || p.Finish != plan.Stop {
		t.Errorf("nothing to say: %q", p.Tokens)
	}
}

// TestStopAtEveryPlace uses every short piece of the text as a stop string.
func TestStopAtEveryPlace(t *testing.T) {
	req, o := request(), options(formats[0])
	req.Start, req.Separate = ask.InThinking, false
	whole := plan.New(req, o)
	text := whole.Shown(0, len(whole.Pieces)).Answer
	for at := 0; at+3 <= len(text); at++ {
		stop := text[at : at+3]
		first := strings.Index(text, stop)
		req.Stop = []string{"never there", stop}
		p := plan.New(req, o)
		if got := p.Shown(0, len(p.Pieces)).Answer; got != text[:first] || p.Matched != stop || p.Finish != plan.Stop {
			t.Fatalf("stop %q at %d: %q, %v", stop, first, got, p.Matched)
		}
		if n := len(p.Tokens); strings.Join(p.Tokens[:n-1], "") >= text[:first+3] || len(strings.Join(p.Tokens, "")) < first+3 {
			t.Fatalf("stop %q at %d: %d tokens are not just those up to it", stop, first, n)
		}
		req.KeepStop = true
		if got := plan.New(req, o).Shown(0, len(p.Pieces)).Answer; got != text[:first+3] {
			t.Fatalf("stop %q kept: %q", stop, got)
		}
		req.KeepStop = false
	}
	req.Stop = []string{text[40:45]}
	o.Budget = 5
	if p := plan.New(req, o); p.Finish != plan.Length || p.Matched != nil {
		t.Errorf("a stop string beyond the budget: %s %v", p.Finish, p.Matched)
	}
}

func TestHeldThinking(t *testing.T) {
	req, o := request(), options(formats[1])
	flowing := plan.New(req, o)
	req.StreamThinking = false
	held := plan.New(req, o)
	if held.Shown(0, 30).Thinking != "" || held.Shown(0, 54) != flowing.Shown(0, 54) {
		t.Errorf("%+v", held.Shown(0, 54))
	}
	req.Start, o.Budget = ask.InThinking, 1
	if one := plan.New(req, o); one.Shown(0, 1).Thinking == "" {
		t.Errorf("a single token is lost: %+v", one.Pieces)
	}
	req.Start, o.Budget = ask.Opening, 10
	if cut := plan.New(req, o); cut.Shown(9, 10).Thinking != flowing.Shown(0, 10).Thinking {
		t.Errorf("cut, it is told at the end: %+v", cut.Pieces)
	}
}

func TestSpoken(t *testing.T) {
	req, o := request(), options(formats[1])
	req.Separate = false // whatever the client sees
	p := plan.New(req, o)
	for n := range len(p.Tokens) + 1 {
		thinking, answer := p.Spoken(n)
		text := strings.Join(p.Tokens[:min(n, len(p.Tokens)-1)], "")
		before, after, closed := strings.Cut(strings.TrimPrefix(text, "<think>"), "</think>")
		if !closed {
			after = ""
		}
		if thinking != before || answer != after {
			t.Fatalf("after %d: %q and %q, want %q and %q", n, thinking, answer, before, after)
		}
	}
}

func TestTrimmedAndUnmarked(t *testing.T) {
	req, o := request(), options(formats[1])
	o.Trimmed = true
	if p := plan.New(req, o); strings.HasPrefix(p.Shown(0, 54).Answer, "\n") {
		t.Errorf("not trimmed: %+v", p.Shown(0, 54))
	}
	req.Start, req.Prefilled, req.Unmarked = ask.InAnswer, true, true
	if p := plan.New(req, o); p.Shown(0, 21).Answer != "" || p.Shown(0, 21).Thinking == "" {
		t.Errorf("unmarked: %+v", p.Shown(0, 21))
	}
}

func TestTextFollowsSeedAndPrompt(t *testing.T) {
	text := func(seed uint64, prompt string) string {
		req, o := request(), options(formats[0])
		o.Seed, req.Prompt = seed, prompt
		return fmt.Sprint(plan.New(req, o).Tokens)
	}
	again := text(1, "a")
	if text(1, "a") != again || again == text(2, "a") || text(1, "a!") == text(1, "b!") {
		t.Error("the text does not follow seed and prompt")
	}
}

// FuzzPlan checks, for any prompt, format and budget, that the reply is what
// its tokens are and that nothing is lost between the channels.
func FuzzPlan(f *testing.F) {
	f.Add("hi\n", "<think>", "</think>", true, uint8(9), uint8(7), uint8(200), uint8(0))
	f.Add("So the", "a", "ab", false, uint8(0), uint8(3), uint8(5), uint8(1))
	f.Add("", " ", "\n", false, uint8(3), uint8(3), uint8(255), uint8(2))
	f.Fuzz(func(t *testing.T, prompt, opening, closing string, plain bool, thinking, answer, budget, start uint8) {
		if opening == "" || closing == "" {
			return
		}
		format := ask.Format{Open: opening, Close: closing, Plain: plain}
		o := options(format)
		o.Thinking, o.Answer, o.Budget = int(thinking), int(answer), int(budget)
		req := request()
		req.Prompt, req.Start, req.SkipSpecial = prompt, ask.Phase(start%3), false
		split := plan.New(req, o)
		req.Separate = false
		raw := plan.New(req, o)
		n := len(raw.Tokens)
		if n > o.Budget || len(raw.Pieces) != n || len(split.Tokens) != n || (raw.Finish == plan.Length) != (raw.Matched == nil) {
			t.Fatalf("%d tokens of %d, %s %v", n, o.Budget, raw.Finish, raw.Matched)
		}
		text := raw.Shown(0, n).Answer
		visible := n
		if raw.Finish == plan.Stop {
			visible--
		}
		if text != strings.Join(raw.Tokens[:visible], "") {
			t.Errorf("shown %q of %q", text, raw.Tokens)
		}
		said := split.Shown(0, n)
		if rest := len(text) - len(said.Thinking) - len(said.Answer); rest < 0 || rest > len(opening)+len(closing)+1 {
			t.Errorf("%q and %q of %q", said.Thinking, said.Answer, text)
		}
		if a, b := split.Spoken(n); a != said.Thinking || b != said.Answer {
			t.Errorf("spoken %q %q, shown %+v", a, b, said)
		}
		if got := split.Thought(n); got < 0 || got > n {
			t.Errorf("%d of %d tokens are thinking", got, n)
		}
	})
}
