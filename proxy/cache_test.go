package proxy_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"oneslot/internal/simengine"
	"oneslot/proxy"
	"oneslot/proxy/budget"
	"oneslot/reasoning"
	"oneslot/usage"
)

// caching is a simulated engine that has a prefix cache of which it does not tell.
func caching(dialect simengine.Dialect) setup {
	return setup{
		sim:    simengine.Config{Dialect: dialect, RadixCache: true, Metrics: true, TokensPerSecond: 100, Format: simengine.Format{StartsInThinking: true}},
		format: xml(reasoning.StartThinking),
	}
}

// turn is a message of a conversation.
type turn struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

func user(text string) turn { return turn{"user", text} }

// talk sends a conversation and returns the report, with what the engine really
// took from its cache.
func (r *rig) talk(turns ...turn) (report proxy.Report, really int) {
	r.t.Helper()
	messages, err := json.Marshal(turns)
	if err != nil {
		r.t.Fatal(err)
	}
	x := r.serve(`{"model":"ripple","stream":true,"sim":{"thinking":8,"answer":5},"messages":` + string(messages) + `}`)
	if x.err != nil {
		r.t.Fatal(x.err)
	}
	runs := r.sim.Stats().Runs
	return x.report, runs[len(runs)-1].CachedTokens
}

// TestCachedIsPredicted holds the figure to what the engine did, over
// conversations that go on, branch off, and begin alike.
func TestCachedIsPredicted(t *testing.T) {
	for _, dialect := range []simengine.Dialect{simengine.SGLang, simengine.VLLM} {
		t.Run(string(dialect), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				r := newRig(t, caching(dialect))
				long := strings.Repeat("a rule that every question of this team begins with ", 20)
				first := user(long + "how long is the line?")
				report, _ := r.talk(first)
				if report.Tokens.CachedPrompt.Known() {
					t.Errorf("what the engine held before nobody knows, but %+v is said", report.Tokens.CachedPrompt)
				}
				answer := turn{"assistant", report.FinishReason}
				for i, turns := range [][]turn{
					{first},
					{first, answer, user("and now?")},
					{first, answer, user("and now?"), answer, user("really?")},
					{first, answer, user("or else?")},
					{user(long + "who waits?")},
					{user("something else")},
					{first, answer, user("and now?"), answer, user("really?"), answer, user("thanks")},
				} {
					report, really := r.talk(turns...)
					want := usage.Count{N: really, Source: usage.Predicted}
					if got := report.Tokens.CachedPrompt; got != want {
						t.Errorf("conversation %d: %+v, the engine took %d of %d", i, got, really, report.Tokens.Prompt.N)
					}
				}
			})
		})
	}
}

// TestCacheModelEnds with the engine that it followed: a start more has an empty
// cache.
func TestCacheModelEnds(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, caching(simengine.SGLang))
		long := user(strings.Repeat("a long question ", 50))
		r.talk(long)
		if report, really := r.talk(long); report.Tokens.CachedPrompt.N != really || really == 0 {
			t.Fatalf("%+v, the engine took %d", report.Tokens.CachedPrompt, really)
		}
		r.sim.SetFaults(simengine.Faults{Dead: true})
		<-time.After(3 * time.Second)
		r.sim.SetFaults(simengine.Faults{}) // nobody called it meanwhile
		report, really := r.talk(long)
		if want := (usage.Count{N: 0, Source: usage.Predicted}); report.Tokens.CachedPrompt != want || really != 0 {
			t.Errorf("after a restart %+v, the engine took %d", report.Tokens.CachedPrompt, really)
		}
		if report, really := r.talk(long); report.Tokens.CachedPrompt.N != really {
			t.Errorf("then %+v, the engine took %d", report.Tokens.CachedPrompt, really)
		}
	})
}

// TestCachedByOtherSources: what the engine tells, or what follows from how it was
// started, is never predicted, and nothing is tokenized for it.
func TestCachedByOtherSources(t *testing.T) {
	for _, x := range []struct {
		name string
		sim  simengine.Config
		want usage.Source
	}{
		{"the cache is off", simengine.Config{}, usage.EngineSetup},
		{"vLLM's cache is off", simengine.Config{Dialect: simengine.VLLM, Metrics: true}, usage.EngineSetup},
		{"it tells when there are some", simengine.Config{RadixCache: true, CacheReport: true}, usage.EngineSetup},
		{"it always tells", simengine.Config{Dialect: simengine.LlamaCPP, RadixCache: true}, usage.Engine},
	} {
		t.Run(x.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				x.sim.Format = simengine.Format{StartsInThinking: true}
				r := newRig(t, setup{sim: x.sim, format: xml(reasoning.StartThinking), count: bytesOf{}})
				report, _ := r.talk(user("hi"))
				if want := (usage.Count{Source: x.want}); report.Tokens.CachedPrompt != want {
					t.Errorf("first %+v, want %+v", report.Tokens.CachedPrompt, want)
				}
				report, really := r.talk(user("hi"))
				if report.Tokens.CachedPrompt.N != really || x.sim.RadixCache && (really == 0 || report.Tokens.CachedPrompt.Source != usage.Engine) {
					t.Errorf("then %+v, the engine took %d", report.Tokens.CachedPrompt, really)
				}
				if n := r.sim.Stats().Calls["POST /tokenize"]; n > 1 && x.want != usage.Engine {
					t.Errorf("the prompts were tokenized %d times", n)
				}
			})
		})
	}
}

