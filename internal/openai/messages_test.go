package openai_test

import (
	"encoding/json"
	"strings"
	"testing"

	"oneslot/internal/openai"
)

func TestForwardMessages(t *testing.T) {
	keep := openai.Forwarding{ThinkingField: "reasoning_content"}
	for _, c := range []struct {
		name string
		how  openai.Forwarding
		in   string
		want string // empty: as it came
	}{
		{"nothing to do", keep, `[ {"role":"system","content":"s"} , {"role":"user", "content":"hi"} ]`, ""},
		{"empty", keep, `[]`, ""},
		{"nulls are kept", keep, `[{"role":"user","content":"a"},{"role":"assistant","content":null,"tool_calls":[{"id":"k","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"k","content":"1"},{"role":"assistant","content":"","tool_calls":null},{"role":"user","content":"b"}]`, ""},
		{"parts are kept", keep, `[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}]`, ""},
		{"unknown members are kept", keep, `[{"role":"user","content":"a","x":{"deep":[1,null]}}]`, ""},

		{
			"developer", keep, `[{"role":"developer","content":"Answer in Latin."},{"role":"user","content":"hi"}]`,
			`[{"role":"system","content":"Answer in Latin."},{"role":"user","content":"hi"}]`,
		},
		{"developer keeps its other members", keep, `[{"content":"a","name":"n","role":"developer","x":null}]`, `[{"content":"a","name":"n","role":"system","x":null}]`},
		{"developer in the middle", keep, `[{"role":"user","content":"a"},{"role":"developer","content":"b"}]`, `[{"role":"user","content":"a"},{"role":"system","content":"b"}]`},
		{"developer with parts", keep, `[{"role":"developer","content":[{"type":"text","text":"a"}]}]`, `[{"role":"system","content":[{"type":"text","text":"a"}]}]`},

		{
			"leading ones are joined", keep, `[{"role":"system","content":"a\n"},{"role":"developer","content":"b \u00e9"},{"role":"system","content":"c"},{"role":"user","content":"hi"}]`,
			`[{"role":"system","content":"a\n\n\nb \u00e9\n\nc"},{"role":"user","content":"hi"}]`,
		},
		{"an empty one adds no blank line", keep, `[{"role":"system","content":""},{"role":"system","content":"b"}]`, `[{"role":"system","content":"b"}]`},
		{"later ones are not joined", keep, `[{"role":"user","content":"a"},{"role":"system","content":"b"},{"role":"system","content":"c"}]`, ""},
		{
			"parts are not joined", keep, `[{"role":"system","content":[{"type":"text","text":"a"}]},{"role":"system","content":"b"},{"role":"system","content":"c"}]`,
			`[{"role":"system","content":[{"type":"text","text":"a"}]},{"role":"system","content":"b\n\nc"}]`,
		},
		{"named ones are not joined", keep, `[{"role":"system","content":"a","name":"x"},{"role":"system","content":"b"}]`, ""},

		{"thinking is kept", keep, `[{"role":"user","content":"a"},{"role":"assistant","content":"b","reasoning_content":"c"},{"role":"user","content":"d"}]`, ""},
		{"thinking is renamed", keep, `[{"role":"assistant","reasoning":"c\u0021","content":"b"}]`, `[{"role":"assistant","reasoning_content":"c\u0021","content":"b"}]`},
		{"never both names", keep, `[{"role":"assistant","reasoning":"c","reasoning_content":"c","content":"b"}]`, `[{"role":"assistant","reasoning_content":"c","content":"b"}]`},
		{"a null name does not count", keep, `[{"role":"assistant","reasoning_content":null,"reasoning":"c","content":"b"}]`, `[{"role":"assistant","reasoning_content":"c","content":"b"}]`},
		{
			"details become text", keep, `[{"role":"assistant","content":"b","reasoning_details":[{"type":"reasoning.text","text":"c","index":0},{"type":"reasoning.summary","summary":"\"d"}]}]`,
			`[{"role":"assistant","content":"b","reasoning_content":"c\"d"}]`,
		},
		{"names stay for an engine of unknown taste", openai.Forwarding{}, `[{"role":"assistant","reasoning":"c","content":"b"}]`, ""},
		{"of a user it is no thinking", keep, `[{"role":"user","reasoning":"c","content":"b"}]`, ""},

		{"dropped", openai.Forwarding{History: openai.DropThinking}, `[{"role":"assistant","reasoning":"c","reasoning_content":"c","content":"b"},{"role":"user","content":"d"}]`, `[{"role":"assistant","content":"b"},{"role":"user","content":"d"}]`},
		{
			"thinking parts go where the engine reads", keep, `[{"role":"assistant","content":[{"type":"thinking","thinking":"c"},{"type":"text","text":"b"},{"type":"redacted_thinking","data":"x"}]}]`,
			`[{"role":"assistant","content":[{"type":"text","text":"b"}],"reasoning_content":"c"}]`,
		},
		{
			"thinking parts are dropped",
			openai.Forwarding{History: openai.DropThinking},
			`[{"role":"assistant","content":[{"type":"reasoning","text":"c"},{"type":"text","text":"b"}]}]`,
			`[{"role":"assistant","content":[{"type":"text","text":"b"}]}]`,
		},
		{"markers in content", splitting(openai.KeepThinking), `[{"role":"assistant","content":"<c>b"},{"role":"user","content":"<c>b"}]`, `[{"role":"assistant","content":"b","reasoning_content":"c"},{"role":"user","content":"<c>b"}]`},
		{"markers in content, dropped", splitting(openai.DropThinking), `[{"role":"assistant","content":"<c>b"}]`, `[{"role":"assistant","content":"b"}]`},
		{"a prefill stays", prefilled(splitting(openai.DropThinking)), `[{"role":"assistant","content":"<c>b"}]`, ""},
		{
			"only the tool turn's is kept",
			openai.Forwarding{History: openai.KeepToolTurn, ThinkingField: "reasoning_content"},
			`[{"role":"user","content":"a"},{"role":"assistant","reasoning":"old","content":"b"},{"role":"user","content":"c"},{"role":"assistant","reasoning":"new","content":null},{"role":"tool","content":"1"}]`,
			`[{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"role":"user","content":"c"},{"role":"assistant","reasoning_content":"new","content":null},{"role":"tool","content":"1"}]`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			want := c.want
			if want == "" {
				want = c.in
			}
			got := openai.ForwardMessages(c.in, c.how)
			if got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
			if !json.Valid([]byte(got)) {
				t.Errorf("not JSON: %s", got)
			}
			if again := openai.ForwardMessages(got, c.how); again != got {
				t.Errorf("a second time gives %s", again)
			}
		})
	}
}

