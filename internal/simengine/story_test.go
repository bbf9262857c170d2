package simengine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"oneslot/internal/simengine"
	"oneslot/internal/simengine/script"
	"oneslot/internal/simengine/simtest"
)

// background sends body from a goroutine that ends with its reply or with ctx,
// and returns a channel with what came.
func background(ctx context.Context, t *testing.T, client *http.Client, body string) <-chan stream {
	t.Helper()
	got := make(chan stream, 1) // a test need not wait for it
	go func() {
		var s stream
		res, err := ask(ctx, t, client, body)
		if err == nil {
			text, _ := io.ReadAll(res.Body) // what came before an error is enough
			res.Body.Close()
			whole, _, _ := cutLast(string(text), "\n\n")
			s = join(t, whole)
		}
		got <- s
	}()
	return got
}

// cutLast cuts s behind its last sep.
func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i+len(sep)], s[i+len(sep):], true
	}
	return "", s, false
}

// sendAbort posts an abort to a piped engine.
func sendAbort(t *testing.T, client *http.Client, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://engine/abort_request", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusOK {
		t.Errorf("abort: %d", res.StatusCode)
	}
}

// pass lets d go by on the clock of the bubble.
func pass(d time.Duration) { <-time.After(d) }

// TestNextWaitsForTheGhost is the reason for the whole engine: the slot is not
// free when the connection is.
func TestNextWaitsForTheGhost(t *testing.T) {
	cfg := paced() // 2 s of prefill and 700 ms of reply each
	cfg.Ghost = true
	bubble(t, cfg, func(t *testing.T, e *simengine.Engine, client *http.Client) {
		begin := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 2050*time.Millisecond)
		defer cancel()
		gone := background(ctx, t, client, streamed("ghost"))
		await(t, e, running(1))
		if s := <-background(t.Context(), t, client, streamed("next")); s.finish != "stop" {
			t.Errorf("%+v", s)
		}
		<-gone
		runs := e.Stats().Runs
		if at := runs[1].Started.Sub(begin); at != 2700*time.Millisecond || runs[0].Outcome != simengine.Stopped {
			t.Errorf("the next one started at %v: %+v", at, runs)
		}
		if took := time.Since(begin); took != 5400*time.Millisecond {
			t.Errorf("both took %v", took)
		}
	})
}

func TestAbortFreesTheSlotForTheNext(t *testing.T) {
	cfg := paced()
	cfg.Ghost, cfg.Thinking = true, 1000
	bubble(t, cfg, func(t *testing.T, e *simengine.Engine, client *http.Client) {
		begin := time.Now()
		first := background(t.Context(), t, client, streamed("first"))
		await(t, e, running(1))
		second := background(t.Context(), t, client, streamed("second"))
		pass(time.Second)
		sendAbort(t, client, `{"rid":"first"}`)
		if s := <-first; s.finish != "abort" || s.usage.CompletionTokens != 11 || s.usage.ReasoningTokens != 11 {
			t.Errorf("%+v, %+v", s, s.usage)
		}
		await(t, e, func(s simengine.Stats) bool { return len(s.Started) == 2 })
		if at := e.Stats().Runs[1].Started.Sub(begin); at != 3*time.Second {
			t.Errorf("the second started at %v", at)
		}
		sendAbort(t, client, `{"abort_all":true}`)
		if s := <-second; s.finish != "abort" || s.usage.CompletionTokens != 0 || s.usage.PromptTokens != 11 {
			t.Errorf("aborted in prefill: %+v, %+v", s, s.usage)
		}
	})
}

// TestAbortOfAWholeReply gives what there was so far.
func TestAbortOfAWholeReply(t *testing.T) {
	cfg := paced()
	cfg.Thinking = 5
	bubble(t, cfg, func(t *testing.T, e *simengine.Engine, client *http.Client) {
		aborted := make(chan struct{}) // its own reply may come after that of the run
		time.AfterFunc(2850*time.Millisecond, func() {
			defer close(aborted)
			sendAbort(t, client, `{"rid":"w"}`)
		})
		defer func() { <-aborted }()
		res, err := ask(t.Context(), t, client, `{"rid":"w",`+hi+`}`)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		var c chunk
		if err := json.NewDecoder(res.Body).Decode(&c); err != nil {
			t.Fatal(err)
		}
		r := e.Stats().Runs[0]
		m := c.Choices[0]
		if m.FinishReason != "abort" || c.Usage.CompletionTokens != 9 || *m.Message.ReasoningContent != r.Thinking || *m.Message.Content != r.Answer || r.Answer == "" {
			t.Errorf("%+v, run %+v", c, r)
		}
	})
}

