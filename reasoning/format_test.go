package reasoning_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"oneslot/reasoning"
)

// TestValidate wants every fault, each by the name of its field.
func TestValidate(t *testing.T) {
	good := func(change func(*reasoning.Format)) reasoning.Format {
		f := reasoning.Format{Name: "x", Open: []string{"<o>"}, Close: []string{"<c>"}, StartsIn: reasoning.StartAnswer}
		change(&f)
		return f
	}
	warm := 3.0
	for _, tt := range []struct {
		name   string
		format reasoning.Format
		faults []string
	}{
		{"good", good(func(*reasoning.Format) {}), nil},
		{"no markers", reasoning.Format{Name: "x"}, nil},
		{"no opener, opened by the prompt", good(func(f *reasoning.Format) { f.Open, f.StartsIn = nil, reasoning.StartThinking }), nil},
		{"closer is a control token", good(func(f *reasoning.Format) { f.MarkersSpecial, f.ControlTokens = true, f.Close }), nil},
		{"no name", good(func(f *reasoning.Format) { f.Name = "" }), []string{`"": name: is missing`}},
		{"blank in the name", good(func(f *reasoning.Format) { f.Name = "a b" }), []string{"name: holds white space"}},
		{"empty spellings", good(func(f *reasoning.Format) {
			f.Open, f.Close, f.ToolOpen = []string{"<o>", ""}, []string{"", "<c>"}, []string{""}
		}), []string{"open[1]: is empty", "close[0]: is empty", "tool_open[0]: is empty"}},
		{"blank spelling", good(func(f *reasoning.Format) { f.Close = []string{"\n\n"} }), []string{"close[0]: is nothing but white space"}},
		{"no text", good(func(f *reasoning.Format) { f.Open = []string{"\xff"} }), []string{"open[0]: \"\\xff\" is not valid UTF-8"}},
		{"twice", good(func(f *reasoning.Format) { f.Close = []string{"<c>", "<d>", "<c>"} }), []string{`close[2]: "<c>" stands twice`}},
		{"two meanings", good(func(f *reasoning.Format) {
			f.Close, f.ToolOpen = []string{"<c>", "<o>"}, []string{"<c>", "<o>", "<t>"}
			f.MarkersSpecial, f.ControlTokens = true, []string{"<t>"}
		}), []string{
			`close[1]: "<o>" is also in open`, `tool_open[1]: "<o>" is also in open`, `tool_open[0]: "<c>" is also in close`,
			`tool_open[1]: "<o>" is also in close`, `tool_open[2]: "<t>" is also in control_tokens`,
		}},
		{"no start", good(func(f *reasoning.Format) { f.StartsIn = 0 }), []string{"starts_in: is missing"}},
		{"start of a prefill", good(func(f *reasoning.Format) {
			f.StartsIn, f.ConstrainedStartsIn, f.Otherwise = reasoning.StartClosed, reasoning.StartMidAnswer, reasoning.StartAuto
		}), []string{`starts_in: "closed" is not`, `constrained_starts_in: "mid-answer" is not`, `otherwise: "auto" is not`}},
		{"otherwise without auto", good(func(f *reasoning.Format) { f.Otherwise = reasoning.StartThinking }), []string{"otherwise: counts only with"}},
		{"no closer", good(func(f *reasoning.Format) { f.Close = nil }), []string{"close: is missing"}},
		{"no closer, opened by the prompt", reasoning.Format{Name: "x", StartsIn: reasoning.StartThinking}, []string{"close: is missing"}},
		{"tool opener alone", reasoning.Format{Name: "x", ToolOpen: []string{"<t>"}, StartsIn: reasoning.StartAnswer}, []string{"close: is missing"}},
		{"no opener", good(func(f *reasoning.Format) { f.Open = nil }), []string{"open: is missing"}},
		{"history", good(func(f *reasoning.Format) { f.History = 9 }), []string{"history: 9 is not"}},
		{"control tokens of ordinary text", good(func(f *reasoning.Format) { f.ControlTokens = []string{"<e>"} }), []string{"control_tokens: needs markers_special"}},
		{"prefill that closes nothing", good(func(f *reasoning.Format) { f.OffPrefill = "<o>" }), []string{`off_prefill: "<o>" holds no closer`}},
		{"channels", reasoning.Format{Name: "x", StartsIn: reasoning.StartAnswer, Channels: &reasoning.Channels{
			Channel: []string{"<c>"}, Message: []string{"<m>"}, Thinking: []string{"t"},
		}}, nil},
		{"channels without anything", good(func(f *reasoning.Format) {
			f.StartsIn, f.Channels, f.ToolOpen = 0, &reasoning.Channels{End: []string{"e", "e"}, Last: []string{"", "e"}}, []string{"<t>"}
			f.MarkersSpecial, f.ControlTokens = true, []string{"<k>"}
		}), []string{
			`channels.end[1]: "e" stands twice`, "channels.last[0]: is empty", "tool_open: has no meaning with channels",
			"control_tokens: has no meaning with channels", "channels.channel: is missing", "channels.message: is missing",
			"channels.thinking: is missing", `channels.last[1]: "e" is also in channels.end`, "starts_in: is missing",
		}},
		{"too warm", good(func(f *reasoning.Format) { f.Temperature = &warm }), []string{"temperature: 3 is not between"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.format.Validate()
			if err == nil {
				if len(tt.faults) > 0 {
					t.Fatal("no fault")
				}
				return
			}
			if !errors.Is(err, reasoning.ErrFormat) {
				t.Errorf("%v is no ErrFormat", err)
			}
			if lines := strings.Split(err.Error(), "\n"); len(lines) != len(tt.faults) {
				t.Errorf("%d faults, want %d: %v", len(lines), len(tt.faults), err)
			}
			for _, fault := range tt.faults {
				if !strings.Contains(err.Error(), fault) {
					t.Errorf("%q does not say %q", err, fault)
				}
			}
		})
	}
}

