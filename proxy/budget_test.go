package proxy_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"oneslot/internal/simengine"
	"oneslot/internal/simengine/script"
	"oneslot/proxy"
	"oneslot/reasoning"
)

// closable is a format whose thinking can be closed from outside.
func closable(start reasoning.State) reasoning.Format {
	f := xml(start)
	f.OffPrefill = "</think>\n\n"
	return f
}

// budgeted is a rig with a budget of ten tokens in front of an engine that first
// thinks without end and then plays what follows.
func budgeted(t *testing.T, s setup, first script.Step, then ...script.Step) *rig {
	t.Helper()
	s.sim.Scripts = []script.Script{{script.Repeat(first.Data, 0, 100*time.Millisecond)}, then}
	s.count = wordsOf{}
	if s.format.Name == "" {
		s.format = closable(reasoning.StartThinking)
	}
	r := newRig(t, s)
	r.budget = 10
	return r
}

// TestThinkingIsCutAtTheBudget on each kind of engine: what it thought stays, it
// goes on behind closed thinking in the way it knows, and what it repeats of that
// reaches nobody.
func TestThinkingIsCutAtTheBudget(t *testing.T) {
	thought := strings.Repeat("w ", 10)
	kept := strings.TrimRight(thought, " ")
	for _, x := range []struct {
		name   string
		s      setup
		first  script.Step
		then   script.Script
		behind string            // the assistant's message of the second run
		flags  map[string]string // and the members beside it
	}{
		{
			"SGLang, split",
			setup{},
			event(`{"reasoning_content":"w "}`),
			script.Script{event(`{"content":"done"}`)},
			`{"role":"assistant","content":"` + kept + `</think>\n\n"}`,
			map[string]string{"continue_final_message": "true", "add_generation_prompt": ""},
		},
		{
			"SGLang, raw",
			setup{},
			event(`{"content":"w "}`),
			script.Script{event(`{"content":"done"}`)},
			`{"role":"assistant","content":"` + kept + `</think>\n\n"}`,
			map[string]string{"continue_final_message": "true"},
		},
		{
			"SGLang, whose model opens thinking",
			setup{format: closable(reasoning.StartAnswer)},
			event(`{"reasoning_content":"w "}`),
			script.Script{event(`{"content":"done"}`)},
			`{"role":"assistant","content":"\u003cthink\u003e` + kept + `</think>\n\n"}`,
			map[string]string{"continue_final_message": "true"},
		},
		{
			"vLLM",
			setup{sim: simengine.Config{Dialect: simengine.VLLM, Metrics: true}},
			event(`{"reasoning":"w "}`),
			script.Script{event(`{"content":"done"}`)},
			`{"role":"assistant","content":"*</think>\n\n"}`,
			map[string]string{"continue_final_message": "true", "add_generation_prompt": "false", "thinking_token_budget": ""},
		},
		{
			"llama.cpp, raw",
			setup{sim: simengine.Config{Dialect: simengine.LlamaCPP}},
			event(`{"content":"w "}`),
			script.Script{event(`{"content":"@</think>\n\ndone"}`)},
			`{"role":"assistant","content":"*</think>\n\n"}`,
			map[string]string{"continue_final_message": ""},
		},
	} {
		t.Run(x.name, func(t *testing.T) {
			bothWays(t, func(t *testing.T, stream bool) {
				words := 10
				if x.s.sim.Dialect != "" {
					words += 10/4 + 32 // these keep budgets themselves, and are helped late
				}
				all := strings.TrimRight(strings.Repeat("w ", words), " ")
				then := script.Script{}
				for _, step := range x.then {
					step.Data = strings.ReplaceAll(step.Data, "@", all)
					then = append(then, step)
				}
				r := budgeted(t, x.s, x.first, append(then, finish("stop"), script.Done())...)
				got := r.serve(ask(stream, ""))
				reply := got.read()
				if got.err != nil || strings.TrimRight(reply.reasoning, " ") != all || reply.content != "done" || reply.finish != "stop" || reply.roles != 1 {
					t.Errorf("%v: got %q | %q, %s", got.err, reply.reasoning, reply.content, reply.finish)
				}
				if got.report.Budget != "cut" || got.report.Runs != 2 || got.report.Tokens.Thinking.N != words || got.report.Tokens.Answer.N == 0 {
					t.Errorf("the report is %+v", got.report)
				}
				var body struct{ Messages []json.RawMessage }
				members := map[string]json.RawMessage{}
				raw := r.last().Body
				if err := errors.Join(json.Unmarshal(raw, &body), json.Unmarshal(raw, &members)); err != nil || len(body.Messages) != 2 {
					t.Fatalf("the second run was asked %s: %v", raw, err)
				}
				want := strings.ReplaceAll(strings.ReplaceAll(x.behind, "*", all), `\u003c`, "<")
				want = strings.ReplaceAll(want, `\u003e`, ">")
				if string(body.Messages[1]) != want {
					t.Errorf("behind it stands %s, want %s", body.Messages[1], want)
				}
				for key, want := range x.flags {
					if string(members[key]) != want {
						t.Errorf("%s is %s, want %s", key, members[key], want)
					}
				}
			})
		})
	}
}

