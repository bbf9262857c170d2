package markers_test

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"oneslot/configs"
	"oneslot/proxy/probe/markers"
	"oneslot/reasoning"
)

// shipped are the rows that come with the program, by name.
func shipped(t *testing.T) []reasoning.Format {
	t.Helper()
	byName, err := (&configs.Config{}).FormatRows()
	if err != nil {
		t.Fatal(err)
	}
	var rows []reasoning.Format
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		rows = append(rows, byName[name])
	}
	return rows
}

const header = "<|turn|>\n<|assistant|>\n"

// sights are what an engine may show of a format whose prompt opens thinking, or
// does not.
func sights(f reasoning.Format, opens bool) map[string]markers.Sight {
	open, closer := f.Open[0], f.Close[0]
	out := map[string]markers.Sight{
		"raw":            {Raw: open + "so the queue" + closer + "\n\nOK"},
		"raw and prompt": {Raw: open + "so the queue" + closer + "\n\nOK", Tail: header},
		"rendered":       {Tail: header, Header: header, Before: header + open, Between: closer + "\n\n"},
		"parser":         {Tail: header, Splits: []string{f.Name}},
	}
	if opens {
		out = map[string]markers.Sight{
			"raw":            {Raw: "so the queue" + closer + "\n\nOK", Splits: []string{f.Name}},
			"raw and prompt": {Raw: "so the queue" + closer + "\n\nOK", Tail: header + open},
			"repeated":       {Raw: open + "so the queue" + closer + "\n\nOK", Tail: header + open + "\n"},
			"rendered":       {Tail: header + open, Header: header, Before: header + open, Between: closer + "\n\n"},
			"parser":         {Tail: header + open, Splits: []string{f.Name}},
		}
	}
	return out
}

// TestEveryShippedRow: whatever an engine shows of a format, its markers come
// out, and where its stream begins.
func TestEveryShippedRow(t *testing.T) {
	rows := shipped(t)
	tried := 0
	for _, row := range rows {
		if len(row.Open) == 0 {
			continue
		}
		for _, opens := range []bool{false, true} {
			for name, sight := range sights(row, opens) {
				tried++
				sight.Model = "someone/Something-7B"
				v := markers.Judge(rows, sight)
				start := reasoning.StartAnswer
				if opens {
					start = reasoning.StartThinking
				}
				if !v.Known || !v.Row.Verified || v.Row.StartsIn != start || v.StartIn == "" {
					t.Errorf("%s, prompt opens: %t, %s: %+v", row.Name, opens, name, v)
				}
				if !slices.Equal(v.Row.Open, row.Open) || !slices.Equal(v.Row.Close, row.Close) {
					t.Errorf("%s, prompt opens: %t, %s: markers %q %q", row.Name, opens, name, v.Row.Open, v.Row.Close)
				}
				if got := slices.Contains(v.Rows, row.Name); got != (row.StartsIn == start) {
					t.Errorf("%s, prompt opens: %t, %s: the rows that agree are %q", row.Name, opens, name, v.Rows)
				}
				if !reflect.DeepEqual(v.Row.Channels, row.Channels) || row.Channels != nil && v.Row.Validate() != nil {
					t.Errorf("%s, prompt opens: %t, %s: channels %+v", row.Name, opens, name, v.Row.Channels)
				}
				if v.Row.Name != "something-7b" || v.Row.Temperature != nil || v.Row.ToolOpen != nil {
					t.Errorf("%s: the row of another model was taken over: %+v", row.Name, v.Row)
				}
				if err := v.Row.Validate(); err != nil {
					t.Errorf("%s, prompt opens: %t, %s: %v", row.Name, opens, name, err)
				}
			}
		}
	}
	if tried < 100 {
		t.Errorf("only %d sights were tried", tried)
	}
}

