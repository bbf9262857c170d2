package configs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"oneslot/proxy/downstream"
)

const engineLine = "engines: [{url: \"http://127.0.0.1:30000\"}]\n"

// sources writes a file, unless it is empty, and adds variables and flags.
func sources(t *testing.T, yaml string, environ []string, flags map[string]any) Sources {
	t.Helper()
	src := Sources{Environ: environ, Flags: flags}
	if yaml != "" {
		src.File = filepath.Join(t.TempDir(), "oneslot.yaml")
		if err := os.WriteFile(src.File, []byte(yaml), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return src
}

func mustLoad(t *testing.T, yaml string, environ []string, flags map[string]any) Config {
	t.Helper()
	cfg, err := Load(sources(t, yaml, environ, flags))
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// faultsIn loads settings that must have faults and returns the lines.
func faultsIn(t *testing.T, yaml string, environ []string, flags map[string]any) []string {
	t.Helper()
	var out []string
	for _, fault := range placesIn(t, yaml, environ, flags) {
		out = append(out, atPlace.ReplaceAllString(fault, ""))
	}
	return out
}

// atPlace is where in the file a fault is.
var atPlace = regexp.MustCompile(`^\S*oneslot\.yaml:\d+: `)

// placesIn are the faults as they are told.
func placesIn(t *testing.T, yaml string, environ []string, flags map[string]any) []string {
	t.Helper()
	_, err := Load(sources(t, yaml, environ, flags))
	if !errors.Is(err, ErrConfig) {
		t.Fatalf("loading gave %v, want faults of the class ErrConfig", err)
	}
	return strings.Split(err.Error(), "\n")[1:]
}

// threeValues has, for each key, what the tests put into the file, a variable and
// a flag.
func threeValues() map[string][3]string {
	return map[string][3]string{
		"listen": {"127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"}, "hosts": {"[a, b]", "c,d", "e"}, "data": {"./a", "./b", "./c"},
		"redis": {"[redis://127.0.0.1:1]", "redis://127.0.0.1:2,redis://127.0.0.1:3", "redis://127.0.0.1:4"}, "redis_insecure": {"true", "false", "true"},
		"insecure_no_auth": {"true", "false", "true"}, "accept_any_model": {"true", "false", "true"}, "cors_origins": {"[https://a]", "https://b, https://c", "*"},
		"queue.max_waiting": {"11", "12", "13"}, "queue.max_waiting_per_key": {"1", "2", "3"}, "queue.max_wait": {"1h", "3h", "4d"}, "queue.starvation_after": {"1m", "2m", "3m"}, "queue.commit_after": {"1s", "2s", "0s"},
		"queue.heartbeat": {"1s", "2s", "0"}, "queue.heartbeat_mode": {"chunk", "off", "comment"}, "queue.lease": {"16s", "17s", "18s"}, "queue.on_disconnect": {"drain", "abort", "drain"},
		"queue.refuse_hopeless": {"false", "true", "false"}, "queue.share_by": {"user", "key", "user"}, "queue.detach_grace": {"1s", "2s", "0s"},
		"queue.abort_bound": {"1s", "2s", "3s"}, "queue.poison_grace": {"1s", "2s", "3s"}, "reasoning.field": {"both", "hidden", "content_tags"}, "reasoning.completions": {"split", "off", "split"}, "responses.store": {"memory", "data", "memory"}, "responses.keep": {"1", "2", "3"}, "responses.max_bytes": {"1MiB", "2MiB", "3KiB"}, "responses.retention": {"1d", "2d", "0s"}, "usage.retention": {"1d", "2d", "0s"},
		"usage.max_rows": {"1", "2", "0"}, "usage.include_sources": {"true", "false", "true"}, "limits.body": {"1MiB", "2097152", "3KiB"}, "limits.bodies": {"64MiB", "128MiB", "1GiB"}, "limits.event": {"1MiB", "2MiB", "1GiB"},
		"limits.write_timeout": {"1s", "2s", "3s"}, "limits.engine_headers": {"1s", "2s", "3s"}, "limits.engine_idle": {"1s", "2s", "3s"}, "limits.first_token": {"1s", "2s", "3s"},
		"reasoning.answer_reserve": {"1", "2", "3"}, "reasoning.effort.none": {"1", "2", "3"}, "reasoning.effort.minimal": {"1", "2", "3"}, "reasoning.effort.low": {"1", "2", "3"},
		"reasoning.effort.medium": {"1", "2", "3"}, "reasoning.effort.high": {"1", "2", "3"}, "reasoning.effort.xhigh": {"1", "2", "3"}, "reasoning.effort.max": {"1", "2", "3"},
		"limits.shutdown": {"1s", "2s", "0s"}, "telemetry.log": {"debug", "warn", "error"}, "telemetry.otlp": {"http://a:4318", "http://b:4318", "https://c:4318"}, "telemetry.metrics_public": {"true", "false", "true"},
		"engine": {"http://a:1", "http://b:2", "http://c:3"}, "format": {"plain", "qwen3", "granite"}, "model": {"a", "b", "c"}, "tokenizer": {"a.json", "b.json", "c.json"},
	}
}

// TestPrecedence sets every key that can be set in three places, each place with
// a value of its own: the file wins over the default, a variable over the file, a
// flag over both.
func TestPrecedence(t *testing.T) {
	values := threeValues()
	for _, key := range keys() {
		v, ok := values[key]
		if !ok {
			t.Errorf("%s is not tested", key)
			continue
		}
		yaml := inYAML(key, v[0])
		environ := []string{"PATH=/bin", variable(key) + "=" + v[1]}
		flags := map[string]any{key: v[2]}
		byFile, byEnv, byFlag := mustLoad(t, yaml, nil, nil), mustLoad(t, yaml, environ, nil), mustLoad(t, yaml, environ, flags)
		for i, cfg := range []Config{byFile, byEnv, byFlag} {
			want := mustLoad(t, inYAML(key, listOf(key, v[i])), nil, nil)
			if !reflect.DeepEqual(cfg, want) {
				t.Errorf("%s from place %d: %+v\nwant %+v", key, i, cfg, want)
			}
		}
		if reflect.DeepEqual(byFile, byEnv) || reflect.DeepEqual(byEnv, byFlag) {
			t.Errorf("%s: two places give the same", key)
		}
		if noFile := mustLoad(t, engineOnly(key), environ, nil); reflect.DeepEqual(noFile, mustLoad(t, engineOnly(key), nil, nil)) && key != "redis_insecure" && key != "insecure_no_auth" &&
			!slices.Contains([]string{"accept_any_model", "queue.on_disconnect", "queue.share_by", "queue.refuse_hopeless", "usage.include_sources", "telemetry.metrics_public", "reasoning.completions"}, key) {
			t.Errorf("%s: the variable alone changes nothing", key)
		}
	}
	if len(values) != len(keys()) {
		t.Errorf("there are %d keys, %d are tested", len(keys()), len(values))
	}
}

// engineOnly is the least file for a test of a key.
func engineOnly(key string) string {
	if key == "engine" {
		return "listen: 127.0.0.1:8080\nengines: [{url: \"http://first:1\"}]\n"
	}
	return engineLine
}

// inYAML is a file that sets one key.
func inYAML(key, value string) string {
	if field, ok := shortcut(key); ok {
		if field == "url" {
			return "engines: [{url: \"" + value + "\", model: m}, {name: second, url: \"http://other:1\", model: o}]\n"
		}
		model := ", model: m"
		if field == "model" {
			model = ""
		}
		return "engines: [{url: \"http://127.0.0.1:30000\", " + field + ": " + value + model + "}, {name: second, url: \"http://other:1\", model: o}]\n"
	}
	if section, name, nested := strings.Cut(key, "."); nested {
		inner, deep, deeper := strings.Cut(name, ".")
		if deeper {
			return engineLine + section + ": {" + inner + ": {" + deep + ": " + value + "}}\n"
		}
		return engineLine + section + ": {" + name + ": " + value + "}\n"
	}
	if value == "*" {
		value = `"*"`
	}
	return engineLine + key + ": " + value + "\n"
}

// listOf writes a text that stands for a list as YAML does.
func listOf(key, value string) string {
	if slices.Contains([]string{"hosts", "redis", "cors_origins"}, key) && !strings.HasPrefix(value, "[") {
		if value == "*" {
			value = `"*"`
		}
		return "[" + value + "]"
	}
	return value
}

// TestValues looks at what the file's words become.
func TestValues(t *testing.T) {
	cfg := mustLoad(t, `
listen: "[::1]:80"
engines:
  - {name: a, url: https://box.example/v1, model: m, dialect: vllm, slots: 1, format: plain, tokenizer: /x, api_key: k, sole_client: false}
  - url: http://b
    model: n
models: {gpt-4.1: m, "with space": m, "4": m}
keys: [{name: k, sha256: "`+strings.Repeat("aB", 32)+`", class: batch, max_class: default, admin: true, reasoning_field: both}]
queue: {max_wait: 1.5h, lease: 20s, heartbeat: 0, heartbeat_mode: off}
usage: {retention: 30d}
limits: {body: 1048576, event: 2 MiB}
reasoning: {field: content_tags}
`, nil, nil)
	no, yes := false, true
	want := Default()
	want.Listen = "[::1]:80"
	want.Engines = []Engine{
		{Name: "a", URL: "https://box.example/v1", Model: "m", Dialect: "vllm", Slots: 1, Format: "plain", Tokenizer: "/x", APIKey: "k", SoleClient: &no},
		{Name: "engine-2", URL: "http://b", Model: "n", Dialect: "auto", Slots: 1, Format: "auto", SoleClient: &yes},
	}
	want.Models = map[string]string{"gpt-4.1": "m", "with space": "m", "4": "m"}
	want.Keys = []Key{{Name: "k", SHA256: strings.Repeat("aB", 32), Class: "batch", MaxClass: "default", Admin: true, ReasoningField: "both"}}
	want.Queue.MaxWait, want.Queue.Lease = Duration(90*time.Minute), seconds(20)
	want.Queue.Heartbeat, want.Queue.HeartbeatMode = 0, downstream.BeatOff
	want.Usage.Retention = hours(30 * 24)
	want.Limits.Body, want.Limits.Event = 1<<20, 2<<20
	want.Reasoning.Field = "content_tags"
	if !reflect.DeepEqual(cfg, want) {
		t.Errorf("got %+v\nwant %+v", cfg, want)
	}
}

// TestFaultsHaveTheirPlace: file and line, where the fault is the file's.
func TestFaultsHaveTheirPlace(t *testing.T) {
	faults := placesIn(t, `# settings
listen: here
listn: x
engines:
  - url: http://a
    model: m
  - {name: b, slots: two, model: n}
queue:
  lease: 20s
  max_waiting: 0
  heartbeat: soon
formats:
  - name: f
    open: [x]
reasoning: {}
models: {"a:b": c}
`, []string{"ONESLOT_QUEUE_LEASE=later", "ONESLOT_NOPE=1"}, nil)
	want := map[string]string{
		"listn: no such key": "3", "listen: ": "2", "engines[1].slots: ": "7", "engines[1].url ": "7", "queue.max_waiting: ": "10", "queue.heartbeat: ": "11",
		"formats[0]: reasoning: bad format: \"f\": starts_in": "13", "formats[0]: reasoning: bad format: \"f\": close": "13", "models.a:b: ": "16",
		"queue.lease: ": "", "ONESLOT_NOPE: ": "",
	}
	for _, fault := range faults {
		place := atPlace.FindString(fault)
		text, found := strings.TrimPrefix(fault, place), false
		for begin, line := range want {
			if strings.HasPrefix(text, begin) {
				found = true
				if line == "" && place != "" || line != "" && !strings.HasSuffix(place, "/oneslot.yaml:"+line+": ") {
					t.Errorf("%q should be on line %s", fault, line)
				}
				delete(want, begin)
			}
		}
		if !found {
			t.Errorf("nobody expects %q", fault)
		}
	}
	if len(want) > 0 {
		t.Errorf("there is no %v in %q", want, faults)
	}
}

// TestPlacesOfOddKeys: a key with what parts the words of a fault has its own line, and
// its fault stays one.
func TestPlacesOfOddKeys(t *testing.T) {
	_, err := Load(sources(t, `engines: [{url: "http://a", model: m}]
models:
  good: m
  "x y": c
  "a: b": c
  "p\nlisten: q": c
listen: 1
`, nil, nil))
	if err == nil {
		t.Fatal("there is no fault")
	}
	for _, want := range []string{
		":4: models.x y: \"c\" is no", ":5: models.a: b: \"c\" is no", ":6: models.p\nlisten: q: \"c\" is no", ":7: listen: ",
	} {
		if !strings.Contains(err.Error(), "oneslot.yaml"+want) {
			t.Errorf("there is no %q in\n%v", want, err)
		}
	}
}

// TestLeastSettings: an engine's address is enough, by flag or by variable, and
// nothing else differs from the defaults.
func TestLeastSettings(t *testing.T) {
	yes := true
	want := Default()
	want.Engines = []Engine{{Name: "engine", URL: "http://box:1", Dialect: "auto", Slots: 1, Format: "auto", SoleClient: &yes}}
	for name, cfg := range map[string]Config{
		"flag":           mustLoad(t, "", nil, map[string]any{"engine": "http://box:1"}),
		"variable":       mustLoad(t, "", []string{"ONESLOT_ENGINE=http://box:1"}, nil),
		"empty file":     mustLoad(t, "\n", nil, map[string]any{"engine": "http://box:1"}),
		"empty sections": mustLoad(t, "queue:\nengines:\nmodels:\nkeys: []\nlisten:\n", nil, map[string]any{"engine": "http://box:1"}),
		"empty variable": mustLoad(t, "", []string{"ONESLOT_ENGINE=http://box:1", "ONESLOT_LISTEN=", "ONESLOT_QUEUE_LEASE="}, nil),
	} {
		if !reflect.DeepEqual(cfg, want) {
			t.Errorf("%s: got %+v\nwant %+v", name, cfg, want)
		}
	}
}

// TestShortcutsKeepTheRest: they change the first engine of the file and nothing
// else of it.
func TestShortcutsKeepTheRest(t *testing.T) {
	file := "engines: [{name: a, url: \"http://a:1\", model: m, format: plain, api_key: k}, {name: b, url: \"http://b:1\", model: n}]\n"
	cfg := mustLoad(t, file, []string{"ONESLOT_ENGINE=http://c:1"}, map[string]any{"model": "z"})
	yes := true
	want := []Engine{
		{Name: "a", URL: "http://c:1", Model: "z", Dialect: "auto", Slots: 1, Format: "plain", APIKey: "k", SoleClient: &yes},
		{Name: "b", URL: "http://b:1", Model: "n", Dialect: "auto", Slots: 1, Format: "auto", SoleClient: &yes},
	}
	if !reflect.DeepEqual(cfg.Engines, want) {
		t.Errorf("got %+v\nwant %+v", cfg.Engines, want)
	}
}

// TestServiceVariables: in Kubernetes, a service of the name oneslot gives every
// pod beside it variables that are no settings.
func TestServiceVariables(t *testing.T) {
	mustLoad(t, engineLine, []string{
		"ONESLOT_SERVICE_HOST=10.0.0.1", "ONESLOT_SERVICE_PORT=8080", "ONESLOT_SERVICE_PORT_HTTP=8080", "ONESLOT_PORT=tcp://10.0.0.1:8080",
		"ONESLOT_PORT_8080_TCP=tcp://10.0.0.1:8080", "ONESLOT_PORT_8080_TCP_PROTO=tcp", "ONESLOT_PORT_8080_TCP_ADDR=10.0.0.1", "ONESLOT_CONFIG=x", "ONESLOT_URL=http://there", "ONESLOT_API_KEY=x", "ONESLOTH=1",
	}, nil)
	for _, name := range []string{"ONESLOT_SERVICE", "ONESLOT_PORTS", "ONESLOT_LISTN", "ONESLOT_", "ONESLOT_ENGINES"} {
		lines := faultsIn(t, engineLine, []string{name + "=1"}, nil)
		if len(lines) != 1 || !strings.HasPrefix(lines[0], name+": no such setting; ") {
			t.Errorf("%s: %q", name, lines)
		}
	}
}

// TestVariablesAreDistinct: two keys must not share a variable.
func TestVariablesAreDistinct(t *testing.T) {
	seen := map[string]string{}
	for _, key := range keys() {
		if other, taken := seen[variable(key)]; taken {
			t.Errorf("%s and %s are both %s", key, other, variable(key))
		}
		seen[variable(key)] = key
	}
}

func TestUnits(t *testing.T) {
	durations := map[string]time.Duration{"0": 0, "0s": 0, "500ms": 500 * time.Millisecond, "10s": 10 * time.Second, "2h": 2 * time.Hour, "90d": 2160 * time.Hour, "1h30m": 90 * time.Minute, "1m5s": 65 * time.Second}
	for text, want := range durations {
		var d, again Duration
		if err := d.UnmarshalText([]byte(text)); err != nil || time.Duration(d) != want {
			t.Errorf("%s is %v: %v", text, time.Duration(d), err)
		}
		short, err := d.MarshalText()
		if err != nil || again.UnmarshalText(short) != nil || again != d || len(short) > len(text)+1 {
			t.Errorf("%s is written as %s: %v", text, short, err)
		}
	}
	sizes := map[string]int64{"1": 1, "1000": 1000, "512KiB": 512 << 10, "32MiB": 32 << 20, "1 GiB": 1 << 30, "1024GiB": 1 << 40}
	for text, want := range sizes {
		var z, again Size
		if err := z.UnmarshalText([]byte(text)); err != nil || int64(z) != want {
			t.Errorf("%s is %d: %v", text, z, err)
		}
		if short, err := z.MarshalText(); err != nil || again.UnmarshalText(short) != nil || again != z {
			t.Errorf("%s is written as %s: %v", text, short, err)
		}
	}
	for _, bad := range []string{"", "soon", "15", "-1s", "-5d", "1.5d", "d", "1d2h", "99999999d", "1 s"} {
		var d Duration
		if err := d.UnmarshalText([]byte(bad)); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%q is no duration; write it as", bad)) {
			t.Errorf("the duration %q gives %v, %v", bad, time.Duration(d), err)
		}
	}
	for _, bad := range []string{"", "0", "-1", "big", "1.5MiB", "32MB", "1025GiB", "9999999999999999999", "9223372036854775807GiB", "MiB"} {
		var z Size
		if err := z.UnmarshalText([]byte(bad)); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%q is no size; write it as", bad)) {
			t.Errorf("the size %q gives %d, %v", bad, z, err)
		}
	}
}

// TestRowsInRedis: the ledger of shared mode is kept small unless told otherwise.
func TestRowsInRedis(t *testing.T) {
	shared := engineLine + "\nredis: redis://127.0.0.1:6379\n"
	for _, tc := range []struct {
		file    string
		environ []string
		want    int
	}{
		{engineLine, nil, 1_000_000},
		{shared, nil, 100_000},
		{engineLine, []string{"ONESLOT_REDIS=redis://127.0.0.1:6379"}, 100_000},
		{shared + "usage: {max_rows: 1000000}\n", nil, 1_000_000},
		{shared, []string{"ONESLOT_USAGE_MAX_ROWS=7"}, 7},
		{shared + "usage: {retention: 1d}\n", nil, 100_000},
	} {
		if got := mustLoad(t, tc.file, tc.environ, nil).Usage.MaxRows; got != tc.want {
			t.Errorf("%q %q: %d rows, want %d", tc.file, tc.environ, got, tc.want)
		}
	}
}

// TestOrderOfFaults is that of the file; what is not in it comes last. What only shows
// in use has its place too.
func TestOrderOfFaults(t *testing.T) {
	src := sources(t, "models: {a: b}\nengines:\n  - {url: \"http://a\", model: m, tokenizer: t.json}\nlisten: here\nqueue:\n  leese: 1s\n  max_wait: x\n", []string{"ONESLOT_NOPE=1"}, nil)
	_, err := Check(src, func(c Config) map[string]error {
		return map[string]error{"engines[0].tokenizer": fmt.Errorf("there is no %s", c.Engines[0].Tokenizer)}
	})
	want := []string{":1: models.a: ", ":3: engines[0].tokenizer: there is no t.json", ":4: listen: ", ":6: queue.leese: ", ":7: queue.max_wait: ", "ONESLOT_NOPE: "}
	faults := strings.Split(err.Error(), "\n")[1:]
	for i, fault := range faults {
		if i >= len(want) || !strings.HasPrefix(strings.TrimPrefix(fault, src.File), want[i]) {
			t.Errorf("fault %d is %q", i+1, fault)
		}
	}
	if !errors.Is(err, ErrConfig) || len(faults) != len(want) {
		t.Errorf("got %v", err)
	}
	tried := func(Config) map[string]error { t.Error("a file that cannot be read was tried"); return nil }
	if _, err := Check(sources(t, "a: [", nil, nil), tried); !errors.Is(err, ErrConfig) {
		t.Errorf("a file that cannot be read: %v", err)
	}
}
