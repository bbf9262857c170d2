package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"oneslot/internal/simengine"
	"oneslot/internal/simengine/script"
)

// toolRow is a format in which a tool call may begin before thinking is closed.
const toolRow = `formats: [{name: ripple, open: ["<think>"], close: ["</think>"], starts_in: thinking, tool_open: ["<tool_call>\n<function="]}]`

// B022: a tool call that the format lets begin inside thinking ends it and reaches
// the client whole; any other draft of one is thinking.
func TestToolCallInsideThinking(t *testing.T) {
	const call = "<tool_call>\n<function=ls>\n<parameter=p>\n/\n</parameter>\n</function>\n</tool_call>"
	for name, c := range map[string]struct{ text, reasoning, content string }{
		"opens before the closer": {"Let me look.\n" + call, "Let me look.\n", call},
		"after the closer":        {"Let me look.</think>\n\n" + call, "Let me look.", call},
		"drafted":                 {"I could say <tool_call> or <tool_call>\n{}.</think>No.", "I could say <tool_call> or <tool_call>\n{}.", "No."},
	} {
		for _, size := range []int{1, 3, 7, 1000} {
			for _, stream := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s/by %d/stream=%v", name, size, stream), func(t *testing.T) {
					inBubble(t, func(t *testing.T) {
						var pieces []string
						for piece := range slices.Chunk([]byte(c.text), size) {
							pieces = append(pieces, string(piece))
						}
						p := start(t, simengine.Config{Scripts: []script.Script{texts(pieces...)}}, toolRow)
						r := p.post(t.Context(), ask(stream, ""), nil)
						if a := (&r).answer(t); a.reasoning != c.reasoning || a.content != c.content || a.finish != "stop" {
							t.Errorf("the client got %q | %q, %s", a.reasoning, a.content, a.finish)
						}
					})
				})
			}
		}
	}
}

// Calls that the engine has read, inside and after thinking: each fragment keeps
// its place and its index.
func TestToolFragmentsKeepTheirOrder(t *testing.T) {
	fragments := []string{
		`[{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":""}}]`,
		`[{"index":0,"function":{"arguments":"{\"x\":"}}]`,
		`[{"index":1,"id":"b","type":"function","function":{"name":"g","arguments":"[1"}},{"index":0,"function":{"arguments":"1"}}]`,
		`[{"index":1,"function":{"arguments":"]"}},{"index":0,"function":{"arguments":"}"}}]`,
	}
	s := script.Script{chunk(`{"reasoning_content":"look","tool_calls":`+fragments[0]+`}`, ""), chunk(`{"tool_calls":`+fragments[1]+`}`, ""), chunk(`{"reasoning_content":" on"}`, "")}
	for _, f := range fragments[2:] {
		s = append(s, chunk(`{"content":null,"tool_calls":`+f+`}`, ""))
	}
	s = append(s, script.Write(`data: {"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}`+"\n\ndata: [DONE]\n\n"))
	for _, stream := range []bool{true, false} {
		inBubble(t, func(t *testing.T) {
			p := start(t, simengine.Config{Scripts: []script.Script{s}}, "")
			r := p.post(t.Context(), ask(stream, ""), nil)
			a := (&r).answer(t)
			if len(a.tools) != 2 || a.tools[0]["arguments"] != `{"x":1}` || a.tools[1]["arguments"] != "[1]" || a.tools[0]["id"]+a.tools[1]["id"] != "ab" || a.reasoning != "look on" || a.finish != "tool_calls" {
				t.Errorf("stream=%v: the client got %+v", stream, a)
			}
			at := 0
			for _, f := range fragments {
				i := strings.Index(r.body[at:], `"tool_calls":`+f)
				if stream && i < 0 {
					t.Errorf("%s is not where it was: %s", f, r.body)
				}
				at += max(i, 0)
			}
		})
	}
}

