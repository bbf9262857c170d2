package simengine_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"oneslot/internal/simengine"
	"oneslot/internal/simengine/script"
	"oneslot/internal/simengine/simtest"
)

// bubble runs test against an engine behind a pipe, on a clock of its own.
func bubble(t *testing.T, cfg simengine.Config, test func(*testing.T, *simengine.Engine, *http.Client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		e, client := simtest.Pipe(t, cfg)
		test(t, e, client)
	})
}

// arrival is one event of a stream and when it came.
type arrival struct {
	at   time.Duration
	data string
}

func (a arrival) String() string { return fmt.Sprint(a.at, " ", a.data) }

// ask posts body to a piped engine.
func ask(ctx context.Context, t *testing.T, client *http.Client, body string) (*http.Response, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://engine/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	return client.Do(req)
}

// arrivals reads a whole stream. headed is when its head came.
func arrivals(t *testing.T, client *http.Client, body string) (headed time.Duration, events []arrival) {
	t.Helper()
	begin := time.Now()
	res, err := ask(t.Context(), t, client, body)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	headed = time.Since(begin)
	lines := bufio.NewScanner(res.Body)
	for lines.Scan() {
		if lines.Text() != "" {
			events = append(events, arrival{time.Since(begin), lines.Text()})
		}
	}
	if lines.Err() != nil {
		t.Error(lines.Err())
	}
	return headed, events
}

// paced is an engine of 10 tokens a second that reads a prompt in 2 s.
func paced() simengine.Config {
	return simengine.Config{PrefillTokensPerSecond: 11.0 / 2, Thinking: 3, Answer: 2}
}

func TestPace(t *testing.T) {
	bubble(t, paced(), func(t *testing.T, e *simengine.Engine, client *http.Client) {
		headed, events := arrivals(t, client, `{"stream":true,`+hi+`}`)
		if headed != 2*time.Second {
			t.Errorf("the head came after %v, want it with the first token", headed)
		}
		// Role, 3 of thinking, close marker (not seen), empty line, 2 of answer, end, [DONE].
		want := []int64{2000, 2000, 2100, 2200, 2400, 2500, 2600, 2700, 2700}
		if len(events) != len(want) {
			t.Fatalf("%d events, want %d: %v", len(events), len(want), events)
		}
		for i, ev := range events {
			if ev.at.Milliseconds() != want[i] {
				t.Errorf("event %d came at %v, want %d ms: %s", i, ev.at, want[i], ev.data)
			}
		}
		r := e.Stats().Runs[0]
		if r.FirstToken.Sub(r.Arrived) != 2*time.Second || r.Ended.Sub(r.Arrived) != 2700*time.Millisecond {
			t.Errorf("run %+v", r)
		}
	})
}

func TestPaceDefault(t *testing.T) {
	bubble(t, simengine.Config{}, func(t *testing.T, e *simengine.Engine, client *http.Client) {
		_, events := arrivals(t, client, `{"stream":true,"max_tokens":1000,"ignore_eos":true,"messages":[{"role":"user","content":"`+strings.Repeat(" queue", 940)+`"}]}`)
		if n := e.Stats().Runs[0].PromptTokens; n != 950 {
			t.Fatalf("the prompt has %d tokens", n)
		}
		if first, last := events[0].at, events[len(events)-1].at; first != 2*time.Second || last != 101900*time.Millisecond {
			t.Errorf("first token after %v, the end after %v; want 2s and, without any drift, 101.9s", first, last)
		}
	})
}

func TestTokensPerChunk(t *testing.T) {
	cfg := paced()
	cfg.TokensPerChunk = 4
	bubble(t, cfg, func(t *testing.T, _ *simengine.Engine, client *http.Client) {
		_, events := arrivals(t, client, `{"stream":true,"separate_reasoning":false,`+hi+`}`)
		// Role, a chunk of 4 with the marker, the other 4 with the end of the turn, finish, [DONE].
		want := []int64{2000, 2000, 2400, 2400, 2400}
		for i, ev := range events {
			if i >= len(want) || ev.at.Milliseconds() != want[i] {
				t.Errorf("event %d at %v: %s", i, ev.at, ev.data)
			}
		}
		if !strings.Contains(events[1].data, `</think>`) {
			t.Errorf("no marker in %s", events[1].data)
		}
		_, events = arrivals(t, client, `{"stream":true,"sim":{"tokens_per_chunk":5},`+hi+`}`)
		if len(events) != 6 || events[1].at != events[2].at {
			t.Errorf("thinking and answer of one step are two events at one time: %v", events)
		}
	})
}

