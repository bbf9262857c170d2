package probe_test

import (
	"strings"
	"testing"
	"time"

	"oneslot/internal/simengine"
	"oneslot/proxy/probe"
)

// TestGuises probes engines of all kinds at the speed of the real box.
func TestGuises(t *testing.T) {
	modelOpens := simengine.Format{Open: "<think>", Close: "</think>"}
	for _, tt := range []struct {
		name string
		sim  simengine.Config
		wrap wrap
		want map[string]string
	}{
		{
			name: "sglang that splits, template opens, no cache",
			sim:  simengine.Config{},
			want: map[string]string{
				probe.Kind: "found sglang", probe.Version: "found 0.5.19", probe.Models: "found ripple", probe.Context: "found 131072", probe.Slots: "found 1",
				probe.Load: "found idle", probe.Tokenizer: "found yes", probe.Prompt: "found <|im_end|>\n<|im_start|>assistant\n<think>",
				probe.Parser: "found reasoning_content", probe.Raw: "found …", probe.Markers: "found <think> … </think>", probe.MarkerTokens: "found 1, 1",
				probe.StartsIn: "found thinking", probe.Cache: "found off", probe.CacheReport: "absent ", probe.ContinuousUsage: "found yes",
				probe.Prefill: "found yes", probe.PrefillClosed: "found yes", probe.Completions: "found yes", probe.Abort: "found yes", probe.Tools: "",
			},
		},
		{
			name: "sglang without a parser, model opens, cache on and told",
			sim:  simengine.Config{Output: simengine.Raw, Format: modelOpens, RadixCache: true, CacheReport: true, Model: "tiny", Version: "0.5.23", ContextLength: 4096},
			want: map[string]string{
				probe.Kind: "found sglang", probe.Version: "found 0.5.23", probe.Models: "found tiny", probe.Context: "found 4096",
				probe.Prompt: "found <|im_end|>\n<|im_start|>assistant\n", probe.Parser: "absent ", probe.Raw: "found …",
				probe.Markers: "found <think> … </think>", probe.StartsIn: "found answer", probe.Cache: "found on", probe.CacheReport: "found yes",
				probe.Prefill: "found yes", probe.PrefillClosed: "found yes", probe.Completions: "found yes", probe.Abort: "found yes",
			},
		},
		{
			name: "sglang with a cache of which it tells nothing",
			sim:  simengine.Config{RadixCache: true},
			want: map[string]string{probe.Cache: "found on", probe.CacheReport: "absent "},
		},
		{
			name: "sglang with two slots",
			sim:  simengine.Config{Slots: 2},
			want: map[string]string{probe.Slots: "found 2"},
		},
		{
			name: "vllm that splits",
			sim:  simengine.Config{Dialect: simengine.VLLM, Metrics: true, CacheReport: true, RadixCache: true},
			want: map[string]string{
				probe.Kind: "found vllm", probe.Version: "found 0.5.19", probe.Context: "found 131072", probe.Slots: "unknown ", probe.Load: "found idle",
				probe.Tokenizer: "found yes", probe.Prompt: "found <|im_end|>\n<|im_start|>assistant\n<think>", probe.Parser: "found reasoning",
				probe.Raw: "absent ", probe.Markers: "found <think> … </think>", probe.StartsIn: "found thinking", probe.CacheReport: "found yes",
				probe.ContinuousUsage: "found yes", probe.Prefill: "found yes", probe.PrefillClosed: "found yes", probe.Completions: "found yes", probe.Abort: "absent ",
			},
		},
		{
			name: "vllm without a parser, which tells its cache setting",
			sim:  simengine.Config{Dialect: simengine.VLLM, Output: simengine.Raw, Format: modelOpens},
			wrap: answering("/metrics", 200, "vllm:num_requests_running{engine=\"0\"} 0\nvllm:num_requests_waiting{engine=\"0\"} 0\nvllm:cache_config_info{block_size=\"16\",enable_prefix_caching=\"False\"} 1.0\n"),
			want: map[string]string{
				probe.Kind: "found vllm", probe.Parser: "absent ", probe.Raw: "found …", probe.Markers: "found <think> … </think>", probe.StartsIn: "found answer",
				probe.Cache: "found off", probe.CacheReport: "absent ", probe.Prefill: "found yes", probe.PrefillClosed: "found yes", probe.Completions: "found yes",
			},
		},
		{
			name: "vllm with its cache on",
			sim:  simengine.Config{Dialect: simengine.VLLM},
			wrap: answering("/metrics", 200, "vllm:num_requests_running{} 0\nvllm:cache_config_info{enable_prefix_caching=\"True\"} 1.0\n"),
			want: map[string]string{probe.Cache: "found on"},
		},
		{
			name: "llama.cpp that splits",
			sim:  simengine.Config{Dialect: simengine.LlamaCPP, RadixCache: true, CacheReport: true},
			want: map[string]string{
				probe.Kind: "found llamacpp", probe.Context: "found 131072", probe.Slots: "found 1", probe.Load: "found idle", probe.Tokenizer: "found yes",
				probe.Prompt: "found <|im_end|>\n<|im_start|>assistant\n<think>", probe.Parser: "found reasoning_content", probe.Raw: "found …",
				probe.Markers: "found <think> … </think>", probe.StartsIn: "found thinking", probe.Cache: "found on", probe.CacheReport: "found yes",
				// The simulated one has no running totals, and takes no prefill by itself.
				probe.ContinuousUsage: "absent ", probe.Prefill: "absent ", probe.Completions: "found yes", probe.Abort: "absent ",
			},
		},
		{
			name: "llama.cpp that does not split, no cache",
			sim:  simengine.Config{Dialect: simengine.LlamaCPP, Output: simengine.Raw, Format: modelOpens},
			want: map[string]string{
				probe.Parser: "absent ", probe.Markers: "found <think> … </think>", probe.StartsIn: "found answer", probe.Cache: "found off", probe.CacheReport: "found yes",
			},
		},
		{
			name: "a model that does not think",
			sim:  simengine.Config{Output: simengine.Raw, Format: modelOpens, Thinking: -1, Model: "small"},
			want: map[string]string{
				probe.Parser: "absent ", probe.Markers: "absent ", probe.MarkerTokens: "skipped ", probe.StartsIn: "", probe.Rows: "",
				probe.Prefill: "found yes", probe.PrefillClosed: "skipped ", probe.Completions: "skipped ", probe.Abort: "found yes",
			},
		},
		{
			name: "thinking that does not end in time",
			sim:  simengine.Config{Output: simengine.Raw, Format: modelOpens, Thinking: 2000},
			want: map[string]string{probe.Markers: "unknown <think> … ?", probe.StartsIn: "found answer", probe.MarkerTokens: "found 1"},
		},
		{
			name: "thinking that the prompt opens and that does not end in time",
			sim:  simengine.Config{Output: simengine.Raw, Thinking: 2000},
			want: map[string]string{probe.Markers: "unknown <think> … ?", probe.StartsIn: "found thinking"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				b := open(t, tt.sim, tt.wrap)
				began := time.Now()
				r := b.probe()
				if took := time.Since(began); took > 3*time.Minute {
					t.Errorf("it took %s at 10 tokens a second", took)
				}
				wantAll(t, r, tt.want)
				b.undisturbed(r)
			})
		})
	}
}

// undisturbed holds a probe to what it promises an engine: small requests, one
// after the other, none of them dropped.
func (b *box) undisturbed(r *probe.Report) {
	b.t.Helper()
	s := b.engine.Stats()
	if s.Running+s.Waiting+s.Ghosts+s.Disconnects > 0 || s.MaxRunning+s.MaxWaiting > 2 {
		b.t.Errorf("the engine was left with %+v", s)
	}
	for _, run := range s.Runs {
		if run.CompletionTokens > 256 || !run.Stream {
			b.t.Errorf("a test request made %d tokens, streamed: %t", run.CompletionTokens, run.Stream)
		}
	}
	for _, f := range r.Findings {
		if f.State == probe.Found && len(f.Evidence) == 0 && f.Name != probe.StartsIn && f.Name != probe.Rows {
			b.t.Errorf("%s was found without evidence", f.Name)
		}
		if f.State != probe.Found && f.Detail == "" {
			b.t.Errorf("%s is %s and nobody says what that means", f.Name, f.State)
		}
		for _, e := range f.Evidence {
			if e.Call == "" || len([]rune(e.Reply)) > 400 || strings.Contains(e.Reply, "\n") {
				b.t.Errorf("%s rests on %+v", f.Name, e)
			}
		}
	}
}
