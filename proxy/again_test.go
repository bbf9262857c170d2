package proxy_test

import (
	"errors"
	"sync/atomic"
	"testing"

	"oneslot/internal/simengine"
)

var errBetter = errors.New("a better call has come")

// TestServedAgain: a run that is stopped before its first token leaves no trace with
// the client, also when the stop comes just as the token does.
func TestServedAgain(t *testing.T) {
	for name, sim := range map[string]simengine.Config{"sglang": {}, "ghost": {Ghost: true}} {
		t.Run(name+"/in prefill", func(t *testing.T) {
			bothWays(t, func(t *testing.T, stream bool) {
				r := newRig(t, setup{sim: sim})
				r.again = errBetter
				x := r.start(ask(stream, slow))
				r.until(func(run simengine.Run) bool { return !run.Started.IsZero() })
				x.end(errBetter)
				r.wholeAfterTwo(x.wait())
			})
		})
		t.Run(name+"/at the first token", func(t *testing.T) {
			bothWays(t, func(t *testing.T, stream bool) {
				r := newRig(t, setup{sim: sim})
				var asked atomic.Int32
				r.again, r.begin = errBetter, func() bool { return asked.Add(1) > 1 }
				x := r.start(ask(stream, slow))
				r.wholeAfterTwo(x.wait())
				if asked.Load() != 2 {
					t.Errorf("asked %d times whether to begin", asked.Load())
				}
			})
		})
	}
}

// wholeAfterTwo expects a complete answer after a run that was aborted.
func (r *rig) wholeAfterTwo(x *exchange) {
	r.t.Helper()
	runs := r.sim.Stats().Runs
	got := x.read()
	if x.err != nil || got.fault != nil || got.finish != "stop" || got.reasoning == "" || got.content == "" {
		r.t.Errorf("error %v, the client got %+v", x.err, got)
	}
	if len(runs) != 2 || runs[0].Outcome != simengine.Aborted || runs[1].Outcome != simengine.Stopped || r.sim.Stats().MaxRunning != 1 {
		r.t.Fatalf("the engine ran %+v", runs)
	}
	if n := x.idle.Load(); n != 2 {
		r.t.Errorf("the slot was proved free %d times", n)
	}
	if tok := x.report.Tokens; tok.Completion.N != runs[1].CompletionTokens || tok.Thinking.N+tok.Answer.N != tok.Completion.N {
		r.t.Errorf("the report says %+v, the engine %+v", tok, runs[1])
	}
}