// FuzzForwardMessages demands that any list stays a list, and that one without
// anything to change is not touched.
func FuzzForwardMessages(f *testing.F) {
	for _, seed := range []string{`[]`, `[{"role":"developer","content":"a"},{"role":"system","content":"b"}]`, `[{"role":"assistant","reasoning":"x"}]`, `[1,"a",[],{"role":{}}]`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, in string) {
		if !json.Valid([]byte(in)) || in == "" || in[0] != '[' {
			return
		}
		out := openai.ForwardMessages(in, openai.Forwarding{ThinkingField: "reasoning_content"})
		var before, after []json.RawMessage
		if err := json.Unmarshal([]byte(out), &after); err != nil {
			t.Fatalf("%q became %q: %v", in, out, err)
		}
		if err := json.Unmarshal([]byte(in), &before); err != nil {
			t.Fatal(err)
		}
		if len(after) > len(before) || len(after) == 0 && len(before) > 0 {
			t.Fatalf("%q became %q", in, out)
		}
	})
}

// splitting has a marker format of one letter between angle brackets.
func splitting(h openai.History) openai.Forwarding {
	return openai.Forwarding{History: h, ThinkingField: "reasoning_content", Split: func(text string) (string, string, bool) {
		thinking, answer, ok := strings.Cut(strings.TrimPrefix(text, "<"), ">")
		if !ok || !strings.HasPrefix(text, "<") {
			return "", text, false
		}
		return thinking, answer, true
	}}
}

func prefilled(f openai.Forwarding) openai.Forwarding {
	f.Prefill = true
	return f
}
