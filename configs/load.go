package configs

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"oneslot/configs/lines"

	"github.com/knadh/koanf/parsers/yaml"
	"github.com/knadh/koanf/providers/confmap"
	"github.com/knadh/koanf/providers/file"
	"github.com/knadh/koanf/v2"
)

// ErrConfig is the class of everything that is wrong with the settings.
var ErrConfig = errors.New("the settings have faults")

// Sources says where the settings come from, besides the defaults.
type Sources struct {
	// File is the path of a YAML file. Zero means none.
	File string
	// Environ is as os.Environ returns it.
	Environ []string
	// Flags are the flags that were given, by key of the file; "engine",
	// "format", "model" and "tokenizer" stand for the first engine's.
	Flags map[string]any
}

// Load gathers the settings and checks them. The error wraps ErrConfig and
// lists every fault, one a line; those of the file begin with their place, such as
// oneslot.yaml:7.
func Load(src Sources) (Config, error) {
	l := load(src)
	return l.cfg, l.err()
}

// loaded is the settings and where each came from.
type loaded struct {
	cfg    Config
	path   string            // of the file
	file   map[string]any    // as it was read
	origin map[string]string // of keys that were set by a variable or a flag
	faulty []string          // keys whose value could not be taken
	faults []error
}

func (l *loaded) err() error {
	err := errors.Join(l.faults...)
	if err == nil {
		return nil
	}
	if text, unread := os.ReadFile(l.path); unread == nil && l.file != nil {
		err = l.placed(err, lines.Of(text))
	}
	return fmt.Errorf("%w:\n%w", ErrConfig, err)
}

func load(src Sources) *loaded {
	l := &loaded{cfg: Default(), path: src.File, origin: map[string]string{}}
	k := koanf.New(".")
	if src.File != "" {
		if err := k.Load(file.Provider(src.File), yaml.Parser()); err != nil {
			l.faults = append(l.faults, fileFault(src.File, err))
			return l
		}
	}
	l.file = k.Raw()
	l.layer(k, l.environment(src.Environ))
	flags := map[string]setting{}
	for key, value := range src.Flags {
		flags[key] = setting{value, "a flag"}
	}
	l.layer(k, flags)
	r := reader{from: func(key string) string { return l.origin[key] }}
	r.read(place{}, k.Raw(), reflect.ValueOf(&l.cfg).Elem())
	l.faults, l.faulty = append(l.faults, r.faults...), r.keys
	if len(l.cfg.Redis) > 0 && !k.Exists("usage.max_rows") {
		l.cfg.Usage.MaxRows = sharedRows
	}
	l.cfg.complete()
	l.faults = append(l.faults, r.news(l.cfg.validate()))
	return l
}

// sharedRows is the default of usage.max_rows for a ledger in Redis, whose memory
// it takes: some 55 MB.
const sharedRows = 100_000

func fileFault(path string, err error) error {
	var system *os.PathError
	switch {
	case errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("%s does not exist: give an existing file with --config, or leave it out", path)
	case errors.As(err, &system):
		return fmt.Errorf("%s cannot be read: %w", path, err)
	}
	var out []error
	for _, f := range lines.Faults(err) {
		if strings.HasPrefix(f.Text, "cannot unmarshal") { // and repeats what stands there
			f.Text = "the file must consist of keys and values, such as listen: 127.0.0.1:8080"
		}
		place := path
		if f.Line > 0 {
			place = fmt.Sprintf("%s:%d", path, f.Line)
		}
		out = append(out, fmt.Errorf("%s: %s", place, f.Text))
	}
	return errors.Join(out...)
}

// setting is a value and where it was set.
type setting struct {
	value any
	where string
}

// shortcut returns the key that a setting without a key of its own stands for.
func shortcut(name string) (field string, ok bool) {
	switch name {
	case "engine":
		return "url", true
	case "format", "model", "tokenizer":
		return name, true
	}
	return "", false
}

// keys returns every key that has one value or a list of texts, such as
// queue.lease, and the shortcuts.
func keys() []string {
	var out []string
	var walk func(t reflect.Type, prefix string)
	walk = func(t reflect.Type, prefix string) {
		for i := range t.NumField() {
			f := t.Field(i)
			switch key := prefix + fieldKey(f); {
			case f.Type.Kind() == reflect.Struct:
				walk(f.Type, key+".")
			case f.Type.Kind() == reflect.Slice && f.Tag.Get("commas") == "", f.Type.Kind() == reflect.Map:
			default:
				out = append(out, key)
			}
		}
	}
	walk(reflect.TypeFor[Config](), "")
	return append(out, "engine", "format", "model", "tokenizer")
}

// envPrefix begins every variable that the program reads.
const envPrefix = "ONESLOT_"

func variable(key string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
}

// foreign reports whether a variable is read elsewhere: by commands that ask a
// running proxy, and for the name of the file.
func foreign(name string) bool {
	return name == envPrefix+"CONFIG" || name == envPrefix+"URL" || name == envPrefix+"API_KEY"
}

// service are the variables that Kubernetes sets for a service named oneslot.
var service = regexp.MustCompile(`^ONESLOT_(SERVICE_(HOST|PORT)|PORT$|PORT_\d+_(TCP|UDP|SCTP))`)

// environment reads the variables that the program knows and refuses others
// that look as if they were meant for it.
func (l *loaded) environment(environ []string) map[string]setting {
	known := map[string]string{}
	for _, key := range keys() {
		known[variable(key)] = key
	}
	out := map[string]setting{}
	for _, pair := range environ {
		name, value, _ := strings.Cut(pair, "=")
		if !strings.HasPrefix(name, envPrefix) || foreign(name) || service.MatchString(name) {
			continue
		}
		key, ok := known[name]
		switch {
		case !ok:
			l.faults = append(l.faults, noVariable(name, slices.Sorted(maps.Keys(known))))
		case value != "":
			out[key] = setting{value, name}
		}
	}
	return out
}

func noVariable(name string, known []string) error {
	if near := nearest(name, known); near != "" {
		return fmt.Errorf("%s: no such setting; did you mean %s?", name, near)
	}
	return fmt.Errorf("%s: no such setting; a variable is a key in upper case with _ for dots, such as ONESLOT_QUEUE_MAX_WAIT", name)
}

// layer puts settings on top. The shortcuts change the first engine.
func (l *loaded) layer(k *koanf.Koanf, settings map[string]setting) {
	values, engine := map[string]any{}, map[string]any{}
	for key, s := range settings {
		if field, ok := shortcut(key); ok {
			engine[field] = s.value
			l.origin["engines[0]."+field] = s.where
			continue
		}
		values[key] = s.value
		l.origin[key] = s.where
	}
	if len(engine) > 0 {
		if list, ok := withFirst(k.Get("engines"), engine); ok {
			values["engines"] = list
		}
	}
	// A map can always be loaded.
	_ = k.Load(confmap.Provider(values, "."), nil)
}

// withFirst returns a list of engines whose first one has the given fields, false
// if there is something else in its place, which the reader will tell of.
func withFirst(engines any, fields map[string]any) ([]any, bool) {
	list, ok := engines.([]any)
	if !ok && engines != nil {
		return nil, false
	}
	list = slices.Clone(list)
	if len(list) == 0 {
		list = []any{map[string]any{}}
	}
	first, ok := list[0].(map[string]any)
	if !ok && list[0] != nil {
		return nil, false
	}
	first = maps.Clone(first)
	if first == nil {
		first = map[string]any{}
	}
	maps.Copy(first, fields)
	list[0] = first
	return list, true
}
