package proxy_test

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"oneslot/internal/simengine"
	"oneslot/internal/simengine/script"
	"oneslot/proxy"
	"oneslot/proxy/engine"
)

// slow is a request whose prompt takes long, and whose answer has parts of 20
// tokens.
const slow = `"sim":{"prefill_tokens_per_second":1,"thinking":20,"answer":20}`

// first waits for something that the engine has done.
func (r *rig) until(is func(simengine.Run) bool) {
	r.t.Helper()
	err := r.sim.Await(r.t.Context(), func(s simengine.Stats) bool { return len(s.Runs) > 0 && is(s.Runs[len(s.Runs)-1]) })
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) last() simengine.Run {
	runs := r.sim.Stats().Runs
	return runs[len(runs)-1]
}

// TestClientLeaves at each stage of a run: the engine is told by the run's own
// id while the connection is open, the stream is read to its end, and the report
// has the final usage.
func TestClientLeaves(t *testing.T) {
	stages := map[string]func(simengine.Run) bool{
		"before the headers": func(run simengine.Run) bool { return !run.Started.IsZero() },
		"in thinking":        func(run simengine.Run) bool { return run.CompletionTokens > 5 },
		"in the answer":      func(run simengine.Run) bool { return run.CompletionTokens > 25 },
	}
	engines := map[string]simengine.Config{"sglang": {}, "ghost": {Ghost: true}, "lossy": {Ghost: true, Lossy: true}}
	for when, stage := range stages {
		for name, sim := range engines {
			t.Run(name+"/"+when, func(t *testing.T) {
				bothWays(t, func(t *testing.T, stream bool) {
					r := newRig(t, setup{sim: sim})
					x := r.start(ask(stream, slow))
					r.until(stage)
					left := time.Now()
					x.leave()
					x.wait()
					run := r.last()
					if !errors.Is(x.err, proxy.ErrClient) || x.idle.Load() != 1 {
						t.Errorf("got %v, idle %d", x.err, x.idle.Load())
					}
					if run.Outcome != simengine.Aborted || !run.Left.IsZero() {
						t.Errorf("the run ended %q, its connection was closed: %v", run.Outcome, !run.Left.IsZero())
					}
					bound := 20 * time.Millisecond
					if sim.Lossy {
						bound = 1500 * time.Millisecond // every third abort is heard
					}
					if late := run.Aborted.Sub(left); late > bound || time.Since(left) > bound {
						t.Errorf("aborted %v, over %v after the client left", late, time.Since(left))
					}
					tok := x.report.Tokens
					if tok.Prompt.N != run.PromptTokens || tok.Completion.N != run.CompletionTokens || tok.Thinking.N+tok.Answer.N != tok.Completion.N || !tok.Prompt.Known() {
						t.Errorf("the report says %+v, the engine %+v", tok, run)
					}
					if s := r.sim.Stats(); s.Running > 0 || s.Disconnects > 0 {
						t.Errorf("%d run, %d disconnects", s.Running, s.Disconnects)
					}
				})
			})
		}
	}
}

// TestClientLeftBeforeTheStart: then the engine is not troubled.
func TestClientLeftBeforeTheStart(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, setup{})
		x := r.start(ask(true, ""))
		x.leave()
		x.wait()
		if s := r.sim.Stats(); !errors.Is(x.err, proxy.ErrClient) || x.idle.Load() != 1 || s.Arrivals > 0 {
			t.Errorf("got %v, idle %d, %d runs", x.err, x.idle.Load(), s.Arrivals)
		}
		if tok := x.report.Tokens; tok.Completion.N != 0 || tok.Completion.Source != "not_run" {
			t.Errorf("the report says %+v", tok)
		}
	})
}