// TestFormatText reads a row with every key and writes it back.
func TestFormatText(t *testing.T) {
	zero := 0.0
	want := reasoning.Format{
		Name: "x", Open: []string{"<o>"}, Close: []string{"<c>", "<d>"}, StartsIn: reasoning.StartAuto, Otherwise: reasoning.StartThinking,
		ToolOpen: []string{"<t>"}, ConstrainedStartsIn: reasoning.StartThinking, History: reasoning.HistoryDrop, MarkersSpecial: true,
		ControlTokens: []string{"<e>"}, OffPrefill: "<c>\n", Temperature: &zero, Verified: true,
	}
	const row = `{"name":"x","open":["<o>"],"close":["<c>","<d>"],"starts_in":"auto","otherwise":"thinking","tool_open":["<t>"],` +
		`"constrained_starts_in":"thinking","history":"drop","markers_special":true,"control_tokens":["<e>"],"off_prefill":"<c>\n","temperature":0,"verified":true}`
	for name, codec := range map[string]struct {
		read  func([]byte, any) error
		write func(any) ([]byte, error)
	}{"json": {json.Unmarshal, json.Marshal}, "yaml": {yaml.Unmarshal, yaml.Marshal}} {
		t.Run(name, func(t *testing.T) {
			var got, again reasoning.Format
			if err := codec.read([]byte(row), &got); err != nil || !reflect.DeepEqual(got, want) {
				t.Fatalf("%+v, %v; want %+v", got, err, want)
			}
			text, err := codec.write(want)
			if err != nil {
				t.Fatal(err)
			}
			if err := codec.read(text, &again); err != nil || !reflect.DeepEqual(again, want) {
				t.Errorf("written as %s and read as %+v, %v", text, again, err)
			}
			wantValid(t, again)
			if text, err := codec.write(reasoning.Format{Name: "x"}); err != nil || strings.Contains(string(text), "start") {
				t.Errorf("a row with a name is %s, %v", text, err)
			}
		})
	}
}

// TestEnumText: what cannot be said in a configuration is refused in words.
func TestEnumText(t *testing.T) {
	var s reasoning.State
	if err := s.UnmarshalText([]byte("closed")); !errors.Is(err, reasoning.ErrFormat) || !strings.Contains(err.Error(), "want thinking, answer or auto") {
		t.Errorf("state: %v", err)
	}
	if err := s.UnmarshalText(nil); err != nil || s != 0 {
		t.Errorf("no state: %v, %v", s, err)
	}
	if _, err := reasoning.StartClosed.MarshalText(); !errors.Is(err, reasoning.ErrFormat) {
		t.Errorf("state of a prefill: %v", err)
	}
	h := reasoning.HistoryDrop
	if err := h.UnmarshalText([]byte("some")); !errors.Is(err, reasoning.ErrFormat) || !strings.Contains(err.Error(), "keep_last_tool_turn") {
		t.Errorf("history: %v", err)
	}
	if err := h.UnmarshalText(nil); err != nil || h != reasoning.HistoryKeep {
		t.Errorf("no history: %v, %v", h, err)
	}
	if _, err := reasoning.History(7).MarshalText(); !errors.Is(err, reasoning.ErrFormat) {
		t.Errorf("history 7: %v", err)
	}
	for _, rule := range []reasoning.History{reasoning.HistoryKeep, reasoning.HistoryKeepLastToolTurn, reasoning.HistoryDrop} {
		text, err := rule.MarshalText()
		if err != nil || h.UnmarshalText(text) != nil || h != rule {
			t.Errorf("%v is written %q, %v, and read %v", rule, text, err, h)
		}
	}
}

// TestNames: labels and logs never show a number.
func TestNames(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range append(starts, 99) {
		if seen[s.String()] {
			t.Errorf("two states named %q", s)
		}
		seen[s.String()] = true
	}
	for kind, want := range map[reasoning.Kind]string{0: "unknown", reasoning.Thinking: "thinking", reasoning.Answer: "answer"} {
		if kind.String() != want {
			t.Errorf("%q, want %q", kind, want)
		}
	}
	if reasoning.History(9).String() != "unknown" {
		t.Error("history 9 has a name")
	}
}
