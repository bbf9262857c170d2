package usage_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"oneslot/usage"
)

// step is one event: text, and the engine's usage object beside it.
type step struct{ raw, usage string }

// play feeds raw text the way a proxy does: the boundary is told when the last
// byte of the close marker has come. In a format that starts in the answer,
// close is empty and there is no thinking.
func play(t testing.TB, m *usage.Meter, steps []step, close string) {
	t.Helper()
	var all strings.Builder
	told := false
	if close == "" {
		m.Boundary(0)
		told = true
	}
	for _, s := range steps {
		all.WriteString(s.raw)
		m.Add(usage.Piece{Raw: s.raw, Totals: totals(t, s.usage)})
		if at := strings.Index(all.String(), close); !told && at >= 0 {
			m.Boundary(at + len(close))
			told = true
		}
	}
}

const mark = "</think>"

// TestReport plays streams whose engine counts well, badly or not at all.
func TestReport(t *testing.T) {
	one := usage.Count{N: 1, Source: usage.Engine}
	for _, tc := range []struct {
		name                         string
		steps                        []step
		close                        string
		counter                      usage.Counter
		finish                       string
		thinking, answer, completion usage.Count
		started                      bool
	}{
		{
			name:     "cut inside thinking is all thinking",
			steps:    []step{{"think ", ""}, {"more", ""}, {"", `{"prompt_tokens":9,"completion_tokens":2,"total_tokens":11,"completion_tokens_details":{"reasoning_tokens":2}}`}},
			close:    mark,
			finish:   "length",
			thinking: num(2, usage.Engine), answer: num(0, usage.Engine), completion: num(2, usage.Engine),
		},
		{
			name:     "usage beside the finish reason",
			steps:    []step{{"r" + mark + "a", ""}, {"", `{"prompt_tokens":70,"completion_tokens":240,"total_tokens":310,"completion_tokens_details":{"reasoning_tokens":190},"prompt_tokens_details":{"cached_tokens":60}}`}},
			close:    mark,
			finish:   "stop",
			thinking: num(190, usage.EngineSplit), answer: num(50, usage.EngineSplit), completion: num(240, usage.Engine),
			started: true,
		},
		{
			name:     "a zero thinking figure is none, without a tokenizer",
			steps:    []step{{"r", ""}, {mark + "a", ""}, {"", `{"prompt_tokens":5,"completion_tokens":9,"total_tokens":14,"completion_tokens_details":{"reasoning_tokens":0}}`}},
			close:    mark,
			finish:   "stop",
			thinking: num(8, usage.Estimate), answer: num(1, usage.Estimate), completion: num(9, usage.Engine),
			started: true,
		},
		{
			name:     "a zero thinking figure is none, with a tokenizer",
			steps:    []step{{"R", ""}, {"</T>A", ""}, {"", `{"prompt_tokens":5,"completion_tokens":9,"total_tokens":14,"completion_tokens_details":{"reasoning_tokens":0}}`}},
			close:    "</T>",
			counter:  capitals{},
			finish:   "stop",
			thinking: num(4, usage.Tokenizer), answer: num(5, usage.Tokenizer), completion: num(9, usage.Engine),
			started: true,
		},
		{
			name: "running totals replace each other",
			steps: []step{
				{"r", `{"prompt_tokens":10,"completion_tokens":1,"total_tokens":11}`},
				{mark + "a", `{"prompt_tokens":10,"completion_tokens":4,"total_tokens":14}`},
				{"b", `{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15}`},
				{"", `{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15,"completion_tokens_details":{"reasoning_tokens":1}}`},
			},
			close: mark, finish: "stop",
			thinking: num(1, usage.EngineSplit), answer: num(4, usage.EngineSplit), completion: num(5, usage.Engine),
			started: true,
		},
		{
			name:  "absent totals change nothing, and the text after them makes them a lower bound",
			steps: []step{{"r", `{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15}`}, {"s", ""}},
			close: mark,
			// The stream was reset: no finish reason, no totals for "s".
			thinking: num(5, usage.Estimate), answer: num(0, usage.Estimate), completion: num(5, usage.Estimate),
		},
		{
			name:     "text after the last totals is counted on top",
			steps:    []step{{"R", `{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15}`}, {"SS", ""}},
			close:    "</T>",
			counter:  capitals{},
			thinking: num(7, usage.Tokenizer), answer: num(0, usage.Tokenizer), completion: num(7, usage.Tokenizer),
		},
		{
			name:     "no totals: both channels are counted whole",
			steps:    []step{{"R</T>Rip", ""}, {"ple", ""}, {" Flows", ""}},
			close:    "</T>",
			counter:  capitals{},
			finish:   "stop",
			thinking: num(4, usage.Tokenizer), answer: num(2, usage.Tokenizer), completion: num(6, usage.Tokenizer),
			started: true,
		},
		{
			name:     "no totals and no tokenizer: unknown, not zero",
			steps:    []step{{"r" + mark + "a", ""}},
			close:    mark,
			finish:   "stop",
			thinking: unknown, answer: unknown, completion: unknown,
			started: true,
		},
		{
			name:     "no totals and a tokenizer that fails",
			steps:    []step{{"r" + mark + "a", ""}},
			close:    mark,
			counter:  down{},
			thinking: unknown, answer: unknown, completion: unknown,
			started: true,
		},
		{
			name:     "thinking told at the top level",
			steps:    []step{{"r" + mark + "a", ""}, {"", `{"prompt_tokens":10,"completion_tokens":7,"total_tokens":17,"reasoning_tokens":4}`}},
			close:    mark,
			thinking: num(4, usage.EngineSplit), answer: num(3, usage.EngineSplit), completion: num(7, usage.Engine),
			started: true,
		},
		{
			name: "an end marker of several tokens, counted by its first one",
			steps: []step{
				{"look at this markup and think about it for a long while ", ""},
				{"more and more words" + mark, ""},
				{"ok", ""},
				{"", `{"prompt_tokens":20,"completion_tokens":40,"total_tokens":60,"completion_tokens_details":{"reasoning_tokens":1}}`},
			},
			close: mark, finish: "stop",
			thinking: num(39, usage.Estimate), answer: num(1, usage.Estimate), completion: num(40, usage.Engine),
			started: true,
		},
		{
			name:    "the same with another model's tokenizer",
			steps:   []step{{"look at this markup and think" + mark + "okay", ""}, {"", `{"prompt_tokens":2,"completion_tokens":10,"reasoning_tokens":1}`}},
			close:   mark,
			counter: bytesEach{},
			// 37 of 41 bytes are thinking.
			thinking: num(9, usage.Estimate), answer: num(1, usage.Estimate), completion: num(10, usage.Engine),
			started: true,
		},
		{
			name:     "all of the completion is no thinking figure when an answer came",
			steps:    []step{{"R</T>AB", ""}, {"", `{"prompt_tokens":2,"completion_tokens":6,"reasoning_tokens":6}`}},
			close:    "</T>",
			counter:  down{},
			thinking: num(4, usage.Estimate), answer: num(2, usage.Estimate), completion: num(6, usage.Engine),
			started: true,
		},
		{
			name:     "no thinking",
			steps:    []step{{"a<b", ""}, {"c", `{"prompt_tokens":2,"completion_tokens":3,"total_tokens":5,"reasoning_tokens":3}`}},
			thinking: num(0, usage.Engine), answer: num(3, usage.Engine), completion: num(3, usage.Engine),
			started: true,
		},
		{
			name:     "closed thinking and nothing but blanks after it",
			steps:    []step{{"R</T>", `{"completion_tokens":4}`}, {"\n\n", `{"completion_tokens":5}`}, {"", `{"completion_tokens":6}`}},
			close:    "</T>",
			thinking: num(4, usage.Engine), answer: num(2, usage.Engine), completion: num(6, usage.Engine),
		},
		{
			name:     "closed thinking and an end token, without a tokenizer",
			steps:    []step{{"R</T>", ""}, {"", `{"completion_tokens":5}`}},
			close:    "</T>",
			thinking: num(5, usage.Estimate), answer: num(0, usage.Estimate), completion: num(5, usage.Engine),
		},
		{
			name:     "closed thinking and an end token, with a tokenizer",
			steps:    []step{{"R</T>", ""}, {"", `{"completion_tokens":5}`}},
			close:    "</T>",
			counter:  capitals{},
			thinking: num(4, usage.Tokenizer), answer: num(1, usage.Tokenizer), completion: num(5, usage.Engine),
		},
		{
			name:     "the limit falls on the close marker and the total is told again",
			steps:    []step{{"R</T>", `{"completion_tokens":4}`}, {"", `{"completion_tokens":4}`}},
			close:    "</T>",
			finish:   "length",
			thinking: num(4, usage.Engine), answer: num(0, usage.Engine), completion: num(4, usage.Engine),
		},
		{
			name:     "an event without text or totals does not freshen old totals",
			steps:    []step{{"R", `{"completion_tokens":5}`}, {"SS", ""}, {"", ""}},
			close:    "</T>",
			counter:  capitals{},
			thinking: num(7, usage.Tokenizer), answer: num(0, usage.Tokenizer), completion: num(7, usage.Tokenizer),
		},
		{
			name:     "thinking that was seen has one token at least",
			steps:    []step{{"r/t", ""}, {"A", `{"completion_tokens":5}`}},
			close:    "/t",
			counter:  capitals{},
			thinking: num(1, usage.Tokenizer), answer: num(4, usage.Tokenizer), completion: num(5, usage.Engine),
			started: true,
		},
		{
			name:     "a boundary in the middle of one token belongs to the thinking",
			steps:    []step{{"R</T", `{"completion_tokens":3}`}, {">a", `{"completion_tokens":4}`}, {"B", `{"completion_tokens":5}`}},
			close:    "</T>",
			thinking: num(4, usage.Engine), answer: num(1, usage.Engine), completion: num(5, usage.Engine),
			started: true,
		},
		{
			name:     "a step sent as two events with the same total is no edge",
			steps:    []step{{"R", `{"completion_tokens":1}`}, {"</T>", `{"completion_tokens":6}`}, {"AB", `{"completion_tokens":6}`}, {"", `{"completion_tokens":6}`}},
			close:    "</T>",
			counter:  capitals{},
			thinking: num(4, usage.Tokenizer), answer: num(2, usage.Tokenizer), completion: num(6, usage.Engine),
			started: true,
		},
		{
			name:     "zeros at the end of a run that broke",
			steps:    []step{{"R", `{"prompt_tokens":9,"completion_tokens":1}`}, {"", `{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}`}},
			close:    "</T>",
			thinking: one, answer: num(0, usage.Engine), completion: one,
		},
		{
			name:     "an engine that never began",
			close:    mark,
			thinking: unknown, answer: unknown, completion: unknown,
		},
		{
			name:     "aborted before the first token",
			steps:    []step{{"", `{"prompt_tokens":9,"completion_tokens":0}`}},
			close:    mark,
			finish:   "abort",
			thinking: num(0, usage.Engine), answer: num(0, usage.Engine), completion: num(0, usage.Engine),
		},
		{
			name:     "tokens without text, told to be thinking",
			steps:    []step{{"", `{"prompt_tokens":9,"completion_tokens":1,"reasoning_tokens":1}`}},
			close:    mark,
			finish:   "length",
			thinking: num(1, usage.EngineSplit), answer: num(0, usage.EngineSplit), completion: num(1, usage.Engine),
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := usage.NewMeter(usage.Config{Counter: tc.counter})
			play(t, m, tc.steps, tc.close)
			m.Finish(tc.finish)
			got := m.Report(t.Context())
			check(t, got, tc.thinking, tc.answer, tc.completion)
			if got.AnswerStarted != tc.started || got.FinishReason != tc.finish || got.Runs != 1 {
				t.Errorf("started %v, finish %q, runs %d; want %v, %q, 1", got.AnswerStarted, got.FinishReason, got.Runs, tc.started, tc.finish)
			}
		})
	}
}

