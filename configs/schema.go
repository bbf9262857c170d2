package configs

import (
	"encoding"
	"encoding/json"
	"reflect"
	"strconv"
	"strings"

	"oneslot/reasoning"

	"go.yaml.in/yaml/v3"
)

// Schema returns the JSON Schema (draft 2020-12) of the configuration file, for
// editors that complete and check YAML. It is made of Config, Default, and the
// comments of the example file.
func Schema() ([]byte, error) {
	var file yaml.Node
	if err := yaml.Unmarshal(example, &file); err != nil {
		return nil, err
	}
	texts := map[string]string{}
	comments(file.Content[0], "", texts)
	s := schema{texts: texts}
	root := s.group("", reflect.ValueOf(Default()))
	root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	root["title"] = "Settings of oneslot"
	return json.MarshalIndent(root, "", "  ")
}

// comments gathers what the example says of each key; items of a list share the
// key of the list.
func comments(n *yaml.Node, prefix string, out map[string]string) {
	if n.Kind == yaml.MappingNode {
		for i := 0; i+1 < len(n.Content); i += 2 {
			name, value := n.Content[i], n.Content[i+1]
			key := strings.TrimPrefix(prefix+"."+name.Value, ".")
			if text := plain(name.HeadComment + "\n" + name.LineComment + "\n" + value.LineComment); text != "" {
				out[key] = text
			}
			comments(value, key, out)
		}
	}
	if n.Kind == yaml.SequenceNode {
		for _, item := range n.Content {
			comments(item, prefix, out)
		}
	}
}

// plain takes the marks out of comments and joins their lines.
func plain(comment string) string {
	var words []string
	for line := range strings.Lines(comment) {
		words = append(words, strings.Fields(strings.TrimLeft(line, "# "))...)
	}
	return strings.Join(words, " ")
}

// A schema describes Go values; the defaults are the values themselves.
type schema struct{ texts map[string]string }

func (s schema) group(key string, v reflect.Value) map[string]any {
	fields := map[string]any{}
	for i := range v.NumField() {
		f := v.Type().Field(i)
		name := fieldKey(f)
		at := strings.TrimPrefix(key+"."+name, ".")
		one := s.of(place{at, f.Tag}, v.Field(i))
		if text := s.texts[at]; text != "" {
			one["description"] = text
		}
		fields[name] = one
	}
	return map[string]any{"type": "object", "additionalProperties": false, "properties": fields}
}

func (s schema) of(at place, v reflect.Value) map[string]any {
	t := v.Type()
	if t.Kind() == reflect.Pointer {
		return s.of(at, reflect.New(t.Elem()).Elem())
	}
	if _, own := v.Interface().(encoding.TextMarshaler); own {
		return s.marked(at, v)
	}
	switch t.Kind() {
	case reflect.Struct:
		return s.group(at.key, v)
	case reflect.Slice:
		return s.list(at, reflect.New(t.Elem()).Elem())
	case reflect.Map:
		return map[string]any{"type": "object", "additionalProperties": s.of(place{}, reflect.New(t.Elem()).Elem())}
	case reflect.String:
		return withDefault(words(map[string]any{"type": "string"}, at.tag), v)
	case reflect.Bool:
		return withDefault(map[string]any{"type": "boolean"}, v)
	case reflect.Float64:
		return map[string]any{"type": "number"}
	default:
		out := map[string]any{"type": "integer"}
		if least, err := strconv.Atoi(at.tag.Get("least")); err == nil {
			out["minimum"] = least
		}
		return withDefault(out, v)
	}
}

func (s schema) list(at place, item reflect.Value) map[string]any {
	out := map[string]any{"type": "array", "items": s.of(place{key: at.key}, item)}
	if at.tag.Get("commas") != "" {
		return map[string]any{"oneOf": []any{out, map[string]any{"type": "string"}}}
	}
	if item.Type() == reflect.TypeFor[reasoning.Format]() {
		out["items"].(map[string]any)["required"] = []string{"name"}
	}
	return out
}

// marked describes what has a form of its own.
func (s schema) marked(at place, v reflect.Value) map[string]any {
	out := words(map[string]any{"type": "string"}, at.tag)
	switch v.Interface().(type) {
	case Duration:
		out["pattern"] = `^(0|\d+d|(\d+(\.\d+)?(ns|us|µs|ms|s|m|h))+)$`
	case Size:
		out = map[string]any{"type": []string{"string", "integer"}, "pattern": `^[1-9]\d*\s*([KMG]iB)?$`, "minimum": 1}
	case reasoning.State:
		out["enum"] = []string{"thinking", "answer", "auto"}
		if strings.HasSuffix(at.key, ".otherwise") { // where auto goes
			out["enum"] = []string{"thinking", "answer"}
		}
	case reasoning.History:
		out["enum"] = []string{"keep", "keep_last_tool_turn", "drop"}
	}
	return withDefault(out, v)
}

// words names the texts that a key allows.
func words(out map[string]any, tag reflect.StructTag) map[string]any {
	if list := strings.Fields(tag.Get("oneof")); len(list) > 0 {
		out["enum"] = list
	}
	return out
}

// withDefault adds the default of a setting. The zero value of a form of its own
// may be one.
func withDefault(out map[string]any, v reflect.Value) map[string]any {
	own, marked := v.Interface().(encoding.TextMarshaler)
	switch {
	case marked && v.Type() == reflect.TypeFor[Size]() && v.IsZero():
	case marked:
		if text, err := own.MarshalText(); err == nil && len(text) > 0 {
			out["default"] = string(text)
		}
	case !v.IsZero():
		out["default"] = v.Interface()
	}
	return out
}