// TestDeafEngine: no abort helps, so the connection is closed in the end, and
// the slot is not said to be idle.
func TestDeafEngine(t *testing.T) {
	for _, sole := range []bool{true, false} {
		inBubble(t, func(t *testing.T) {
			r := newRig(t, setup{sim: simengine.Config{Ghost: true, Deaf: true}, noSole: !sole, proxy: proxy.Config{AbortBound: 6 * time.Second}})
			x := r.start(ask(true, `"sim":{"thinking":1000}`))
			r.until(func(run simengine.Run) bool { return run.CompletionTokens > 5 })
			left := time.Now()
			x.leave()
			x.wait()
			if took := time.Since(left); !errors.Is(x.err, proxy.ErrClient) || x.idle.Load() != 0 || took != 6*time.Second {
				t.Errorf("got %v after %v, idle %d", x.err, took, x.idle.Load())
			}
			// At 0, 250 ms and 1250 ms by id, then every 2 s all of it.
			want := 5
			if !sole {
				want = 3
			}
			if s := r.sim.Stats(); s.Aborts != want {
				t.Errorf("%d aborts, want %d", s.Aborts, want)
			}
			if tok := x.report.Tokens; tok.Completion.N < 50 {
				t.Errorf("what was read meanwhile does not count: %+v", tok)
			}
		})
	}
}

// TestEnginesWithoutAbort stop when their connection is closed.
func TestEnginesWithoutAbort(t *testing.T) {
	for name, s := range map[string]setup{
		"vllm":            {sim: simengine.Config{Dialect: simengine.VLLM}},
		"llamacpp":        {sim: simengine.Config{Dialect: simengine.LlamaCPP}},
		"sglang without":  {sim: simengine.Config{Dialect: simengine.VLLM}, engine: engine.Config{Dialect: "sglang"}},
		"openai or other": {engine: engine.Config{Dialect: "openai"}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				r := newRig(t, s)
				x := r.start(ask(true, `"sim":{"thinking":1000}`))
				r.until(func(run simengine.Run) bool { return run.CompletionTokens > 5 })
				left := time.Now()
				x.leave()
				x.wait()
				if took := time.Since(left); !errors.Is(x.err, proxy.ErrClient) || x.idle.Load() != 0 || took > 20*time.Millisecond {
					t.Errorf("got %v after %v, idle %d", x.err, took, x.idle.Load())
				}
				r.until(func(run simengine.Run) bool { return run.Outcome == simengine.Left })
			})
		})
	}
}

// errLost is why the hold on a slot may end.
var errLost = errors.New("slot lost")

func TestHoldEnds(t *testing.T) {
	bothWays(t, func(t *testing.T, stream bool) {
		r := newRig(t, setup{sim: simengine.Config{Ghost: true}})
		x := r.start(ask(stream, `"sim":{"thinking":1000}`))
		r.until(func(run simengine.Run) bool { return run.CompletionTokens > 30 })
		x.end(errLost)
		x.wait()
		got := x.read()
		if !errors.Is(x.err, errLost) || x.idle.Load() != 1 || r.last().Outcome != simengine.Aborted {
			t.Errorf("got %v, idle %d, %q", x.err, x.idle.Load(), r.last().Outcome)
		}
		if got.fault["message"] != "slot lost" || got.finish != "" || stream && (got.done != 1 || got.reasoning == "") {
			t.Errorf("the client got %+v", got)
		}
	})
}

// TestHoldHasEndedBefore a run could begin.
func TestHoldHasEndedBefore(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, setup{})
		x := r.start(ask(true, ""))
		x.end(errLost)
		x.wait()
		if !errors.Is(x.err, errLost) || x.w.status != 502 {
			t.Errorf("got %v, status %d", x.err, x.w.status)
		}
		if s := r.sim.Stats(); s.Running > 0 {
			t.Errorf("%d runs go on", s.Running)
		}
	})
}

// TestClientIsToldWhileTheEngineIsDeaf: it need not wait for the abort.
func TestClientIsToldWhileTheEngineIsDeaf(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, setup{sim: simengine.Config{Ghost: true, Deaf: true}})
		x := r.start(ask(true, `"sim":{"thinking":1000}`))
		x.w.await(t, "reasoning_content")
		ended := time.Now()
		x.end(errLost)
		x.w.await(t, "[DONE]")
		if late := time.Since(ended); late > 20*time.Millisecond {
			t.Errorf("it was told %v later", late)
		}
		if x.wait(); time.Since(ended) < 15*time.Second {
			t.Error("the engine got no time to stop")
		}
	})
}

// TestDrain reads on to the end for a client that has left, whether or not that
// shows when it is written to.
func TestDrain(t *testing.T) {
	bothWays(t, func(t *testing.T, stream bool) {
		drain(t, stream, nil)
		drain(t, stream, errors.New("broken pipe"))
	})
}

