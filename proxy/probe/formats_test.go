package probe_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"oneslot/internal/simengine"
	"oneslot/proxy/probe"
	"oneslot/reasoning"
)

// TestFormats: for the markers of every shipped row, whoever opens thinking and
// however many tokens a marker is, the row of the report splits what the engine
// says as the engine meant it.
func TestFormats(t *testing.T) {
	tried := map[string]bool{}
	for _, row := range shipped(t) {
		if len(row.Open) == 0 || tried[row.Open[0]+row.Close[0]] {
			continue
		}
		tried[row.Open[0]+row.Close[0]] = true
		for _, opens := range []bool{false, true} {
			for _, plain := range []bool{false, true} {
				if plain && len(tried) > 2 {
					continue // two pairs of ordinary text are enough
				}
				t.Run(fmt.Sprintf("%s, prompt opens %t, plain text %t", row.Name, opens, plain), func(t *testing.T) {
					inBubble(t, func(t *testing.T) {
						testFormat(t, simengine.Format{Open: row.Open[0], Close: row.Close[0], StartsInThinking: opens, Plain: plain, Special: row.MarkersSpecial && !plain})
					})
				})
			}
		}
	}
}

func testFormat(t *testing.T, f simengine.Format) {
	b := open(t, simengine.Config{Output: simengine.Raw, Format: f, Model: "someone/Model 1.gguf"}, nil)
	r := b.probe()
	if r.Format == nil {
		t.Fatal("there is no row")
	}
	row := *r.Format
	start := reasoning.StartAnswer
	if f.StartsInThinking {
		start = reasoning.StartThinking
	}
	if !row.Verified || row.StartsIn != start || row.MarkersSpecial != f.Special || row.Name != "model-1" {
		t.Errorf("row %+v of an engine with %+v", row, f)
	}
	if err := row.Validate(); err != nil {
		t.Error(err)
	}
	tokens, _ := r.Find(probe.MarkerTokens)
	if (tokens.Value == "1, 1") == f.Plain {
		t.Errorf("marker tokens are %q", tokens.Value)
	}
	text := b.text(fmt.Sprintf(`{"messages":[{"role":"user","content":"hi"}],"skip_special_tokens":%t}`, !row.MarkersSpecial))
	runs := b.engine.Stats().Runs
	last := runs[len(runs)-1]
	thinking, answer := split(&row, text)
	if thinking != last.Thinking || answer != strings.TrimSpace(last.Answer) {
		t.Errorf("%q was split into\n%q and\n%q, meant was\n%q and\n%q", text, thinking, answer, last.Thinking, last.Answer)
	}
}

// split reads a whole text in a format.
func split(row *reasoning.Format, text string) (thinking, answer string) {
	p := reasoning.New(row, row.StartsIn)
	segments := append([]reasoning.Segment(nil), p.Feed(text)...)
	for _, s := range append(segments, p.Close()...) {
		if s.Kind == reasoning.Thinking {
			thinking += s.Text
		} else {
			answer += s.Text
		}
	}
	return thinking, answer
}

// text has the engine answer one request, not streamed.
func (b *box) text(body string) string {
	b.t.Helper()
	req, err := http.NewRequestWithContext(b.t.Context(), http.MethodPost, address+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := b.client.Do(req)
	if err != nil {
		b.t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return field(b.t, string(raw), "choices.0.message.content")
}

// TestOwnRow: the row that belongs to the model keeps what only it knows.
func TestOwnRow(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := open(t, simengine.Config{}, nil).probe()
		if f := r.Format; f == nil || f.Name != "ripple" || f.Temperature == nil || *f.Temperature != 0 || !f.Verified || f.OffPrefill != "</think>\n\n" {
			t.Errorf("got %+v", f)
		}
		rows, _ := r.Find(probe.Rows)
		for _, name := range []string{"ripple", "think-prompt", "olmo3", "deepseek-r1"} {
			if !strings.Contains(rows.Value, name) {
				t.Errorf("%q lacks %s", rows.Value, name)
			}
		}
		if strings.Contains(rows.Value, "think-model") {
			t.Errorf("%q has a row that begins elsewhere", rows.Value)
		}
	})
}

// TestParserShowsItsMarkers: where thinking never ends in time and no template
// shows it, the engine's own parser tells its closer.
func TestParserShowsItsMarkers(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		asked := 0
		parser := func(engine http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/separate_reasoning" {
					engine.ServeHTTP(w, r)
					return
				}
				asked++
				raw, _ := io.ReadAll(r.Body)
				if got := field(t, string(raw), "reasoning_parser"); got != "ripple" {
					t.Errorf("parser %q was asked", got)
				}
				// It always thinks, so all is thinking until its own closer.
				thinking, answer, _ := strings.Cut(strings.TrimPrefix(field(t, string(raw), "text"), "◁think▷"), "◁/think▷")
				_, _ = fmt.Fprintf(w, `{"reasoning_text":%q,"text":%q}`, thinking, answer)
			})
		}
		format := simengine.Format{Open: "◁think▷", Close: "◁/think▷", StartsInThinking: true}
		r := open(t, simengine.Config{Thinking: 3000, Format: format}, parser).probe()
		want(t, r, probe.Markers, "found ◁think▷ … ◁/think▷")
		if r.Format == nil || !r.Format.Verified || r.Format.Close[0] != "◁/think▷" {
			t.Errorf("row %+v", r.Format)
		}
		if asked < 5 {
			t.Errorf("the parser was asked %d times, want once for each pair of markers", asked)
		}
	})
}