// TestCutRunIsRemembered: both runs of an answer whose thinking was cut are in the
// engine's cache, and the client is told what the first one took.
func TestCutRunIsRemembered(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := caching(simengine.SGLang)
		s.format.OffPrefill = "</think>\n\n"
		r := newRig(t, s)
		r.talk(user("a question"))
		r.budget = 4
		report, _ := r.talk(user("a question with a limit"))
		runs := r.sim.Stats().Runs
		if report.Runs != 2 || report.Tokens.CachedPrompt.N != runs[len(runs)-2].CachedTokens {
			t.Errorf("%d runs, %+v, the engine took %d", report.Runs, report.Tokens.CachedPrompt, runs[len(runs)-2].CachedTokens)
		}
		r.budget = budget.NoLimit
		report, really := r.talk(user("a question with a limit"), turn{"assistant", "yes"}, user("go on"))
		if report.Tokens.CachedPrompt.N != really || really == 0 {
			t.Errorf("then %+v, the engine took %d", report.Tokens.CachedPrompt, really)
		}
	})
}

// byWords is a tokenizer of one token a word, which another engine's may be.
type byWords struct{ bytesOf }

func (byWords) Encode(_ context.Context, text string) (ids []uint32, err error) {
	for word := range strings.FieldsSeq(text) {
		id := uint32(2166136261)
		for _, b := range []byte(word) {
			id = (id ^ uint32(b)) * 16777619
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// TestPredictedByOwnTokenizer: where the engine does not tokenize, the text of the
// messages is, and the engine's own total is the measure.
func TestPredictedByOwnTokenizer(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := caching(simengine.SGLang)
		s.count = byWords{}
		r := newRigBehind(t, s, func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
				if strings.HasSuffix(q.URL.Path, "tokenize") {
					http.NotFound(w, q)
					return
				}
				next.ServeHTTP(w, q)
			})
		})
		first := user(strings.Repeat("so one user asks about our queue ", 40))
		r.talk(first)
		report, really := r.talk(first, turn{"assistant", "yes"}, user("and now?"))
		got := report.Tokens.CachedPrompt
		if got.Source != usage.Predicted || got.N < really*9/10 || got.N > really*11/10 || got.N >= report.Tokens.Prompt.N {
			t.Errorf("%+v, the engine took %d of %d", got, really, report.Tokens.Prompt.N)
		}
	})
}

// TestTokenizingIsNotInTheWay: an engine whose tokenize endpoint hangs delays
// neither the first token nor the end of the answer; only the figure is missing.
func TestTokenizingIsNotInTheWay(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		hang := make(chan struct{})
		r := newRigBehind(t, caching(simengine.SGLang), func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
				if strings.HasSuffix(q.URL.Path, "tokenize") {
					select {
					case <-hang:
					case <-q.Context().Done():
						return
					}
				}
				next.ServeHTTP(w, q)
			})
		})
		defer close(hang)
		prompt := strings.Repeat("word ", 130_000)
		x := r.start(`{"model":"ripple","stream":true,"sim":{"thinking":8,"answer":5,"prefill_tokens_per_second":-1},"messages":[{"role":"user","content":"` + prompt + `"}]}`)
		synctest.Wait()
		x.w.await(t, `"content"`)
		said := time.Now()
		x.w.await(t, `"finish_reason":"stop"`)
		if waited := time.Since(said); waited > 500*time.Millisecond {
			t.Errorf("the finish reason came %v behind the answer's begin", waited)
		}
		x.wait()
		if x.err != nil || x.report.Tokens.CachedPrompt.Known() || x.report.Tokens.Prompt.Source != usage.Engine {
			t.Errorf("%v, %+v", x.err, x.report.Tokens)
		}
		runs := r.sim.Stats().Runs
		if run := runs[0].Ended.Sub(runs[0].Started); run > 200*time.Millisecond || x.took > run+5*time.Second {
			t.Errorf("14 tokens of 10 ms took %v, all of it %v", run, x.took)
		}
	})
}

