package usage_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"oneslot/usage"
)

// TestEngineSplit feeds text that the engine has already divided.
func TestEngineSplit(t *testing.T) {
	type p = usage.Piece
	u := func(completion, thinking int) *usage.Totals {
		return totals(t, fmt.Sprintf(`{"completion_tokens":%d,"reasoning_tokens":%d}`, completion, thinking))
	}
	marked := usage.Config{Counter: capitals{}, Open: "<t>", Close: "</t>", OpenerGenerated: true} // two tokens each
	for _, tc := range []struct {
		name             string
		cfg              usage.Config
		pieces           []p
		thinking, answer usage.Count
		started          bool
	}{
		{
			name:     "by the engine's figure, markers included",
			pieces:   []p{{Thinking: "AB"}, {Answer: "CD", Totals: u(8, 6)}},
			thinking: num(6, usage.EngineSplit), answer: num(2, usage.EngineSplit), started: true,
		},
		{
			name:     "by the engine's figure, markers left out",
			cfg:      usage.Config{EngineOmits: 4},
			pieces:   []p{{Thinking: "AB"}, {Answer: "CD", Totals: u(8, 2)}},
			thinking: num(6, usage.EngineSplit), answer: num(2, usage.EngineSplit), started: true,
		},
		{
			name:     "by the tokenizer, markers put back",
			cfg:      marked,
			pieces:   []p{{Thinking: "AB"}, {Answer: "CD", Totals: u(8, 2)}},
			thinking: num(6, usage.Tokenizer), answer: num(2, usage.Tokenizer), started: true,
		},
		{
			name:     "running totals: the close marker with the last thinking",
			cfg:      marked,
			pieces:   []p{{Thinking: "A", Totals: u(3, 3)}, {Thinking: "BC", Totals: u(7, 7)}, {Answer: "DE", Totals: u(9, 7)}},
			thinking: num(7, usage.Tokenizer), answer: num(2, usage.Tokenizer), started: true,
		},
		{
			name:     "running totals: the close marker with the first answer",
			cfg:      marked,
			pieces:   []p{{Thinking: "A", Totals: u(3, 3)}, {Thinking: "BC", Totals: u(5, 5)}, {Answer: "DE", Totals: u(9, 7)}},
			thinking: num(7, usage.Tokenizer), answer: num(2, usage.Tokenizer), started: true,
		},
		{
			name:     "running totals: a step in both channels carries one total",
			cfg:      marked,
			pieces:   []p{{Thinking: "A", Totals: u(3, 3)}, {Thinking: "B", Totals: u(8, 6)}, {Answer: "CD", Totals: u(8, 6)}, {Answer: "E", Totals: u(9, 6)}},
			thinking: num(6, usage.Tokenizer), answer: num(3, usage.Tokenizer), started: true,
		},
		{
			name:     "running totals: the close marker in an event of its own",
			pieces:   []p{{Thinking: "A", Totals: u(2, 1)}, {Totals: u(3, 1)}, {Answer: "B", Totals: u(4, 1)}},
			thinking: num(3, usage.Engine), answer: num(1, usage.Engine), started: true,
		},
		{
			name:     "running totals: the engine's figure lies between them",
			pieces:   []p{{Thinking: "A", Totals: u(2, 2)}, {Answer: "BC", Totals: u(6, 4)}},
			thinking: num(4, usage.EngineSplit), answer: num(2, usage.EngineSplit), started: true,
		},
		{
			name:     "running totals: the engine's figure lies outside",
			cfg:      usage.Config{Close: "</think>"},
			pieces:   []p{{Thinking: "AB", Totals: u(12, 1)}, {Answer: "CDEFGHIJ", Totals: u(18, 1)}},
			thinking: num(15, usage.Estimate), answer: num(3, usage.Estimate), started: true,
		},
		{
			name:     "no thinking seen: the engine's figure does not count",
			pieces:   []p{{Answer: "OK"}, {Answer: " THEN", Totals: u(7, 7)}},
			thinking: num(0, usage.Engine), answer: num(7, usage.Engine), started: true,
		},
		{
			name:     "thinking and no answer",
			pieces:   []p{{Thinking: "AB"}, {Totals: u(5, 5)}},
			thinking: num(5, usage.Engine), answer: num(0, usage.Engine),
		},
		{
			name:     "blanks before the thinking are no answer",
			cfg:      marked,
			pieces:   []p{{Answer: "\n"}, {Thinking: "AB"}, {Answer: "C", Totals: u(7, 0)}},
			thinking: num(6, usage.Tokenizer), answer: num(1, usage.Tokenizer), started: true,
		},
		{
			name:     "a tool call ends the thinking",
			cfg:      marked,
			pieces:   []p{{Thinking: "AB"}, {Tool: true}, {Totals: u(20, 0)}},
			thinking: num(6, usage.Tokenizer), answer: num(14, usage.Tokenizer), started: true,
		},
		{
			name:     "running totals: a tool call without text",
			cfg:      usage.Config{Close: "</t>"},
			pieces:   []p{{Thinking: "AB", Totals: u(6, 6)}, {Tool: true, Totals: u(7, 6)}, {Tool: true, Totals: u(20, 6)}},
			thinking: num(6, usage.Engine), answer: num(14, usage.Engine), started: true,
		},
		{
			name:     "the text of a tool call is not at hand",
			cfg:      marked,
			pieces:   []p{{Thinking: "AB"}, {Tool: true}},
			thinking: num(6, usage.Tokenizer), answer: num(0, usage.Estimate), started: true,
		},
		{
			name:     "thinking that comes back after the answer",
			cfg:      marked,
			pieces:   []p{{Thinking: "AB", Totals: u(4, 4)}, {Answer: "C", Totals: u(7, 6)}, {Thinking: "DE", Totals: u(9, 8)}, {Answer: "F", Totals: u(10, 8)}},
			thinking: num(8, usage.Tokenizer), answer: num(2, usage.Tokenizer), started: true,
		},
		{
			name:     "a tool call in the middle of raw text",
			pieces:   []p{{Raw: "AB", Totals: u(2, 0)}, {Tool: true, Totals: u(9, 0)}},
			thinking: num(2, usage.Engine), answer: num(7, usage.Engine), started: true,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := usage.NewMeter(tc.cfg)
			for _, p := range tc.pieces {
				m.Add(p)
			}
			got := m.Report(t.Context())
			if got.Tokens.Thinking != tc.thinking || got.Tokens.Answer != tc.answer {
				t.Errorf("thinking %+v, answer %+v; want %+v, %+v", got.Tokens.Thinking, got.Tokens.Answer, tc.thinking, tc.answer)
			}
			if got.AnswerStarted != tc.started {
				t.Errorf("answer started = %v", got.AnswerStarted)
			}
			sums(t, got.Tokens)
		})
	}
}

