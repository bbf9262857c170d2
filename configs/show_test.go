package configs

import (
	"encoding"
	"encoding/json"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/knadh/koanf/parsers/yaml"
)

// allKeys are the keys of the struct, items of lists under the key of their list.
func allKeys(t reflect.Type, prefix string) (out []string) {
	for i := range t.NumField() {
		f := t.Field(i)
		key := strings.TrimPrefix(prefix+"."+fieldKey(f), ".")
		inner := f.Type
		if inner.Kind() == reflect.Slice || inner.Kind() == reflect.Pointer && inner.Elem().Kind() == reflect.Struct {
			inner = inner.Elem()
		}
		_, own := reflect.New(inner).Interface().(encoding.TextUnmarshaler)
		if inner.Kind() == reflect.Struct && !own {
			out = append(out, allKeys(inner, key)...)
			if f.Type.Kind() == reflect.Slice {
				out = append(out, key)
			}
			continue
		}
		out = append(out, key)
	}
	return out
}

// keysOf are the keys of a tree read from YAML.
func keysOf(node any, prefix string) (out []string) {
	switch node := node.(type) {
	case map[string]any:
		for name, value := range node {
			key := strings.TrimPrefix(prefix+"."+name, ".")
			if _, group := value.(map[string]any); !group || key == "models" {
				out = append(out, key)
			}
			if key != "models" {
				out = append(out, keysOf(value, key)...)
			}
		}
	case []any:
		for _, item := range node {
			out = append(out, keysOf(item, prefix)...)
		}
	}
	return out
}

// withRows is the example with its commented rows put in.
func withRows(t *testing.T) string {
	t.Helper()
	text := string(Example())
	row := regexp.MustCompile(`(?m)^(\w+): \[\]\n#  - `)
	if n := len(row.FindAllString(text, -1)); n != 2 {
		t.Fatalf("%d lists have a commented row, want formats and keys", n)
	}
	return strings.Replace(row.ReplaceAllString(text, "$1:\n  - "), "…\", class", strings.Repeat("0", 64)+"\", class", 1)
}

// TestExampleHasEveryKey, and none that is not there, with its commented rows.
func TestExampleHasEveryKey(t *testing.T) {
	raw, err := yaml.Parser().Unmarshal([]byte(withRows(t)))
	if err != nil {
		t.Fatal(err)
	}
	inFile := map[string]bool{}
	for _, key := range keysOf(raw, "") {
		inFile[key] = true
	}
	inStruct := map[string]bool{}
	for _, key := range allKeys(reflect.TypeFor[Config](), "") {
		inStruct[key] = true
		// The rows of formats have formats.yaml as their example.
		if !inFile[key] && !strings.HasPrefix(key, "formats.") {
			t.Errorf("the example lacks %s", key)
		}
	}
	for key := range inFile {
		if !inStruct[key] {
			t.Errorf("the example has %s, which is no setting", key)
		}
	}
	for key := range inStruct {
		field, ok := strings.CutPrefix(key, "formats.")
		field = field[strings.LastIndex(field, ".")+1:]
		if ok && !regexp.MustCompile(`(?m)^#.*\b`+field+`\b`).Match(shipped) {
			t.Errorf("formats.yaml does not explain %s", field)
		}
	}
}

// TestExampleIsTheDefaults, key by key, but for its engine; and its rows are good.
func TestExampleIsTheDefaults(t *testing.T) {
	cfg := mustLoad(t, string(Example()), nil, nil)
	yes := true
	want := Default()
	want.Models = map[string]string{}
	want.Engines = []Engine{{Name: "spark", URL: "http://127.0.0.1:30000", Model: "ripple", Dialect: "auto", Slots: 1, Format: "auto", SoleClient: &yes}}
	for i := range reflect.TypeFor[Config]().NumField() {
		got, wanted := reflect.ValueOf(cfg).Field(i).Interface(), reflect.ValueOf(want).Field(i).Interface()
		if !reflect.DeepEqual(got, wanted) {
			t.Errorf("%s is %+v, the default is %+v", fieldKey(reflect.TypeFor[Config]().Field(i)), got, wanted)
		}
	}
	full := mustLoad(t, withRows(t), nil, nil)
	if len(full.Keys) != 1 || len(full.Formats) != 1 || full.Keys[0].Name != "team-a" || full.Formats[0].Name != "mine" {
		t.Errorf("the rows are %+v, %+v", full.Keys, full.Formats)
	}
	Example()[0] = 'X'
	if Example()[0] == 'X' {
		t.Error("Example gives its own bytes away")
	}
}