// tokenizing has calls of the tokenize endpoint answered by handle, which gets the
// body; false leaves them to the engine.
func tokenizing(handle func(w http.ResponseWriter, q *http.Request, body string) bool) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			if strings.HasSuffix(q.URL.Path, "tokenize") {
				body, err := io.ReadAll(q.Body)
				if err != nil || handle(w, q, string(body)) {
					return
				}
				q.Body = io.NopCloser(bytes.NewReader(body))
			}
			next.ServeHTTP(w, q)
		})
	}
}

// TestTheSlotDoesNotWaitForWhatIsRemembered: a tokenizer of 300 ms is done with the
// prompt that long after the first token; what the engine wrote comes later, and
// is in the model all the same.
func TestTheSlotDoesNotWaitForWhatIsRemembered(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := caching(simengine.SGLang)
		s.count = bytesOf{}
		r := newRigBehind(t, s, tokenizing(func(_ http.ResponseWriter, q *http.Request, _ string) bool {
			select {
			case <-time.After(300 * time.Millisecond):
			case <-q.Context().Done():
			}
			return false
		}))
		first := user(strings.Repeat("a long question ", 50))
		for range 2 {
			x := r.serve(`{"model":"ripple","stream":true,"sim":{"thinking":8,"answer":5},"messages":[{"role":"user","content":"` + first.Content + `"}]}`)
			runs := r.sim.Stats().Runs
			run := runs[len(runs)-1].Ended.Sub(runs[len(runs)-1].Started)
			if x.err != nil || x.took > run+300*time.Millisecond {
				t.Errorf("%v; a run of %v held the slot for %v", x.err, run, x.took)
			}
			<-time.After(time.Second)
		}
		report, really := r.talk(first, turn{"assistant", "yes"}, user("and now?"))
		if want := (usage.Count{N: really, Source: usage.Predicted}); report.Tokens.CachedPrompt != want || really == 0 {
			t.Errorf("%+v, the engine took %d", report.Tokens.CachedPrompt, really)
		}
	})
}

// TestOneOddPrompt that the engine does not tokenize has no figure; later ones do.
func TestOneOddPrompt(t *testing.T) {
	for _, status := range []int{http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity} {
		inBubble(t, func(t *testing.T) {
			r := newRigBehind(t, caching(simengine.SGLang), tokenizing(func(w http.ResponseWriter, _ *http.Request, body string) bool {
				odd := strings.Contains(body, "odd")
				if odd {
					w.WriteHeader(status)
				}
				return odd
			}))
			long := user(strings.Repeat("a long question ", 50))
			r.talk(long)
			if report, _ := r.talk(user("an odd one")); report.Tokens.CachedPrompt.Known() {
				t.Errorf("%d: %+v", status, report.Tokens.CachedPrompt)
			}
			report, really := r.talk(long)
			if want := (usage.Count{N: really, Source: usage.Predicted}); report.Tokens.CachedPrompt != want || really == 0 {
				t.Errorf("%d: then %+v, the engine took %d", status, report.Tokens.CachedPrompt, really)
			}
		})
	}
}

// TestAnotherEngineCanTokenize: that one could not ends with it, and after a while.
func TestAnotherEngineCanTokenize(t *testing.T) {
	for name, next := range map[string]func(r *rig){
		"found unreachable": func(r *rig) {
			r.sim.SetFaults(simengine.Faults{Dead: true})
			ctx, cancel := context.WithTimeout(r.t.Context(), time.Second)
			defer cancel()
			if r.proxy.Settle(ctx, r.slot) == nil { // which is what the line does after a run that was cut
				r.t.Error("a dead engine is idle")
			}
			r.sim.SetFaults(simengine.Faults{})
		},
		"nobody called it": func(*rig) { <-time.After(11 * time.Minute) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				old := true
				r := newRigBehind(t, caching(simengine.SGLang), tokenizing(func(w http.ResponseWriter, q *http.Request, _ string) bool {
					if old {
						http.NotFound(w, q)
					}
					return old
				}))
				long := user(strings.Repeat("a long question ", 50))
				r.talk(long)
				old = false
				if report, _ := r.talk(long); report.Tokens.CachedPrompt.Known() {
					t.Errorf("it is asked again: %+v", report.Tokens.CachedPrompt)
				}
				next(r)
				r.talk(long)
				report, really := r.talk(long)
				if want := (usage.Count{N: really, Source: usage.Predicted}); report.Tokens.CachedPrompt != want || really == 0 {
					t.Errorf("%+v, the engine took %d", report.Tokens.CachedPrompt, really)
				}
			})
		})
	}
}