// TestCutThatFails: the answer that cannot follow is told like any other fault,
// and what was thought counts.
func TestCutThatFails(t *testing.T) {
	for _, x := range []struct {
		name string
		s    setup
		do   func(x *exchange)
		want error
		idle int32
	}{
		{"the engine is deaf", setup{sim: simengine.Config{Ghost: true, Deaf: true}, proxy: proxy.Config{AbortBound: 3 * time.Second}}, func(*exchange) {}, proxy.ErrEngine, 0},
		{"the client leaves meanwhile", setup{sim: simengine.Config{Ghost: true, Deaf: true}, proxy: proxy.Config{AbortBound: 30 * time.Second}}, func(x *exchange) { x.leave() }, proxy.ErrClient, 0},
		{"the hold ends meanwhile", setup{sim: simengine.Config{Ghost: true, Deaf: true}, proxy: proxy.Config{AbortBound: 30 * time.Second}}, func(x *exchange) { x.end(errLost) }, errLost, 0},
	} {
		t.Run(x.name, func(t *testing.T) {
			bothWays(t, func(t *testing.T, stream bool) {
				r := budgeted(t, x.s, event(`{"reasoning_content":"w "}`))
				got := r.start(ask(stream, ""))
				r.until(func(run simengine.Run) bool { return !run.FirstToken.IsZero() })
				<-time.After(time.Second)
				x.do(got)
				got.wait()
				if !errors.Is(got.err, x.want) || got.idle.Load() != x.idle || len(r.sim.Stats().Runs) != 1 {
					t.Errorf("got %v, idle %d, %d runs", got.err, got.idle.Load(), len(r.sim.Stats().Runs))
				}
				if got.report.Tokens.Thinking.N == 0 {
					t.Errorf("the report is %+v", got.report)
				}
				if reply := got.read(); !errors.Is(x.want, proxy.ErrClient) && (reply.fault == nil || reply.finish != "") {
					t.Errorf("the client got %+v", reply)
				}
			})
		})
	}
}

// TestThinkingInContentIsHistory: a client that sends an answer back with its
// tags has the thinking put where the engine reads it.
func TestThinkingInContentIsHistory(t *testing.T) {
	const sent = `[{"role":"user","content":"a"},{"role":"assistant","content":"<think>b</think>c"},{"role":"user","content":"d </think>"}]`
	for _, x := range []struct {
		format reasoning.Format
		want   string
	}{
		{xml(reasoning.StartThinking), `{"role":"assistant","content":"c","reasoning_content":"b"}`},
		{reasoning.Format{Name: "none"}, `{"role":"assistant","content":"<think>b</think>c"}`},
	} {
		_, got := forwarded(t, setup{sim: short(simengine.SGLang), format: x.format}, ask(true, `"messages":`+sent))
		want := `[{"role":"user","content":"a"},` + x.want + `,{"role":"user","content":"d </think>"}]`
		if string(got["messages"]) != want {
			t.Errorf("got  %s\nwant %s", got["messages"], want)
		}
	}
}

// TestUnsupportedIsKnown once an engine has been asked what it is.
func TestUnsupportedIsKnown(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, setup{}) // a format whose thinking cannot be closed
		call := &proxy.Call{Request: nil}
		call.Budget.Tokens = 5
		if r.proxy.Unsupported(call, []string{"other"}) || r.proxy.Unsupported(call, []string{"spark"}) {
			t.Error("it is known of an engine that nobody has asked")
		}
	})
}