func TestPrompt(t *testing.T) {
	var none usage.Count
	for _, tc := range []struct {
		name           string
		cfg            usage.Config
		usage          string
		own, expected  usage.Count
		prompt, cached usage.Count
	}{
		{"told", usage.Config{}, `{"prompt_tokens":70,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":60}}`, none, none, num(70, usage.Engine), num(60, usage.Engine)},
		{"told to be zero", usage.Config{}, `{"prompt_tokens":70,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":0}}`, none, none, num(70, usage.Engine), num(0, usage.Engine)},
		{"null is unknown", usage.Config{}, `{"prompt_tokens":70,"completion_tokens":1,"prompt_tokens_details":null}`, none, none, num(70, usage.Engine), unknown},
		{"null in the details is unknown", usage.Config{}, `{"prompt_tokens":70,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":null}}`, none, none, num(70, usage.Engine), unknown},
		{"n/a is unknown", usage.Config{}, `{"prompt_tokens":"n/a","completion_tokens":1,"prompt_tokens_details":{"cached_tokens":"n/a"}}`, none, none, unknown, unknown},
		{"cache off", usage.Config{CacheOff: true}, `{"prompt_tokens":70,"completion_tokens":1}`, none, none, num(70, usage.Engine), num(0, usage.EngineSetup)},
		{"the engine knows better than its set-up", usage.Config{CacheOff: true}, `{"prompt_tokens":70,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":3}}`, none, none, num(70, usage.Engine), num(3, usage.Engine)},
		{"predicted", usage.Config{}, `{"prompt_tokens":70,"completion_tokens":1}`, none, num(42, usage.Predicted), num(70, usage.Engine), num(42, usage.Predicted)},
		{"told, not predicted", usage.Config{}, `{"prompt_tokens":70,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":69}}`, none, num(42, usage.Predicted), num(70, usage.Engine), num(69, usage.Engine)},
		{"own count", usage.Config{}, `{"completion_tokens":1}`, num(69, usage.Tokenizer), none, num(69, usage.Tokenizer), unknown},
		{"own count is second", usage.Config{}, `{"prompt_tokens":70,"completion_tokens":1}`, num(69, usage.Tokenizer), none, num(70, usage.Engine), unknown},
		{"more expected than there is", usage.Config{}, `{"prompt_tokens":40,"completion_tokens":1}`, none, num(42, usage.Predicted), num(40, usage.Engine), num(40, usage.Predicted)},
		{"told when there are some", usage.Config{CacheTold: true}, `{"prompt_tokens":70,"completion_tokens":1,"prompt_tokens_details":null}`, none, none, num(70, usage.Engine), num(0, usage.EngineSetup)},
		{"told when there are some, but it told nothing at all", usage.Config{CacheTold: true}, "", none, none, unknown, unknown},
		{"nothing told", usage.Config{}, "", none, none, unknown, unknown},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := usage.NewMeter(tc.cfg)
			m.Expect(tc.own, tc.expected)
			m.Add(usage.Piece{Answer: "a", Totals: totals(t, tc.usage)})
			m.Finish("stop")
			got := m.Report(t.Context()).Tokens
			if got.Prompt != tc.prompt || got.CachedPrompt != tc.cached {
				t.Errorf("prompt %+v, cached %+v; want %+v, %+v", got.Prompt, got.CachedPrompt, tc.prompt, tc.cached)
			}
		})
	}
}

