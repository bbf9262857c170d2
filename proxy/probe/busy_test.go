package probe_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"oneslot/internal/simengine"
	"oneslot/proxy/engine"
	"oneslot/proxy/probe"
)

// TestBusyEngine: a busy engine is only read, which tells a good deal.
func TestBusyEngine(t *testing.T) {
	for _, dialect := range []simengine.Dialect{simengine.SGLang, simengine.VLLM, simengine.LlamaCPP} {
		t.Run(string(dialect), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				b := open(t, simengine.Config{Dialect: dialect, Metrics: true}, nil)
				b.chat(`{"model":"ripple","stream":true,"ignore_eos":true,"max_tokens":100000,"messages":[{"role":"user","content":"hi"}]}`)
				began := time.Now()
				r := b.probe()
				if took := time.Since(began); took > 5*time.Second {
					t.Errorf("reading took %s", took)
				}
				wantAll(t, r, map[string]string{
					probe.Load: "found busy", probe.Tokenizer: "found yes", probe.Prompt: "found <|im_end|>\n<|im_start|>assistant\n<think>", probe.Raw: "skipped ",
					probe.StartsIn: "found thinking", probe.ContinuousUsage: "skipped ", probe.Prefill: "skipped ", probe.PrefillClosed: "skipped ", probe.Completions: "skipped ",
				})
				if !strings.Contains(r.ReadOnly, "busy") {
					t.Errorf("read only: %q", r.ReadOnly)
				}
				if s := b.engine.Stats(); s.Arrivals != 1 || s.Aborts != 0 || s.Running != 1 || s.Waiting != 0 {
					t.Errorf("the engine was disturbed: %+v", s)
				}
				switch dialect {
				case simengine.SGLang:
					wantAll(t, r, map[string]string{probe.Abort: "skipped ", probe.Parser: "found ripple", probe.Cache: "found off"})
				case simengine.VLLM:
					wantAll(t, r, map[string]string{probe.Abort: "absent ", probe.Parser: "skipped ", probe.Cache: "found off"})
				case simengine.LlamaCPP:
					wantAll(t, r, map[string]string{probe.Abort: "absent ", probe.Parser: "skipped ", probe.Cache: "unknown "})
				}
			})
		})
	}
}

// TestBusyOK asks a busy engine all the same, but for the long run.
func TestBusyOK(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := open(t, simengine.Config{Slots: 2}, nil)
		b.chat(`{"stream":true,"ignore_eos":true,"max_tokens":100000,"messages":[{"role":"user","content":"hi"}]}`)
		cfg := b.config()
		cfg.BusyOK = true
		r := b.probeWith(cfg)
		wantAll(t, r, map[string]string{
			probe.Load: "found busy", probe.Markers: "found <think> … </think>", probe.PrefillClosed: "found yes", probe.Abort: "skipped ",
		})
		if s := b.engine.Stats(); r.ReadOnly != "" || s.Aborts != 0 || s.Running != 1 {
			t.Errorf("read only: %q, the engine saw %+v", r.ReadOnly, s)
		}
	})
}

// TestBecomesBusy: somebody else's request ends the asking, not that request.
func TestBecomesBusy(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var b *box
		asked := 0
		b = open(t, simengine.Config{}, func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				next.ServeHTTP(w, r)
				if r.URL.Path != "/v1/chat/completions" {
					return
				}
				if asked++; asked == 2 { // the second test request is over
					go func() {
						req, _ := http.NewRequestWithContext(b.t.Context(), http.MethodPost, "/v1/chat/completions", strings.NewReader(`{"ignore_eos":true,"max_tokens":100000,"messages":[{"role":"user","content":"hi"}]}`))
						req.Header.Set("Content-Type", "application/json")
						next.ServeHTTP(discard{http.Header{}}, req)
					}()
				}
			})
		})
		r := b.probe()
		wantAll(t, r, map[string]string{
			probe.Raw: "found …", probe.Markers: "found <think> … </think>", probe.Prefill: "skipped ", probe.PrefillClosed: "skipped ",
			probe.Completions: "skipped ", probe.Abort: "skipped ", probe.ContinuousUsage: "found yes",
		})
		if s := b.engine.Stats(); !strings.Contains(r.ReadOnly, "busy") || s.Aborts != 0 || s.Running != 1 || s.MaxWaiting > 1 {
			t.Errorf("read only: %q, the engine saw %+v", r.ReadOnly, s)
		}
	})
}