// TestEngineThatKeepsNoBudget, though its kind does: it is helped late once, and
// from then on thinking is closed from here, at the budget and from the start.
func TestEngineThatKeepsNoBudget(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		endless := script.Script{script.Repeat(event(`{"content":"w "}`).Data, 0, 100*time.Millisecond)}
		done := script.Script{event(`{"content":"done"}`), finish("stop"), script.Done()}
		r := newRig(t, setup{
			sim:   simengine.Config{Dialect: simengine.LlamaCPP, Scripts: []script.Script{endless, done, endless, done, done}},
			count: wordsOf{}, format: closable(reasoning.StartThinking),
		})
		for _, want := range []struct {
			budget, words, runs int
			native              bool
			outcome             string
		}{{10, 10 + 10/4 + 32, 2, true, "cut"}, {10, 10, 2, false, "cut"}, {0, 0, 1, false, "off"}} {
			before := len(r.sim.Stats().Runs)
			r.budget = want.budget
			got := r.serve(ask(true, ""))
			reply := got.read()
			if got.err != nil || len(strings.Fields(reply.reasoning)) != want.words || reply.content != "done" || got.report.Budget != want.outcome || got.report.Runs != want.runs {
				t.Errorf("%+v: %v: %q | %q, %+v", want, got.err, reply.reasoning, reply.content, got.report)
			}
			if asked := strings.Contains(string(r.sim.Stats().Runs[before].Body), "thinking_budget_tokens"); asked != want.native {
				t.Errorf("%+v: the engine was asked to keep it: %t", want, asked)
			}
		}
	})
}

// TestRoomForTheAnswer is kept to the token: the engine is asked for less than
// the room by its markers, and helped at the end of it.
func TestRoomForTheAnswer(t *testing.T) {
	for _, x := range []struct {
		budget, room int
		told         string
		words        int
	}{{60, 60, "59", 60}, {10, 60, "10", 10 + 10/4 + 32}, {50, 60, "50", 60}, {0, 1, "0", 1}} {
		inBubble(t, func(t *testing.T) {
			r := budgeted(t, setup{sim: simengine.Config{Dialect: simengine.LlamaCPP}}, event(`{"content":"w "}`), event(`{"content":"done"}`), finish("stop"), script.Done())
			r.budget, r.room = x.budget, x.room
			got := r.serve(ask(true, ""))
			if reply := got.read(); got.err != nil || len(strings.Fields(reply.reasoning)) != x.words || reply.content != "done" {
				t.Errorf("%+v: %v: %q | %q", x, got.err, reply.reasoning, reply.content)
			}
			var body map[string]json.RawMessage
			if err := json.Unmarshal(r.sim.Stats().Runs[0].Body, &body); err != nil || string(body["thinking_budget_tokens"]) != x.told {
				t.Errorf("%+v: %v: the engine was told %s", x, err, body["thinking_budget_tokens"])
			}
		})
	}
}

// TestRoomTakesNoBlame: an engine that was helped at the end of the room, before
// it was late, is asked again; and the marker that it writes first counts.
func TestRoomTakesNoBlame(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := closable(reasoning.StartAnswer)
		f.Open = []string{"<think> "}
		endless := script.Script{event(`{"content":"<think> "}`), script.Repeat(event(`{"content":"w "}`).Data, 0, 100*time.Millisecond)}
		done := script.Script{event(`{"content":"done"}`), finish("stop"), script.Done()}
		r := newRig(t, setup{sim: simengine.Config{Dialect: simengine.LlamaCPP, Scripts: []script.Script{endless, done, done}}, count: wordsOf{}, format: f})
		r.budget, r.room = 60, 60
		for run, want := range []string{"cut", "native"} {
			got := r.serve(ask(true, ""))
			if got.err != nil || got.report.Budget != want || got.read().content != "done" {
				t.Errorf("%v: the report is %+v", got.err, got.report)
			}
			if body := string(r.sim.Stats().Runs[2*run].Body); !strings.Contains(body, `"thinking_budget_tokens":58`) {
				t.Errorf("the engine was asked %s", body)
			}
		}
	})
}
