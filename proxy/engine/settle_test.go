package engine_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"oneslot/internal/simengine"
	"oneslot/internal/simengine/simtest"
	"oneslot/proxy/engine"
)

// alone is nobody else.
type alone struct{}

func (alone) Before()     {}
func (alone) After()      {}
func (alone) GoneOn() int { return 0 }

// settle calls Settle with a bound and returns how long it took.
func settle(t *testing.T, e *engine.Engine, bound time.Duration) (time.Duration, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), bound)
	defer cancel()
	began := time.Now()
	err := e.Settle(ctx, alone{})
	return time.Since(began), err
}

// occupy has a run of the given tokens go on at the engine, as a ghost if its
// client leaves.
func occupy(t *testing.T, e *engine.Engine, sim *simengine.Engine, tokens int) (leave func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	resp, err := e.Chat(ctx, fmt.Appendf(nil, `{"model":"ripple","stream":true,"rid":"0123","messages":[{"role":"user","content":"x"}],"sim":{"thinking":%d,"answer":1}}`, tokens))
	if err != nil {
		t.Fatal(err)
	}
	if err := sim.Await(t.Context(), func(s simengine.Stats) bool { return s.Running == 1 }); err != nil {
		t.Fatal(err)
	}
	return func() {
		cancel()
		resp.Body.Close()
	}
}

func TestSettleSimulatedEngines(t *testing.T) {
	for _, x := range []struct {
		name   string
		sole   bool
		sim    simengine.Config
		tokens int  // of the run that is going on; 0: none
		leave  bool // its client has left
		min    time.Duration
		max    time.Duration
		busy   bool // it cannot be settled within 20 s
	}{
		{"idle SGLang", true, simengine.Config{}, 0, false, 0, 0, false},
		{"idle vLLM", true, simengine.Config{Dialect: simengine.VLLM, Metrics: true}, 0, false, 0, 0, false},
		{"idle llama.cpp", true, simengine.Config{Dialect: simengine.LlamaCPP}, 0, false, 0, 0, false},
		{"idle vLLM without metrics", true, simengine.Config{Dialect: simengine.VLLM}, 0, false, time.Millisecond, 3 * time.Second, false},
		{"a ghost", true, simengine.Config{Ghost: true}, 1000, true, 0, 200 * time.Millisecond, false},
		{"another client's run", true, simengine.Config{}, 1000, false, 0, 200 * time.Millisecond, false},
		{"not sole client", false, simengine.Config{Ghost: true}, 50, true, 4 * time.Second, 8 * time.Second, false},
		{"not sole client of an endless run", false, simengine.Config{Ghost: true}, 1000, true, 20 * time.Second, 20 * time.Second, true},
		{"deaf", true, simengine.Config{Ghost: true, Deaf: true}, 1000, true, 20 * time.Second, 20 * time.Second, true},
		{"lossy", true, simengine.Config{Ghost: true, Lossy: true}, 1000, true, 2 * time.Second, 8 * time.Second, false},
		{"vLLM, whose client left", true, simengine.Config{Dialect: simengine.VLLM, Metrics: true}, 1000, true, 0, 3 * time.Second, false},
		{"llama.cpp, whose client stays", true, simengine.Config{Dialect: simengine.LlamaCPP}, 1000, false, 20 * time.Second, 20 * time.Second, true},
	} {
		t.Run(x.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e, sim := simulated(t, engine.Config{SoleClient: x.sole}, x.sim)
				if x.tokens > 0 {
					leave := occupy(t, e, sim, x.tokens)
					defer leave()
					if x.leave {
						leave()
						synctest.Wait()
					}
				}
				took, err := settle(t, e, 20*time.Second)
				if errors.Is(err, engine.ErrBusy) != x.busy || (err != nil) != x.busy || took < x.min || took > x.max {
					t.Errorf("%v after %v; want %v to %v, busy %v", err, took, x.min, x.max, x.busy)
				}
				s := sim.Stats()
				if !x.busy && s.Running+s.Waiting > 0 {
					t.Errorf("%d run, %d wait", s.Running, s.Waiting)
				}
				if !x.sole && s.Aborts > 0 {
					t.Errorf("%d aborts hit others", s.Aborts)
				}
			})
		})
	}
}