// TestShow: every setting is there once, with its value and where it was set.
func TestShow(t *testing.T) {
	src := sources(t, `
engines: [{name: a, url: "http://user:pw@box:1", api_key: k}, {url: "http://b", model: n}]
queue: {lease: 20s, max_waiting: 5}
models: {b: a, "x y": c}
formats: [{name: mine, starts_in: answer}]
keys: [{name: t, sha256: "`+strings.Repeat("0", 64)+`"}]
`, []string{"ONESLOT_QUEUE_LEASE=30s", "ONESLOT_REDIS=redis://:pw@r/0,redis://s", "ONESLOT_MODEL=m"}, map[string]any{"telemetry.log": "debug"})
	text, err := Show(src)
	if err == nil || !strings.Contains(err.Error(), "models.x y") {
		t.Errorf("the faults are %v", err)
	}
	got := map[string][2]string{}
	for line := range strings.Lines(text) {
		part := regexp.MustCompile(`  +`).Split(strings.TrimSuffix(line, "\n"), 3)
		if len(part) != 3 || got[part[0]] != [2]string{} {
			t.Errorf("a line is %q", line)
			continue
		}
		got[part[0]] = [2]string{part[1], part[2]}
	}
	for key, want := range map[string][2]string{
		"listen": {"127.0.0.1:8080", "default"}, "queue.lease": {"30s", "ONESLOT_QUEUE_LEASE"}, "queue.max_waiting": {"5", "file"}, "queue.max_wait": {"2h", "default"},
		"telemetry.log": {"debug", "a flag"}, "redis": {"redis://…@r/0, redis://s", "ONESLOT_REDIS"}, "engines[0].url": {"http://…@box:1", "file"},
		"engines[0].api_key": {"(hidden)", "file"}, "engines[0].model": {"m", "ONESLOT_MODEL"}, "engines[0].name": {"a", "file"}, "engines[0].sole_client": {"true", "default"},
		"engines[1].name": {"engine-2", "default"}, "engines[1].api_key": {`""`, "default"}, "models": {`b: a, "x y": c`, "file"},
		"formats[0]": {`{"name":"mine","starts_in":"answer"}`, "file"}, "keys[0].sha256": {"(hidden)", "file"}, "keys[0].admin": {"false", "default"},
		"reasoning.field": {"reasoning_content", "default"}, "limits.body": {"32MiB", "default"}, "usage.retention": {"90d", "default"}, "cors_origins": {"none", "default"},
	} {
		if got[key] != want {
			t.Errorf("%s is %q, want %q", key, got[key], want)
		}
	}
	text, err = Show(sources(t, "queue: {max_wait: 1hour, max_waiting: 0, refuse_hopeless: perhaps}\n", []string{"ONESLOT_QUEUE_LEASE=x"}, nil))
	for key, want := range map[string]string{
		"queue.max_wait": "2h default (file: fault)", "queue.max_waiting": "64 default (file: fault)", "queue.refuse_hopeless": "true default (file: fault)",
		"queue.lease": "15s default (ONESLOT_QUEUE_LEASE: fault)",
	} {
		if err == nil || !strings.Contains(strings.Join(strings.Fields(text), " "), key+" "+want+" ") {
			t.Errorf("%s is not %s (%v):\n%s", key, want, err, text)
		}
	}
	shown := map[string]bool{}
	for key := range got {
		shown[regexp.MustCompile(`\[\d+\]`).ReplaceAllString(key, "")] = true
	}
	for _, key := range allKeys(reflect.TypeFor[Config](), "") {
		if !shown[key] && !strings.HasPrefix(key, "formats.") && key != "engines" && key != "keys" {
			t.Errorf("%s is not shown", key)
		}
	}
}