// B030: the thinking of earlier turns, in every spelling in which clients send it
// back, is where the engine reads it, or gone, as the format says.
func TestHistory(t *testing.T) {
	const answer = `{"role":"assistant","content":"b"}`
	spellings := map[string]string{
		"reasoning_content": `{"role":"assistant","content":"b","reasoning_content":"c"}`,
		"reasoning":         `{"role":"assistant","content":"b","reasoning":"c"}`,
		"both":              `{"role":"assistant","content":"b","reasoning":"c","reasoning_content":"c"}`,
		"reasoning_details": `{"role":"assistant","content":"b","reasoning_details":[{"type":"reasoning.text","text":"c"}]}`,
		"thinking parts":    `{"role":"assistant","content":[{"type":"thinking","thinking":"c"},{"type":"text","text":"b"}]}`,
		"markers":           `{"role":"assistant","content":"<think>c</think>\n\nb"}`,
		"none":              answer,
	}
	for rule, kept := range map[string][2]bool{"keep": {true, true}, "keep_last_tool_turn": {false, true}, "drop": {false, false}} {
		for name, sent := range spellings {
			t.Run(rule+"/"+name, func(t *testing.T) {
				inBubble(t, func(t *testing.T) {
					p := start(t, simengine.Config{}, `formats: [{name: ripple, open: ["<think>"], close: ["</think>"], starts_in: thinking, history: `+rule+`}]`)
					p.post(t.Context(), `{"model":"ripple","messages":[{"role":"user","content":"a"},`+sent+`,{"role":"user","content":"d"},`+sent+`,{"role":"tool","content":"1","tool_call_id":"k"}]}`, nil)
					messages, _ := p.upstream()["messages"].([]any)
					if len(messages) != 5 {
						t.Fatalf("the engine got %v", messages)
					}
					for i, keep := range kept {
						m := messages[1+2*i].(map[string]any)
						want := map[string]any{"role": "assistant", "content": "b"}
						if keep && name != "none" {
							want["reasoning_content"] = "c"
						}
						if name == "thinking parts" {
							want["content"] = []any{map[string]any{"type": "text", "text": "b"}}
						}
						if asJSON(t, m) != asJSON(t, want) {
							t.Errorf("turn %d reached the engine as %s, want %s", i+1, asJSON(t, m), asJSON(t, want))
						}
					}
				})
			})
		}
	}
}

// B090, B091, B096: roles and contents as clients send them.
func TestRolesAndContents(t *testing.T) {
	for name, c := range map[string]struct{ sent, want string }{
		"developer":      {`[{"role":"developer","content":"Answer in Latin."},{"role":"user","content":"hi"}]`, `[{"content":"Answer in Latin.","role":"system"},{"content":"hi","role":"user"}]`},
		"two at the top": {`[{"role":"developer","content":"a"},{"role":"system","content":"b"},{"role":"user","content":"hi"}]`, `[{"content":"a\n\nb","role":"system"},{"content":"hi","role":"user"}]`},
		"nulls": {
			`[{"role":"user","content":"a"},{"role":"assistant","content":null,"tool_calls":[{"id":"k","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","content":"1","tool_call_id":"k"},{"role":"assistant","content":"x","tool_calls":null},{"role":"user","content":"b"}]`,
			"",
		},
		"parts": {`[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}]`, ""},
	} {
		inBubble(t, func(t *testing.T) {
			p := start(t, simengine.Config{}, "")
			p.post(t.Context(), `{"model":"ripple","messages":`+c.sent+`}`, nil)
			want := c.want
			if want == "" {
				var same any
				if err := json.Unmarshal([]byte(c.sent), &same); err != nil {
					t.Fatal(err)
				}
				want = asJSON(t, same)
			}
			if got := asJSON(t, p.upstream()["messages"]); got != want {
				t.Errorf("%s: the engine got %s\nwant %s", name, got, want)
			}
		})
	}
}

// B093: one limit reaches the engine, thinking included, under a name that it
// honours; the smaller of two counts.
func TestOneLimit(t *testing.T) {
	for members, want := range map[string]float64{`"max_completion_tokens":16`: 16, `"max_tokens":16`: 16, `"max_completion_tokens":16,"max_tokens":9`: 9} {
		inBubble(t, func(t *testing.T) {
			p := start(t, simengine.Config{Thinking: 200, Answer: 20}, "")
			r := p.post(t.Context(), ask(true, ","+members), nil)
			a := (&r).answer(t)
			got := p.upstream()
			var limits []any
			for _, key := range []string{"max_tokens", "max_completion_tokens"} {
				if n, ok := got[key]; ok {
					limits = append(limits, n)
				}
			}
			if len(limits) != 1 || limits[0] != want {
				t.Errorf("%s: the engine got the limits %v", members, limits)
			}
			details, _ := a.usage["completion_tokens_details"].(map[string]any)
			if a.finish != "length" || a.content != "" || a.usage["completion_tokens"] != want || details["reasoning_tokens"] != want {
				t.Errorf("%s: the client got %q, %s, %v", members, a.content, a.finish, a.usage)
			}
		})
	}
}

