package configs

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"oneslot/reasoning"
)

// TestFaults: each fault is one line that begins with the full key and says what
// is wrong; want is its text.
func TestFaults(t *testing.T) {
	hash := strings.Repeat("a", 64)
	cases := map[string]struct {
		yaml string
		want string
	}{
		"top key":            {"lisen: x\n", "lisen: no such key; did you mean listen?"},
		"section key":        {"queue: {leese: 5s}\n", "queue.leese: no such key; did you mean queue.lease?"},
		"nothing near":       {"usage: {xyzzy: 1}\n", "usage.xyzzy: no such key; the keys here are include_sources, max_rows, retention"},
		"item key":           {"keys: [{name: a, sha256: \"" + hash + "\", adminn: true}]\n", "keys[0].adminn: no such key; did you mean keys[0].admin?"},
		"format key":         {"formats: [{name: a, starts_in: answer, opn: []}]\n", "formats[0].opn: no such key; did you mean formats[0].open?"},
		"other letters":      {"Listen: 127.0.0.1:1\n", "Listen: no such key; did you mean listen?"},
		"text for duration":  {"queue: {lease: soon}\n", `queue.lease: "soon" is no duration; write it as in 500ms, 10s, 2h or 90d`},
		"number as duration": {"queue: {lease: 15}\n", `queue.lease: "15" is no duration; write it as in 500ms, 10s, 2h or 90d`},
		"list as duration":   {"queue: {lease: [1s]}\n", `queue.lease: must be one value, not a list`},
		"bodies":             {"limits: {body: 2MiB, bodies: 1MiB}\n", `limits.bodies: is less than limits.body`},
		"size":               {"limits: {body: 32MB}\n", `limits.body: "32MB" is no size; write it as in 1048576, 512KiB or 32MiB`},
		"text for number":    {"queue: {max_waiting: many}\n", `queue.max_waiting: "many" is no whole number`},
		"fraction":           {"queue: {max_waiting: 1.5}\n", `queue.max_waiting: "1.5" is no whole number`},
		"bool for number":    {"queue: {max_waiting: true}\n", `queue.max_waiting: "true" is no whole number`},
		"number for bool":    {"accept_any_model: 1\n", `accept_any_model: "1" is neither true nor false`},
		"yes for bool":       {"accept_any_model: yes\n", `accept_any_model: "yes" is neither true nor false`},
		"number for text":    {"data: 5\n", "data: must be a text, not a number: put it in quotes"},
		"port for address":   {"listen: 8080\n", "listen: must be host:port: write 127.0.0.1:8080"},
		"date for text":      {"data: 2026-01-01\n", "data: must be a text, not a date: put it in quotes"},
		"group for text":     {"data: {a: b}\n", "data: must be a text, not a group of keys"},
		"text for group":     {"queue: none\n", "queue: must be a group of keys, not a text"},
		"group for list":     {"keys: {name: a}\n", "keys: must be a list, not a group of keys"},
		"text for item":      {"keys: [a]\n", "keys[0]: must be a group of keys, not a text"},
		"text for table":     {"models: gpt-4o\n", "models: must be a group of keys, not a text"},
		"number in table":    {"models: {a: 5}\n", "models.a: must be a text, not a number: put it in quotes"},
		"number in list":     {"hosts: [5]\n", "hosts[0]: must be a text, not a number: put it in quotes"},
		"text for list":      {"formats: [{name: a, starts_in: thinking, close: [\"c\"], open: \"a,b\"}]\n", "formats[0].open: must be a list, not a text"},
		"zero":               {"queue: {max_waiting: 0}\n", "queue.max_waiting: 0 is too little: it must be at least 1"},
		"zero time":          {"queue: {max_wait: 0s}\n", "queue.max_wait: 0s is too little: it must be at least 1ms"},
		"below zero":         {"usage: {max_rows: -1}\n", "usage.max_rows: -1 is too little: it must be at least 0"},
		"word":               {"telemetry: {log: loud}\n", `telemetry.log: "loud" is none of debug, info, warn, error`},
		"word of its own":    {"queue: {heartbeat_mode: loud}\n", `queue.heartbeat_mode: heartbeat mode "loud" is none of [comment chunk off]`},
		"state":              {"formats: [{name: a, starts_in: middle}]\n", "formats[0].starts_in: reasoning: bad format: unknown state \"middle\": want thinking, answer or auto"},
		"temperature":        {"formats: [{name: a, starts_in: answer, temperature: warm}]\n", `formats[0].temperature: "warm" is no number`},
		"class":              {"keys: [{name: a, sha256: \"" + hash + "\", class: high}]\n", `keys[0].class: "high" is none of interactive, default, batch`},
		"class above":        {"keys: [{name: a, sha256: \"" + hash + "\", class: interactive, max_class: batch}]\n", `keys[0].class: interactive is above max_class: batch`},
		"hash":               {"keys: [{name: a, sha256: abc}]\n", `keys[0]: key "a": sha256 must be the 64 hex digits of the secret's SHA-256`},
		"key name":           {"keys: [{sha256: \"" + hash + "\"}]\n", `keys[0]: name is missing: it stands for the key in the ledger`},
		"hash twice":         {"keys: [{name: a, sha256: \"" + hash + "\"}, {name: b, sha256: \"" + strings.ToUpper(hash) + "\"}]\n", `keys[1].sha256: is that of keys[0] too`},
		"listen":             {"listen: 8.8.8.8\n", `listen: "8.8.8.8" is no address; write host:port, such as 127.0.0.1:8080`},
		"port":               {"listen: 127.0.0.1:http\n", `listen: "127.0.0.1:http" is no address; write host:port, such as 127.0.0.1:8080`},
		"high port":          {"listen: 127.0.0.1:65536\n", `listen: "127.0.0.1:65536" is no address; write host:port, such as 127.0.0.1:8080`},
		"origin":             {"cors_origins: [https://a.example/]\n", `cors_origins[0]: "https://a.example/" is no origin; write scheme://host or scheme://host:port, without a slash at the end, or *`},
		"host":               {"hosts: [https://a.example]\n", `hosts[0]: "https://a.example" is no name; write it without scheme and port, such as llm.example.com`},
		"alias":              {"engines: [{url: \"http://a\", model: m}]\nmodels: {gpt-4o: n}\n", `models.gpt-4o: "n" is no engine's model`},
		"dialect":            {"engines: [{url: \"http://a\", dialect: tgi}]\n", `engines[0].dialect: "tgi" is none of auto, sglang, vllm, llamacpp, openai`},
		"scheme":             {"engines: [{url: \"box:30000\"}]\n", `engines[0].url "box:30000" must begin with http:// or https:// and name a host`},
		"ambiguous slots":    {"engines: [{url: \"http://a\", name: \"a#2\", slots: 2}]\n", `engines[0].name: "a#2" holds a #`},
		"models of two":      {"engines: [{url: \"http://a\", model: m}, {url: \"http://b\"}]\n", "engines[1].model: is missing; with more than one engine each must name its model, and engines of one name share a line"},
		"name twice":         {"engines: [{name: a, url: \"http://a\", model: m}, {name: a, url: \"http://b\", model: m}]\n", `engines[1].name: "a" is taken by another engine`},
		"format twice":       {"formats: [{name: a, starts_in: answer}, {name: a, starts_in: answer}]\n", `formats[1].name: another row is named "a" too`},
		"format's rule":      {"formats: [{name: a, open: [x], close: [x], starts_in: answer}]\n", `formats[0]: reasoning: bad format: "a": close[0]: "x" is also in open`},
		"data":               {"data: \"\"\n", "data: is empty; name a folder for the ledger"},
		"redis":              {"redis: \"http://a\"\n", "redis: queue: Redis address 1 is not of the form redis://[user:password@]host[:port][/db] or rediss://…"},
		"users without keys": {"redis: \"redis://127.0.0.1:1\"\nqueue: {share_by: user}\n", "queue.share_by: user needs keys where the line is in redis"},
		"lease":              {"queue: {lease: 1s}\n", "queue: lease 1s is too short to be renewed in time: make it at least "},
	}
	for name, c := range cases {
		yaml := c.yaml
		if !strings.Contains(yaml, "engines:") {
			yaml += engineLine
		}
		if lines := faultsIn(t, yaml, nil, nil); len(lines) != 1 || !strings.HasPrefix(lines[0], c.want) {
			t.Errorf("%s: %q\nwant %q", name, lines, c.want)
		}
	}
	if lines := faultsIn(t, "", nil, nil); len(lines) != 1 || !strings.HasPrefix(lines[0], "engines: none is named") {
		t.Errorf("no engine: %q", lines)
	}
	if lines := faultsIn(t, engineLine, []string{"ONESLOT_QUEUE_LEASE=soon"}, map[string]any{"queue.heartbeat": "x"}); len(lines) != 2 ||
		!strings.HasSuffix(lines[0], "(set by a flag)") || !strings.HasSuffix(lines[1], "(set by ONESLOT_QUEUE_LEASE)") {
		t.Errorf("faults from elsewhere: %q", lines)
	}
}

