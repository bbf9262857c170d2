package usage_test

import (
	"encoding/json"
	"strings"
	"testing"

	"oneslot/usage"
)

func told(n int) usage.Figure { return usage.Figure{N: n, Known: true} }

func TestParseTotals(t *testing.T) {
	for _, tc := range []struct {
		name, raw string
		want      usage.Totals
		ok        bool
	}{
		{
			name: "SGLang",
			raw:  `{"prompt_tokens":16,"total_tokens":122,"completion_tokens":106,"prompt_tokens_details":null,"reasoning_tokens":98}`,
			want: usage.Totals{Prompt: told(16), Completion: told(106), Thinking: told(98)}, ok: true,
		},
		{
			name: "vLLM",
			raw:  `{"prompt_tokens":16,"total_tokens":87,"completion_tokens":71,"prompt_tokens_details":{"cached_tokens":0,"created_cache_tokens":0},"completion_tokens_details":{"reasoning_tokens":61}}`,
			want: usage.Totals{
				Prompt: told(16), Completion: told(71), Thinking: told(61), Cached: told(0),
				Extra: usage.Extra{Prompt: `"created_cache_tokens":0`},
			}, ok: true,
		},
		{
			name: "llama.cpp",
			raw:  `{"completion_tokens":78,"prompt_tokens":17,"total_tokens":95,"prompt_tokens_details":{"cached_tokens":16}}`,
			want: usage.Totals{Prompt: told(17), Completion: told(78), Cached: told(16)}, ok: true,
		},
		{
			name: "drafts",
			raw:  `{"completion_tokens":9,"completion_tokens_details":{"accepted_prediction_tokens":5,"rejected_prediction_tokens":7,"text_tokens":3,"audio_tokens":0}}`,
			want: usage.Totals{Completion: told(9), DraftsAccepted: told(5), DraftsRejected: told(7), Extra: usage.Extra{Completion: `"audio_tokens":0`}}, ok: true,
		},
		{
			name: "a null and an unknown field",
			raw:  `{"prompt_tokens":10,"completion_tokens":3,"total_tokens":13,"prompt_tokens_details":{"cached_tokens":0,"cache_write_tokens":null},"completion_tokens_details":null}`,
			want: usage.Totals{Prompt: told(10), Completion: told(3), Cached: told(0), Extra: usage.Extra{Prompt: `"cache_write_tokens":null`}}, ok: true,
		},
		{
			name: "unknown fields, brought onto one line",
			raw:  "{\"completion_tokens\":1,\n \"cost\": {\n  \"eur\": 0.1\n }, \"a\\\"b\": \"x\\ny\", \"oneslot\": 1}",
			want: usage.Totals{Completion: told(1), Extra: usage.Extra{Top: `"cost":{"eur":0.1},"a\"b":"x\ny"`}}, ok: true,
		},
		{
			name: "thinking told apart from the completion",
			raw:  `{"prompt_tokens":10,"completion_tokens":3,"total_tokens":17,"completion_tokens_details":{"reasoning_tokens":4}}`,
			want: usage.Totals{Prompt: told(10), Completion: told(7), Thinking: told(4)}, ok: true,
		},
		{
			name: "thinking told as a part of the completion",
			raw:  `{"prompt_tokens":10,"completion_tokens":7,"total_tokens":17,"completion_tokens_details":{"reasoning_tokens":4}}`,
			want: usage.Totals{Prompt: told(10), Completion: told(7), Thinking: told(4)}, ok: true,
		},
		{
			name: "what is no count is no figure",
			raw:  `{"prompt_tokens":-1,"completion_tokens":1.5,"total_tokens":"13","reasoning_tokens":1e300,"prompt_tokens_details":[1],"completion_tokens_details":"n/a"}`,
		},
		{name: "a whole number written as a fraction", raw: `{"completion_tokens":12.0}`, want: usage.Totals{Completion: told(12)}, ok: true},
		{name: "an escaped name", raw: `{"completion\u005ftokens":12}`, want: usage.Totals{Completion: told(12)}, ok: true},
		{name: "all null", raw: `{"prompt_tokens":null,"completion_tokens":null,"total_tokens":null}`},
		{name: "empty", raw: `{}`},
		{name: "null", raw: `null`},
		{name: "nothing", raw: ``},
		{name: "a list", raw: `[1]`},
		{name: "cut", raw: `{"completion_tokens":12`},
		{name: "followed by more", raw: `{"completion_tokens":12}}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, ok := usage.ParseTotals(tc.raw)
			if got != tc.want || ok != tc.ok {
				t.Errorf("ParseTotals = %+v, %v\nwant %+v, %v", got, ok, tc.want, tc.ok)
			}
		})
	}
}

func TestParseTimings(t *testing.T) {
	for _, tc := range []struct {
		name, raw string
		want      usage.Totals
		ok        bool
	}{
		{
			name: "at the end",
			raw:  `{"cache_n":16,"prompt_n":1,"prompt_ms":2.768,"predicted_n":78,"predicted_ms":60.191}`,
			want: usage.Totals{Prompt: told(17), Cached: told(16), Completion: told(78)}, ok: true,
		},
		{
			name: "with drafts",
			raw:  `{"cache_n":0,"prompt_n":9,"predicted_n":8,"draft_n":12,"draft_n_accepted":5}`,
			want: usage.Totals{Prompt: told(9), Cached: told(0), Completion: told(8), DraftsAccepted: told(5), DraftsRejected: told(7)}, ok: true,
		},
		{name: "a prompt without its cached part is not known", raw: `{"prompt_n":9,"predicted_n":8}`, want: usage.Totals{Completion: told(8)}, ok: true},
		{name: "null", raw: `null`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, ok := usage.ParseTimings(tc.raw)
			if got != tc.want || ok != tc.ok {
				t.Errorf("ParseTimings = %+v, %v; want %+v, %v", got, ok, tc.want, tc.ok)
			}
		})
	}
}

// FuzzParseTotals holds ParseTotals to its contract for any bytes: what it
// takes can be reported, on one line of valid JSON that gives the same figures.
func FuzzParseTotals(f *testing.F) {
	for _, seed := range []string{
		`{"prompt_tokens":16,"total_tokens":122,"completion_tokens":106,"prompt_tokens_details":null,"reasoning_tokens":98}`,
		`{"prompt_tokens":1,"completion_tokens":2,"completion_tokens_details":{"reasoning_tokens":1,"x":{"y":[1,null]}},"prompt_tokens_details":{"z":"\n"}}`,
		`{"a":1,"b":null}`, `{"prompt_tokens":` + strings.Repeat("9", 400) + `}`, `{"":{}}`, "{\"a\"\r:\n[ ]}",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		got, ok := usage.ParseTotals(raw)
		if ok != (got != usage.Totals{}) {
			t.Fatalf("%+v, %v", got, ok)
		}
		if !ok {
			return
		}
		m := usage.NewMeter(usage.Config{})
		m.Add(usage.Piece{Answer: "x", Totals: &got})
		line := m.Report(t.Context()).Wire(true).AppendJSON(nil)
		if !json.Valid(line) || strings.ContainsAny(string(line), "\r\n") {
			t.Fatalf("ParseTotals(%q) makes %q", raw, line)
		}
		again, _ := usage.ParseTotals(string(line))
		if got.Completion.N > 0 && again.Completion != got.Completion || again.Prompt != got.Prompt || again.Cached != got.Cached {
			t.Fatalf("%q gives %+v, and its report %q gives %+v", raw, got, line, again)
		}
	})
}

func BenchmarkParseTotals(b *testing.B) {
	raw := `{"prompt_tokens":16,"total_tokens":122,"completion_tokens":106,"prompt_tokens_details":null,"reasoning_tokens":98}`
	b.ReportAllocs()
	for b.Loop() {
		usage.ParseTotals(raw)
	}
}