// TestSettleReadsEveryLoad has one way of telling the load after the other.
func TestSettleReadsEveryLoad(t *testing.T) {
	for _, x := range []struct {
		dialect, path, text string
		idle                bool
	}{
		{"sglang", "/get_load", `[{"num_reqs":0,"num_waiting_reqs":0}]`, true},
		{"sglang", "/get_load", `[{"num_reqs":1,"num_waiting_reqs":1}]`, false},
		{"sglang", "/get_load", `[{"num_reqs":0},{"num_reqs":2}]`, false},
		{"sglang", "/v1/loads", `{"aggregate":{"total_reqs":0}}`, true},
		{"sglang", "/v1/loads", `{"aggregate":{"total_reqs":1}}`, false},
		{"sglang", "/metrics", "sglang:num_running_reqs{a=\"b\"} 0\nsglang:num_queue_reqs{a=\"b\"} 0\n", true},
		{"sglang", "/metrics", "sglang:num_running_reqs 0.0\nsglang:num_queue_reqs 1.0\n", false},
		{"vllm", "/metrics", "# HELP vllm:num_requests_running x\nvllm:num_requests_running{model=\"a b\",e=\"}\"} 0.0\nvllm:num_requests_waiting 0", true},
		{"vllm", "/metrics", "vllm:num_requests_running{model=\"a b\"} 0.0 1700000000\n", true},
		{"vllm", "/metrics", "vllm:num_requests_running{e=\"} \"} 1\nvllm:num_requests_waiting 0\n", false},
		{"vllm", "/metrics", "vllm:num_requests_running 0\nvllm:num_requests_waiting{model=\"a\"} 1\n", false},
		{"vllm", "/metrics", "vllm:num_requests_running{model=\"a\"} 0\nvllm:num_requests_running{model=\"b\"} 1\n", false},
		{"llamacpp", "/slots", `[{"id":0,"is_processing":false},{"id":1,"is_processing":false}]`, true},
		{"llamacpp", "/slots", `[{"id":0,"is_processing":false},{"id":1,"is_processing":true}]`, false},
		{"llamacpp", "/metrics", "llamacpp:requests_processing 0\nllamacpp:requests_deferred 0\n", true},
		{"llamacpp", "/metrics", "llamacpp:requests_processing 0\nllamacpp:requests_deferred 1\n", false},
		// What cannot be read proves nothing: the trial decides, and here it fails.
		{"sglang", "/get_load", `{}`, false},
		{"sglang", "/get_load", `[]`, false},
		{"sglang", "/get_load", `nonsense`, false},
		{"sglang", "/v1/loads", `{}`, false},
		{"vllm", "/metrics", "vllm:num_requests_running NaN\nvllm:num_requests_running{} \nvllm:num_requests_running\nother 0\n", false},
		{"llamacpp", "/slots", `[]`, false},
	} {
		t.Run(x.dialect+x.path, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake(t, map[string]string{"/v1/models": models, x.path: x.text})
				f.reply("/v1/chat/completions", http.StatusInternalServerError, "")
				e := open(t, engine.Config{Dialect: x.dialect}, f.line.dial)
				took, err := settle(t, e, 5*time.Second)
				if x.idle != (err == nil) || x.idle && took > 0 {
					t.Errorf("%q: %v after %v", x.text, err, took)
				}
			})
		})
	}
}

// TestSettleByTrial is for engines that tell no load.
func TestSettleByTrial(t *testing.T) {
	reply := func(status int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }
	}
	for _, x := range []struct {
		name  string
		trial http.HandlerFunc
		idle  bool
	}{
		{"it answers", reply(200), true},
		{"it refuses the question", reply(400), true},
		{"it knows no such path", reply(404), true},
		{"it has no room", reply(429), false},
		{"it is not ready", reply(503), false},
		{"it failed", reply(500), false},
		{"it waits", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, false},
	} {
		t.Run(x.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake(t, map[string]string{"/v1/models": models})
				f.handle("/v1/chat/completions", x.trial)
				e := open(t, engine.Config{Dialect: "openai", SoleClient: true}, f.line.dial)
				if _, err := settle(t, e, 20*time.Second); (err == nil) != x.idle || !x.idle && !errors.Is(err, engine.ErrBusy) {
					t.Errorf("got %v", err)
				}
				calls := f.seen("/v1/chat/completions")
				if x.name == "it waits" && len(calls) != 4 {
					t.Errorf("%d trials in 20 s, want 4 of 5 s each", len(calls))
				}
				if want := `{"model":"tiny","messages":[{"role":"user","content":"hi"}],"max_completion_tokens":1,"stream":false}`; calls[0].body != want {
					t.Errorf("the trial asks %s", calls[0].body)
				}
			})
		})
	}
}