func TestShapeOfARequest(t *testing.T) {
	bubble(t, paced(), func(t *testing.T, e *simengine.Engine, client *http.Client) {
		for _, body := range []string{
			`{"stream":true,"sim":{"thinking":1,"answer":1,"tokens_per_second":1,"prefill_tokens_per_second":-1},` + hi + `}`,
			`{"stream":true,"messages":[{"role":"user","content":"sim:{\"thinking\":1,\"answer\":1,\"tokens_per_second\":1,\"prefill_tokens_per_second\":-1} please"}]}`,
		} {
			_, events := arrivals(t, client, body)
			if first, last := events[0].at, events[len(events)-1].at; first != 0 || last != 4*time.Second {
				t.Errorf("%s: from %v to %v, want 0 to 4s", body, first, last)
			}
		}
		if r := e.Stats().Runs[0]; r.CompletionTokens != 5 {
			t.Errorf("run %+v", r)
		}
	})
}

func TestHealthTakesTime(t *testing.T) {
	bubble(t, simengine.Config{}, func(t *testing.T, _ *simengine.Engine, client *http.Client) {
		begin := time.Now()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://engine/health", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		res, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if took := time.Since(begin); res.StatusCode != 200 || took != time.Second {
			t.Errorf("%d after %v", res.StatusCode, took)
		}
	})
}

// leave starts a request, leaves after d, and returns when the engine was idle
// again.
func leave(t *testing.T, e *simengine.Engine, client *http.Client, body string, d time.Duration) time.Duration {
	t.Helper()
	begin := time.Now()
	before := e.Stats().Arrivals
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	res, err := ask(ctx, t, client, body)
	if err == nil {
		_, err = io.Copy(io.Discard, res.Body)
		res.Body.Close()
	}
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v, want to have left", err)
	}
	await(t, e, func(s simengine.Stats) bool {
		return s.Arrivals > before && s.Runs[before].Outcome != ""
	})
	return time.Since(begin)
}

func TestWhenALeavingClientIsNoticed(t *testing.T) {
	long := paced() // 2 s of prefill, then 10 s
	long.Thinking, long.Answer = 50, 47
	ghost := long
	ghost.Ghost = true
	slowStart := ghost
	slowStart.PrefillTokensPerSecond = 11.0 / 9
	for _, tc := range []struct {
		name string
		cfg  simengine.Config
		body string
		left time.Duration
		want time.Duration
		how  simengine.Outcome
	}{
		{"stream", long, streamed("a"), 3 * time.Second, 3 * time.Second, simengine.Left},
		{"whole", long, `{` + hi + `}`, 3 * time.Second, 3 * time.Second, simengine.Left},
		{"ghost stream goes on", ghost, streamed("a"), 3 * time.Second, 11900 * time.Millisecond, simengine.Stopped},
		{"ghost whole", ghost, `{` + hi + `}`, 3 * time.Second, 4 * time.Second, simengine.Left},
		{"ghost whole later", ghost, `{` + hi + `}`, 5 * time.Second, 8 * time.Second, simengine.Left},
		{"ghost stream before its first token", slowStart, streamed("a"), time.Second, 4 * time.Second, simengine.Left},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bubble(t, tc.cfg, func(t *testing.T, e *simengine.Engine, client *http.Client) {
				if got := leave(t, e, client, tc.body, tc.left); got != tc.want {
					t.Errorf("idle after %v, want %v", got, tc.want)
				}
				if r := e.Stats().Runs[0]; r.Outcome != tc.how || r.Left.Sub(r.Arrived) != tc.left {
					t.Errorf("run %+v", r)
				}
			})
		})
	}
}

