package split_test

import (
	"slices"
	"testing"

	"oneslot/internal/openai"
	"oneslot/proxy/split"
	"oneslot/reasoning"
)

// formats are pairs of markers, among them one that shares a prefix.
var formats = []reasoning.Format{
	{Name: "xml", Open: []string{"<think>"}, Close: []string{"</think>"}, StartsIn: reasoning.StartAnswer},
	{Name: "shared", Open: []string{"[REASON>>"}, Close: []string{"[REASON<<"}, StartsIn: reasoning.StartAnswer},
	{Name: "control", Open: []string{"◁t▷"}, Close: []string{"◁/t▷"}, StartsIn: reasoning.StartAnswer, MarkersSpecial: true, ControlTokens: []string{"<|end|>"}},
}

// result is what a stream comes to.
type result struct {
	thinking, answer string
	probs            []string // token texts of the entries, in their order
	stopped          bool
}

// run feeds the chunks and joins the pieces.
func run(t *testing.T, cfg split.Config, chunks []openai.Chunk) result {
	t.Helper()
	s := split.New(cfg)
	var r result
	take := func(pieces []split.Piece) {
		for _, p := range pieces {
			if p.Text == "" {
				t.Errorf("an empty piece: %+v", p)
			}
			if p.Kind == reasoning.Thinking {
				r.thinking += p.Text
				if p.Logprobs != "" {
					t.Errorf("thinking has probabilities: %+v", p)
				}
				continue
			}
			r.answer += p.Text
			if p.Logprobs != "" && !s.Aligned() {
				t.Errorf("probabilities that are not aligned: %+v", p)
			}
			r.probs = append(r.probs, tokens(t, p.Logprobs)...)
		}
	}
	for i := range chunks {
		take(s.Add(&chunks[i]))
	}
	take(s.Close())
	if again := s.Close(); len(again) != 0 {
		t.Errorf("a second Close gives %+v", again)
	}
	r.stopped = s.Stopped()
	if !s.Aligned() {
		r.probs = nil
	}
	return r
}

func same(a, b result) bool {
	return a.thinking == b.thinking && a.answer == b.answer && a.stopped == b.stopped && slices.Equal(a.probs, b.probs)
}

// content cuts text into chunks of content at the given places.
func content(text string, cuts ...int) (out []openai.Chunk) {
	for _, part := range parts(text, cuts) {
		out = append(out, openai.Chunk{Content: part})
	}
	return out
}

func thinking(text string, cuts ...int) (out []openai.Chunk) {
	for _, part := range parts(text, cuts) {
		out = append(out, openai.Chunk{Reasoning: part})
	}
	return out
}

func parts(text string, cuts []int) (out []string) {
	last := 0
	for _, cut := range append(slices.Clone(cuts), len(text)) {
		if cut >= last && cut <= len(text) {
			out = append(out, text[last:cut])
			last = cut
		}
	}
	return out
}

// each returns text cut at every byte.
func each(text string) []int {
	cuts := make([]int, len(text))
	for i := range cuts {
		cuts[i] = i
	}
	return cuts
}
