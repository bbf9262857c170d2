package proxy_test

import (
	"strings"
	"testing"

	"oneslot/internal/openai"
	"oneslot/internal/simengine"
	"oneslot/internal/simengine/script"
)

// played is a rig whose engine says these deltas and then stops.
func played(t *testing.T, reason string, deltas ...string) *rig {
	t.Helper()
	var s script.Script
	for _, d := range deltas {
		s = append(s, event(d))
	}
	return newRig(t, setup{sim: simengine.Config{Scripts: []script.Script{append(s, finish(reason), script.Done())}}})
}

// TestThinkingGoesWhereItIsWanted.
func TestThinkingGoesWhereItIsWanted(t *testing.T) {
	for _, x := range []struct {
		field              openai.ReasoningField
		keys               []string // under which thinking comes
		reasoning, content string
	}{
		{openai.FieldReasoningContent, []string{`"reasoning_content":"`}, "ab", "cd"},
		{openai.FieldReasoning, []string{`"reasoning":"`}, "ab", "cd"},
		{openai.FieldBoth, []string{`"reasoning_content":"`, `"reasoning":"`}, "aabb", "cd"},
		{openai.FieldContentTags, nil, "", "<think>ab</think>cd"},
		{openai.FieldHidden, nil, "", "cd"},
	} {
		t.Run(x.field.String(), func(t *testing.T) {
			bothWays(t, func(t *testing.T, stream bool) {
				r := played(t, "stop", `{"content":"a"}`, `{"content":"b</think>"}`, `{"content":"c"}`, `{"content":"d"}`)
				got := r.startAs(ask(stream, ""), x.field).wait()
				reply := got.read()
				want := x.reasoning
				if !stream && x.field == openai.FieldBoth {
					want = "abab"
				}
				if got.err != nil || reply.reasoning != want || reply.content != x.content {
					t.Errorf("%v: got %q | %q, want %q | %q", got.err, reply.reasoning, reply.content, want, x.content)
				}
				for _, key := range []string{`"reasoning_content":"`, `"reasoning":"`} {
					wanted := false
					for _, k := range x.keys {
						wanted = wanted || k == key
					}
					if strings.Contains(got.w.got(), key) != wanted {
						t.Errorf("%s is there: %v", key, !wanted)
					}
				}
				if got.report.Tokens.Thinking.N == 0 {
					t.Errorf("it does not count: %+v", got.report.Tokens)
				}
			})
		})
	}
}

// TestTagsAreClosed whatever comes after thinking.
func TestTagsAreClosed(t *testing.T) {
	for _, x := range []struct {
		name   string
		deltas []string
		reason string
		want   string
	}{
		{"an answer", []string{`{"reasoning":"a"}`, `{"content":"b"}`}, "stop", "<think>a</think>b"},
		{"a tool call", []string{`{"reasoning":"a"}`, `{"tool_calls":[{"index":0,"id":"k","function":{"name":"f","arguments":""}}]}`}, "tool_calls", "<think>a</think>"},
		{"nothing", []string{`{"reasoning":"a"}`}, "length", "<think>a</think>"},
		{"no thinking", []string{`{"content":"</think>b"}`}, "stop", "b"},
		{"an unknown member in mid-thinking", []string{`{"reasoning":"a"}`, `{"mood":"calm"}`, `{"reasoning":"b"}`}, "length", "<think>ab</think>"},
	} {
		t.Run(x.name, func(t *testing.T) {
			bothWays(t, func(t *testing.T, stream bool) {
				got := played(t, x.reason, x.deltas...).startAs(ask(stream, ""), openai.FieldContentTags).wait()
				if reply := got.read(); got.err != nil || reply.content != x.want || reply.finish != x.reason {
					t.Errorf("%v: got %q, %s; want %q", got.err, reply.content, reply.finish, x.want)
				}
			})
		})
	}
}

func TestToolCallsPass(t *testing.T) {
	bothWays(t, func(t *testing.T, stream bool) {
		got := played(t, "tool_calls", `{"reasoning_content":"r","content":null,"tool_calls":null}`, `{"content":"say ","tool_calls":[]}`,
			`{"role":null,"content":null,"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":null}}]}`,
			`{"tool_calls":[{"index":1,"id":"b","type":"function","function":{"name":"g","arguments":"[1"}},{"index":0,"id":null,"function":{"name":null,"arguments":"{\"x\":null"}}]}`,
			`{"tool_calls":[{"index":0,"function":{"arguments":"}"}},{"index":1,"function":{"arguments":"]"}}]}`).serve(ask(stream, ""))
		reply := got.read()
		want := `[{"id":"a","type":"function","function":{"name":"f","arguments":"{\"x\":null}"}},{"id":"b","type":"function","function":{"name":"g","arguments":"[1]"}}]`
		if got.err != nil || reply.toolCalls() != want || reply.content != "say " || reply.finish != "tool_calls" {
			t.Errorf("%v: got %s, %+v", got.err, reply.toolCalls(), reply)
		}
		if strings.Contains(strings.ReplaceAll(got.w.got(), `"usage":null`, ""), `"id":null`) || !got.report.AnswerStarted {
			t.Errorf("got %s, %+v", got.w.got(), got.report)
		}
	})
}