// TestBoundaryBeforeText tells the boundary before the bytes that lead up to
// it have been added.
func TestBoundaryBeforeText(t *testing.T) {
	m := usage.NewMeter(usage.Config{})
	m.Boundary(5)
	m.Boundary(1) // the first call counts
	m.Add(usage.Piece{Raw: "R</T>", Totals: totals(t, `{"completion_tokens":4}`)})
	m.Add(usage.Piece{Raw: "A", Totals: totals(t, `{"completion_tokens":5}`)})
	check(t, m.Report(t.Context()), num(4, usage.Engine), num(1, usage.Engine), num(5, usage.Engine))
}

// TestBoundaryNeverReached tells a boundary the text does not come up to.
func TestBoundaryNeverReached(t *testing.T) {
	m := usage.NewMeter(usage.Config{Counter: capitals{}})
	m.Boundary(100)
	m.Add(usage.Piece{Raw: "RS"})
	check(t, m.Report(t.Context()), num(2, usage.Tokenizer), num(0, usage.Tokenizer), num(2, usage.Tokenizer))
}

// TestMarkerOverManyEvents cuts the close marker into events after a long
// thinking, with one total an event: those before the boundary still count.
func TestMarkerOverManyEvents(t *testing.T) {
	for thought := 50; thought < 150; thought++ {
		m := usage.NewMeter(usage.Config{})
		var steps []step
		say := func(text string, total int) {
			steps = append(steps, step{text, fmt.Sprintf(`{"completion_tokens":%d}`, total)})
		}
		for i := range thought {
			say("W", i+1)
		}
		say("</", thought+1)
		say("T", thought+2)
		say(">AB", thought+5)
		play(t, m, steps, "</T>")
		check(t, m.Report(t.Context()), num(thought+3, usage.Estimate), num(2, usage.Estimate), num(thought+5, usage.Engine))
	}
}