// TestNames: a row is taken over only for a model that its name is part of.
func TestNames(t *testing.T) {
	raw := "<think>so</think>\n\nOK"
	for _, tt := range []struct {
		model, parser, tail string
		name                string
		tools               int
	}{
		{"ripple", "", header + "<think>", "ripple", 0},
		{"ricursiveAI/Ripple-65B-Preview", "", header + "<think>", "ripple", 0},
		{"default", "ripple", header + "<think>", "ripple", 0},
		{"Qwen/Qwen3-8B", "", header, "qwen3", 0},
		{"Qwen/Qwen3.5-27B", "", header + "<think>\n", "qwen3.5", 1},
		{"Qwen/Qwen3-30B-Thinking", "qwen3-thinking", header + "<think>\n", "qwen3-thinking", 0},
		{"Qwen/Qwen3-30B-Thinking", "", header + "<think>\n", "qwen3", 0}, // begins elsewhere than its row
		{"zai-org/GLM-4.5-Air", "", header, "glm-4.5", 1},
		{"/models/deepseek-r1-distill.gguf", "", header + "<think>\n", "deepseek-r1", 0},
		{"/models/Some Thing_v1.gguf", "", header, "some-thing-v1", 0},
		{"", "", header, "probed", 0},
		{"../..", "", header, "probed", 0},
	} {
		v := markers.Judge(shipped(t), markers.Sight{Model: tt.model, Parser: tt.parser, Raw: strings.TrimPrefix(raw, "<think>"), Tail: tt.tail})
		if strings.TrimSpace(tt.tail) == strings.TrimSpace(header) {
			v = markers.Judge(shipped(t), markers.Sight{Model: tt.model, Parser: tt.parser, Raw: raw, Tail: tt.tail})
		}
		wantStart := reasoning.StartAnswer
		if strings.Contains(tt.tail, "think") {
			wantStart = reasoning.StartThinking
		}
		if v.Row.Name != tt.name || len(v.Row.ToolOpen) != tt.tools || v.Row.StartsIn != wantStart {
			t.Errorf("%q, %q: row %+v, want %s", tt.model, tt.parser, v.Row, tt.name)
		}
		if tt.name == "ripple" && (v.Row.Temperature == nil || !v.Row.Verified) {
			t.Errorf("%q: %+v, want the temperature of the shipped row, verified", tt.model, v.Row)
		}
	}
}

// TestWhatIsMissing: half a sight is told as half.
func TestWhatIsMissing(t *testing.T) {
	for _, tt := range []struct {
		name  string
		sight markers.Sight
		want  markers.Verdict
	}{
		{
			"nothing", markers.Sight{Model: "m"}, markers.Verdict{},
		},
		{
			"text without markers", markers.Sight{Model: "m", Raw: "OK, of course.", Tail: header}, markers.Verdict{},
		},
		{
			"the opener in the output only",
			markers.Sight{Model: "m", Raw: "[THINK]so the queue"},
			markers.Verdict{
				Known: true, Open: "[THINK]", OpenIn: "raw output", StartIn: "the model writes the opener", Rows: []string{"mistral"},
				Row: reasoning.Format{Name: "m", Open: []string{"[THINK]"}, Close: []string{"[/THINK]"}, StartsIn: reasoning.StartAnswer, OffPrefill: "[/THINK]"},
			},
		},
		{
			"the closer in the output only",
			markers.Sight{Model: "m", Raw: "so[/THINK]OK"},
			markers.Verdict{
				Known: true, Close: "[/THINK]", CloseIn: "raw output", StartIn: "the model writes the closer without an opener",
				Row: reasoning.Format{Name: "m", Open: []string{"[THINK]"}, Close: []string{"[/THINK]"}, StartsIn: reasoning.StartThinking, OffPrefill: "[/THINK]"},
			},
		},
		{
			"both, in the source of the template only",
			markers.Sight{Model: "m", Template: "{{ '[THINK]' + message.reasoning + '[/THINK]' }}"},
			markers.Verdict{
				Known: true, Open: "[THINK]", OpenIn: "the chat template", Close: "[/THINK]", CloseIn: "the chat template", Rows: []string{"mistral"},
				Row: reasoning.Format{Name: "m", Open: []string{"[THINK]"}, Close: []string{"[/THINK]"}, StartsIn: reasoning.StartAnswer, OffPrefill: "[/THINK]", Verified: true},
			},
		},
		{
			"both, of rows that begin in two places",
			markers.Sight{Model: "m", Template: "'<think>' '</think>'"},
			markers.Verdict{
				Known: true, Open: "<think>", OpenIn: "the chat template", Close: "</think>", CloseIn: "the chat template",
				Rows: []string{"deepseek-r1", "glm-4.5", "kimi-k2", "olmo3", "qwen3", "qwen3-thinking", "qwen3.5", "ripple", "think-model", "think-model-special", "think-prompt", "think-prompt-special"},
				Row:  reasoning.Format{Name: "m", Open: []string{"<think>"}, Close: []string{"</think>"}, StartsIn: reasoning.StartAuto, OffPrefill: "</think>", Verified: true},
			},
		},
		{
			"an opener that a source names", markers.Sight{Model: "m", Template: "{# [THINK] is not used #}"}, markers.Verdict{},
		},
		{
			"an opener in the middle of an answer", markers.Sight{Model: "m", Raw: "I write [THINK] never.", Tail: header}, markers.Verdict{},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := markers.Judge(shipped(t), tt.sight); !reflect.DeepEqual(got, tt.want) {
				t.Errorf("got  %+v\nwant %+v", got, tt.want)
			}
		})
	}
}