func TestOtherMembersPass(t *testing.T) {
	bothWays(t, func(t *testing.T, stream bool) {
		got := played(t, "stop", `{"content":"</think>a","mood":"ca"}`, `{"mood":"lm","scores":[1],"gone":null}`, `{"refusal":"I "}`, `{"refusal":"won't","scores":[2]}`,
			`{"function_call":{"name":"f","arguments":"{"}}`, `{"function_call":{"name":null,"arguments":"}"}}`, `{"reasoning_details":[{"text":"x"}]}`).serve(ask(stream, ""))
		text := got.w.got()
		if got.err != nil || strings.Contains(text, "gone") || strings.Contains(text, "reasoning_details") || got.read().content != "a" {
			t.Fatalf("%v: %s", got.err, text)
		}
		wants := []string{`"mood":"ca"`, `"mood":"lm","scores":[1]`, `"refusal":"I "`, `"scores":[2],"refusal":"won't"`, `"function_call":{"name":"f","arguments":"{"}`, `"function_call":{"arguments":"}"}`}
		if !stream {
			wants = []string{`"mood":"calm"`, `"scores":[1,2]`, `"refusal":"I won't"`, `"function_call":{"name":"f","arguments":"{}"}`}
		}
		for _, w := range wants {
			if !strings.Contains(text, w) {
				t.Errorf("no %s in %s", w, text)
			}
		}
	})
}

// TestRefusalIsAlwaysThere in a whole answer: typed SDKs require the key.
func TestRefusalIsAlwaysThere(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		got := played(t, "stop", `{"content":"</think>a"}`).serve(ask(false, ""))
		if !strings.Contains(got.w.got(), `"content":"a","refusal":null}`) {
			t.Errorf("got %s", got.w.got())
		}
	})
}

func TestLogprobsFollowTheAnswer(t *testing.T) {
	chunk := func(text string, tokens ...string) script.Step {
		var entries []string
		for _, tok := range tokens {
			entries = append(entries, `{"token":"`+tok+`","logprob":-1,"bytes":null,"top_logprobs":[]}`)
		}
		return script.Write(`data: {"choices":[{"index":0,"delta":{"content":"` + text + `"},"logprobs":{"content":[` + strings.Join(entries, ",") + `]},"finish_reason":null}]}` + "\n\n")
	}
	for _, x := range []struct {
		name  string
		steps script.Script
		want  string // tokens of the answer
		whole string // and of a whole answer; they are all there or none
	}{
		{"aligned", script.Script{chunk("x</think>y", "x", "</think>", "y"), chunk(" z", " z")}, "y z", "y z"},
		{"out of step", script.Script{chunk("x</think>y", "x", "</think>", "y"), chunk(" z", " other")}, "y", ""},
	} {
		t.Run(x.name, func(t *testing.T) {
			bothWays(t, func(t *testing.T, stream bool) {
				r := newRig(t, setup{sim: simengine.Config{Scripts: []script.Script{append(append(script.Script{}, x.steps...), finish("stop"), script.Done())}}})
				got := r.serve(ask(stream, `"logprobs":true`))
				tokens := ""
				for _, entry := range got.read().logprobs {
					tokens += entry.(map[string]any)["token"].(string)
				}
				want := x.want
				if !stream {
					want = x.whole
				}
				if got.err != nil || tokens != want {
					t.Errorf("%v: got %q, want %q: %s", got.err, tokens, want, got.w.got())
				}
			})
		})
	}
}

// TestHeartbeatsBeforeAWholeAnswer do not spoil it.
func TestHeartbeatsBeforeAWholeAnswer(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, setup{})
		got := r.serve(ask(false, `"sim":{"prefill_tokens_per_second":0.4}`))
		if text := got.w.got(); got.err != nil || !strings.HasPrefix(text, "\n\n\n{") || got.read().finish != "stop" {
			t.Errorf("%v: %q", got.err, text)
		}
	})
}