// TestAllFaultsAtOnce: none hides another.
func TestAllFaultsAtOnce(t *testing.T) {
	lines := faultsIn(t, `
listen: here
data: ""
queue: {lease: 15, lese: 1}
engines: [{url: "ftp://a", format: nope}, {name: engine}]
keys: [{name: ""}]
cors_origins: [x]
models: {a: b}
formats: [{name: f, open: [x]}]
redis: redis://10.0.0.1
`, []string{"ONESLOT_NOPE=1"}, map[string]any{"telemetry.log": "loud"})
	for _, want := range []string{
		"listen:", "data:", "queue.lease:", "queue.lese:", "engines[0].url", "engines[0].format:", "engines[1].url", "engines[1].name:",
		"keys[0]:", "cors_origins[0]:", "formats[0]:", "redis:", "ONESLOT_NOPE:", "telemetry.log:",
	} {
		if !slices.ContainsFunc(lines, func(line string) bool { return strings.HasPrefix(line, want) }) {
			t.Errorf("no fault begins with %s:\n%s", want, strings.Join(lines, "\n"))
		}
	}
}

// TestFileFaults say which file, and where in it.
func TestFileFaults(t *testing.T) {
	for yaml, want := range map[string]string{
		"a:\n  b: c: d\n":                      "oneslot.yaml:2: mapping values are not allowed",
		"queue: {a: 1}\nqueue: {b: 2}":         `oneslot.yaml:2: mapping key "queue" already defined at line 1`,
		"listen: \"x\n":                        "oneslot.yaml:2: found unexpected end of stream",
		"a: b\nlisten:\n\tx: y\n":              "oneslot.yaml:3: found character that cannot start any token",
		"listen: @x\n":                         "oneslot.yaml:1: found character that cannot start any token",
		"listen: x\nqueue:\n  a: [b\n  c: d\n": "oneslot.yaml:3: did not find expected ',' or ']'",
		"queue:\n  lease: 1s\n max_wait: 2h\n": "oneslot.yaml:3: did not find expected key",
		"listen: x\nqueue: *no\n":              "oneslot.yaml: unknown anchor 'no' referenced",
		"just words, sk-SECRET":                "oneslot.yaml:1: the file must consist of keys and values",
		"[a, b]":                               "oneslot.yaml:1: the file must consist of keys and values",
	} {
		text := strings.Join(placesIn(t, yaml, nil, nil), "\n")
		if !strings.Contains(text, want) || strings.Contains(text, "SECRET") {
			t.Errorf("%q: %s\nwant %s", yaml, text, want)
		}
	}
	missing := filepath.Join(t.TempDir(), "none.yaml")
	_, err := Load(Sources{File: missing})
	if err == nil || !strings.Contains(err.Error(), missing+" does not exist") {
		t.Errorf("a missing file: %v", err)
	}
	if _, err := Load(Sources{File: os.TempDir()}); err == nil || !strings.Contains(err.Error(), "cannot be read") {
		t.Errorf("a folder: %v", err)
	}
}