// TestUnknownMarkers are taken out of a rendered conversation.
func TestUnknownMarkers(t *testing.T) {
	for _, tt := range []struct {
		name         string
		sight        markers.Sight
		open, closer string
		off          string
		start        reasoning.State
		verified     bool
	}{
		{
			name:  "the model opens",
			sight: markers.Sight{Raw: "<musing>so</musing>\nOK", Tail: header, Header: header, Before: header + "<musing>\n", Between: "\n</musing>\n"},
			open:  "<musing>", closer: "</musing>", off: "</musing>\n", start: reasoning.StartAnswer, verified: true,
		},
		{
			name:  "the prompt opens",
			sight: markers.Sight{Tail: header + "<musing>\n", Header: header, Before: header + "<musing>\n", Between: "\n</musing>\n\n"},
			open:  "<musing>", closer: "</musing>", off: "</musing>\n\n", start: reasoning.StartThinking, verified: true,
		},
		{
			name:  "the prompt opens, no plain turn was shown",
			sight: markers.Sight{Tail: header, Before: header + "<musing>", Between: "</musing>"},
			open:  "<musing>", closer: "</musing>", off: "</musing>", start: reasoning.StartAnswer,
		},
		{
			name:  "the opener begins as the answer's does",
			sight: markers.Sight{Tail: header, Header: header + "<|say|>", Before: header + "<|muse|>", Between: "<|say|>"},
			open:  "<|muse|>", closer: "<|say|>", off: "<|say|>", start: reasoning.StartAnswer,
		},
		{
			name:  "thinking without an end of its own",
			sight: markers.Sight{Tail: header, Header: header, Before: header + "<musing>", Between: "\n"},
		},
		{
			name:  "thinking that is not set apart",
			sight: markers.Sight{Tail: header, Header: header, Before: header, Between: "\n\n"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.sight.Model = "muse-1"
			v := markers.Judge(shipped(t), tt.sight)
			if tt.open == "" {
				if v.Known {
					t.Fatalf("got %+v, want nothing", v)
				}
				return
			}
			if v.Open != tt.open || v.Close != tt.closer || v.Row.StartsIn != tt.start || v.Row.Verified != tt.verified || v.Row.OffPrefill != tt.off {
				t.Errorf("got %+v", v)
			}
			if v.Rows != nil || v.Row.Name != "muse-1" || v.Row.Validate() != nil {
				t.Errorf("row %+v, rows %q: %v", v.Row, v.Rows, v.Row.Validate())
			}
		})
	}
}

// TestOffPrefill: what closes thinking is as it was seen, unless the row knows
// more than a closer and blanks.
func TestOffPrefill(t *testing.T) {
	for _, tt := range []struct {
		name, model, raw, between string
		want                      string
	}{
		{"from the output", "ripple", "so</think>\n\nOK", "", "</think>\n\n"},
		{"from the output, nothing between", "ripple", "so</think>OK", "", "</think>"},
		{"from the template, against the output", "ripple", "so</think>OK", "</think>\n", "</think>\n"},
		{"cut behind the closer", "qwen3", "so</think>\n", "", "</think>\n\n"},
		{"cut behind the closer, no row", "m", "so</think>\n", "", "</think>"},
		{"the row opens the answer", "kimi-k3", "so<|close|>think<|sep|><|open|>response<|sep|>OK", "", "<|close|>think<|sep|><|open|>response<|sep|>"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tail := header + "<think>"
			if strings.Contains(tt.raw, "<|close|>") {
				tail = header + "<|open|>think<|sep|>"
			}
			v := markers.Judge(shipped(t), markers.Sight{Model: tt.model, Raw: tt.raw, Tail: tail, Between: tt.between})
			if v.Row.OffPrefill != tt.want {
				t.Errorf("got %q, want %q", v.Row.OffPrefill, tt.want)
			}
		})
	}
}

// TestGivenRowsAreNotChanged, since they are shared.
func TestGivenRowsAreNotChanged(t *testing.T) {
	rows := shipped(t)
	before := slices.Clone(rows)
	markers.Judge(rows, markers.Sight{Model: "ripple", Raw: "so</think>OK", Tail: header + "<think>"})
	if !reflect.DeepEqual(rows, before) {
		t.Error("a row was changed")
	}
}
