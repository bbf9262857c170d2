package probe_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"oneslot/internal/simengine"
	"oneslot/proxy/probe"
)

// TestMissingEndpoints takes away one thing after the other: what hangs on it is
// named, and the rest is still found.
func TestMissingEndpoints(t *testing.T) {
	known := map[string]string{probe.Markers: "found <think> … </think>", probe.StartsIn: "found thinking", probe.Abort: "found yes"}
	for _, tt := range []struct {
		name string
		sim  simengine.Config
		wrap wrap
		want map[string]string
		also map[string]string // what is still found
	}{
		{
			name: "the model list", wrap: without("/v1/models"), also: known,
			want: map[string]string{probe.Kind: "found sglang", probe.Models: "absent ", probe.Context: "found 131072"},
		},
		{
			name: "the newer name of the server info", wrap: without("/server_info"), also: known,
			want: map[string]string{probe.Kind: "found sglang", probe.Slots: "found 1", probe.Cache: "found off"},
		},
		{
			name: "one way to tell the load", wrap: without("/get_load"), also: known,
			want: map[string]string{probe.Load: "found idle"},
		},
		{
			name: "detokenize", wrap: without("/detokenize"), also: map[string]string{probe.Abort: "found yes"},
			// The sim's prompt opens thinking, which then shows by the closer alone.
			want: map[string]string{
				probe.Tokenizer: "found yes", probe.Prompt: "absent ", probe.Markers: "unknown ? … </think>", probe.StartsIn: "found thinking",
				probe.PrefillClosed: "found yes", probe.Completions: "skipped ",
			},
		},
		{
			name: "tokenize", wrap: without("/tokenize", "/detokenize"),
			want: map[string]string{
				probe.Tokenizer: "absent ", probe.Prompt: "absent ", probe.MarkerTokens: "unknown ", probe.Prefill: "unknown ", probe.Completions: "skipped ",
				probe.Abort: "found yes",
			},
		},
		{
			name: "the abort", wrap: without("/abort_request"), also: map[string]string{probe.Markers: "found <think> … </think>"},
			want: map[string]string{probe.Abort: "absent "},
		},
		{
			name: "completions", wrap: without("/v1/completions"), also: known,
			want: map[string]string{probe.Completions: "absent ", probe.PrefillClosed: "found yes"},
		},
		{
			name: "apply-template, the template is shown", sim: simengine.Config{Dialect: simengine.LlamaCPP, Output: simengine.Raw}, wrap: without("/apply-template"),
			want: map[string]string{probe.Prompt: "unknown ", probe.StartsIn: "found thinking", probe.Markers: "found <think> … </think>", probe.Completions: "skipped "},
		},
		{
			name: "context and version",
			wrap: both(answering("/server_info", 200, `{"max_running_requests":1}`), answering("/v1/models", 200, `{"data":[{"id":"ripple"}]}`)),
			also: known, want: map[string]string{probe.Context: "unknown ", probe.Version: "unknown ", probe.Cache: "unknown ", probe.CacheReport: "absent "},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				b := open(t, tt.sim, tt.wrap)
				r := b.probe()
				wantAll(t, r, tt.want)
				wantAll(t, r, tt.also)
				b.undisturbed(r)
			})
		})
	}
}

// plain leaves an engine nothing but the OpenAI API.
var plain = func(engine http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.URL.Path, "/v1/") || r.URL.Path == "/v1/loads" || r.URL.Path == "/v1/tokenize" {
			http.Error(w, "404 page not found", http.StatusNotFound)
			return
		}
		engine.ServeHTTP(w, r)
	})
}