// B019: a stop string ends the answer, and only it, whoever splits, however it is
// cut, streamed or not.
func TestStopStringsActOnTheAnswer(t *testing.T) {
	for who, s := range map[string]script.Script{
		"raw":   {chunk(`{"content":"to the END and on</think>The E"}`, ""), chunk(`{"content":"N"}`, ""), chunk(`{"content":"D is near"}`, ""), script.Hold()},
		"split": {chunk(`{"reasoning_content":"to the END and on"}`, ""), chunk(`{"content":"The E"}`, ""), chunk(`{"content":"ND is near"}`, ""), script.Hold()},
	} {
		for _, stream := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/stream=%v", who, stream), func(t *testing.T) {
				inBubble(t, func(t *testing.T) {
					p := start(t, simengine.Config{Scripts: []script.Script{s}}, raw)
					r := p.post(t.Context(), ask(stream, `,"stop":"END"`), nil)
					if a := (&r).answer(t); a.reasoning != "to the END and on" || a.content != "The " || a.finish != "stop" {
						t.Errorf("the client got %q | %q, %s", a.reasoning, a.content, a.finish)
					}
					if s := p.engine.Stats(); s.AbortsEffective != 1 {
						t.Errorf("the engine was aborted %d times", s.AbortsEffective)
					}
				})
			})
		}
	}
}

// B023: constrained output begins where the format says; the answer otherwise.
func TestConstrainedOutput(t *testing.T) {
	const object = `,"response_format":{"type":"json_object"}`
	for name, c := range map[string]struct{ row, text, reasoning, content string }{
		"no thinking":          {"", `{"a":1}`, "", `{"a":1}`},
		"an opener":            {"", `<think>hm</think>{"a":1}`, "hm", `{"a":1}`},
		"markers in the value": {"", `{"a":"</think>"}`, "", `{"a":"</think>"}`},
		"thinks all the same":  {", constrained_starts_in: thinking", `hm</think>{"a":1}`, "hm", `{"a":1}`},
	} {
		for _, stream := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/stream=%v", name, stream), func(t *testing.T) {
				inBubble(t, func(t *testing.T) {
					p := start(t, simengine.Config{Scripts: []script.Script{texts(strings.SplitAfter(c.text, "<")...)}}, `formats: [{name: ripple, open: ["<think>"], close: ["</think>"], starts_in: thinking`+c.row+`}]`)
					r := p.post(t.Context(), ask(stream, object), nil)
					if a := (&r).answer(t); a.reasoning != c.reasoning || a.content != c.content {
						t.Errorf("the client got %q | %q", a.reasoning, a.content)
					}
				})
			})
		}
	}
}

// B032: probabilities that cannot be aligned with the answer are null, and those
// of thinking never go out.
func TestLogprobsThatDoNotFit(t *testing.T) {
	s := script.Script{
		chunk(`{"content":"x"}`, `,"logprobs":{"content":[{"token":"x","logprob":-1}]}`),
		chunk(`{"content":"</think>y"}`, `,"logprobs":{"content":[{"token":"</think>y","logprob":-1}]}`), finish(),
	}
	for _, stream := range []bool{true, false} {
		inBubble(t, func(t *testing.T) {
			p := start(t, simengine.Config{Scripts: []script.Script{s}}, raw)
			r := p.post(t.Context(), ask(stream, `,"logprobs":true`), nil)
			if a := (&r).answer(t); a.reasoning != "x" || a.content != "y" || len(a.logprobs) != 0 {
				t.Errorf("stream=%v: the client got %+v", stream, a)
			}
			if !stream && !strings.Contains(r.body, `"logprobs":null`) {
				t.Errorf("the client got %s", r.body)
			}
		})
	}
}

// B062: more than one choice is refused before the queue.
func TestOneChoice(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := start(t, simengine.Config{}, "")
		r := p.post(t.Context(), ask(false, `,"n":2`), nil)
		a := (&r).answer(t)
		if r.status != 400 || a.err["param"] != "n" || a.err["code"] != "unsupported_value" || len(p.engine.Stats().Runs) != 0 {
			t.Errorf("the client got %d %v", r.status, a.err)
		}
	})
}