type discard struct{ header http.Header }

func (d discard) Header() http.Header         { return d.header }
func (d discard) Write(p []byte) (int, error) { return len(p), nil }
func (d discard) WriteHeader(int)             {}

// TestSlowToPutAway: an engine that shows a test request for a while after its
// end is not taken for a busy one.
func TestSlowToPutAway(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var last time.Time
		r := open(t, simengine.Config{}, func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/get_load" && time.Since(last) < 3*time.Second {
					_, _ = fmt.Fprint(w, `[{"num_reqs":1,"num_waiting_reqs":0}]`)
					return
				}
				next.ServeHTTP(w, r)
				if strings.HasPrefix(r.URL.Path, "/v1/chat") {
					last = time.Now()
				}
			})
		}).probe()
		want(t, r, probe.Abort, "found yes")
		if r.ReadOnly != "" {
			t.Errorf("read only: %s", r.ReadOnly)
		}
	})
}

// TestAbort: what an abort does is what it is seen to do.
func TestAbort(t *testing.T) {
	for _, tt := range []struct {
		name string
		sim  simengine.Config
		want string
	}{
		{"works", simengine.Config{}, "found yes"},
		{"works on an engine that goes on without its client", simengine.Config{Ghost: true}, "found yes"},
		{"is lost twice", simengine.Config{Lossy: true}, "found yes"},
		{"does nothing", simengine.Config{Deaf: true}, "absent "},
		{"does nothing, nor does leaving", simengine.Config{Deaf: true, Ghost: true}, "absent "},
		{"comes too late", simengine.Config{Deaf: true, TokensPerSecond: simengine.Fast, PrefillTokensPerSecond: simengine.Fast}, "unknown "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				b := open(t, tt.sim, nil)
				r := b.probe()
				want(t, r, probe.Abort, tt.want)
				b.undisturbed(r)
				if s := b.engine.Stats(); s.Aborts == 0 {
					t.Error("nobody aborted")
				}
			})
		})
	}
}

// TestTimeIsUp: what was found until then is told, and the run that is on its
// way is stopped before its connection is.
func TestTimeIsUp(t *testing.T) {
	for _, deaf := range []bool{false, true} {
		t.Run(fmt.Sprintf("deaf %t", deaf), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				b := open(t, simengine.Config{Deaf: deaf, Ghost: true, Thinking: 3000}, nil)
				cfg := b.config()
				cfg.Time = 10 * time.Second // in the middle of the raw reply
				began := time.Now()
				r := b.probeWith(cfg)
				bound := cfg.Time
				if deaf {
					bound += 5 * time.Second // that an abort may take
				}
				if took := time.Since(began); took != bound {
					t.Errorf("it took %s, want %s", took, bound)
				}
				wantAll(t, r, map[string]string{
					probe.Parser: "found reasoning_content", probe.Prefill: "skipped ", probe.Completions: "skipped ", probe.Abort: "skipped ", probe.StartsIn: "found thinking",
				})
				if r.ReadOnly != "the time was up" {
					t.Errorf("read only: %q", r.ReadOnly)
				}
				synctest.Wait() // until the engine has noticed
				s := b.engine.Stats()
				if s.Aborts != 1 || s.Ghosts > 0 != deaf {
					t.Errorf("the engine saw %d aborts and has %d runs without a client", s.Aborts, s.Ghosts)
				}
			})
		})
	}
}

// TestCancelled: who is called off says so, and leaves the engine idle.
func TestCancelled(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := open(t, simengine.Config{Ghost: true}, nil)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(6*time.Second, cancel)
		if _, err := probe.Run(ctx, b.config()); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		if s := b.engine.Stats(); s.Aborts != 1 || s.Running+s.Ghosts != 0 {
			t.Errorf("the engine saw %d aborts, and %d runs go on", s.Aborts, s.Running)
		}
	})
}

