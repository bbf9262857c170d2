package configs

import (
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"oneslot/reasoning"

	"github.com/knadh/koanf/parsers/yaml"
)

// Show returns the effective settings, one a line with its key, its value and
// where it was set: default, file, the name of a variable, or a flag. Secrets are
// not shown. The error is that of Load; what could be read is shown all the same.
func Show(src Sources) (string, error) {
	l := load(src)
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	s := shower{loaded: l, put: func(key, value, from string) { _, _ = fmt.Fprintf(w, "%s\t%s\t%s\n", key, value, from) }}
	s.show(place{}, reflect.ValueOf(l.cfg), l.file)
	_ = w.Flush() // a Builder takes everything
	return b.String(), l.err()
}

// A shower walks a Config beside the file it was read from.
type shower struct {
	*loaded
	put func(key, value, from string)
}

// show puts out what is at a place; in the file it is node, nil for nothing.
func (s *shower) show(at place, v reflect.Value, node any) {
	if _, own := v.Interface().(encoding.TextMarshaler); own || v.Type() == reflect.TypeFor[reasoning.Format]() {
		s.line(at, v, node)
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		group, _ := node.(map[string]any)
		for i := range v.NumField() {
			f := v.Type().Field(i)
			key := fieldKey(f)
			s.show(place{strings.TrimPrefix(at.key+"."+key, "."), f.Tag}, v.Field(i), group[key])
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.String || v.Len() == 0 {
			s.line(at, v, node)
			return
		}
		list, _ := node.([]any)
		for i := range v.Len() {
			var item any
			if i < len(list) {
				item = list[i]
			}
			s.show(at.item(fmt.Sprintf("[%d]", i), at.tag), v.Index(i), item)
		}
	default:
		s.line(at, v, node)
	}
}

func (s *shower) line(at place, v reflect.Value, node any) {
	from := "default"
	if node != nil {
		from = "file"
	}
	if where, ok := s.origin[at.key]; ok {
		from = where
	}
	if slices.Contains(s.faulty, at.key) {
		from = "default (" + from + ": fault)"
	}
	s.put(at.key, shown(at.tag.Get("secret"), v), from)
}

// shown is a value as a person reads it, without its secrets.
func shown(secret string, v reflect.Value) string {
	switch {
	case secret == "yes" && !v.IsZero():
		return "(hidden)"
	case v.Kind() == reflect.Pointer && !v.IsNil():
		return shown(secret, v.Elem())
	case v.Kind() == reflect.String && secret == "url" && hideUser(v.String()) != v.String():
		return quoted(strings.Replace(hideUser(v.String()), "://", "://…@", 1))
	case v.Kind() == reflect.String:
		return quoted(v.String())
	case v.Kind() == reflect.Slice && v.Len() == 0, v.Kind() == reflect.Map && v.Len() == 0:
		return "none"
	}
	switch one := v.Interface().(type) {
	case encoding.TextMarshaler:
		text, err := one.MarshalText()
		if err != nil {
			return err.Error()
		}
		return string(text)
	case []string:
		var items []string
		for _, item := range one {
			items = append(items, shown(secret, reflect.ValueOf(item)))
		}
		return strings.Join(items, ", ")
	case map[string]string:
		var items []string
		for _, key := range slices.Sorted(maps.Keys(one)) {
			items = append(items, quoted(key)+": "+quoted(one[key]))
		}
		return strings.Join(items, ", ")
	case reasoning.Format:
		text, err := json.Marshal(one)
		if err != nil {
			return err.Error()
		}
		return string(text)
	default:
		return fmt.Sprint(one)
	}
}

// Row returns the key as an item of the list keys, on one line. The error says
// what of it the settings would refuse.
func (k Key) Row() (string, error) {
	quoted := func(text string) string { return strconv.Quote(text) }
	members := []string{"name: " + quoted(k.Name), "sha256: " + quoted(k.SHA256)}
	add := func(there bool, name, value string) {
		if there {
			members = append(members, name+": "+value)
		}
	}
	add(k.Class != "", "class", quoted(k.Class))
	add(k.MaxClass != "", "max_class", quoted(k.MaxClass))
	add(k.MaxWaiting != 0, "max_waiting", strconv.Itoa(k.MaxWaiting))
	add(k.Admin, "admin", "true")
	add(k.ShareBy != "", "share_by", quoted(k.ShareBy))
	add(k.ReasoningField != "", "reasoning_field", quoted(k.ReasoningField))
	row := "- {" + strings.Join(members, ", ") + "}"
	raw, err := yaml.Parser().Unmarshal([]byte("keys:\n" + row + "\n"))
	if err != nil {
		return "", fmt.Errorf("the key's row cannot be read back: %w", err)
	}
	var c Config
	var r reader
	r.read(place{}, raw, reflect.ValueOf(&c).Elem())
	_, faults := c.APIKeys()
	return row, errors.Join(append(r.faults, r.news(faults))...)
}