func drain(t *testing.T, stream bool, broken error) {
	t.Helper()
	r := newRig(t, setup{proxy: proxy.Config{Drain: true}})
	x := r.start(ask(stream, slow))
	r.until(func(run simengine.Run) bool { return run.CompletionTokens > 5 })
	x.leave()
	x.w.set(func(w *writer) { w.broken = broken })
	x.wait()
	run := r.last()
	if !errors.Is(x.err, proxy.ErrClient) || run.Outcome != simengine.Stopped || x.idle.Load() != 1 || r.sim.Stats().Aborts > 0 {
		t.Errorf("got %v, the run ended %q, idle %d", x.err, run.Outcome, x.idle.Load())
	}
	if x.report.Tokens.Completion.N != run.CompletionTokens || x.report.FinishReason != "stop" {
		t.Errorf("the report says %+v", x.report)
	}
}

// TestClientStopsReading: the write is overdue after 30 s, then the run ends.
func TestClientStopsReading(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, setup{sim: simengine.Config{Ghost: true}})
		x := r.start(ask(true, `"sim":{"thinking":1000}`))
		x.w.await(t, "reasoning_content")
		began := time.Now()
		x.w.set(func(w *writer) { w.stuck = true })
		x.wait()
		if took := time.Since(began); !errors.Is(x.err, proxy.ErrClient) || took < 30*time.Second || took > 31*time.Second || x.idle.Load() != 1 {
			t.Errorf("got %v after %v, idle %d", x.err, took, x.idle.Load())
		}
		if run := r.last(); run.Outcome != simengine.Aborted || x.report.Tokens.Completion.N != run.CompletionTokens {
			t.Errorf("the run ended %q, the report says %+v", run.Outcome, x.report.Tokens)
		}
	})
}

// TestWriteErrorIsSeenAtOnce, not with the next token.
func TestWriteErrorIsSeenAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, setup{sim: simengine.Config{Scripts: []script.Script{{script.Thinking("a"), script.Sleep(time.Second), script.Thinking("b"), script.Hold()}}}})
		x := r.start(ask(true, ""))
		x.w.await(t, `"a"`)
		x.w.set(func(w *writer) { w.broken = errors.New("broken pipe") })
		if x.wait(); !errors.Is(x.err, proxy.ErrClient) || x.took > 2*time.Second {
			t.Errorf("got %v after %v", x.err, x.took)
		}
	})
}

// TestClientIsLostAtTheEnd: an answer that could not be given out is not served.
func TestClientIsLostAtTheEnd(t *testing.T) {
	bothWays(t, func(t *testing.T, stream bool) {
		r := newRig(t, setup{sim: simengine.Config{Scripts: []script.Script{{script.Thinking("a"), script.Answer("b"), script.Sleep(time.Second), script.Finish("stop"), script.Done()}}}})
		x := r.start(ask(stream, ""))
		r.until(func(run simengine.Run) bool { return !run.FirstToken.IsZero() })
		<-time.After(500 * time.Millisecond)
		x.w.set(func(w *writer) { w.broken = errors.New("broken pipe") })
		x.wait()
		if !errors.Is(x.err, proxy.ErrClient) || x.idle.Load() != 1 || x.report.FinishReason != "stop" {
			t.Errorf("got %v, idle %d, %+v", x.err, x.idle.Load(), x.report)
		}
	})
}

// TestStopString cuts the answer, aborts the run and ends it like any other.
func TestStopString(t *testing.T) {
	for _, sim := range []simengine.Config{{Ghost: true}, {Dialect: simengine.VLLM}, {Dialect: simengine.LlamaCPP}} {
		sim.Scripts = []script.Script{{
			script.Thinking("END of "), script.Thinking("thought"), script.Answer("one E"), script.Answer("ND two"), script.Answer("three"),
			event(`{"tool_calls":[{"index":0,"id":"k","function":{"name":"f","arguments":""}}]}`), script.Hold(),
		}}
		t.Run(string(sim.Dialect), func(t *testing.T) {
			bothWays(t, func(t *testing.T, stream bool) {
				r := newRig(t, setup{sim: sim})
				x := r.serve(ask(stream, `"stop":["END"]`))
				got := x.read()
				if x.err != nil || got.reasoning != "END of thought" || got.content != "one " || got.finish != "stop" || stream && got.done != 1 || got.tools != nil {
					t.Errorf("%v: got %+v", x.err, got)
				}
				if x.report.FinishReason != "stop" || !x.report.Stopped || x.took > 20*time.Millisecond {
					t.Errorf("after %v the report says %+v", x.took, x.report)
				}
				byAbort := sim.Dialect == ""
				if run := r.last(); byAbort && (run.Outcome != simengine.Aborted || x.idle.Load() != 1) || !byAbort && x.idle.Load() != 0 {
					t.Errorf("the run ended %q, idle %d", run.Outcome, x.idle.Load())
				}
			})
		})
	}
}