// TestSettleLooksSeldom: llama.cpp's server does not notice a client that left
// while it is asked in a tight loop.
func TestSettleLooksSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, map[string]string{"/v1/models": models, "/props": props, "/slots": `[{"is_processing":true}]`})
		e := open(t, engine.Config{SoleClient: true}, f.line.dial)
		_, err := settle(t, e, 9*time.Second)
		if !errors.Is(err, engine.ErrBusy) || errors.Is(err, engine.ErrCannotAbort) || !strings.Contains(err.Error(), "http://engine.test") {
			t.Errorf("got %v", err)
		}
		var at []time.Duration
		for _, c := range f.seen("/slots") {
			at = append(at, c.at)
		}
		ms := time.Millisecond
		if want := []time.Duration{0, 100 * ms, 2100 * ms, 4100 * ms, 6100 * ms, 8100 * ms}; !slices.Equal(at, want) {
			t.Errorf("it looked at %v, want %v", at, want)
		}
	})
}

// TestSettleWaitsForAnEngine that is not there yet, then loads, then is idle.
func TestSettleWaitsForAnEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, nil)
		f.reply("*", http.StatusServiceUnavailable, "loading")
		e := open(t, engine.Config{}, f.line.dial)
		if took, err := settle(t, e, 5*time.Second); !errors.Is(err, engine.ErrUnreachable) || errors.Is(err, engine.ErrBusy) || took != 5*time.Second {
			t.Errorf("while it loads: %v after %v", err, took)
		}
		time.AfterFunc(3*time.Second, func() {
			f.reply("*", http.StatusNotFound, "")
			f.reply("/v1/models", http.StatusOK, models)
			f.reply("/server_info", http.StatusOK, serverInfo)
			f.reply("/get_load", http.StatusOK, `[{"num_reqs":0}]`)
		})
		if took, err := settle(t, e, time.Minute); err != nil || took > 5*time.Second {
			t.Errorf("when it is there: %v after %v", err, took)
		}
		e.Close()
		_ = f.line.Close()
		if _, err := settle(t, e, 5*time.Second); !errors.Is(err, engine.ErrUnreachable) || errors.Is(err, engine.ErrBusy) {
			t.Errorf("when it is gone: %v", err)
		}
	})
}

// TestSettleOutlivesCallsThatHang: each is bounded, so the next may succeed.
func TestSettleOutlivesCallsThatHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, map[string]string{"/v1/models": models, "/server_info": serverInfo})
		f.handle("/get_load", func(w http.ResponseWriter, r *http.Request) {
			if len(f.seen("/get_load")) < 2 {
				<-r.Context().Done()
				return
			}
			_, _ = w.Write([]byte(`[{"num_reqs":0}]`))
		})
		e := open(t, engine.Config{}, f.line.dial)
		if took, err := settle(t, e, time.Minute); err != nil || took > 11*time.Second {
			t.Errorf("%v after %v", err, took)
		}
	})
}

// TestSettleTellsOfTheEngineNotOfTheClock when the time is up in mid-call.
func TestSettleTellsOfTheEngineNotOfTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, map[string]string{"/v1/models": models, "/server_info": serverInfo})
		f.handle("/get_load", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		f.reply("/v1/chat/completions", http.StatusOK, "{}")
		e := open(t, engine.Config{}, f.line.dial)
		if took, err := settle(t, e, 3*time.Second); !errors.Is(err, engine.ErrBusy) || errors.Is(err, context.DeadlineExceeded) || took != 3*time.Second {
			t.Errorf("%v after %v", err, took)
		}
		if _, err := settle(t, e, 25*time.Second); !errors.Is(err, engine.ErrBusy) || len(f.seen("/v1/chat/completions")) > 0 {
			t.Errorf("%v; an engine that hangs was tried with a question", err)
		}
		if n := len(f.seen("/server_info")); n < 2 {
			t.Errorf("an engine that hangs was asked %d times what it is", n)
		}
	})
}