// TestNothingCanTokenize: an engine that has no tokenize endpoint is asked once,
// and no figure is made up.
func TestNothingCanTokenize(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		asked := 0
		r := newRigBehind(t, caching(simengine.SGLang), func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
				if strings.HasSuffix(q.URL.Path, "tokenize") && strings.Contains(q.Header.Get("Content-Type"), "json") {
					body, _ := io.ReadAll(q.Body)
					if strings.Contains(string(body), "messages") {
						asked++
					}
					http.NotFound(w, q)
					return
				}
				next.ServeHTTP(w, q)
			})
		})
		for range 3 {
			if report, _ := r.talk(user("hi")); report.Tokens.CachedPrompt.Known() {
				t.Errorf("%+v", report.Tokens.CachedPrompt)
			}
		}
		if asked != 1 {
			t.Errorf("asked %d times", asked)
		}
	})
}

// TestPromptOfARunThatToldNothing is counted here: it was cut before the engine
// told any total.
func TestPromptOfARunThatToldNothing(t *testing.T) {
	for _, dialect := range []simengine.Dialect{simengine.SGLang, simengine.VLLM, simengine.LlamaCPP} {
		inBubble(t, func(t *testing.T) {
			r := newRig(t, setup{sim: simengine.Config{Dialect: dialect, PrefillTokensPerSecond: 1}})
			x := r.start(ask(true, ""))
			synctest.Wait()
			x.leave()
			x.wait()
			run := r.sim.Stats().Runs[0]
			want := usage.Count{N: run.PromptTokens, Source: usage.Tokenizer}
			if !errors.Is(x.err, proxy.ErrClient) || x.report.Tokens.Prompt != want && x.report.Tokens.Prompt != (usage.Count{N: want.N, Source: usage.Engine}) {
				t.Errorf("%s: %v, %+v; want %+v", dialect, x.err, x.report.Tokens.Prompt, want)
			}
		})
	}
}

// TestVisitsKeepTheirOrder: each visit looks up its prompt after the one before was
// remembered, whatever the tokenizing takes.
func TestVisitsKeepTheirOrder(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, caching(simengine.SGLang))
		long := strings.Repeat("word ", 200)
		r.talk(user(long))
		var all []*exchange
		for i := range 6 {
			all = append(all, r.start(fmt.Sprintf(`{"model":"ripple","stream":true,"sim":{"thinking":1,"answer":1},"messages":[{"role":"user","content":"%s%s"}]}`, long, strings.Repeat("more ", i))))
		}
		var got, want []int
		for _, x := range all {
			x.wait()
			got = append(got, x.report.Tokens.CachedPrompt.N)
		}
		for _, run := range r.sim.Stats().Runs[1:] {
			want = append(want, run.CachedTokens)
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%v, the engine took %v", got, want)
		}
	})
}

// TestOneSlotDoesNotWaitForAnother: of an engine with two slots, an answer that
// began while another one ran has no figure, since nobody knows how far that one's
// prompt was in the cache; it does not wait for it.
func TestOneSlotDoesNotWaitForAnother(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := caching(simengine.SGLang)
		s.sim.Slots, s.engine.Slots = 2, 2
		r := newRig(t, s)
		long := strings.Repeat("a long question ", 50)
		first := r.start(`{"model":"ripple","stream":true,"sim":{"thinking":8,"answer":500},"messages":[{"role":"user","content":"` + long + `"}]}`)
		first.w.await(t, `"content"`)
		r.slot = "spark#2"
		second := r.serve(`{"model":"ripple","stream":true,"sim":{"thinking":8,"answer":5},"messages":[{"role":"user","content":"` + long + `"}]}`)
		runs := r.sim.Stats().Runs
		if run := runs[len(runs)-1].Ended.Sub(runs[len(runs)-1].Started); second.err != nil || second.took > run+500*time.Millisecond || second.report.Tokens.CachedPrompt.Known() {
			t.Errorf("%v; a run of %v held its slot for %v: %+v", second.err, run, second.took, second.report.Tokens.CachedPrompt)
		}
		first.wait()
		report, really := r.talk(user(long))
		if want := (usage.Count{N: really, Source: usage.Predicted}); report.Tokens.CachedPrompt != want || really == 0 {
			t.Errorf("alone again %+v, the engine took %d", report.Tokens.CachedPrompt, really)
		}
	})
}

// TestPredictedBehindASlowReader: the answer before is remembered although its client
// has not read it yet.
func TestPredictedBehindASlowReader(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, caching(simengine.SGLang))
		first := user(strings.Repeat("a rule that every question begins with ", 20))
		r.talk(first)
		x := r.start(`{"model":"ripple","sim":{"thinking":8,"answer":5},"messages":[{"role":"user","content":"another"}]}`)
		x.w.set(func(w *writer) { w.stuck = true })
		for x.idle.Load() == 0 {
			<-time.After(time.Millisecond)
		}
		report, really := r.talk(first)
		if want := (usage.Count{N: really, Source: usage.Predicted}); report.Tokens.CachedPrompt != want {
			t.Errorf("got %+v, want %+v", report.Tokens.CachedPrompt, want)
		}
		x.wait()
	})
}