// TestPlainServer: an engine that tells nothing is only read, and every item says
// what is missing; with leave it is asked.
func TestPlainServer(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := open(t, simengine.Config{}, plain)
		r := b.probe()
		wantAll(t, r, map[string]string{
			probe.Kind: "found openai", probe.Version: "unknown ", probe.Models: "found ripple", probe.Context: "found 131072", probe.Slots: "unknown ",
			probe.Load: "unknown ", probe.Tokenizer: "absent ", probe.Prompt: "absent ", probe.Parser: "skipped ", probe.Raw: "skipped ",
			probe.Markers: "unknown ", probe.MarkerTokens: "skipped ", probe.StartsIn: "", probe.Rows: "", probe.Cache: "unknown ", probe.CacheReport: "skipped ",
			probe.ContinuousUsage: "skipped ", probe.Prefill: "skipped ", probe.PrefillClosed: "skipped ", probe.Completions: "skipped ", probe.Abort: "absent ",
		})
		kind, _ := r.Find(probe.Kind)
		if len(kind.Evidence) != 4 || !strings.Contains(kind.Evidence[0].Reply, "404") {
			t.Errorf("kind rests on %+v, want four endpoints that are not there", kind.Evidence)
		}
		if r.ReadOnly == "" || b.engine.Stats().Arrivals > 0 {
			t.Errorf("read only: %q, and %d requests for text", r.ReadOnly, b.engine.Stats().Arrivals)
		}
		b.undisturbed(r)
	})
	inBubble(t, func(t *testing.T) {
		b := open(t, simengine.Config{Output: simengine.Raw, Format: simengine.Format{Open: "<think>", Close: "</think>"}}, plain)
		cfg := b.config()
		cfg.BusyOK = true
		r := b.probeWith(cfg)
		wantAll(t, r, map[string]string{
			probe.Kind: "found openai", probe.Parser: "absent ", probe.Raw: "found …", probe.Markers: "found <think> … </think>", probe.StartsIn: "found answer",
			probe.MarkerTokens: "unknown ", probe.Cache: "unknown ", probe.CacheReport: "absent ", probe.ContinuousUsage: "absent ", probe.Prefill: "unknown ",
			probe.Completions: "skipped ", probe.Abort: "absent ",
		})
		b.undisturbed(r)
	})
}

// TestNothingAtAll: not even a model list.
func TestNothingAtAll(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := open(t, simengine.Config{}, func(http.Handler) http.Handler { return http.NotFoundHandler() })
		cfg := b.config()
		cfg.BusyOK = true
		r := b.probeWith(cfg)
		wantAll(t, r, map[string]string{
			probe.Kind: "found openai", probe.Models: "absent ", probe.Parser: "unknown ", probe.Raw: "unknown ", probe.Markers: "unknown ",
			probe.ContinuousUsage: "unknown ", probe.Prefill: "absent ",
		})
		if r.Format != nil {
			t.Errorf("row %+v", r.Format)
		}
	})
}

// TestSettingsStayWhereTheyAre: an engine's settings may hold keys, which are in
// no report.
func TestSettingsStayWhereTheyAre(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const settings = `{"api_key":"sk-s3cret","admin_api_key":"sk-s3cret","max_running_requests":1,"version":"0.5.19","context_length":131072,"disable_radix_cache":true,"enable_cache_report":false,"reasoning_parser":"ripple"}`
		b := open(t, simengine.Config{}, answering("/server_info", 200, settings))
		cfg := b.config()
		cfg.APIKey, cfg.URL = "sk-0wn", "http://me:pa55word@engine.test/v1/"
		r := b.probeWith(cfg)
		text, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		for _, secret := range []string{"s3cret", "sk-0wn", "pa55word"} {
			if strings.Contains(string(text), secret) {
				t.Errorf("the report tells %s", secret)
			}
		}
		if !strings.HasPrefix(r.Engine, "http://me:xxxxx@engine.test") {
			t.Errorf("engine %q", r.Engine)
		}
		if yaml := string(r.Config(cfg.URL, cfg.APIKey)); !strings.Contains(yaml, "pa55word") || !strings.Contains(yaml, `api_key: "sk-0wn"`) || strings.Contains(yaml, "s3cret") {
			t.Errorf("the settings must hold what the proxy needs, and no more:\n%s", yaml)
		}
		want(t, r, probe.Kind, "found sglang")
	})
}

// TestTell: whoever waits for the probe hears of each test request, and of nothing else.
func TestTell(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := open(t, simengine.Config{}, nil)
		cfg := b.config()
		var told []string
		cfg.Tell = func(what string) { told = append(told, what) }
		b.probeWith(cfg)
		if n := len(b.engine.Stats().Runs); n == 0 || len(told) != n {
			t.Errorf("told %d times of %d requests: %q", len(told), n, told)
		}
		for _, what := range told {
			if !strings.HasPrefix(what, "POST /v1/") || strings.Contains(what, "messages") {
				t.Errorf("told %q", what)
			}
		}
	})
}
