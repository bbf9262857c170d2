package facts_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"oneslot/internal/simengine/ask"
	"oneslot/internal/simengine/facts"
	"oneslot/internal/simengine/wire"
)

func state(d wire.Dialect) facts.State {
	return facts.State{
		Dialect: d, Model: "ripple", Version: "1.2", Format: ask.Format{}.WithDefaults(), Context: 100, Slots: 2,
		Running: 1, Waiting: 3, Aborted: 4, Now: time.Unix(1796048567, 0),
	}
}

func TestFacts(t *testing.T) {
	split := state(wire.SGLang)
	split.Split, split.Cache, split.CacheReport, split.Metrics = true, true, true, true
	for _, tc := range []struct {
		name string
		fact any
		want []string // parts of the JSON
	}{
		{"models", facts.Models(state(wire.SGLang)), []string{`"id":"ripple"`, `"max_model_len":100`, `"owned_by":"sglang"`, `"created":1796048567`}},
		{"models of llama", facts.Models(state(wire.LlamaCPP)), []string{`"n_ctx":100`, `"n_ctx_train":100`}},
		{"server info", facts.ServerInfo(state(wire.SGLang)), []string{
			`"version":"1.2"`, `"context_length":100`, `"max_running_requests":2`, `"reasoning_parser":null`,
			`"disable_radix_cache":true`, `"enable_cache_report":false`, `"page_size":1`, `"random_seed":0`,
		}},
		{"server info, all on", facts.ServerInfo(split), []string{
			`"reasoning_parser":"ripple"`, `"disable_radix_cache":false`, `"enable_cache_report":true`, `"enable_metrics":true`,
		}},
		{"model info", facts.ModelInfo(state(wire.SGLang)), []string{`"model_path":"ripple"`}},
		{"load", facts.Load(state(wire.SGLang)), []string{`[{`, `"num_reqs":4`, `"num_waiting_reqs":3`}},
		{"loads", facts.Loads(state(wire.SGLang)), []string{`"total_running_reqs":1`, `"total_waiting_reqs":3`, `"total_reqs":4`}},
		{"version", facts.Version(state(wire.VLLM)), []string{`{"version":"1.2"}`}},
		{"server load", facts.ServerLoad(state(wire.VLLM)), []string{`{"server_load":4}`}},
		{"props", facts.Props(state(wire.LlamaCPP)), []string{`"n_ctx":100`, `"total_slots":2`, `assistant\n\u003cthink\u003e"`}},
		{"slots", facts.Slots(state(wire.LlamaCPP)), []string{`{"id":0,"is_processing":true`, `{"id":1,"is_processing":false`}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			text, err := json.Marshal(tc.fact)
			if err != nil {
				t.Fatal(err)
			}
			for _, part := range tc.want {
				if !strings.Contains(string(text), part) {
					t.Errorf("%s is not in %s", part, text)
				}
			}
		})
	}
}

func TestMetrics(t *testing.T) {
	for d, want := range map[wire.Dialect]string{
		wire.SGLang: "sglang:num_running_reqs{model_name=\"ripple\"} 1\nsglang:num_queue_reqs{model_name=\"ripple\"} 3\nsglang:num_aborted_requests_total{model_name=\"ripple\"} 4\n",
		wire.VLLM: "vllm:num_requests_running{model_name=\"ripple\"} 1\nvllm:num_requests_waiting{model_name=\"ripple\"} 3\n" +
			"vllm:cache_config_info{block_size=\"16\",enable_prefix_caching=\"False\",num_gpu_blocks=\"6\"} 1.0\nprocess_start_time_seconds 0\n",
		wire.LlamaCPP: "llamacpp:requests_processing 1\nllamacpp:requests_deferred 3\n",
	} {
		if got := facts.Metrics(state(d)); got != want {
			t.Errorf("%s: %q", d, got)
		}
	}
}