// TestNextRun cuts the thinking at a budget and goes on with an answer.
func TestNextRun(t *testing.T) {
	type p = usage.Piece
	u := func(prompt, completion int) *usage.Totals {
		return totals(t, fmt.Sprintf(`{"prompt_tokens":%d,"completion_tokens":%d,"reasoning_tokens":%d,"prompt_tokens_details":{"cached_tokens":%d}}`,
			prompt, completion, completion, prompt-1))
	}
	for _, tc := range []struct {
		name                         string
		cfg                          usage.Config
		first                        []p
		cut                          int // where Boundary is told after the first piece; negative: not at all
		second                       []p
		thinking, answer, completion usage.Count
	}{
		{
			name:     "raw text, kept up to the edge of an event",
			first:    []p{{Raw: "ABC", Totals: u(10, 3)}, {Raw: "DE", Totals: u(10, 5)}},
			cut:      3,
			second:   []p{{Raw: "F", Totals: u(14, 1)}, {Raw: "G", Totals: u(14, 2)}},
			thinking: num(3, usage.Engine), answer: num(2, usage.Engine), completion: num(5, usage.Engine),
		},
		{
			name:     "text split by the engine, its opener not shown",
			cfg:      usage.Config{Open: "<think", OpenerGenerated: true},
			first:    []p{{Thinking: "ABC", Totals: u(10, 4)}, {Thinking: "DE", Totals: u(10, 6)}},
			cut:      3,
			second:   []p{{Answer: "F", Totals: u(14, 1)}},
			thinking: num(4, usage.Engine), answer: num(1, usage.Engine), completion: num(5, usage.Engine),
		},
		{
			name:     "only a final total: the tokenizer counts what was kept",
			cfg:      usage.Config{Counter: capitals{}},
			first:    []p{{Raw: "ABC"}, {Raw: "DE", Totals: u(10, 5)}},
			cut:      2,
			second:   []p{{Raw: "F", Totals: u(14, 1)}},
			thinking: num(2, usage.Tokenizer), answer: num(1, usage.Engine), completion: num(3, usage.Tokenizer),
		},
		{
			name:     "only a final total and no tokenizer",
			first:    []p{{Raw: "ABC"}, {Raw: "DEF", Totals: u(10, 6)}},
			cut:      3,
			second:   []p{{Raw: "F", Totals: u(14, 1)}},
			thinking: num(3, usage.Estimate), answer: num(1, usage.Engine), completion: num(4, usage.Estimate),
		},
		{
			name:     "the engine's figure counts what was thrown away",
			first:    []p{{Raw: "ABC"}, {Raw: "DEFGHI", Totals: totals(t, `{"prompt_tokens":10,"completion_tokens":9,"reasoning_tokens":8,"prompt_tokens_details":{"cached_tokens":9}}`)}},
			cut:      3,
			second:   []p{{Raw: "F", Totals: u(14, 1)}},
			thinking: num(3, usage.Estimate), answer: num(1, usage.Engine), completion: num(4, usage.Estimate),
		},
		{
			name:     "everything kept",
			first:    []p{{Raw: "ABC", Totals: u(10, 3)}},
			cut:      -1,
			second:   []p{{Raw: "DE", Totals: u(14, 2)}},
			thinking: num(3, usage.Engine), answer: num(2, usage.Engine), completion: num(5, usage.Engine),
		},
		{
			name:     "the second run breaks before it says anything",
			first:    []p{{Raw: "ABC", Totals: u(10, 3)}},
			cut:      3,
			thinking: num(3, usage.Engine), answer: unknown, completion: unknown,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := usage.NewMeter(tc.cfg)
			for i, p := range tc.first {
				m.Add(p)
				if i == 0 && tc.cut >= 0 {
					m.Boundary(tc.cut)
				}
			}
			m.NextRun()
			for _, p := range tc.second {
				m.Add(p)
			}
			got := m.Report(t.Context())
			if k := got.Tokens; k.Thinking.N != tc.thinking.N || k.Answer != tc.answer || k.Completion != tc.completion {
				t.Errorf("got %+v", k)
			}
			if got.Runs != 2 || got.Tokens.Prompt != num(10, usage.Engine) || got.Tokens.CachedPrompt != num(9, usage.Engine) {
				t.Errorf("runs %d, prompt %+v, cached %+v; want those of the first of 2 runs", got.Runs, got.Tokens.Prompt, got.Tokens.CachedPrompt)
			}
			if len(tc.second) == 0 {
				if got.EngineCompletion.Known() {
					t.Errorf("engine completion %+v although a run told none", got.EngineCompletion)
				}
				return
			}
			first, second := tc.first[len(tc.first)-1].Totals, tc.second[len(tc.second)-1].Totals
			if want := first.Completion.N + second.Completion.N; got.EngineCompletion != num(want, usage.Engine) {
				t.Errorf("engine completion %+v, want %d with what was thrown away", got.EngineCompletion, want)
			}
			if got.EnginePrompt != num(24, usage.Engine) {
				t.Errorf("engine prompt %+v, want 24", got.EnginePrompt)
			}
		})
	}
}