// node is a JSON Schema as far as these tests read one.
type node struct {
	Type        any
	Properties  map[string]node
	Items       *node
	OneOf       []node `json:"oneOf"`
	Enum        []string
	Pattern     string
	Minimum     *int
	Default     any
	Description string
	Additional  any `json:"additionalProperties"`
}

// TestSchema: it knows every key, no other, with the default, the words and the
// forms that the reader takes.
func TestSchema(t *testing.T) {
	text, err := Schema()
	if err != nil {
		t.Fatal(err)
	}
	var root node
	if err := json.Unmarshal(text, &root); err != nil {
		t.Fatal(err)
	}
	seen := map[string]node{}
	var walk func(n node, key string)
	walk = func(n node, key string) {
		if key != "" {
			seen[key] = n
		}
		for name, one := range n.Properties {
			walk(one, strings.TrimPrefix(key+"."+name, "."))
		}
		if n.Properties != nil && n.Additional != false {
			t.Errorf("%q lets unknown keys pass", key)
		}
		for _, one := range append(n.OneOf, n) {
			if one.Items != nil && one.Items.Properties != nil {
				for name, inner := range one.Items.Properties {
					walk(inner, key+"."+name)
				}
			}
		}
	}
	walk(root, "")
	want := allKeys(reflect.TypeFor[Config](), "")
	for _, key := range want {
		n, ok := seen[key]
		if !ok {
			t.Errorf("the schema lacks %s", key)
			continue
		}
		checkNode(t, key, n)
	}
	for _, key := range slices.Sorted(maps.Keys(seen)) {
		if _, group := seen[key]; group && seen[key].Properties == nil && !slices.Contains(want, key) {
			t.Errorf("the schema has %s, which is no setting", key)
		}
	}
	for key, text := range map[string]string{"queue.poison_grace": "newcomers still get a place for this long", "redis": "Where the line is kept.", "engines.sole_client": "nobody else uses it"} {
		if !strings.Contains(seen[key].Description, text) {
			t.Errorf("%s is described as %q", key, seen[key].Description)
		}
	}
	if p := regexp.MustCompile(seen["queue.lease"].Pattern); !p.MatchString("500ms") || !p.MatchString("90d") || !p.MatchString("1h30m") || p.MatchString("soon") || p.MatchString("15") {
		t.Errorf("the pattern of a duration is %s", p)
	}
	if p := regexp.MustCompile(seen["limits.body"].Pattern); !p.MatchString("32MiB") || !p.MatchString("100") || p.MatchString("32MB") || p.MatchString("0") {
		t.Errorf("the pattern of a size is %s", p)
	}
}

// checkNode loads a file with every word that the schema allows for a key, and
// with its default.
func checkNode(t *testing.T, key string, n node) {
	t.Helper()
	values := n.Enum
	switch v := n.Default.(type) {
	case string:
		values = append(values, v)
	case float64:
		values = append(values, strconv.Itoa(int(v)))
	}
	section, name, _ := strings.Cut(key, ".")
	for _, value := range values {
		text := inYAML(key, value)
		switch section {
		case "engines":
			text = "engines: [{url: \"http://a\", " + name + ": " + value + "}]\n"
		case "keys":
			text = engineLine + "keys: [{name: a, sha256: \"" + strings.Repeat("0", 64) + "\", " + name + ": " + value + "}]\n"
		case "formats":
			row, _ := json.Marshal(with(map[string]any{"name": "a", "open": []string{"x"}, "close": []string{"y"}, "starts_in": "auto"}, name, value))
			text = engineLine + "formats: [" + string(row) + "]\n"
		}
		if _, err := Load(sources(t, text, nil, nil)); err != nil {
			t.Errorf("%s: %s, which the schema allows: %v", key, value, err)
		}
	}
	if n.Type == nil && n.OneOf == nil {
		t.Errorf("%s has no type", key)
	}
}

func with(m map[string]any, key string, value any) map[string]any {
	m[key] = value
	return m
}
