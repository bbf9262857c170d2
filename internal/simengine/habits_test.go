package simengine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"oneslot/internal/simengine"
	"oneslot/internal/simengine/simtest"
)

// call is a request under way; its answer comes through the channels once.
type call struct {
	cancel context.CancelFunc
	status chan int
	body   chan string
}

// start sends body without waiting for anything.
func start(t *testing.T, url, body string) *call {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	c := &call{cancel: cancel, status: make(chan int, 1), body: make(chan string, 1)} // nobody has to read
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	done := make(chan struct{})
	go func() {
		defer close(done)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			c.status <- 0
			c.body <- err.Error()
			return
		}
		defer res.Body.Close()
		c.status <- res.StatusCode
		text, _ := io.ReadAll(res.Body) // what came before an error is enough
		c.body <- string(text)
	}()
	t.Cleanup(func() { cancel(); <-done; http.DefaultClient.CloseIdleConnections() })
	return c
}

// await fails the test when is does not come true while the test may run.
func await(t *testing.T, e *simengine.Engine, is func(simengine.Stats) bool) {
	t.Helper()
	if err := e.Await(t.Context(), is); err != nil {
		t.Fatalf("%v: %+v", err, e.Stats())
	}
}

func running(n int) func(simengine.Stats) bool {
	return func(s simengine.Stats) bool {
		tokens := 0
		for _, r := range s.Runs {
			if r.Outcome == "" && r.CompletionTokens > 0 {
				tokens++
			}
		}
		return s.Running == n && tokens == n
	}
}

func streamed(rid string) string {
	return fmt.Sprintf(`{"rid":%q,"stream":true,"stream_options":{"include_usage":true},%s}`, rid, hi)
}

func TestOneSlotFirstComeFirstServed(t *testing.T) {
	e, url := simtest.Start(t, slow())
	var calls []*call
	for i := range 4 {
		calls = append(calls, start(t, url, streamed(fmt.Sprint("r", i))))
		await(t, e, func(s simengine.Stats) bool { return s.Arrivals == i+1 })
	}
	await(t, e, running(1))
	if s := e.Stats(); s.Running != 1 || s.Waiting != 3 || s.MaxRunning != 1 || s.MaxWaiting != 3 {
		t.Errorf("stats %+v", s)
	}
	if status := <-calls[0].status; status != 200 {
		t.Errorf("status %d", status)
	}
	select {
	case status := <-calls[1].status:
		t.Errorf("a request in line was answered %d", status)
	default:
	}
	for i := range 4 {
		await(t, e, func(s simengine.Stats) bool { return len(s.Started) == i+1 && running(1)(s) })
		read(t, url+"/abort_request", fmt.Sprintf(`{"rid":"r%d"}`, i))
		if s := join(t, <-calls[i].body); s.finish != "abort" || !s.done {
			t.Errorf("stream %d: %+v", i, s)
		}
	}
	if s := e.Stats(); !slices.Equal(s.Started, []string{"r0", "r1", "r2", "r3"}) || s.AbortsEffective != 4 {
		t.Errorf("order %v, %d aborts", s.Started, s.AbortsEffective)
	}
}

func TestTwoSlots(t *testing.T) {
	cfg := slow()
	cfg.Slots = 2
	e, url := simtest.Start(t, cfg)
	for i := range 3 {
		start(t, url, streamed(fmt.Sprint(i)))
	}
	await(t, e, func(s simengine.Stats) bool { return s.Arrivals == 3 && running(2)(s) && s.Waiting == 1 })
}

func TestGhost(t *testing.T) {
	cfg := slow()
	cfg.Ghost = true
	e, url := simtest.Start(t, cfg)
	c := start(t, url, streamed("ghost"))
	await(t, e, running(1))
	c.cancel()
	await(t, e, func(s simengine.Stats) bool { return s.Disconnects == 1 })
	read(t, url+"/abort_request", `{"rid":"ghost"}`)
	if s := e.Stats(); s.Ghosts != 1 || s.Running != 1 || s.Aborts != 1 || s.AbortsEffective != 0 {
		t.Errorf("an abort by rid reached a run whose client has left: %+v", s)
	}
	read(t, url+"/abort_request", `{"abort_all":true}`)
	await(t, e, func(s simengine.Stats) bool { return s.Running == 0 })
	if r := e.Stats().Runs[0]; r.Outcome != simengine.Aborted || r.Left.IsZero() || !r.Left.Before(r.Aborted) {
		t.Errorf("run %+v", r)
	}
}