// stream is a random answer of an engine, with the true figures.
type stream struct {
	tokens           []string
	thinking, answer int
	close            string
	text             string // up to the end of the close marker
}

func newStream(r *rand.Rand) stream {
	s := stream{close: []string{"</T>", "<close", "<E\n>"}[r.IntN(3)]}
	word := func() string { return string(rune('A'+r.IntN(26))) + strings.Repeat("x", r.IntN(5)) }
	for range 1 + r.IntN(40) {
		s.tokens = append(s.tokens, word())
	}
	for _, part := range strings.SplitAfter(strings.NewReplacer("</T>", "</|T|>", "<E\n>", "<|E\n|>").Replace(s.close), "|") {
		s.tokens = append(s.tokens, strings.Trim(part, "|"))
	}
	s.thinking = len(s.tokens)
	s.text = strings.Join(s.tokens, "")
	for range 1 + r.IntN(40) {
		s.tokens = append(s.tokens, word())
	}
	s.answer = len(s.tokens) - s.thinking + 1 // and the end token
	return s
}

// cut groups the tokens into events and tells running totals with some of them.
func (s stream) cut(r *rand.Rand, most, often int) []step {
	var steps []step
	for i := 0; i < len(s.tokens); {
		n := min(1+r.IntN(most), len(s.tokens)-i)
		next := step{raw: strings.Join(s.tokens[i:i+n], "")}
		i += n
		if r.IntN(100) < often {
			next.usage = fmt.Sprintf(`{"completion_tokens":%d}`, i)
		}
		steps = append(steps, next)
	}
	return append(steps, step{usage: fmt.Sprintf(`{"completion_tokens":%d}`, len(s.tokens)+1)})
}