// TestZerosAtTheEnd stands for an engine that ends on an error with a usage
// object of zeros, after it had told better.
func TestZerosAtTheEnd(t *testing.T) {
	m := usage.NewMeter(usage.Config{})
	m.Add(usage.Piece{Answer: "A", Totals: totals(t, `{"prompt_tokens":9,"completion_tokens":1,"cost":1}`)})
	m.Add(usage.Piece{Totals: totals(t, `{"prompt_tokens":0,"completion_tokens":0}`)})
	got := m.Report(t.Context())
	if got.Tokens.Prompt != num(9, usage.Engine) || got.Tokens.Completion != num(1, usage.Engine) || got.Extra.Top != `"cost":1` {
		t.Errorf("%+v", got)
	}
}

// negative is a tokenizer that answers nonsense.
type negative struct{}

func (negative) Count(context.Context, string) (int, error) { return -1, nil }

func TestNonsenseCounter(t *testing.T) {
	m := usage.NewMeter(usage.Config{Counter: negative{}})
	play(t, m, []step{{"R</T>A", ""}}, "</T>")
	check(t, m.Report(t.Context()), unknown, unknown, unknown)
}

// TestCounterIsAskedFewTimes holds the number of calls, however many chunks.
func TestCounterIsAskedFewTimes(t *testing.T) {
	asked := 0
	m := usage.NewMeter(usage.Config{Counter: capitals{&asked}})
	for range 1000 {
		m.Add(usage.Piece{Thinking: "A"})
	}
	for range 1000 {
		m.Add(usage.Piece{Answer: "B"})
	}
	if asked != 0 {
		t.Errorf("asked %d times while the text came", asked)
	}
	m.Add(usage.Piece{Totals: totals(t, `{"completion_tokens":2001}`)})
	check(t, m.Report(t.Context()), num(1000, usage.Tokenizer), num(1001, usage.Tokenizer), num(2001, usage.Engine))
	if asked > 2 {
		t.Errorf("asked %d times for the report", asked)
	}
}