// TestWhoMayListen: other machines may only reach a proxy that has keys, or whose
// operator says that it needs none.
func TestWhoMayListen(t *testing.T) {
	keys := "keys: [{name: a, sha256: \"" + strings.Repeat("0", 64) + "\"}]\n"
	for listen, alone := range map[string]bool{
		"127.0.0.1:80": true, "127.9.9.9:80": true, "localhost:80": true, "LocalHost.:80": true, "[::1]:80": true, "127.0.0.1:0": true,
		":80": false, "0.0.0.0:80": false, "[::]:80": false, "192.168.0.1:80": false, "box.example:80": false, "localhost.example:80": false, "[::ffff:127.0.0.1]:80": true,
	} {
		yaml := engineLine + "listen: \"" + listen + "\"\n"
		_, err := Load(sources(t, yaml, nil, nil))
		if (err == nil) != alone {
			t.Errorf("%s without keys: %v", listen, err)
		}
		if err != nil && !strings.Contains(err.Error(), "listen: "+listen+" can be reached from other machines") {
			t.Errorf("%s: %v", listen, err)
		}
		mustLoad(t, yaml+keys, nil, nil)
		cfg := mustLoad(t, yaml, nil, map[string]any{"insecure_no_auth": "true"})
		if api := cfg.APIConfig(); api.Loopback != alone {
			t.Errorf("%s: the edge is told loopback %v", listen, api.Loopback)
		}
	}
}

