package configs

import (
	"encoding"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// A reader fills a struct with a tree of maps and lists as it comes from YAML,
// and gathers every fault with the full key. It converts texts, which is all that
// the environment has; it repeats no value that may be a secret.
type reader struct {
	from   func(key string) string // where a key is set if not in the file, or nil
	faults []error
	keys   []string // of the faults
}

// A place is where a value goes: its key, and the field's tags.
type place struct {
	key string
	tag reflect.StructTag
}

// item is a place inside of p that has tags of its own or none.
func (p place) item(name string, tag reflect.StructTag) place { return place{p.key + name, tag} }

// read puts a value into to. A key with nothing behind it, or with a fault, keeps
// the default.
func (r *reader) read(at place, value any, to reflect.Value) {
	_, marked := to.Addr().Interface().(encoding.TextUnmarshaler)
	switch kind := to.Kind(); {
	case value == nil:
	case marked:
		r.marked(at, value, to)
	case kind == reflect.Pointer:
		target := reflect.New(to.Type().Elem())
		r.read(at, value, target.Elem())
		to.Set(target)
	case kind == reflect.Struct:
		r.group(at, value, to)
	case kind == reflect.Slice:
		r.list(at, value, to)
	case kind == reflect.Map:
		r.table(at, value, to)
	default:
		r.scalar(at, value, to)
	}
}

// fieldKey is what the file calls a field of a Config or of a format.
func fieldKey(f reflect.StructField) string {
	if key := f.Tag.Get("koanf"); key != "" {
		return key
	}
	key, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
	return key
}

// members is a value that has to be a group of keys.
func (r *reader) members(at place, value any) (group map[string]any, ok bool) {
	if group, ok = value.(map[string]any); !ok {
		r.fault(at.key, "must be a group of keys, not %s", kindOf(value))
	}
	return group, ok
}

func (r *reader) group(at place, value any, to reflect.Value) {
	group, ok := r.members(at, value)
	if !ok {
		return
	}
	prefix := at.key
	if prefix != "" {
		prefix += "."
	}
	fields := map[string]int{}
	for i := range to.NumField() {
		fields[fieldKey(to.Type().Field(i))] = i
	}
	for _, key := range slices.Sorted(maps.Keys(group)) {
		i, known := fields[key]
		if !known {
			r.unknown(prefix, key, slices.Sorted(maps.Keys(fields)))
			continue
		}
		r.read(place{prefix + key, to.Type().Field(i).Tag}, group[key], to.Field(i))
	}
}

func (r *reader) list(at place, value any, to reflect.Value) {
	if text, ok := value.(string); ok && at.tag.Get("commas") != "" {
		to.Set(reflect.ValueOf(splitList(text)))
		return
	}
	list, ok := value.([]any)
	if !ok {
		r.fault(at.key, "must be a list, not %s", kindOf(value))
		return
	}
	to.SetZero()
	if len(list) == 0 {
		return
	}
	out := reflect.MakeSlice(to.Type(), len(list), len(list))
	for i, one := range list {
		r.read(at.item(fmt.Sprintf("[%d]", i), at.tag), one, out.Index(i))
	}
	to.Set(out)
}

// splitList reads a list from one text: commas part its items.
func splitList(text string) []string {
	var out []string
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item != "" {
			out = append(out, item)
		}
	}
	return out
}

// table fills a map of texts, whose keys are the user's own.
func (r *reader) table(at place, value any, to reflect.Value) {
	table, ok := r.members(at, value)
	if !ok {
		return
	}
	out := reflect.MakeMap(to.Type())
	for _, key := range slices.Sorted(maps.Keys(table)) {
		item := reflect.New(to.Type().Elem()).Elem()
		r.read(at.item("."+key, ""), table[key], item)
		out.SetMapIndex(reflect.ValueOf(key), item)
	}
	to.Set(out)
}

// marked reads what has a form of its own, such as a duration.
func (r *reader) marked(at place, value any, to reflect.Value) {
	if !isOne(value) {
		r.fault(at.key, "must be one value, not %s", kindOf(value))
		return
	}
	fresh := reflect.New(to.Type())
	if err := fresh.Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(fmt.Sprint(value))); err != nil {
		r.fault(at.key, "%v", err)
		return
	}
	if least := at.tag.Get("least"); least != "" {
		var bound Duration
		if err := bound.UnmarshalText([]byte(least)); err == nil && fresh.Elem().Int() < int64(bound) {
			r.fault(at.key, "%v is too little: it must be at least %s", value, least)
			return
		}
	}
	to.Set(fresh.Elem())
}

func (r *reader) scalar(at place, value any, to reflect.Value) {
	text, isText := value.(string)
	switch to.Kind() {
	case reflect.String:
		words := strings.Fields(at.tag.Get("oneof"))
		switch {
		case !isText && isOne(value) && at.tag.Get("port") != "": // quotes alone would not make it an address
			r.fault(at.key, "must be host:port: write %s%v", at.tag.Get("port"), value)
		case !isText && isOne(value):
			r.fault(at.key, "must be a text, not %s: put it in quotes", kindOf(value))
		case !isText:
			r.fault(at.key, "must be a text, not %s", kindOf(value))
		case len(words) > 0 && text != "" && !slices.Contains(words, text):
			r.fault(at.key, "%q is none of %s", text, strings.Join(words, ", "))
		default:
			to.SetString(text)
		}
	case reflect.Bool:
		b, ok := value.(bool)
		if isText {
			ok = text == "true" || text == "false"
			b = text == "true"
		}
		if !ok {
			r.fault(at.key, "%s is neither true nor false", said(value))
			return
		}
		to.SetBool(b)
	case reflect.Float64:
		f, err := strconv.ParseFloat(fmt.Sprint(value), 64)
		if err != nil {
			r.fault(at.key, "%s is no number", said(value))
			return
		}
		to.SetFloat(f)
	default:
		r.whole(at, value, to)
	}
}

func (r *reader) whole(at place, value any, to reflect.Value) {
	n, err := strconv.Atoi(fmt.Sprint(value))
	if err != nil {
		r.fault(at.key, "%s is no whole number", said(value))
		return
	}
	if least, _ := strconv.Atoi(at.tag.Get("least")); n < least {
		r.fault(at.key, "%d is too little: it must be at least %d", n, least)
		return
	}
	to.SetInt(int64(n))
}
