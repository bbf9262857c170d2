package configs

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/go-viper/mapstructure/v2"
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
	// Flags are the flags that were given, by key of the file; "engine" and
	// "format" stand for the first engine's url and format.
	Flags map[string]any
}

// envPrefix begins every variable that the program reads.
const envPrefix = "ONESLOT_"

// shortcuts are settings that have no key of their own in the file.
var shortcuts = []string{"engine", "format", "model", "tokenizer"}

// Load gathers the settings and checks them. The error wraps ErrConfig and
// lists every fault.
func Load(src Sources) (Config, error) {
	k := koanf.New(".")
	if src.File != "" {
		if err := k.Load(file.Provider(src.File), yaml.Parser()); err != nil {
			return Config{}, fileFault(src.File, err)
		}
	}
	env, err := environment(src.Environ)
	faults := []error{err}
	for _, layer := range []map[string]any{env, src.Flags} {
		faults = append(faults, merge(k, layer))
	}
	cfg := Default()
	faults = append(faults, decode(k, &cfg))
	cfg.complete()
	faults = append(faults, cfg.validate())
	if err := errors.Join(faults...); err != nil {
		return cfg, fmt.Errorf("%w:\n%w", ErrConfig, err)
	}
	return cfg, nil
}

func fileFault(path string, err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%w: %s does not exist: give an existing file with --config, or leave it out", ErrConfig, path)
	}
	return fmt.Errorf("%w: %s cannot be read: %w", ErrConfig, path, err)
}

// keys returns every key that has one value, such as queue.lease.
func keys() []string {
	var out []string
	var walk func(t reflect.Type, prefix string)
	walk = func(t reflect.Type, prefix string) {
		for i := range t.NumField() {
			f := t.Field(i)
			key := prefix + f.Tag.Get("koanf")
			switch {
			case f.Type.Kind() == reflect.Struct:
				walk(f.Type, key+".")
			case f.Type.Kind() == reflect.Slice && f.Type.Elem().Kind() != reflect.String, f.Type.Kind() == reflect.Map:
			default:
				out = append(out, key)
			}
		}
	}
	walk(reflect.TypeFor[Config](), "")
	return append(out, shortcuts...)
}

// environment reads the variables that the program knows and refuses others
// that look as if they were meant for it.
func environment(environ []string) (map[string]any, error) {
	known := map[string]string{}
	for _, key := range keys() {
		known[envPrefix+strings.ToUpper(strings.ReplaceAll(key, ".", "_"))] = key
	}
	out := map[string]any{}
	var faults []error
	for _, pair := range environ {
		name, value, _ := strings.Cut(pair, "=")
		if !strings.HasPrefix(name, envPrefix) || name == envPrefix+"CONFIG" {
			continue
		}
		key, ok := known[name]
		if !ok {
			faults = append(faults, fmt.Errorf("%s: no such setting; the variables are %s and a key in upper case with _ for dots, such as ONESLOT_QUEUE_MAX_WAIT", name, envPrefix+"ENGINE, "+envPrefix+"LISTEN, "+envPrefix+"REDIS"))
			continue
		}
		out[key] = value
	}
	return out, errors.Join(faults...)
}

// merge puts a layer on top. The shortcuts change the first engine.
func merge(k *koanf.Koanf, layer map[string]any) error {
	layer = cloneOf(layer)
	engine := map[string]any{}
	for _, name := range shortcuts {
		if v, ok := layer[name]; ok {
			delete(layer, name)
			if name == "engine" {
				name = "url"
			}
			engine[name] = v
		}
	}
	if len(engine) > 0 {
		list, _ := k.Get("engines").([]any)
		list = slices.Clone(list)
		if len(list) == 0 {
			list = []any{map[string]any{}}
		}
		first, ok := list[0].(map[string]any)
		if !ok {
			return nil // decode will say what is wrong with it
		}
		first = cloneOf(first)
		for name, v := range engine {
			first[name] = v
		}
		list[0] = first
		layer["engines"] = list
	}
	return k.Load(confmap.Provider(layer, "."), nil)
}

func cloneOf(m map[string]any) map[string]any {
	out := make(map[string]any, len(m))
	for key, v := range m {
		out[key] = v
	}
	return out
}

// decode fills cfg and refuses keys that nobody knows.
func decode(k *koanf.Koanf, cfg *Config) error {
	decoder, err := mapstructure.NewDecoder(&mapstructure.DecoderConfig{
		Result: cfg, TagName: "koanf", ErrorUnused: true, WeaklyTypedInput: true,
		DecodeHook: mapstructure.ComposeDecodeHookFunc(noLooseTypes, mapstructure.TextUnmarshallerHookFunc(), splitList),
	})
	if err != nil {
		return err
	}
	return faultsOf(decoder.Decode(k.Raw()))
}

// noLooseTypes keeps the weak typing, which reads the environment's texts, from
// turning one kind of a file's values into another.
func noLooseTypes(from, to reflect.Type, data any) (any, error) {
	kind := from.Kind()
	if to.Kind() == reflect.Bool && kind != reflect.Bool && kind != reflect.String && kind != reflect.Pointer {
		return nil, fmt.Errorf("%v is neither true nor false", data)
	}
	if to.Kind() == reflect.String && (kind == reflect.Int || kind == reflect.Bool || kind == reflect.Float64) {
		return fmt.Sprint(data), nil
	}
	return data, nil
}

// splitList reads a list from one text: commas part its items.
func splitList(from, to reflect.Type, data any) (any, error) {
	if from.Kind() != reflect.String || to != reflect.TypeFor[[]string]() {
		return data, nil
	}
	var out []string
	for item := range strings.SplitSeq(data.(string), ",") {
		if item = strings.TrimSpace(item); item != "" {
			out = append(out, item)
		}
	}
	return out, nil
}

// faultsOf rewords mapstructure's findings, one a line.
func faultsOf(err error) error {
	if err == nil {
		return nil
	}
	var faults []error
	for line := range strings.Lines(err.Error()) {
		line = strings.TrimLeft(strings.TrimSpace(line), "* ")
		if line == "" || strings.HasPrefix(line, "decoding failed") {
			continue
		}
		where, found, ok := strings.Cut(line, " has invalid keys: ")
		if ok {
			where = strings.Trim(strings.TrimPrefix(where, "''"), "'")
			for key := range strings.SplitSeq(found, ", ") {
				faults = append(faults, fmt.Errorf("%s: no such key", strings.TrimPrefix(strings.ToLower(where)+"."+key, ".")))
			}
			continue
		}
		faults = append(faults, errors.New(line))
	}
	return errors.Join(faults...)
}