func TestWithoutGhostARunEndsWithItsClient(t *testing.T) {
	e, url := simtest.Start(t, slow())
	for i, body := range []string{streamed("s"), `{"rid":"n",` + hi + `}`} {
		c := start(t, url, body)
		await(t, e, running(1))
		c.cancel()
		await(t, e, func(s simengine.Stats) bool { return s.Running == 0 && s.Arrivals == i+1 })
		if r := e.Stats().Runs[i]; r.Outcome != simengine.Left {
			t.Errorf("run %+v", r)
		}
	}
}

func TestAbortByPrefix(t *testing.T) {
	cfg := slow()
	cfg.Slots = 3
	e, url := simtest.Start(t, cfg)
	for _, rid := range []string{"abc", "abcd", "abx"} {
		start(t, url, streamed(rid))
	}
	await(t, e, running(3))
	read(t, url+"/abort_request", `{"rid":"ab"}`)
	read(t, url+"/abort_request", `{"rid":""}`)
	if s := e.Stats(); s.Running != 3 {
		t.Errorf("a rid that is not known did something: %+v", s)
	}
	read(t, url+"/abort_request", `{"rid":"abc"}`)
	await(t, e, func(s simengine.Stats) bool { return s.Running == 1 })
	for _, r := range e.Stats().Runs {
		if (r.Outcome == simengine.Aborted) != strings.HasPrefix(r.RID, "abc") {
			t.Errorf("%s: outcome %q", r.RID, r.Outcome)
		}
	}
}

func TestAbortOfARequestInLine(t *testing.T) {
	e, url := simtest.Start(t, slow())
	start(t, url, streamed("first"))
	await(t, e, running(1))
	whole := start(t, url, `{"rid":"whole",`+hi+`}`)
	stream := start(t, url, streamed("stream"))
	await(t, e, func(s simengine.Stats) bool { return s.Waiting == 2 })
	read(t, url+"/abort_request", `{"rid":"whole"}`)
	read(t, url+"/abort_request", `{"rid":"stream"}`)
	var c chunk
	if err := json.Unmarshal([]byte(<-whole.body), &c); err != nil {
		t.Fatal(err)
	}
	if status := <-whole.status; status != 200 || c.Choices[0].FinishReason != "abort" || *c.Choices[0].Message.Content != "" || *c.Usage != (usage{}) {
		t.Errorf("whole reply: %d %+v", status, c)
	}
	if s := join(t, <-stream.body); s.finish != "abort" || !s.done || s.answer+s.thinking != "" || *s.usage != (usage{}) {
		t.Errorf("stream: %+v", s)
	}
	if s := e.Stats(); len(s.Started) != 1 || s.Running != 1 {
		t.Errorf("stats %+v", s)
	}
}

func TestDeafAndLossy(t *testing.T) {
	cfg := slow()
	cfg.Deaf = true
	e, url := simtest.Start(t, cfg)
	start(t, url, streamed("a"))
	await(t, e, running(1))
	abort := func() {
		if status, body := read(t, url+"/abort_request", `{"rid":"a"}`); status != 200 || body != "" {
			t.Errorf("abort: %d %q", status, body)
		}
	}
	abort()
	e.SetFaults(simengine.Faults{Lossy: true})
	abort()
	if s := e.Stats(); s.Running != 1 || s.AbortsEffective != 0 {
		t.Errorf("an abort got through: %+v", s)
	}
	abort()
	await(t, e, func(s simengine.Stats) bool { return s.Running == 0 })
	if s := e.Stats(); s.Aborts != 3 || s.AbortsEffective != 1 {
		t.Errorf("the third abort did not: %+v", s)
	}
}

func TestQueueFull(t *testing.T) {
	cfg := slow()
	cfg.MaxQueued = 1
	e, url := simtest.Start(t, cfg)
	for i := range 2 {
		start(t, url, streamed("a"))
		await(t, e, func(s simengine.Stats) bool { return s.Arrivals == i+1 })
	}
	status, body := read(t, url+"/v1/chat/completions", streamed("c"))
	if want := `{"object":"error","message":"The request queue is full.","type":"503","param":null,"code":503}`; status != 503 || body != want {
		t.Errorf("%d %s", status, body)
	}
	if s := e.Stats(); s.Refused != 1 || s.Arrivals != 2 {
		t.Errorf("stats %+v", s)
	}
}