// TestCancelledContext stands for a Counter over HTTP whose request is over.
func TestCancelledContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	m := usage.NewMeter(usage.Config{Counter: capitals{}})
	play(t, m, []step{{"RR</T>A", ""}, {"", `{"completion_tokens":9,"reasoning_tokens":5}`}}, "</T>")
	check(t, m.Report(ctx), num(5, usage.EngineSplit), num(4, usage.EngineSplit), num(9, usage.Engine))
}

func TestResidue(t *testing.T) {
	for _, tc := range []struct {
		name  string
		total string
		end   bool
		want  int
	}{
		{"nothing hidden", `{"completion_tokens":6}`, false, 0},
		{"the end token is accounted for", `{"completion_tokens":7}`, true, 0},
		{"two hidden tokens", `{"completion_tokens":8}`, false, 2},
		{"one too many", `{"completion_tokens":5}`, false, -1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := usage.NewMeter(usage.Config{Counter: capitals{}})
			play(t, m, []step{{"R</T>AB", ""}}, "</T>")
			m.Add(usage.Piece{EndToken: tc.end, Totals: totals(t, tc.total)})
			got := m.Report(t.Context())
			if got.Residue != tc.want {
				t.Errorf("residue = %d, want %d", got.Residue, tc.want)
			}
			if got.Tokens.Thinking != num(4, usage.Tokenizer) {
				t.Errorf("thinking = %+v, want 4 whatever the residue", got.Tokens.Thinking)
			}
			sums(t, got.Tokens)
		})
	}
}

