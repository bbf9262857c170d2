package usage_test

import (
	"encoding/json"
	"testing"

	"oneslot/usage"
)

func TestWire(t *testing.T) {
	for _, tc := range []struct {
		name    string
		report  func(t *testing.T) usage.Report
		sources bool
		want    string
		whole   bool
	}{
		{
			name: "everything known",
			report: func(t *testing.T) usage.Report {
				m := usage.NewMeter(usage.Config{})
				play(t, m, []step{{"r" + mark + "a", ""}, {"", `{"prompt_tokens":20,"completion_tokens":9,"total_tokens":29,"reasoning_tokens":7,` +
					`"prompt_tokens_details":{"cached_tokens":5,"text_tokens":20},"completion_tokens_details":{"accepted_prediction_tokens":2,"rejected_prediction_tokens":3,"audio_tokens":0},"cost":0.5}`}}, mark)
				return m.Report(t.Context())
			},
			want: `{"prompt_tokens":20,"completion_tokens":9,"total_tokens":29,` +
				`"completion_tokens_details":{"reasoning_tokens":7,"text_tokens":2,"accepted_prediction_tokens":2,"rejected_prediction_tokens":3,"audio_tokens":0},` +
				`"prompt_tokens_details":{"cached_tokens":5,"text_tokens":20},"cost":0.5}`,
			whole: true,
		},
		{
			name: "cached unknown",
			report: func(t *testing.T) usage.Report {
				m := usage.NewMeter(usage.Config{})
				play(t, m, []step{{"r" + mark + "a", ""}, {"", `{"prompt_tokens":1500,"completion_tokens":300,"total_tokens":1800,"completion_tokens_details":{"reasoning_tokens":288}}`}}, mark)
				return m.Report(t.Context())
			},
			want:  `{"prompt_tokens":1500,"completion_tokens":300,"total_tokens":1800,"completion_tokens_details":{"reasoning_tokens":288,"text_tokens":12}}`,
			whole: true,
		},
		{
			name: "cached unknown, a member of its details kept",
			report: func(t *testing.T) usage.Report {
				m := usage.NewMeter(usage.Config{})
				m.Add(usage.Piece{Answer: "a", Totals: totals(t, `{"prompt_tokens":1,"completion_tokens":1,"prompt_tokens_details":{"cache_write_tokens":null}}`)})
				return m.Report(t.Context())
			},
			want:  `{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2,"completion_tokens_details":{"reasoning_tokens":0,"text_tokens":1},"prompt_tokens_details":{"cache_write_tokens":null}}`,
			whole: true,
		},
		{
			name:    "nothing known, with sources",
			report:  func(t *testing.T) usage.Report { return usage.NewMeter(usage.Config{}).Report(t.Context()) },
			sources: true,
			want:    `{"oneslot":{"sources":{"prompt":"unknown","cached_prompt":"unknown","thinking":"unknown","answer":"unknown","completion":"unknown","drafts_accepted":"unknown"}}}`,
		},
		{
			name: "sources of a request that never ran",
			report: func(*testing.T) usage.Report {
				return usage.Report{Tokens: usage.NotRun()}
			},
			sources: true,
			want: `{"completion_tokens":0,"completion_tokens_details":{"reasoning_tokens":0,"text_tokens":0},` +
				`"oneslot":{"sources":{"prompt":"unknown","cached_prompt":"unknown","thinking":"not_run","answer":"not_run","completion":"not_run","drafts_accepted":"unknown"}}}`,
		},
		{name: "the zero report", report: func(*testing.T) usage.Report { return usage.Report{} }, want: `{}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := tc.report(t).Wire(tc.sources)
			if line := string(got.AppendJSON(nil)); line != tc.want {
				t.Errorf("got  %s\nwant %s", line, tc.want)
			}
			if got.Complete() != tc.whole {
				t.Errorf("Complete() = %v", got.Complete())
			}
			line, err := json.Marshal(got)
			if err != nil || string(line) != tc.want {
				t.Errorf("json.Marshal: %s, %v", line, err)
			}
		})
	}
}

func TestCountJSON(t *testing.T) {
	for _, tc := range []struct {
		count usage.Count
		want  string
	}{
		{num(812, usage.Engine), `{"n":812,"source":"engine"}`},
		{num(0, usage.EngineSetup), `{"n":0,"source":"engine_config"}`},
		{num(0, usage.DidNotRun), `{"n":0,"source":"not_run"}`},
		{unknown, `{"n":null,"source":"unknown"}`},
		{usage.Count{}, `{"n":null,"source":"unknown"}`},
		{usage.Count{N: 7, Source: usage.Unknown}, `{"n":null,"source":"unknown"}`},
	} {
		got, err := json.Marshal(tc.count)
		if err != nil || string(got) != tc.want {
			t.Errorf("%+v = %s, %v; want %s", tc.count, got, err, tc.want)
		}
		var back usage.Count
		if err := json.Unmarshal(got, &back); err != nil || back.Known() != tc.count.Known() || back.Known() && back != tc.count {
			t.Errorf("%s reads as %+v, %v", got, back, err)
		}
	}
	var c usage.Count
	if err := json.Unmarshal([]byte(`{"n":"many"}`), &c); err == nil {
		t.Error("a text is read as a count")
	}
	if err := json.Unmarshal([]byte(`{"n":null,"source":"engine"}`), &c); err != nil || c.Known() {
		t.Errorf("null reads as %+v, %v", c, err)
	}
}

func BenchmarkAppendJSON(b *testing.B) {
	r := usage.Report{Tokens: usage.Tokens{Prompt: num(1, usage.Engine), Thinking: num(2, usage.Engine), Answer: num(3, usage.Engine), Completion: num(5, usage.Engine)}}
	buf := make([]byte, 0, 512)
	b.ReportAllocs()
	for b.Loop() {
		buf = r.Wire(true).AppendJSON(buf[:0])
	}
}