func TestLeavingTheLine(t *testing.T) {
	cfg := paced()
	cfg.Ghost, cfg.TokensPerSecond = true, 0.1
	bubble(t, cfg, func(t *testing.T, e *simengine.Engine, client *http.Client) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		first := make(chan struct{})
		go func() {
			defer close(first)
			if res, err := ask(ctx, t, client, streamed("first")); err == nil {
				_, _ = io.Copy(io.Discard, res.Body) // ends with the context
				res.Body.Close()
			}
		}()
		await(t, e, running(1))
		if got := leave(t, e, client, streamed("second"), 5*time.Second); got != 8*time.Second {
			t.Errorf("left the line after %v, want at the second look", got)
		}
		cancel()
		<-first
		synctest.Wait()
		if s := e.Stats(); s.Ghosts != 1 || s.Waiting != 0 || len(s.Started) != 1 {
			t.Errorf("stats %+v", s)
		}
	})
}

func TestStallHoldsRunsUp(t *testing.T) {
	bubble(t, paced(), func(t *testing.T, e *simengine.Engine, client *http.Client) {
		time.AfterFunc(2050*time.Millisecond, func() { e.SetFaults(simengine.Faults{Stall: true}) })
		time.AfterFunc(time.Minute, func() { e.SetFaults(simengine.Faults{}) })
		_, events := arrivals(t, client, streamed("a"))
		if events[1].at != 2*time.Second || events[2].at != time.Minute {
			t.Errorf("events %v", events)
		}
	})
}

func TestScriptTimes(t *testing.T) {
	cfg := fast()
	cfg.Scripts = []script.Script{{
		script.Write("data: a\n\n"), script.Sleep(1500 * time.Millisecond), script.Write("data: b\n\n"),
		script.Repeat("data: c\n\n", 3, time.Second), script.Sleep(time.Second), script.Write("data: d\n\n"),
	}}
	bubble(t, cfg, func(t *testing.T, e *simengine.Engine, client *http.Client) {
		_, events := arrivals(t, client, streamed("a"))
		if got, want := fmt.Sprint(events), "[0s data: a 1.5s data: b 1.5s data: c 2.5s data: c 3.5s data: c 4.5s data: d]"; got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
		if r := e.Stats().Runs[0]; r.Outcome != simengine.Scripted {
			t.Errorf("run %+v", r)
		}
	})
}

func TestLlamaPingsDuringPrefill(t *testing.T) {
	cfg := paced()
	cfg.Dialect, cfg.PrefillTokensPerSecond = simengine.LlamaCPP, 0.1
	bubble(t, cfg, func(t *testing.T, _ *simengine.Engine, client *http.Client) {
		headed, events := arrivals(t, client, streamed("a"))
		if headed != 30*time.Second || events[0].data != ":" || events[1].at != time.Minute || events[3].data == ":" {
			t.Errorf("head after %v, %v", headed, events[:4])
		}
	})
}

func TestVLLMSendsTheHeadAtOnce(t *testing.T) {
	cfg := paced()
	cfg.Dialect = simengine.VLLM
	bubble(t, cfg, func(t *testing.T, _ *simengine.Engine, client *http.Client) {
		headed, events := arrivals(t, client, `{"model":"ripple","stream":true,`+hi+`}`)
		if headed != 0 || events[0].at != 0 || events[1].at != 2*time.Second {
			t.Errorf("head after %v, %v", headed, events[:2])
		}
	})
}

// TestSlowReader lets a client not read, over a pipe that holds nothing: the
// engine goes on and gives the slot back, and the reply waits.
func TestSlowReader(t *testing.T) {
	bubble(t, paced(), func(t *testing.T, e *simengine.Engine, client *http.Client) {
		res, err := ask(t.Context(), t, client, `{"stream":true,"max_tokens":500,"ignore_eos":true,`+hi+`}`)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		await(t, e, func(s simengine.Stats) bool { return s.Running == 0 && s.Runs[0].Outcome == simengine.Length })
		if r := e.Stats().Runs[0]; r.Ended.Sub(r.Arrived) != 51900*time.Millisecond {
			t.Errorf("the client held the engine up: %+v", r)
		}
		body, err := io.ReadAll(res.Body)
		if err != nil || !join(t, string(body)).done {
			t.Errorf("the reply was lost: %d bytes, %v", len(body), err)
		}
	})
}
