package openai_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"oneslot/internal/openai"
)

func TestAppendString(t *testing.T) {
	for in, want := range map[string]string{
		"":                 `""`,
		"plain":            `"plain"`,
		`a"b\c/`:           `"a\"b\\c/"`,
		"\n\r\t":           `"\n\r\t"`,
		"\x00\x1f\b\f\x7f": "\"\\u0000\\u001f\\u0008\\u000c\x7f\"",
		"<a href='&'>":     `"<a href='&'>"`,
		"é日本🙂\u2028\ufffd": "\"é日本🙂\u2028\ufffd\"",
		"a\xffb":           "\"a\ufffdb\"",
		"\xf0\x9f\x99":     "\"\ufffd\ufffd\ufffd\"",
		"\xed\xa0\x80":     "\"\ufffd\ufffd\ufffd\"", // a surrogate
	} {
		if got := string(openai.AppendString(nil, in)); got != want {
			t.Errorf("AppendString(%q) = %s, want %s", in, got, want)
		}
	}
	if got := string(openai.AppendString([]byte("x"), "y")); got != `x"y"` {
		t.Errorf("it does not append: %s", got)
	}
}

// FuzzAppendString demands that encoding/json reads back what was written, that
// it stands on one line, and that nothing is escaped without need.
func FuzzAppendString(f *testing.F) {
	for _, seed := range []string{"", "a\"\\\n\x00", "é日本🙂", "\xff\xfe", "\u2028<>&", "\xf0\x9f\x99"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		out := openai.String(s)
		var back string
		if err := json.Unmarshal([]byte(out), &back); err != nil {
			t.Fatalf("%q became %s: %v", s, out, err)
		}
		want := string([]rune(s)) // each invalid byte becomes U+FFFD
		if back != want || !utf8.ValidString(out) || strings.ContainsAny(out, "\n\r") {
			t.Fatalf("%q became %s, which reads %q", s, out, back)
		}
	})
}

func TestDropNulls(t *testing.T) {
	for in, want := range map[string]string{
		`{"a":1}`:                      `{"a":1}`,
		`{"a":null,"b":1,"c":null}`:    `{"b":1}`,
		`{"a":null}`:                   `{}`,
		`[{"a":{"b":null,"c":[]}}]`:    `[{"a":{"c":[]}}]`,
		`[1, null, {"a":null}]`:        `[1,null,{}]`,
		`{"text":"null","x":null}`:     `{"text":"null"}`,
		`"null"`:                       `"null"`,
		`null`:                         `null`,
		`{"arguments":"{\"a\":null}"}`: `{"arguments":"{\"a\":null}"}`,
		`[{"index":0,"id":null,"type":null,"function":{"name":null,"arguments":"{"}}]`: `[{"index":0,"function":{"arguments":"{"}}]`,
	} {
		if got := openai.DropNulls(in); got != want {
			t.Errorf("DropNulls(%s) = %s, want %s", in, got, want)
		}
	}
}

func TestMergeMembers(t *testing.T) {
	for _, c := range []struct {
		lists []string
		want  string
	}{
		{nil, ``},
		{[]string{``, ``}, ``},
		{[]string{`"a":1`, ``}, `"a":1`},
		{[]string{``, `"a":1`}, `"a":1`},
		{[]string{`"a":"x"`, `"b":2`, `"a":"y"`}, `"a":"xy","b":2`},
		{[]string{`"a":"\ud83d"`, `"a":"\ude00"`}, `"a":"\ud83d\ude00"`},
		{[]string{`"a":[1]`, `"a":[ ]`, `"a":[ 2,3 ]`}, `"a":[1,2,3]`},
		{[]string{`"a":[]`, `"a":[]`}, `"a":[]`},
		{[]string{`"a":{"x":"1","y":1}`, `"a":{"x":"2","z":null}`}, `"a":{"x":"12","y":1,"z":null}`},
		{[]string{`"a":1`, `"a":2`}, `"a":2`},
		{[]string{`"a":1`, `"a":null`}, `"a":1`},
		{[]string{`"a":null`, `"a":"x"`}, `"a":"x"`},
		{[]string{`"a":"x"`, `"a":{}`}, `"a":{}`},
		{[]string{`"a\"":1`, `"a\u0022":2`}, `"a\"":2`},
	} {
		if got := openai.MergeMembers(c.lists...); got != c.want {
			t.Errorf("MergeMembers(%q) = %s, want %s", c.lists, got, c.want)
		}
	}
	many := make([]string, 1000)
	for i := range many {
		many[i] = `"a":"x","n":1`
	}
	if got, want := openai.MergeMembers(many...), `"a":"`+strings.Repeat("x", 1000)+`","n":1`; got != want {
		t.Errorf("many are joined to %d bytes, want %d", len(got), len(want))
	}
}

func TestMembers(t *testing.T) {
	for raw, want := range map[string]string{
		`{}`: ``,
		` { "a" : 1 , "b":null,"\u0063":{"d":[1, 2]},"a":"x" } `: `a=1;b=null;c={"d":[1, 2]};a="x";`,
	} {
		got := ""
		if ok := openai.Members(raw, func(name, value string) { got += name + "=" + value + ";" }); !ok || got != want {
			t.Errorf("Members(%s) visits %s, %v; want %s", raw, got, ok, want)
		}
	}
	for _, raw := range []string{``, `null`, `[]`, `"x"`, `{"a":1`, `{"a":1}}`, `{"a":[}`, `{"a":1,}`, strings.Repeat(`{"a":`, 2000)} {
		if openai.Members(raw, func(string, string) {}) {
			t.Errorf("Members(%.40s) takes it for an object", raw)
		}
	}
}
