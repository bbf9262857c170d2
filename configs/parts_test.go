package configs

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"oneslot/api"
	"oneslot/api/intake"
	"oneslot/api/retry"
	"oneslot/internal/openai"
	"oneslot/ledger"
	"oneslot/proxy"
	"oneslot/proxy/budget"
	"oneslot/proxy/downstream"
	"oneslot/proxy/engine"
	"oneslot/proxy/surface/responses"
	"oneslot/queue"
)

// TestPartsGetTheirs: what the file says reaches the part that it is for.
func TestPartsGetTheirs(t *testing.T) {
	hash := strings.Repeat("0", 64)
	cfg := mustLoad(t, `
listen: 127.0.0.1:1
data: /d
engines: [{name: a, url: "http://a", model: m, dialect: vllm, api_key: k, sole_client: false}]
models: {x: m}
accept_any_model: true
cors_origins: [https://o]
hosts: [h]
keys: [{name: k, sha256: "`+hash+`", class: batch, max_class: default, max_waiting: 3, admin: true, share_by: user, reasoning_field: hidden}, {name: l, sha256: "1`+hash[1:]+`"}]
queue: {max_waiting: 1, max_waiting_per_key: 2, max_wait: 3s, starvation_after: 9s, share_by: user, commit_after: 4s, heartbeat: 5s, heartbeat_mode: chunk, lease: 60s, on_disconnect: drain, refuse_hopeless: true, detach_grace: 17s, abort_bound: 7s, poison_grace: 8s}
reasoning: {field: both, completions: split, answer_reserve: 5, effort: {low: 7}}
responses: {store: data, keep: 17, max_bytes: 19, retention: 18s}
usage: {retention: 9s, max_rows: 10, include_sources: true}
limits: {body: 11, bodies: 20, event: 12, write_timeout: 13s, engine_headers: 14s, engine_idle: 15s, first_token: 16s}
telemetry: {metrics_public: true}
`, nil, nil)
	s := func(n int) time.Duration { return time.Duration(n) * time.Second }
	edge, hidden := cfg.APIConfig(), openai.FieldHidden
	for i := range edge.Keys {
		edge.Keys[i] = api.Key{Name: edge.Keys[i].Name, SHA256: edge.Keys[i].SHA256, Class: edge.Keys[i].Class, MaxClass: edge.Keys[i].MaxClass, MaxWaiting: edge.Keys[i].MaxWaiting, Admin: edge.Keys[i].Admin, ByUser: edge.Keys[i].ByUser, Field: edge.Keys[i].Field}
	}
	for name, c := range map[string][2]any{
		"engine": {cfg.EngineConfigs(), []engine.Config{{Name: "a", URL: "http://a", Model: "m", Dialect: "vllm", APIKey: "k", Slots: 1, Headers: s(14)}}},
		"queue":  {cfg.QueueConfig([]string{"a"}), queue.Config{Slots: []string{"a"}, MaxWaiting: 1, MaxWaitingPerKey: 2, MaxWait: s(3), StarvationAfter: s(9), Lease: s(60), AbortBound: s(7), PoisonGrace: s(8)}},
		"proxy":  {cfg.ProxyConfig(), proxy.Config{MaxEvent: 12, Idle: s(15), FirstToken: s(16), AbortBound: s(7), Drain: true}},
		"ledger": {cfg.LedgerConfig(), ledger.Config{Dir: "/d", Retention: s(9), MaxRows: 10}},
		"edge": {edge, api.Config{
			Keys:    []api.Key{{Name: "k", SHA256: hash, Class: queue.Batch, MaxClass: queue.Default, MaxWaiting: 3, Admin: true, ByUser: &edge.ByUser, Field: &hidden}, {Name: "l", SHA256: "1" + hash[1:], MaxClass: queue.Interactive}},
			Aliases: map[string]string{"x": "m"}, AcceptAnyModel: true, ByUser: true, CORSOrigins: []string{"https://o"}, Hosts: []string{"h"}, Loopback: true,
			Bodies: intake.Config{Body: 11, Total: 20}, MetricsPublic: true, Sources: true, Field: openai.FieldBoth, AnswerReserve: 5, SplitCompletions: true, Responses: responses.Config{On: true, Keep: 17, MaxBytes: 19, For: s(18), Dir: "/d/responses"},
			RefuseHopeless: true, Retry: retry.Config{Grace: s(17)},
			Efforts: budget.Efforts{"none": 0, "minimal": 256, "low": 7, "medium": 4096, "high": 16384, "xhigh": -1, "max": -1},
			Client:  downstream.Config{CommitAfter: s(4), Heartbeat: s(5), Beat: downstream.BeatChunk, WriteTimeout: s(13)},
		}},
	} {
		if !reflect.DeepEqual(c[0], c[1]) {
			t.Errorf("%s gets %+v\nwant %+v", name, c[0], c[1])
		}
	}
}

// TestEverySettingCounts: each setting changes what some part gets, but for those
// that the program itself reads.
func TestEverySettingCounts(t *testing.T) {
	program := []string{"listen", "redis", "redis_insecure", "insecure_no_auth", "limits.shutdown", "telemetry.log", "telemetry.otlp", "format", "tokenizer"}
	parts := func(key string, place int) []any {
		value := threeValues()[key][place]
		c := mustLoad(t, inYAML(key, listOf(key, value)), nil, nil)
		return []any{c.EngineConfigs(), c.QueueConfig(nil), c.ProxyConfig(), c.LedgerConfig(), c.APIConfig()}
	}
	for _, key := range keys() {
		changes := !reflect.DeepEqual(parts(key, 0), parts(key, 1))
		if changes == slices.Contains(program, key) {
			t.Errorf("%s changes a part: %v", key, changes)
		}
	}
}

func TestTokenizerPath(t *testing.T) {
	for tokenizer, want := range map[string]string{"": "", "m/tokenizer.json": "m/tokenizer.json", "m": "m/tokenizer.json", "m/": "m/tokenizer.json", "other.json": "other.json"} {
		if got := (Engine{Tokenizer: tokenizer}).TokenizerPath(); got != want {
			t.Errorf("%q is %q, want %q", tokenizer, got, want)
		}
	}
}