// TestStopStringThatTheEndCompletes: it was held back for a longer one.
func TestStopStringThatTheEndCompletes(t *testing.T) {
	bothWays(t, func(t *testing.T, stream bool) {
		r := newRig(t, setup{sim: simengine.Config{Scripts: []script.Script{{script.Thinking("t"), script.Answer("xab"), script.Finish("length"), script.Done()}}}})
		x := r.serve(ask(stream, `"stop":["abc","b"]`))
		if got := x.read(); x.err != nil || got.content != "xa" || got.finish != "stop" || x.report.Stopped {
			t.Errorf("%v: got %+v", x.err, got)
		}
	})
}

// TestSlotIsFreeBeforeTheClientHasRead: the engine is done, and a client that takes its
// time holds nobody up. Nothing is told to the engine any more, since what runs there
// now is another's.
func TestSlotIsFreeBeforeTheClientHasRead(t *testing.T) {
	bothWays(t, func(t *testing.T, stream bool) {
		r := newRig(t, setup{sim: simengine.Config{Scripts: []script.Script{{script.Thinking("a"), script.Answer("b"), script.Sleep(time.Second), script.Finish("stop"), script.Done()}}}})
		x := r.start(ask(stream, ""))
		r.until(func(run simengine.Run) bool { return !run.FirstToken.IsZero() })
		<-time.After(500 * time.Millisecond)
		x.w.set(func(w *writer) { w.stuck = true })
		<-time.After(600 * time.Millisecond)
		if x.idle.Load() != 1 {
			t.Fatal("the slot waits for the client")
		}
		x.leave()
		<-time.After(20 * time.Second) // more than it takes until everything is aborted
		if n := r.sim.Stats().Aborts; n != 0 {
			t.Errorf("%d aborts behind the end", n)
		}
		if x.wait(); !errors.Is(x.err, proxy.ErrClient) || x.idle.Load() != 1 || x.report.FinishReason != "stop" {
			t.Errorf("got %v, idle %d, %+v", x.err, x.idle.Load(), x.report)
		}
	})
}

// TestCountingHoldsNoSlot: an engine whose tokenize endpoint hangs keeps nobody from
// the slot; a run that was stopped gives it back when it has been aborted, and counting
// may take a moment of that.
func TestCountingHoldsNoSlot(t *testing.T) {
	hangs := tokenizing(func(_ http.ResponseWriter, q *http.Request, _ string) bool {
		<-q.Context().Done()
		return true
	})
	for name, c := range map[string]struct {
		members string
		idle    time.Duration // how long it may take until the slot is free
		took    time.Duration // and until the answer is told
	}{
		"ends by itself": {``, 100 * time.Millisecond, 5500 * time.Millisecond},
		"stopped":        {`"stop":["END"]`, 1500 * time.Millisecond, 1500 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				reply := script.Script{script.Thinking("some thought"), script.Answer("an answer END"), script.Finish("stop")}
				if c.members != "" {
					reply = append(reply[:2:2], script.Hold())
				}
				r := newRigBehind(t, setup{sim: simengine.Config{Scripts: []script.Script{reply}}}, hangs)
				began := time.Now()
				x := r.start(ask(true, c.members))
				for x.idle.Load() == 0 && time.Since(began) < time.Minute {
					<-time.After(10 * time.Millisecond)
				}
				if took := time.Since(began); took > c.idle {
					t.Errorf("the slot was free after %v", took)
				}
				if x.wait(); x.err != nil || time.Since(began) > c.took {
					t.Errorf("%v after %v", x.err, time.Since(began))
				}
			})
		})
	}
}
