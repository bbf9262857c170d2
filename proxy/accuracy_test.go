package proxy_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"oneslot/internal/simengine"
	"oneslot/internal/simengine/words"
	"oneslot/reasoning"
	"oneslot/usage"
)

// guise is one way in which an engine speaks.
type guise struct {
	dialect  simengine.Dialect
	output   simengine.Output
	perChunk int
	opened   bool // by the prompt
	plain    bool // the markers are several tokens
}

func guises() (all []guise) {
	for _, dialect := range []simengine.Dialect{simengine.SGLang, simengine.VLLM, simengine.LlamaCPP} {
		for _, output := range []simengine.Output{simengine.Split, simengine.Raw} {
			for _, perChunk := range []int{1, 3, 8} {
				for _, opened := range []bool{true, false} {
					for _, plain := range []bool{true, false} {
						all = append(all, guise{dialect, output, perChunk, opened, plain})
					}
				}
			}
		}
	}
	return all
}

func (g guise) setup() setup {
	format := simengine.Format{Open: "<think>", Close: "</think>", StartsInThinking: g.opened, Plain: g.plain}
	start := reasoning.StartAuto
	if g.opened {
		start = reasoning.StartThinking
	}
	return setup{
		sim:    simengine.Config{Dialect: g.dialect, Output: g.output, Format: format, TokensPerChunk: g.perChunk, TokensPerSecond: simengine.Fast, PrefillTokensPerSecond: simengine.Fast},
		format: xml(start),
	}
}

// thinking is how many tokens the run's thinking had, up to and including the
// close marker.
func (g guise) thinking(run simengine.Run) int {
	marks := []string{"<think>", "</think>"}
	vocab := words.New(marks...)
	if g.plain {
		vocab = words.New()
	}
	text := run.Thinking + marks[1]
	if !g.opened {
		text = marks[0] + text
	}
	return vocab.Count(text)
}

// lengths are the replies that each guise gives, in tokens.
var lengths = [][2]int{{1, 1}, {20, 10}, {7, 150}, {300, 40}}

// TestAccuracy holds the counts of 288 streams to what the engine made: with the
// model's own tokenizer every one is exact, however many tokens a chunk has, and
// wherever in it the markers lie.
func TestAccuracy(t *testing.T) {
	streams, sources := 0, map[usage.Source]int{}
	for _, g := range guises() {
		inBubble(t, func(t *testing.T) {
			r := newRig(t, g.setup())
			for _, n := range lengths {
				x := r.serve(ask(true, fmt.Sprintf(`"sim":{"thinking":%d,"answer":%d}`, n[0], n[1])))
				runs := r.sim.Stats().Runs
				run := runs[len(runs)-1]
				want, got := g.thinking(run), x.report.Tokens
				streams++
				sources[got.Thinking.Source]++
				if got.Thinking.N != want || got.Answer.N != run.CompletionTokens-want || got.Completion.N != run.CompletionTokens {
					t.Errorf("%+v %v: %+v, the engine made %d and %d", g, n, got, want, run.CompletionTokens-want)
				}
			}
		})
	}
	t.Logf("measured: %d streams, all exact, sources of thinking: %v", streams, sources)
	if streams < 200 {
		t.Errorf("only %d streams", streams)
	}
}

// TestAccuracyWithoutTokenizer: nothing tokenizes. What running totals or the
// engine's own figure leave open is estimated, and each source keeps the bound
// that is stated for it.
func TestAccuracyWithoutTokenizer(t *testing.T) {
	worst, streams := map[usage.Source]int{}, map[usage.Source]int{}
	for _, g := range guises() {
		inBubble(t, func(t *testing.T) {
			r := newRigBehind(t, g.setup(), func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
					if strings.HasSuffix(q.URL.Path, "tokenize") {
						http.NotFound(w, q)
						return
					}
					next.ServeHTTP(w, q)
				})
			})
			for _, n := range lengths {
				x := r.serve(ask(true, fmt.Sprintf(`"sim":{"thinking":%d,"answer":%d}`, n[0], n[1])))
				runs := r.sim.Stats().Runs
				run := runs[len(runs)-1]
				got := x.report.Tokens
				off := got.Thinking.N - g.thinking(run)
				off = max(off, -off)
				source := got.Thinking.Source
				streams[source]++
				worst[source] = max(worst[source], off)
				if got.Thinking.N+got.Answer.N != run.CompletionTokens {
					t.Errorf("%+v %v: %+v is not %d", g, n, got, run.CompletionTokens)
				}
				// A boundary lies within the chunk that it is in; the engine takes a marker of several tokens for one, or
				// leaves it out.
				bound := map[usage.Source]int{usage.Engine: 0, usage.EngineSplit: 5, usage.Estimate: 2*g.perChunk + 4}[source]
				if off > bound {
					t.Errorf("%+v %v: %+v, %d off", g, n, got.Thinking, off)
				}
			}
		})
	}
	t.Logf("measured: without a tokenizer: streams %v, largest error %v", streams, worst)
}