// TestSettleLeavesTheEngineItsTime: an engine that has refused for want of room is
// not looked at before the time that it asked for, of which 10 s are the most, unless
// whoever settles it has no time for that.
func TestSettleLeavesTheEngineItsTime(t *testing.T) {
	for after, want := range map[string]time.Duration{"": 0, "soon": 0, "-1": 0, "0": 0, "2": 2 * time.Second, "600": 10 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			e, _ := simulated(t, engine.Config{}, simengine.Config{})
			refusal := &http.Response{StatusCode: http.StatusServiceUnavailable, Header: http.Header{"Retry-After": {after}}}
			e.Rest(refusal)
			e.Rest(&http.Response{StatusCode: http.StatusBadRequest, Header: http.Header{"Retry-After": {"9"}}})
			if took, err := settle(t, e, time.Minute); err != nil || took != want {
				t.Errorf("Retry-After %q: idle after %v, %v; want %v", after, took, err, want)
			}
			if want > time.Second { // an idle engine is found idle within any bound
				for bound, want := range map[time.Duration]time.Duration{time.Second: time.Second / 2, want + time.Second: want - time.Second} {
					e.Rest(refusal)
					if took, err := settle(t, e, bound); err != nil || took != max(want, bound/2) {
						t.Errorf("Retry-After %q: within %v idle after %v, %v", after, bound, took, err)
					}
				}
			}
		})
	}
}

// TestSettleAfterARunWithoutResponse: an engine that may not have read a request yet, whose
// sender has gone, is not believed to be idle; one that has had time to is looked at at
// once.
func TestSettleAfterARunWithoutResponse(t *testing.T) {
	for left, want := range map[time.Duration]time.Duration{0: 250 * time.Millisecond, 100 * time.Millisecond: 150 * time.Millisecond, time.Second: 0} {
		synctest.Test(t, func(t *testing.T) {
			e, _ := simulated(t, engine.Config{}, simengine.Config{})
			ctx, leave := context.WithTimeout(t.Context(), left)
			defer leave()
			resp, err := e.Chat(ctx, []byte(`{"stream":true,"messages":[{"role":"user","content":"hi"}],"sim":{"prefill_tokens_per_second":1}}`))
			if err == nil {
				resp.Body.Close()
				t.Fatal("there was a response")
			}
			synctest.Wait()
			if took, err := settle(t, e, time.Minute); err != nil || took < want || took > want+50*time.Millisecond {
				t.Errorf("left after %v: idle after %v, %v; want %v", left, took, err, want)
			}
		})
	}
}

// some are others of whom so many go on, from the given look on.
type some struct{ looks, from, many int }

func (s *some) Before() { s.looks++ }
func (s *some) After()  {}
func (s *some) GoneOn() int {
	if s.looks < s.from {
		return 0
	}
	return s.many
}

// TestSettleOneOfSeveralSlots: it is free when all that runs are runs of others that
// go on; nothing is aborted for it.
func TestSettleOneOfSeveralSlots(t *testing.T) {
	for name, c := range map[string]struct {
		others some
		want   time.Duration // 0: not within 20 s
	}{
		"one of others goes on":     {some{many: 1}, 100 * time.Millisecond},
		"it begins to at last":      {some{many: 1, from: 3}, 4100 * time.Millisecond},
		"nobody can tell of others": {some{}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sim, client := simtest.Pipe(t, simengine.Config{Slots: 2, TokensPerSecond: 1})
				e, err := engine.New(engine.Config{Name: "spark", URL: "http://engine.test", SoleClient: true, Slots: 2, Dial: client.Transport.(*http.Transport).DialContext})
				if err != nil {
					t.Fatal(err)
				}
				defer e.Close()
				defer occupy(t, e, sim, 100)()
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
				defer cancel()
				began := time.Now()
				err = e.Settle(ctx, &c.others)
				if took := time.Since(began); (err == nil) != (c.want > 0) || err == nil && took != c.want || err != nil && !errors.Is(err, engine.ErrBusy) {
					t.Errorf("after %v: %v", took, err)
				}
				if s := sim.Stats(); s.Running != 1 || s.Runs[0].Outcome != "" {
					t.Errorf("the other run is %+v", s.Runs)
				}
			})
		})
	}
}

func TestSlotNames(t *testing.T) {
	for n, want := range map[int]string{0: "[spark]", 1: "[spark]", 3: "[spark spark#2 spark#3]"} {
		e, err := engine.New(engine.Config{Name: "spark", URL: "http://engine.test", Slots: n})
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(e.Slots()); got != want {
			t.Errorf("%d slots are %s", n, got)
		}
		e.Close()
	}
}
