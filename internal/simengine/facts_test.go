package simengine_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"oneslot/internal/simengine"
	"oneslot/internal/simengine/simtest"
)

// get returns the status and the body of a GET, as JSON if it is.
func get(t *testing.T, url string) (status int, text string, object map[string]any) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	status, _, text = do(t, req)
	_ = json.Unmarshal([]byte(text), &object) // nil when it is no object
	return status, text, object
}

func TestFactsOfSGLang(t *testing.T) {
	cfg := slow()
	cfg.Metrics, cfg.Model = true, "ripple"
	e, url := simtest.Start(t, cfg)
	for range 3 {
		start(t, url, streamed("a"))
	}
	await(t, e, func(s simengine.Stats) bool { return s.Arrivals == 3 && running(1)(s) })
	for _, path := range []string{"/server_info", "/get_server_info"} {
		status, text, info := get(t, url+path)
		if status != 200 || info["version"] != "0.5.19" || info["context_length"] != 131072.0 || info["max_running_requests"] != 1.0 ||
			info["reasoning_parser"] != "ripple" || info["disable_radix_cache"] != true || info["enable_cache_report"] != false {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
	for path, want := range map[string]string{
		"/get_load":       `"num_reqs":3`,
		"/v1/loads":       `"total_running_reqs":1`,
		"/get_model_info": `"is_generation":true`,
		"/v1/models":      `"max_model_len":131072`,
		"/metrics":        `sglang:num_queue_reqs{model_name="ripple"} 2`,
	} {
		if status, text, _ := get(t, url+path); status != 200 || !strings.Contains(text, want) {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
	for _, path := range []string{"/health", "/health_generate"} {
		if status, text, _ := get(t, url+path); status != 200 || text != "" {
			t.Errorf("%s: %d %q", path, status, text)
		}
	}
	for path, want := range map[string]int{"/nowhere": 404, "/abort_request": 405, "/sim/stats": 404, "/slots": 404} {
		if status, text, _ := get(t, url+path); status != want || !strings.HasPrefix(text, `{"detail":"`) {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
	if calls := e.Stats().Calls; calls["/health"] != 1 || calls["/get_load"] != 1 {
		t.Errorf("calls %v", calls)
	}
}

func TestFactsOfRawOutput(t *testing.T) {
	cfg := fast()
	cfg.Output = simengine.Raw
	_, url := simtest.Start(t, cfg)
	_, text, info := get(t, url+"/server_info")
	if parser, ok := info["reasoning_parser"]; !ok || parser != nil {
		t.Errorf("raw output has no parser: %s", text)
	}
	if status, _, _ := get(t, url+"/metrics"); status != 404 {
		t.Errorf("/metrics: %d", status)
	}
}

func TestFactsOfOthers(t *testing.T) {
	for dialect, paths := range map[simengine.Dialect]map[string]string{
		simengine.VLLM: {
			"/version": `{"version":"0.5.19"}`, "/load": `{"server_load":0}`, "/metrics": "vllm:num_requests_running",
			"/v1/models": `"owned_by":"vllm"`, "/health": "",
		},
		simengine.LlamaCPP: {
			"/props": `"total_slots":1`, "/slots": `[{"id":0,"is_processing":false,"n_ctx":131072}]`, "/metrics": "llamacpp:requests_processing 0",
			"/v1/models": `"n_ctx":131072`, "/health": `{"status":"ok"}`,
		},
	} {
		cfg := fast()
		cfg.Dialect, cfg.Metrics = dialect, true
		_, url := simtest.Start(t, cfg)
		for path, want := range paths {
			if status, text, _ := get(t, url+path); status != 200 || !strings.Contains(text, want) {
				t.Errorf("%s %s: %d %s", dialect, path, status, text)
			}
		}
		if status, _, _ := get(t, url+"/server_info"); status != 404 {
			t.Errorf("%s has server info: %d", dialect, status)
		}
	}
}

func TestTokenize(t *testing.T) {
	_, url := simtest.Start(t, fast())
	got := tokenize(t, url, `{"prompt":"<think>so 東京"}`)
	if got.Count != 3 || got.Max != 131072 {
		t.Errorf("%+v", got)
	}
	for _, bad := range []string{`{}`, `{"messages":[]}`, `{"messages":"x"}`, `x`} {
		if status, text := read(t, url+"/tokenize", bad); status != 400 {
			t.Errorf("tokenize %s: %d %s", bad, status, text)
		}
	}
	for _, bad := range []string{`x`, `{"tokens":[123456]}`} {
		if status, text := read(t, url+"/detokenize", bad); status != 400 {
			t.Errorf("detokenize %s: %d %s", bad, status, text)
		}
	}
	if status, _ := read(t, url+"/abort_request", `x`); status != 400 {
		t.Errorf("abort of nothing: %d", status)
	}
}

func TestAdmin(t *testing.T) {
	cfg := slow()
	cfg.Admin, cfg.Ghost = true, true
	e, url := simtest.Start(t, cfg)
	start(t, url, streamed("a"))
	await(t, e, running(1))
	if _, text, stats := get(t, url+"/sim/stats"); stats["running"] != 1.0 || stats["arrivals"] != 1.0 || strings.Contains(text, "0001-01-01") {
		t.Errorf("stats %s", text)
	}
	if status, _ := read(t, url+"/sim/faults", `{"stall":true,"deaf":true}`); status != 200 {
		t.Errorf("set: %d", status)
	}
	if got := e.Faults(); got != (simengine.Faults{Ghost: true, Stall: true, Deaf: true}) {
		t.Errorf("faults %+v", got)
	}
	if _, text, faults := get(t, url+"/sim/faults"); faults["ghost"] != true || faults["stall"] != true {
		t.Errorf("told while stalled: %s", text)
	}
	read(t, url+"/sim/recover", ``)
	if got := e.Faults(); got != (simengine.Faults{Ghost: true}) {
		t.Errorf("recovered to %+v", got)
	}
	if status, _ := read(t, url+"/sim/faults", `7`); status != 400 {
		t.Errorf("nonsense: %d", status)
	}
}