func TestEndTokenWithoutTotals(t *testing.T) {
	m := usage.NewMeter(usage.Config{Counter: capitals{}})
	play(t, m, []step{{"R</T>AB", ""}}, "</T>")
	m.Add(usage.Piece{EndToken: true})
	check(t, m.Report(t.Context()), num(4, usage.Tokenizer), num(3, usage.Tokenizer), num(7, usage.Tokenizer))

	m = usage.NewMeter(usage.Config{Counter: capitals{}})
	m.Add(usage.Piece{Answer: "A", Totals: totals(t, `{"completion_tokens":5}`)})
	m.Add(usage.Piece{Answer: "B", EndToken: true})
	check(t, m.Report(t.Context()), num(0, usage.Tokenizer), num(7, usage.Tokenizer), num(7, usage.Tokenizer))

	m = usage.NewMeter(usage.Config{Counter: capitals{}})
	m.Add(usage.Piece{Thinking: "AB", EndToken: true})
	check(t, m.Report(t.Context()), num(3, usage.Tokenizer), num(0, usage.Tokenizer), num(3, usage.Tokenizer))
}

// BenchmarkAdd is the price of one event with running totals.
func BenchmarkAdd(b *testing.B) {
	u, _ := usage.ParseTotals(`{"prompt_tokens":10,"completion_tokens":1}`)
	m := usage.NewMeter(usage.Config{})
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		u.Completion.N = i
		m.Add(usage.Piece{Raw: " word", Totals: &u})
	}
}

// TestAddDoesNotAllocate holds the meter to its price a chunk.
func TestAddDoesNotAllocate(t *testing.T) {
	for name, counter := range map[string]usage.Counter{"without text": nil, "with text": capitals{}} {
		t.Run(name, func(t *testing.T) {
			u := totals(t, `{"prompt_tokens":10,"completion_tokens":1}`)
			m := usage.NewMeter(usage.Config{Counter: counter})
			m.Add(usage.Piece{Raw: strings.Repeat("x", 1<<20), Totals: u}) // room to grow into
			got := testing.AllocsPerRun(1000, func() {
				u.Completion.N++
				m.Add(usage.Piece{Raw: "w", Totals: u})
			})
			if got > 0 {
				t.Errorf("%v allocations an event", got)
			}
			if got := testing.AllocsPerRun(100, func() { m.Progress() }); got > 0 {
				t.Errorf("%v allocations a Progress", got)
			}
		})
	}
}