func TestAbortOfAStalledRun(t *testing.T) {
	bubble(t, paced(), func(t *testing.T, e *simengine.Engine, client *http.Client) {
		got := background(t.Context(), t, client, streamed("a"))
		await(t, e, running(1))
		e.SetFaults(simengine.Faults{Stall: true})
		pass(time.Minute)
		if s := e.Stats(); s.Running != 1 || s.Runs[0].CompletionTokens != 1 {
			t.Errorf("a stalled run went on: %+v", s)
		}
		time.AfterFunc(time.Minute, func() { e.SetFaults(simengine.Faults{}) })
		sendAbort(t, client, `{"rid":"a"}`) // is answered after the stall
		if s := <-got; !s.done {
			t.Errorf("%+v", s)
		}
	})
}

func TestDeathInEveryState(t *testing.T) {
	bubble(t, paced(), func(t *testing.T, e *simengine.Engine, client *http.Client) {
		speaking := background(t.Context(), t, client, streamed("speaking"))
		await(t, e, func(s simengine.Stats) bool { return s.Running == 1 })
		waiting := background(t.Context(), t, client, streamed("waiting"))
		pass(2250 * time.Millisecond)
		e.SetFaults(simengine.Faults{Dead: true})
		if s := <-speaking; s.thinking == "" || s.done || s.finish != "" {
			t.Errorf("speaking: %+v", s)
		}
		if s := <-waiting; s.chunks != 0 {
			t.Errorf("waiting: %+v", s)
		}
		if _, err := ask(t.Context(), t, client, streamed("late")); err == nil {
			t.Error("a dead engine took a request")
		}
		e.SetFaults(simengine.Faults{})
		if s := <-background(t.Context(), t, client, streamed("after")); s.finish != "stop" {
			t.Errorf("after recovery: %+v", s)
		}
		for i, want := range []simengine.Outcome{simengine.Died, simengine.Died, simengine.Stopped} {
			if got := e.Stats().Runs[i].Outcome; got != want {
				t.Errorf("run %d: %q, want %q", i, got, want)
			}
		}
	})
}

// TestRunningTotals are exact at every event: what was told so far has as many
// tokens as the totals say.
func TestRunningTotals(t *testing.T) {
	for name, perChunk := range map[string]int{"one by one": 1, "three at once": 3} {
		t.Run(name, func(t *testing.T) {
			cfg := opening(simengine.SGLang)
			cfg.TokensPerChunk = perChunk
			_, url := simtest.Start(t, cfg)
			_, body := read(t, url+"/v1/chat/completions", `{"stream":true,"separate_reasoning":false,"stream_options":{"include_usage":true,"continuous_usage_stats":true},`+hi+`}`)
			text, told := "", 0
			for event := range strings.SplitSeq(body, "\n\n") {
				var c chunk
				if json.Unmarshal([]byte(strings.TrimPrefix(event, "data: ")), &c) != nil || len(c.Choices) == 0 {
					continue
				}
				if content := c.Choices[0].Delta.Content; content != nil {
					text += *content
				}
				if c.Usage == nil {
					continue
				}
				told++
				n := tokenize(t, url, `{"prompt":`+quoted(text)+`}`).Count
				if end := c.Usage.CompletionTokens - n; end != 0 && end != 1 {
					t.Errorf("%q has %d tokens, told were %+v", text, n, c.Usage)
				}
				thinking, _, closed := strings.Cut(text, "</think>")
				if closed {
					thinking += "</think>"
				}
				if want := tokenize(t, url, `{"prompt":`+quoted(thinking)+`}`).Count; c.Usage.ReasoningTokens != want {
					t.Errorf("%q has %d tokens of thinking, told were %+v", text, want, c.Usage)
				}
			}
			if told < 23/perChunk {
				t.Errorf("told %d times", told)
			}
		})
	}
}

