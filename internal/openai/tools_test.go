package openai_test

import (
	"encoding/json"
	"strings"
	"testing"

	"oneslot/internal/openai"
)

func TestToolCalls(t *testing.T) {
	for _, c := range []struct {
		name   string
		deltas []string
		want   string
	}{
		{"none", nil, ``},
		{"fragments of one index in one delta", []string{
			`[{"index":0,"id":"k","type":"function","function":{"name":"f"}},{"index":0,"function":{"arguments":"{\"a\""}}]`,
			`[{"index":0,"function":{"arguments":":1}"}}]`,
		}, `[{"id":"k","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}}]`},
		{"parallel calls, interleaved", []string{
			`[{"index":0,"id":"a","function":{"name":"f","arguments":"{"}},{"index":1,"id":"b","function":{"name":"g","arguments":"["}}]`,
			`[{"index":1,"function":{"arguments":"]"}}]`,
			`[{"index":0,"function":{"arguments":"}"}}]`,
		}, `[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}},{"id":"b","type":"function","function":{"name":"g","arguments":"[]"}}]`},
		{"the index orders them", []string{
			`[{"index":3,"id":"c","function":{"name":"h","arguments":""}}]`,
			`[{"index":1,"id":"a","function":{"name":"f","arguments":""}}]`,
		}, `[{"id":"a","type":"function","function":{"name":"f","arguments":""}},{"id":"c","type":"function","function":{"name":"h","arguments":""}}]`},
		{"without an index", []string{
			`[{"id":"a","function":{"name":"f","arguments":"{"}}]`,
			`[{"function":{"arguments":"}"}}]`,
		}, `[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}]`},
		{"whole calls without an index", []string{
			`[{"id":"a","function":{"name":"f","arguments":"{}"}},{"id":"b","function":{"name":"g","arguments":"{}"}}]`,
		}, `[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}},{"id":"b","type":"function","function":{"name":"g","arguments":"{}"}}]`},
		{"null keys, and the id again", []string{
			`[{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":""}}]`,
			`[{"index":0,"id":"a","type":null,"function":{"name":null,"arguments":"{}"}}]`,
		}, `[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}]`},
		{
			"arguments as an object",
			[]string{`[{"index":0,"id":"a","function":{"name":"f","arguments":{"x":1}}}]`},
			`[{"id":"a","type":"function","function":{"name":"f","arguments":"{\"x\":1}"}}]`,
		},
		{"a custom tool", []string{
			`[{"index":0,"id":"a","type":"custom","custom":{"name":"sql","input":"SELECT "}}]`,
			`[{"index":0,"custom":{"input":"1"}}]`,
		}, `[{"id":"a","type":"custom","custom":{"name":"sql","input":"SELECT 1"}}]`},
		{"nonsense", []string{`{}`, `[]`, `[1]`, `"x"`, `null`}, ``},
	} {
		t.Run(c.name, func(t *testing.T) {
			var calls openai.ToolCalls
			for _, d := range c.deltas {
				calls.Add(d)
			}
			got := string(calls.JSON())
			if got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			if got != "" && !json.Valid([]byte(got)) {
				t.Errorf("not JSON: %s", got)
			}
		})
	}
}

func TestToolCallsManyFragments(t *testing.T) {
	var calls openai.ToolCalls
	calls.Add(`[{"index":0,"id":"a","function":{"name":"f","arguments":""}}]`)
	for range 10_000 {
		calls.Add(`[{"index":0,"function":{"arguments":"0123456789"}}]`)
	}
	if got := string(calls.JSON()); !strings.Contains(got, strings.Repeat("0123456789", 10_000)) {
		t.Errorf("the fragments make %d bytes", len(got))
	}
}

// TestRefusal: words are a string; anything else under the name is none.
func TestRefusal(t *testing.T) {
	for members, want := range map[string]string{
		"": "", `"x":1`: "", `"refusal":null`: "", `"refusal":7`: "", `"refusal":""`: "",
		`"x":{"refusal":"inner"}`: "", `"x":1,"refusal":"I won\u0027t","y":[2]`: "I won't",
	} {
		if got := openai.Refusal(members); got != want {
			t.Errorf("%s: got %q, want %q", members, got, want)
		}
	}
}
