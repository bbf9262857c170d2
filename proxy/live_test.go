package proxy_test

import (
	"context"
	"testing"
	"time"

	"oneslot/internal/simengine"
	"oneslot/internal/simengine/script"
	"oneslot/proxy"
	"oneslot/usage"
)

// TestLive looks at a run in each of its phases.
func TestLive(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		second := script.Sleep(time.Second)
		call := event(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}]}`)
		r := newRig(t, setup{sim: simengine.Config{Scripts: []script.Script{{
			script.Sleep(10 * time.Second), script.Thinking("some thinking"), second, script.Thinking("more of it"), second, script.Answer("an answer"), second, call, second, script.Answer(" and more"), second, script.Finish("stop"), script.Done(),
		}}}})
		if _, ok := r.proxy.Live(id); ok {
			t.Error("a run is seen before it begins")
		}
		x := r.start(ask(true, ""))
		for _, want := range []struct {
			after    time.Duration
			phase    proxy.Phase
			thinking bool
			answer   bool
		}{
			{5 * time.Second, proxy.PhasePrefill, false, false},
			{5500 * time.Millisecond, proxy.PhaseThinking, true, false},
			{time.Second, proxy.PhaseThinking, true, false},
			{time.Second, proxy.PhaseAnswer, true, true},
			{time.Second, proxy.PhaseTool, true, true},
			{time.Second, proxy.PhaseAnswer, true, true},
		} {
			<-time.After(want.after)
			v, ok := r.proxy.Live(id)
			if !ok || v.Phase != want.phase || v.Key != "team-a" || v.Tokens.Thinking.N > 0 != want.thinking || v.Tokens.Answer.N > 0 != want.answer {
				t.Errorf("want %+v, got %+v", want, v)
			}
			if v.Phase == proxy.PhaseAnswer && v.Speed <= 0 {
				t.Errorf("the speed is %v", v.Speed)
			}
		}
		if x.wait(); x.err != nil {
			t.Fatal(x.err)
		}
		if _, ok := r.proxy.Live(id); ok {
			t.Error("a run is seen after its end")
		}
	})
}

// TestReportHasTimes of the three parts, also of a run that was cut in one.
func TestReportHasTimes(t *testing.T) {
	script3 := func(last ...script.Step) script.Script {
		return append(script.Script{script.Sleep(10 * time.Second), script.Thinking("t"), script.Sleep(20 * time.Second), script.Answer("a"), script.Sleep(30 * time.Second)}, last...)
	}
	for _, x := range []struct {
		name  string
		steps script.Script
		want  [3]time.Duration
	}{
		{"whole", script3(script.Finish("stop"), script.Done()), [3]time.Duration{10 * time.Second, 20 * time.Second, 30 * time.Second}},
		{"cut in the answer", script3(script.Cut()), [3]time.Duration{10 * time.Second, 20 * time.Second, 30 * time.Second}},
		{"cut in thinking", script.Script{script.Sleep(time.Second), script.Thinking("t"), script.Sleep(2 * time.Second), script.Cut()}, [3]time.Duration{time.Second, 2 * time.Second, 0}},
		{"cut before", script.Script{script.Sleep(time.Second), script.Cut()}, [3]time.Duration{time.Second, 0, 0}},
		{"an answer at once", script.Script{script.Sleep(time.Second), script.Answer("</think>a"), script.Sleep(2 * time.Second), script.Finish("stop"), script.Done()}, [3]time.Duration{time.Second, 0, 2 * time.Second}},
	} {
		t.Run(x.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				r := newRig(t, setup{sim: simengine.Config{Scripts: []script.Script{x.steps}}})
				got := r.serve(ask(true, ""))
				if times := [3]time.Duration{got.report.Prefill, got.report.Thinking, got.report.Answer}; times != x.want {
					t.Errorf("got %v, want %v", times, x.want)
				}
			})
		})
	}
}

// slowCount takes its time.
type slowCount struct{}

func (slowCount) Count(context.Context, string) (int, error) {
	<-time.After(3 * time.Second)
	return 1, nil
}

// TestTheFinishDoesNotWaitForTheCount: only the usage does.
func TestTheFinishDoesNotWaitForTheCount(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, setup{count: slowCount{}, sim: simengine.Config{Scripts: []script.Script{{script.Thinking("t"), script.Answer("a"), script.Write(`data: {"choices":[{"delta":{},"finish_reason":"stop"}]}` + "\n\n"), script.Done()}}}})
		x := r.start(ask(true, ""))
		began := time.Now()
		x.w.await(t, `"finish_reason":"stop"`)
		if late := time.Since(began); late > 0 {
			t.Errorf("the finish came %v late", late)
		}
		if x.wait(); x.took < 3*time.Second || x.err != nil {
			t.Errorf("%v after %v", x.err, x.took)
		}
	})
}

// TestAnEchoIsNotCounted: the engine does not count it either.
func TestAnEchoIsNotCounted(t *testing.T) {
	var got [2]usage.Tokens
	for i, echo := range []string{"", "<think>a</think>b"} {
		inBubble(t, func(t *testing.T) {
			r := newRig(t, setup{count: bytesOf{}, sim: simengine.Config{Dialect: simengine.LlamaCPP, Scripts: []script.Script{{event(`{"content":"` + echo + ` c"}`), finish("length"), script.Done()}}}})
			x := r.serve(ask(true, `"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"<think>a</think>b"}]`))
			got[i] = x.report.Tokens
			if x.err != nil || x.read().content != " c" {
				t.Errorf("%v: %+v", x.err, x.read())
			}
		})
	}
	if got[0] != got[1] || got[0].Completion.N != 2 {
		t.Errorf("got %+v and %+v", got[0], got[1])
	}
}

// TestPace: how fast an engine reads and writes is told once it has written enough,
// while it runs and when it has ended; of an answer made of two runs it is not.
func TestPace(t *testing.T) {
	tokens := usage.Progress{Thinking: usage.Count{N: 30}, Answer: usage.Count{N: 10}}
	if read, write := (proxy.Live{Tokens: tokens, Prefill: 2 * time.Second, Speed: 10}).Pace(4000); read != 2000 || write != 10 {
		t.Errorf("a run reads %v and writes %v", read, write)
	}
	if read, write := (proxy.Live{Prefill: 2 * time.Second, Speed: 10}).Pace(4000); read != 0 || write != 0 {
		t.Errorf("one that has hardly begun reads %v and writes %v", read, write)
	}
	r := proxy.Report{Prefill: 2 * time.Second, Thinking: 3 * time.Second, Answer: time.Second}
	r.Runs, r.Tokens.Thinking.N, r.Tokens.Answer.N = 1, 30, 10
	if read, write := r.Pace(4000); read != 2000 || write != 10 {
		t.Errorf("one that has ended read %v and wrote %v", read, write)
	}
	r.Runs = 2
	if read, write := r.Pace(4000); read != 0 || write != 0 {
		t.Errorf("two runs read %v and wrote %v", read, write)
	}
}