// TestManyClients lets clients come, leave and abort at random, and checks what
// must hold whatever they do.
func TestManyClients(t *testing.T) {
	for _, ghost := range []bool{false, true} {
		t.Run(fmt.Sprint("ghost ", ghost), func(t *testing.T) {
			cfg := simengine.Config{Thinking: 5, Answer: 5, Ghost: ghost, Seed: 3}
			bubble(t, cfg, func(t *testing.T, e *simengine.Engine, client *http.Client) {
				const clients = 120
				rng := rand.New(rand.NewPCG(1, 2))
				var wg sync.WaitGroup
				for i := range clients {
					at := time.Duration(rng.IntN(60_000)) * time.Millisecond
					patience := time.Duration(1+rng.IntN(90_000)) * time.Millisecond
					whole, aborts := rng.IntN(3) == 0, rng.IntN(4) == 0
					wg.Go(func() {
						pass(at)
						oneClient(t, client, i, patience, whole, aborts)
					})
				}
				wg.Wait()
				await(t, e, func(s simengine.Stats) bool { return s.Running+s.Waiting == 0 })
				checkMany(t, e.Stats(), clients)
			})
		})
	}
}

// oneClient sends request i and leaves when its patience is over.
func oneClient(t *testing.T, client *http.Client, i int, patience time.Duration, whole, aborts bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	rid := fmt.Sprintf("r%03d", i)
	if aborts {
		stop := time.AfterFunc(patience/2, func() { sendAbort(t, client, `{"rid":"`+rid+`"}`) })
		defer stop.Stop()
	}
	res, err := ask(ctx, t, client, fmt.Sprintf(`{"rid":%q,"stream":%v,%s}`, rid, !whole, hi))
	if err == nil {
		defer res.Body.Close()
		_, err = io.ReadAll(res.Body)
	}
	if err != nil && !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%s: %v", rid, err)
	}
}

func checkMany(t *testing.T, s simengine.Stats, clients int) {
	t.Helper()
	if s.Arrivals != clients || s.MaxRunning != 1 || s.Ghosts != 0 {
		t.Errorf("%d arrivals, %d at once, %d ghosts", s.Arrivals, s.MaxRunning, s.Ghosts)
	}
	var last, free time.Time
	outcomes := map[simengine.Outcome]int{}
	for _, r := range s.Runs {
		outcomes[r.Outcome]++
		if r.Outcome == "" || r.Ended.Before(r.Arrived) {
			t.Errorf("%s has no end: %+v", r.RID, r)
		}
		if r.Started.IsZero() {
			continue
		}
		if r.Started.Before(last) || r.Started.Before(free) {
			t.Errorf("%s started out of turn: %+v", r.RID, r)
		}
		last, free = r.Started, r.Ended
	}
	for _, want := range []simengine.Outcome{simengine.Stopped, simengine.Aborted, simengine.Left} {
		if outcomes[want] == 0 {
			t.Errorf("nothing ended with %q: %v", want, outcomes)
		}
	}
}

func TestCloseWhileStalledAndWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, client := simtest.Pipe(t, paced())
		got := background(t.Context(), t, client, streamed("a"))
		await(t, e, running(1))
		e.SetFaults(simengine.Faults{Stall: true})
		stuck := background(t.Context(), t, client, streamed("b"))
		pass(time.Second)
		e.Close()
		if a, b := <-got, <-stuck; a.done || b.chunks != 0 {
			t.Errorf("%+v %+v", a, b)
		}
	})
}

// TestScriptedReplyKeepsItsTurn checks that a script has the slot as a reply
// has.
func TestScriptedReplyKeepsItsTurn(t *testing.T) {
	cfg := paced()
	bubble(t, cfg, func(t *testing.T, e *simengine.Engine, client *http.Client) {
		e.Play(script.Script{script.Answer("A"), script.Sleep(time.Minute), script.Answer("B"), script.Finish("stop"), script.Done()})
		begin := time.Now()
		first := background(t.Context(), t, client, streamed("first"))
		await(t, e, func(s simengine.Stats) bool { return s.Running == 1 })
		second := background(t.Context(), t, client, streamed("second"))
		if s := <-first; s.answer != "AB" || s.usage == nil || s.finish != "stop" {
			t.Errorf("%+v", s)
		}
		<-second
		if at := e.Stats().Runs[1].Started.Sub(begin); at != time.Minute {
			t.Errorf("the second started at %v", at)
		}
	})
}