// TestAnyCutting plays random answers cut in any way, with running totals
// often, seldom or never. With the model's tokenizer the split is exact; so it
// is without one where every event has one token and a total. In every case
// the sum holds, and an exact source is never wrong.
func TestAnyCutting(t *testing.T) {
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 1))
		s := newStream(r)
		most, often := 1+r.IntN(32), []int{0, 30, 100}[r.IntN(3)]
		steps := s.cut(r, most, often)
		for _, counter := range []usage.Counter{capitals{}, nil, down{}} {
			m := usage.NewMeter(usage.Config{Counter: counter})
			play(t, m, steps, s.close)
			got := m.Report(t.Context()).Tokens
			sums(t, got)
			exact := got.Thinking.Source == usage.Engine || got.Thinking.Source == usage.Tokenizer
			if counter == (capitals{}) && !exact {
				t.Errorf("seed %d: source %q with a tokenizer at hand", seed, got.Thinking.Source)
			}
			if counter == nil && most == 1 && often == 100 && got.Thinking.Source != usage.Engine {
				t.Errorf("seed %d: source %q with a total beside every token", seed, got.Thinking.Source)
			}
			if exact && got.Thinking.N != s.thinking {
				t.Errorf("seed %d: thinking %+v, want %d of %q", seed, got.Thinking, s.thinking, s.tokens)
			}
			if got.Completion != num(s.thinking+s.answer, usage.Engine) || got.Answer.N < 1 || got.Thinking.N < 1 {
				t.Errorf("seed %d: %+v", seed, got)
			}
		}
		if t.Failed() {
			return
		}
	}
}

// TestAbortedAnywhere cuts a stream after each event: with a tokenizer the
// figures are those of what had come, with running totals beside every event
// they are the engine's.
func TestAbortedAnywhere(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 2))
		s := newStream(r)
		for often, source := range map[int]usage.Source{0: usage.Tokenizer, 100: usage.Engine} {
			steps := s.cut(r, 6, often)
			for n := 1; n < len(steps); n++ {
				m := usage.NewMeter(usage.Config{Counter: capitals{}})
				play(t, m, steps[:n], s.close)
				got := m.Report(t.Context()).Tokens
				text := ""
				for _, st := range steps[:n] {
					text += st.raw
				}
				all, _ := capitals{}.Count(t.Context(), text)
				if got.Completion != num(all, source) {
					t.Fatalf("seed %d, %d events: completion %+v, want %d by %s", seed, n, got.Completion, all, source)
				}
				if want := min(s.thinking, all); got.Thinking.N != want || got.Thinking.N+got.Answer.N != all {
					t.Fatalf("seed %d, %d events: %+v, want %d thinking", seed, n, got, want)
				}
			}
		}
	}
}

func TestProgress(t *testing.T) {
	u := func(n int) *usage.Totals {
		return totals(t, fmt.Sprintf(`{"prompt_tokens":812,"completion_tokens":%d}`, n))
	}
	m := usage.NewMeter(usage.Config{})
	show := func(thinking, answer, prompt usage.Count) {
		t.Helper()
		if got, want := m.Progress(), (usage.Progress{Prompt: prompt, Thinking: thinking, Answer: answer}); got != want {
			t.Errorf("progress = %+v, want %+v", got, want)
		}
	}
	show(num(0, usage.Estimate), num(0, usage.Estimate), unknown)
	m.Add(usage.Piece{Raw: "some text"})
	show(num(3, usage.Estimate), num(0, usage.Estimate), unknown)
	m.Add(usage.Piece{Raw: " more", Totals: u(3)})
	show(num(3, usage.Engine), num(0, usage.Engine), num(812, usage.Engine))
	m.Add(usage.Piece{Raw: mark, Totals: u(4)})
	m.Boundary(len("some text more" + mark))
	show(num(4, usage.Engine), num(0, usage.Engine), num(812, usage.Engine))
	m.Add(usage.Piece{Raw: "answer", Totals: u(6)})
	show(num(4, usage.Engine), num(2, usage.Engine), num(812, usage.Engine))
	m.NextRun()
	m.Add(usage.Piece{Raw: "again", Totals: u(1)})
	show(num(4, usage.Engine), num(1, usage.Engine), num(812, usage.Engine))
}