// TestFaults of the engine are told where they matter, and end nothing.
func TestFaults(t *testing.T) {
	chat := "/v1/chat/completions"
	stream := func(body string) wrap {
		return func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != chat {
					next.ServeHTTP(w, r)
					return
				}
				w.Header().Set("Content-Type", "text/event-stream")
				_, _ = fmt.Fprint(w, body)
			})
		}
	}
	for _, tt := range []struct {
		name, says string
		wrap       wrap
	}{
		{"an error", "503 The model is loading", answering(chat, 503, "The model is loading")},
		{"an error in the stream", "out of memory", stream("data: {\"error\":{\"message\":\"out of memory\",\"code\":500}}\n\ndata: [DONE]\n\n")},
		{"a stream without an end", "without a finish reason", stream("data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"so\"}}]}\n\ndata: [DONE]\n\n")},
		{"a stream of nothing", "without a finish reason", stream("")},
		{"an event without an end", "token too long", stream("data: " + strings.Repeat("x", 2<<20))},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				b := open(t, simengine.Config{}, tt.wrap)
				r := b.probe()
				wantAll(t, r, map[string]string{probe.Parser: "unknown ", probe.Raw: "unknown ", probe.ContinuousUsage: "unknown ", probe.Abort: "unknown "})
				f, _ := r.Find(probe.Parser)
				if last := f.Evidence[len(f.Evidence)-1].Reply; !strings.Contains(last, tt.says) {
					t.Errorf("it says %q, want %q in it", last, tt.says)
				}
			})
		})
	}
}

// TestNobody: without an engine there is no report.
func TestNobody(t *testing.T) {
	for _, tt := range []struct {
		name string
		cfg  func(b *box) probe.Config
		wrap wrap
		is   error
	}{
		{"nobody listens", func(*box) probe.Config { return probe.Config{URL: "http://127.0.0.1:1"} }, nil, engine.ErrUnreachable},
		{"the model is loading", (*box).config, answering("/v1/models", 503, `{"error":{"message":"Loading model"}}`), engine.ErrUnreachable},
		{"it wants a key", (*box).config, answering("/v1/models", 401, `{"error":"Unauthorized"}`), probe.ErrRefused},
		{"it wants another key", (*box).config, answering("/v1/models", 403, `{"error":"Forbidden"}`), probe.ErrRefused},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := open(t, simengine.Config{}, tt.wrap)
			if r, err := probe.Run(t.Context(), tt.cfg(b)); !errors.Is(err, tt.is) || r != nil {
				t.Errorf("got %v, %v", r, err)
			}
		})
	}
}

// TestKey goes with every call.
func TestKey(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := open(t, simengine.Config{}, func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Authorization") != "Bearer sk-0wn" {
					w.WriteHeader(http.StatusUnauthorized)
					return
				}
				next.ServeHTTP(w, r)
			})
		})
		cfg := b.config()
		cfg.APIKey = "sk-0wn"
		wantAll(t, b.probeWith(cfg), map[string]string{probe.Kind: "found sglang", probe.Markers: "found <think> … </think>", probe.Abort: "found yes"})
	})
}

// TestConfigIsChecked, all faults at once.
func TestConfigIsChecked(t *testing.T) {
	for _, tt := range []struct {
		name string
		cfg  probe.Config
		says []string
	}{
		{"nothing", probe.Config{}, []string{"url is missing"}},
		{"all wrong", probe.Config{URL: "engine:30000", Time: -1, RawTokens: -1}, []string{"url", "time", "raw tokens"}},
	} {
		_, err := probe.Run(t.Context(), tt.cfg)
		for _, s := range tt.says {
			if err == nil || !strings.Contains(err.Error(), s) {
				t.Errorf("%s: %v, want %q in it", tt.name, err, s)
			}
		}
	}
}