// TestCloserByPrefill: an engine that hides its output shows its closer by what
// it takes for the answer.
func TestCloserByPrefill(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := open(t, simengine.Config{Dialect: simengine.VLLM, Metrics: true, Thinking: 3000}, nil).probe()
		want(t, r, probe.Markers, "found <think> … </think>")
		if r.Format == nil || !r.Format.Verified {
			t.Errorf("row %+v", r.Format)
		}
	})
}

// TestRenderedThinking: an earlier turn with thinking shows markers that no row
// has, also if the template shows them in the last turn only.
func TestRenderedThinking(t *testing.T) {
	for _, lastOnly := range []bool{false, true} {
		t.Run(fmt.Sprintf("last only %t", lastOnly), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				sim := simengine.Config{Dialect: simengine.LlamaCPP, Thinking: 3000, Format: simengine.Format{Open: "<musing>", Close: "</musing>", StartsInThinking: true}, Model: "muse"}
				r := open(t, sim, template(t, lastOnly)).probe()
				want(t, r, probe.Markers, "found <musing> … </musing>")
				want(t, r, probe.StartsIn, "found thinking")
				want(t, r, probe.Rows, "absent ")
				if f := r.Format; f == nil || f.Name != "muse" || f.OffPrefill != "</musing>\n" {
					t.Errorf("row %+v", f)
				}
			})
		})
	}
}

// template renders as a chat template with thinking does.
func template(t *testing.T, lastOnly bool) wrap {
	return func(engine http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/apply-template" {
				engine.ServeHTTP(w, r)
				return
			}
			raw, _ := io.ReadAll(r.Body)
			list := items(t, string(raw), "messages")
			var b strings.Builder
			for i, m := range list {
				b.WriteString("<|im_start|>" + field(t, m, "role") + "\n")
				if thought := field(t, m, "reasoning_content"); thought != "" && (!lastOnly || i == len(list)-1) {
					b.WriteString("<musing>\n" + thought + "\n</musing>\n")
				}
				b.WriteString(field(t, m, "content"))
				if i < len(list)-1 || field(t, m, "role") != "assistant" {
					b.WriteString("<|im_end|>\n")
				}
			}
			if field(t, list[len(list)-1], "role") != "assistant" {
				b.WriteString("<|im_start|>assistant\n<musing>\n")
			}
			_, _ = fmt.Fprintf(w, `{"prompt":%s}`, quoted(b.String()))
		})
	}
}

// TestUnknownMarkers: what no row has is shown by its ends.
func TestUnknownMarkers(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		sim := simengine.Config{Output: simengine.Raw, Thinking: 3000, Format: simengine.Format{Open: "<musing>", Close: "</musing>", StartsInThinking: true}}
		r := open(t, sim, nil).probe()
		want(t, r, probe.Markers, "unknown ")
		f, _ := r.Find(probe.Markers)
		if len(f.Evidence) != 2 || !strings.HasSuffix(f.Evidence[1].Reply, `<musing>"`) || !strings.Contains(f.Evidence[0].Reply, " … ") {
			t.Errorf("evidence %+v, want both ends of the output, and the end of the prompt", f.Evidence)
		}
		if r.Format != nil {
			t.Errorf("row %+v", r.Format)
		}
	})
}

// toolReply answers the request that has a tool with a stream of these deltas.
func toolReply(deltas ...string) wrap {
	return func(engine http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			raw, _ := io.ReadAll(r.Body)
			r.Body = io.NopCloser(strings.NewReader(string(raw)))
			if !strings.Contains(string(raw), `"tools":`) {
				engine.ServeHTTP(w, r)
				return
			}
			w.Header().Set("Content-Type", "text/event-stream")
			for _, d := range deltas {
				_, _ = fmt.Fprintf(w, "data: {\"choices\":[{\"index\":0,\"delta\":%s}]}\n\n", d)
			}
			_, _ = io.WriteString(w, "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"tool_calls\"}]}\n\ndata: [DONE]\n\n")
		})
	}
}

// TestTools: a tool call inside thinking is told of if it is seen.
func TestTools(t *testing.T) {
	const call = `{"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"get_time","arguments":"{}"}}]}`
	const opener = "<|tool_calls_section_begin|>"
	for _, tt := range []struct {
		name   string
		deltas []string
		want   string
		row    string
	}{
		{"written out", []string{`{"content":"so I ask ` + opener + `get_time"}`}, "found " + opener, opener},
		{"parsed", []string{`{"content":"so I ask "}`, call}, "found yes", ""},
		{"after thinking", []string{`{"content":"so</think>"}`, call}, "", ""},
		{"after thinking, written out", []string{`{"content":"so</think>` + opener + `get_time"}`}, "", ""},
		{"none", []string{`{"content":"so I think and think"}`}, "", ""},
		{"split by the engine", []string{`{"reasoning_content":"so I ask "}`, call}, "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				r := open(t, simengine.Config{Output: simengine.Raw}, toolReply(tt.deltas...)).probe()
				want(t, r, probe.Tools, tt.want)
				if got := strings.Join(r.Format.ToolOpen, " "); got != tt.row {
					t.Errorf("the row has tool openers %q, want %q", got, tt.row)
				}
			})
		})
	}
}