func TestDead(t *testing.T) {
	e, url := simtest.Start(t, slow())
	streaming, waiting := start(t, url, streamed("a")), start(t, url, streamed("b"))
	await(t, e, func(s simengine.Stats) bool { return s.Arrivals == 2 && running(1)(s) })
	e.SetFaults(simengine.Faults{Dead: true})
	for _, c := range []*call{streaming, waiting} {
		if body := <-c.body; strings.Contains(body, "[DONE]") {
			t.Errorf("a dead engine ended its reply: %q", body)
		}
	}
	for _, path := range []string{"/v1/models", "/health"} {
		silent(t, http.DefaultClient, url+path)
	}
	await(t, e, func(s simengine.Stats) bool { return s.Running+s.Waiting == 0 && s.Runs[0].Outcome == simengine.Died })
	e.SetFaults(simengine.Faults{})
	if status, _ := read(t, url+"/tokenize", `{"prompt":"a"}`); status != 200 {
		t.Errorf("after recovery: %d", status)
	}
}

func TestStall(t *testing.T) {
	e, url := simtest.Start(t, fast())
	e.SetFaults(simengine.Faults{Stall: true})
	c := start(t, url, streamed("a"))
	await(t, e, func(s simengine.Stats) bool { return s.Calls["/v1/chat/completions"] == 1 })
	select {
	case status := <-c.status:
		t.Errorf("a stalled engine answered %d", status)
	default:
	}
	e.SetFaults(simengine.Faults{})
	if s := join(t, <-c.body); s.finish != "stop" || !s.done {
		t.Errorf("after the stall: %+v", s)
	}
}

func TestClose(t *testing.T) {
	e, url := simtest.Start(t, slow())
	streaming, waiting := start(t, url, streamed("a")), start(t, url, streamed("b"))
	await(t, e, func(s simengine.Stats) bool { return s.Arrivals == 2 && running(1)(s) })
	e.Close()
	for _, c := range []*call{streaming, waiting} {
		if body := <-c.body; strings.Contains(body, "[DONE]") {
			t.Errorf("a closed engine ended its reply: %q", body)
		}
	}
	silent(t, http.DefaultClient, url+"/v1/models")
	e.Close() // once more does nothing
}

func TestAwaitEndsWithItsContext(t *testing.T) {
	e := simtest.New(t, fast())
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("enough")
	cancel(cause)
	if err := e.Await(ctx, func(simengine.Stats) bool { return false }); !errors.Is(err, cause) {
		t.Errorf("got %v", err)
	}
}

func TestStatsAreACopy(t *testing.T) {
	e, url := simtest.Start(t, fast())
	read(t, url+"/v1/chat/completions", streamed("a"))
	s := e.Stats()
	s.Runs[0].Body[0], s.Runs[0].RID, s.Started[0], s.Calls["/x"] = 'x', "x", "x", 1
	if again := e.Stats(); again.Runs[0].Body[0] != '{' || again.Runs[0].RID != "a" || again.Started[0] != "a" || again.Calls["/x"] != 0 {
		t.Errorf("stats share memory with the engine: %+v", again)
	}
	if string(e.Stats().Runs[0].Body) != streamed("a") {
		t.Errorf("body %s", e.Stats().Runs[0].Body)
	}
}

func TestConfigFaults(t *testing.T) {
	_, err := simengine.New(simengine.Config{
		Slots: -1, ContextLength: -1, TokensPerChunk: -1, MaxQueued: -1, LeaveCheck: -1, Output: 7, Dialect: "x",
		Format: simengine.Format{Open: "a"},
	})
	if err == nil {
		t.Fatal("no error")
	}
	for _, name := range []string{"Slots", "ContextLength", "TokensPerChunk", "MaxQueued", "LeaveCheck", "Output", "Dialect", "Format"} {
		if !strings.Contains(err.Error(), name) {
			t.Errorf("%s is not told: %v", name, err)
		}
	}
}