// TestRedisPassword (B111): a Redis that others can reach needs a password, or an
// operator who says that it does not.
func TestRedisPassword(t *testing.T) {
	for address, fine := range map[string]bool{
		"redis://127.0.0.1:6379": true, "redis://localhost": true, "redis://:6379": true, "rediss://[::1]:6379/2": true,
		"redis://:secret@10.0.0.1": true, "redis://user:secret@redis:6379/0": true, "redis://:secret@a:1,redis://b:1,redis://c:1": true,
		"redis://10.0.0.1": false, "redis://redis:6379": false, "rediss://cache.example": false, "redis://user@10.0.0.1": false, "redis://:@10.0.0.1": false,
		"redis://127.0.0.1,redis://10.0.0.1": false, "redis://a:1,redis://:secret@b:1": false, "redis://10.0.0.1?sentinel=main": false,
	} {
		for _, yaml := range []string{engineLine + "redis: \"" + address + "\"\n", engineLine + "redis: [\"" + strings.ReplaceAll(address, ",", "\", \"") + "\"]\n"} {
			_, err := Load(sources(t, yaml, nil, nil))
			if (err == nil) != fine {
				t.Errorf("%s: %v", address, err)
			}
			mustLoad(t, yaml+"redis_insecure: true\n", nil, nil)
		}
	}
}

