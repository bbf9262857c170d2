package proxy_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"oneslot/internal/simengine"
	"oneslot/proxy"
)

// started has each call made ready and sent before it is served, if that is possible, and
// notes whether it was.
func (r *rig) started(meanwhile func()) (begun *[]bool) {
	begun = &[]bool{}
	r.before = func(call *proxy.Call) func() {
		end := r.proxy.Ahead(r.t.Context(), call, []string{"spark"})
		if meanwhile != nil {
			meanwhile()
		}
		*begun = append(*begun, r.proxy.Start(call, "spark"))
		return end
	}
	return begun
}

// TestStart: a call that is ready reaches the engine before it is served, as the same
// request and once; its time counts from there.
func TestStart(t *testing.T) {
	bothWays(t, func(t *testing.T, stream bool) {
		r := newRig(t, setup{})
		body := ask(stream, `"sim":{"thinking":3,"answer":3}`)
		usual := r.serve(body)
		begun := r.started(nil)
		after := r.before
		r.before = func(call *proxy.Call) func() {
			end := after(call)
			synctest.Wait()
			if n := r.sim.Stats().Arrivals; n != 2 {
				t.Errorf("%d requests have reached the engine", n)
			}
			<-time.After(time.Second)
			return end
		}
		x := r.serve(body)
		if !(*begun)[0] || x.err != nil || x.idle.Load() != 1 {
			t.Fatalf("begun %v, got %v, idle %d", *begun, x.err, x.idle.Load())
		}
		if got, want := x.read(), usual.read(); got.content != want.content || got.reasoning != want.reasoning || got.finish != want.finish {
			t.Errorf("got %+v, want %+v", got, want)
		}
		if late := x.report.Prefill - usual.report.Prefill; late < time.Second-usual.report.Prefill {
			t.Errorf("prefill took %v, as a rule %v", x.report.Prefill, usual.report.Prefill)
		}
		runs := r.sim.Stats().Runs
		if a, b := string(runs[0].Body), string(runs[1].Body); len(runs) != 2 || len(a) != len(b) { // but for the run's id
			t.Errorf("%d runs, the engine was sent %s and %s", len(runs), a, b)
		}
	})
}

// TestStartedClientLeaves: then the run is stopped like any other.
func TestStartedClientLeaves(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, setup{sim: simengine.Config{Ghost: true}})
		r.serve(ask(true, ""))
		begun := r.started(nil)
		x := r.start(ask(true, slow))
		x.leave()
		x.wait()
		if !(*begun)[0] || !errors.Is(x.err, proxy.ErrClient) || x.idle.Load() != 1 {
			t.Errorf("begun %v, got %v, idle %d", *begun, x.err, x.idle.Load())
		}
		if run := r.last(); run.Outcome != simengine.Aborted || r.sim.Stats().Running > 0 {
			t.Errorf("the run ended %q, %d run", run.Outcome, r.sim.Stats().Running)
		}
	})
}

// TestStartedAndNotServed: then the connection is closed.
func TestStartedAndNotServed(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, setup{sim: simengine.Config{Dialect: simengine.VLLM}})
		r.serve(ask(true, ""))
		begun := r.started(nil)
		after := r.before
		r.before = func(call *proxy.Call) func() {
			end := after(call)
			synctest.Wait()
			end()
			synctest.Wait()
			if run := r.last(); run.Left.IsZero() || len(r.sim.Stats().Runs) != 2 {
				t.Errorf("the run goes on, of %d", len(r.sim.Stats().Runs))
			}
			return func() {}
		}
		if x := r.serve(ask(true, `"sim":{"thinking":3}`)); x.err != nil || !(*begun)[0] {
			t.Errorf("begun %v, got %v", *begun, x.err)
		}
	})
}

// TestStartWhereItCannot: what is not ready, or not any more, is served as ever.
func TestStartWhereItCannot(t *testing.T) {
	for name, x := range map[string]struct {
		warm      bool
		members   string
		meanwhile func(r *rig)
		want      bool
	}{
		"ready":         {true, ``, nil, true},
		"no connection": {true, ``, func(r *rig) { r.engine.Close() }, false},
		"not known":     {false, ``, nil, false},
		"changed": {true, ``, func(r *rig) {
			if _, err := r.engine.Refresh(r.t.Context()); err != nil {
				r.t.Error(err)
			}
		}, false},
		"large": {true, `"user":"` + strings.Repeat("x", 20_000) + `"`, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				r := newRig(t, setup{})
				if x.warm {
					r.serve(ask(true, ""))
				}
				begun := r.started(func() {
					if x.meanwhile != nil {
						x.meanwhile(r)
					}
				})
				if got := r.serve(ask(true, x.members)); got.err != nil || got.read().finish == "" {
					t.Errorf("got %v", got.err)
				}
				if (*begun)[0] != x.want {
					t.Errorf("begun %v", *begun)
				}
			})
		})
	}
}