// TestNoSecretIsTold: neither a fault nor a view of the settings shows a key or a
// password, wherever it was put.
func TestNoSecretIsTold(t *testing.T) {
	const canary = "CANARY"
	hash := strings.Repeat("c", 64)
	for name, yaml := range map[string]string{
		"good":             "engines: [{url: \"http://user:CANARY@box\", api_key: CANARY, format: plain}]\nredis: redis://CANARY:CANARY@10.0.0.1/0\nkeys: [{name: a, sha256: \"" + hash + "\"}]\n",
		"engine's key":     "engines: [{url: \"http://a\", api_key: [CANARY]}]\n",
		"engine's key, no": "engines: [{url: \"http://a\", api_key: {CANARY1: CANARY}}]\n",
		"engine's url":     "engines: [{url: \"ftp://user:CANARY@box\"}]\n",
		"engine's url, no": "engines: [{url: \"http://user:CANARY%zz@box:port\"}]\n",
		"engine's port":    "engines: [{url: \"http://user:CANARY@box:port\"}]\n",
		"redis":            engineLine + "redis: redis://user:CANARY%zz@box\n",
		"redis port":       engineLine + "redis: redis://user:CANARY@box:port/0\n",
		"redis db":         engineLine + "redis: redis://user:CANARY@box/x\n",
		"redis scheme":     engineLine + "redis: http://user:CANARY@box\n",
		"redis insecure":   engineLine + "redis: redis://CANARY@box\n",
		"redis twice":      engineLine + "redis: [redis://a, redis://:CANARY@b]\n",
		"redis list":       engineLine + "redis: [[CANARY]]\n",
		"hash":             engineLine + "keys: [{name: a, sha256: CANARY}]\n",
		"origin":           engineLine + "cors_origins: [\"https://u:CANARY@a\"]\n",
		"words":            "CANARY",
	} {
		src := sources(t, yaml, nil, nil)
		_, err := Load(src)
		if (err == nil) != (name == "good") {
			t.Errorf("%s: %v", name, err)
		}
		view, again := Show(src)
		if (again == nil) != (err == nil) {
			t.Errorf("%s: Show says %v, Load %v", name, again, err)
		}
		told := view
		if err != nil {
			told += err.Error()
		}
		if strings.Contains(strings.ReplaceAll(told, "CANARY1", ""), canary) || strings.Contains(told, hash[:8]) {
			t.Errorf("%s: a secret is told:\n%s", name, told)
		}
	}
}

// TestFormats: the shipped rows are good, and a row of the user's replaces the one
// of its name or is added.
func TestFormats(t *testing.T) {
	rows, err := (&Config{}).FormatRows()
	if err != nil || len(rows) < 10 {
		t.Fatalf("%d formats are shipped: %v", len(rows), err)
	}
	if _, ok := rows[namedFormat]; !ok || rows[namedFormat].Verified {
		t.Errorf("the default format is %+v", rows[namedFormat])
	}
	for name, f := range rows {
		if f.Name != name || f.Validate() != nil {
			t.Errorf("%s: %+v: %v", name, f, f.Validate())
		}
	}
	ship, err := shippedFormats()
	if err != nil || len(ship) != len(rows) {
		t.Errorf("%d rows, %d names: %v", len(ship), len(rows), err)
	}
	cfg := mustLoad(t, engineLine+`
formats:
  - {name: ripple, open: ["a,b"], close: ["<<"], starts_in: thinking, temperature: 0.5, history: drop, off_prefill: "<<\n"}
  - {name: mine, starts_in: answer}
`, nil, map[string]any{"format": "mine"})
	merged, err := cfg.FormatRows()
	half := 0.5
	want := reasoning.Format{Name: "ripple", Open: []string{"a,b"}, Close: []string{"<<"}, StartsIn: reasoning.StartThinking, Temperature: &half, History: reasoning.HistoryDrop, OffPrefill: "<<\n"}
	if err != nil || len(merged) != len(rows)+1 || !reflect.DeepEqual(merged["ripple"], want) || merged["mine"].StartsIn != reasoning.StartAnswer {
		t.Errorf("the formats are %+v: %v", merged["ripple"], err)
	}
}

// TestCollector: what is no collector is told at the start, without the password.
func TestCollector(t *testing.T) {
	mustLoad(t, engineLine+"\ntelemetry: {otlp: \"http://127.0.0.1:4318\"}\n", nil, nil)
	for _, bad := range []string{"127.0.0.1:4317", "http://me:secret@collector:4318"} {
		lines := faultsIn(t, engineLine+"\ntelemetry: {otlp: \""+bad+"\"}\n", nil, nil)
		if len(lines) != 1 || !strings.HasPrefix(lines[0], "telemetry.otlp: ") || strings.Contains(lines[0], "secret") {
			t.Errorf("%s: %q", bad, lines)
		}
	}
}
