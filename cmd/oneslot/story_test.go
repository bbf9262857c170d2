package main

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"oneslot/internal/simengine"
	"oneslot/internal/simengine/script"
)

const hello = `{"model":"ripple","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"hi"}]}`

// A stream is a streamed reply that is being read.
type stream struct {
	header http.Header
	whole  chan reply // gets the reply when it has ended
}

// begin sends a request and returns at its status line.
func (p *proxyUnderTest) begin(ctx context.Context, body string) *http.Response {
	p.t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	resp, err := p.client.Do(req)
	if err != nil {
		p.t.Fatal(err)
	}
	return resp
}

// open sends a streamed request, returns at its status line, and reads on.
func (p *proxyUnderTest) open(ctx context.Context, body string) *stream {
	p.t.Helper()
	resp := p.begin(ctx, body)
	s := &stream{header: resp.Header, whole: make(chan reply, 1)}
	go func() { s.whole <- p.read(resp) }()
	return s
}

// until waits for the engine to have seen something.
func (p *proxyUnderTest) until(is func(simengine.Stats) bool) simengine.Stats {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), time.Hour)
	defer cancel()
	if err := p.engine.Await(ctx, is); err != nil {
		p.t.Fatalf("the engine never got there: %v; it saw %+v", err, p.engine.Stats())
	}
	return p.engine.Stats()
}

// settledRecord waits until a request's row is closed.
func (p *proxyUnderTest) settledRecord(id string) map[string]any {
	p.t.Helper()
	for range 1000 {
		r := p.get("/v1/usage/" + id)
		if o := r["outcome"]; o != nil && o != "queued" && o != "running" {
			return r
		}
		<-time.After(10 * time.Millisecond)
	}
	p.t.Fatalf("request %s never ended", id)
	return nil
}

// A second client waits: it learns its place at once and every heartbeat, the
// queue view shows both, and the engine never has two.
func TestSecondClientWaitsAndIsTold(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := start(t, simengine.Config{Thinking: 200, Answer: 50, Ghost: true}, "")
		first := p.open(t.Context(), hello)
		p.until(func(s simengine.Stats) bool { return s.Running == 1 })
		began := time.Now()
		second := p.open(t.Context(), hello)
		if since := time.Since(began); since != 500*time.Millisecond {
			t.Errorf("headers after %v, want them after commit_after", since)
		}
		if got := second.header.Get("X-Oneslot-Position"); got != "1" {
			t.Errorf("X-Oneslot-Position is %q, want 1", got)
		}
		<-time.After(3 * time.Second)
		view := p.get("/v1/queue")
		slot := view["slots"].([]any)[0].(map[string]any)
		waiter := view["waiters"].([]any)[0].(map[string]any)
		if view["waiting"] != 1.0 || view["running"] != 1.0 || slot["state"] != "busy" || slot["phase"] != "thinking" ||
			slot["request_id"] != first.header.Get("X-Request-Id") || waiter["request_id"] != second.header.Get("X-Request-Id") || waiter["position"] != 1.0 {
			t.Errorf("the queue view is %v", view)
		}
		r := <-second.whole
		if a := (&r).answer(t); a.finish != "stop" || a.done != 1 || a.reasoning == "" || strings.ToLower(a.reasoning) != a.reasoning || strings.ToUpper(a.content) != a.content {
			t.Errorf("the second client got %+v", a)
		}
		waited := 0
		for _, c := range r.comments {
			if strings.HasPrefix(c, "queue position=1 of=1") {
				waited++
			}
		}
		if waited < 2 {
			t.Errorf("comments were %q, want the place at once and every 10 s", r.comments)
		}
		if s := p.engine.Stats(); s.MaxRunning != 1 || s.MaxWaiting != 0 || s.Arrivals != 2 {
			t.Errorf("the engine saw %d running, %d waiting, %d arrivals", s.MaxRunning, s.MaxWaiting, s.Arrivals)
		}
	})
}

// A client that leaves while it waits is out of the line at once, and the engine
// never hears of it.
func TestClientLeavesTheLine(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := start(t, simengine.Config{Thinking: 100}, "")
		first := p.open(t.Context(), hello)
		p.until(func(s simengine.Stats) bool { return s.Running == 1 })
		ctx, leave := context.WithCancel(t.Context())
		second := p.open(ctx, hello)
		id := second.header.Get("X-Request-Id")
		leave()
		synctest.Wait()
		if view := p.get("/v1/queue"); view["waiting"] != 0.0 {
			t.Errorf("still %v waiting", view["waiting"])
		}
		record := p.settledRecord(id)
		if record["outcome"] != "abandoned" || tokens(record, "completion") != 0.0 {
			t.Errorf("its record is %v", record)
		}
		<-first.whole
		if s := p.engine.Stats(); s.Arrivals != 1 {
			t.Errorf("the engine saw %d requests, want 1", s.Arrivals)
		}
	})
}

// A client that leaves in the middle of its answer: the engine is told by the
// run's id while the stream is attached, the ghost never walks, the next in line
// is served, and the ledger has what the engine had produced.
func TestClientLeavesWhileRunning(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := start(t, simengine.Config{Thinking: 500, Ghost: true}, "")
		ctx, leave := context.WithCancel(t.Context())
		first := p.open(ctx, hello)
		p.until(func(s simengine.Stats) bool { return s.Running == 1 })
		second := p.open(t.Context(), strings.Replace(hello, `"messages"`, `"max_tokens":5,"messages"`, 1))
		<-time.After(5 * time.Second)
		left := time.Now()
		leave()
		s := p.until(func(s simengine.Stats) bool { return len(s.Runs) == 2 && !s.Runs[1].Started.IsZero() })
		run := s.Runs[0]
		if run.Outcome != "abort" || run.Aborted.Sub(left) > 20*time.Millisecond || s.Ghosts != 0 || s.Disconnects != 0 {
			t.Errorf("the first run ended as %q, aborted %v after its client left; ghosts %d, disconnects %d", run.Outcome, run.Aborted.Sub(left), s.Ghosts, s.Disconnects)
		}
		if len(run.RID) != 32 || run.RID == first.header.Get("X-Request-Id") {
			t.Errorf("its rid was %q, want 32 hex digits of its own", run.RID)
		}
		record := p.settledRecord(first.header.Get("X-Request-Id"))
		if record["outcome"] != "client_gone" || tokens(record, "completion") != float64(run.CompletionTokens) || run.CompletionTokens < 40 {
			t.Errorf("its record is %v; the engine had produced %d tokens", record, run.CompletionTokens)
		}
		r := <-second.whole
		if a := (&r).answer(t); a.finish != "length" {
			t.Errorf("the second client got %+v", a)
		}
		if s := p.engine.Stats(); s.MaxRunning != 1 {
			t.Errorf("the engine ran %d at once", s.MaxRunning)
		}
	})
}

// An engine that answers 200 to aborts and does nothing: the slot is not handed
// on while the ghost runs, and is when the engine has been seen idle.
func TestDeafEngineKeepsTheSlot(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := start(t, simengine.Config{Thinking: 600, Ghost: true, Deaf: true}, "")
		ctx, leave := context.WithCancel(t.Context())
		p.open(ctx, hello)
		p.until(func(s simengine.Stats) bool { return s.Running == 1 })
		second := p.open(t.Context(), hello)
		leave()
		<-time.After(20 * time.Second)
		slot := p.get("/v1/queue")["slots"].([]any)[0].(map[string]any)
		if slot["state"] != "aborting" && slot["state"] != "poisoned" {
			t.Errorf("the slot is %v while the ghost runs", slot)
		}
		<-time.After(15 * time.Second)
		if state := p.get("/v1/queue")["slots"].([]any)[0].(map[string]any)["state"]; state != "poisoned" {
			t.Errorf("the slot is %v after the abort bound, want poisoned", state)
		}
		r := <-second.whole
		if a := (&r).answer(t); a.finish != "stop" {
			t.Errorf("the second client got %+v", a)
		}
		if s := p.engine.Stats(); s.MaxRunning != 1 || s.MaxWaiting != 0 {
			t.Errorf("the engine had %d running and %d waiting", s.MaxRunning, s.MaxWaiting)
		}
	})
}

// Stopping: the running stream completes, those who wait get 503, newcomers too,
// readiness is off, and the program ends by itself right after.
func TestStopLetsTheRunningAnswerEnd(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := start(t, simengine.Config{Thinking: 200, Answer: 100}, "queue: {commit_after: 10s}")
		first := p.open(t.Context(), hello)
		p.until(func(s simengine.Stats) bool { return s.Running == 1 })
		waiting := make(chan reply, 3)
		for range 3 {
			go func() { waiting <- p.post(t.Context(), hello, nil) }()
		}
		synctest.Wait()
		ended := make(chan error, 1)
		go func() { ended <- p.stop() }()
		for range 3 {
			r := <-waiting
			if r.status != http.StatusServiceUnavailable || r.header.Get("Retry-After") == "" || r.header.Get("X-Oneslot-Reason") != "draining" {
				t.Errorf("one that waited got %d %v: %s", r.status, r.header, r.body)
			}
		}
		if r := p.post(t.Context(), hello, nil); r.status != http.StatusServiceUnavailable {
			t.Errorf("a newcomer got %d: %s", r.status, r.body)
		}
		if status := p.fetch("/readyz").status; status != http.StatusServiceUnavailable {
			t.Errorf("/readyz says %d", status)
		}
		r := <-first.whole
		if a := (&r).answer(t); a.finish != "stop" || a.done != 1 {
			t.Errorf("the running answer ended as %+v", a)
		}
		if err := <-ended; err != nil {
			t.Errorf("the program ended with %v", err)
		}
	})
}

// Beyond the limit the running answer is cut off with an error and its engine
// is aborted.
func TestStopHasALimit(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := start(t, simengine.Config{Thinking: 5000, Ghost: true}, "limits: {shutdown: 10s}")
		first := p.open(t.Context(), hello)
		p.until(func(s simengine.Stats) bool { return s.Running == 1 })
		began := time.Now()
		ended := make(chan error, 1)
		go func() { ended <- p.stop() }()
		r := <-first.whole
		if a := (&r).answer(t); a.err == nil || a.finish != "" || a.done != 1 {
			t.Errorf("the running answer ended as %+v", a)
		}
		if err := <-ended; err != nil {
			t.Logf("it ended with: %v", err)
		}
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("stopping took %v", took)
		}
		if s := p.engine.Stats(); s.Running != 0 {
			t.Errorf("the engine still runs %d", s.Running)
		}
	})
}

// An engine that accepts and never answers: the client is told in time, the run
// is aborted, and the next request is served once the engine is well.
func TestSilentEngine(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := start(t, simengine.Config{Ghost: true}, "limits: {first_token: 30s}")
		p.post(t.Context(), hello, nil) // the engine has been seen idle
		p.engine.SetFaults(simengine.Faults{Stall: true})
		whole := strings.Replace(hello, `"stream":true,"stream_options":{"include_usage":true},`, "", 1)
		// Heartbeats would commit a whole answer's status before the limit.
		r := p.post(t.Context(), whole, http.Header{"X-Oneslot-Heartbeat": {"off"}})
		if r.status != http.StatusGatewayTimeout || !strings.Contains(r.body, "engine_timeout") {
			t.Errorf("the client got %d: %s", r.status, r.body)
		}
		p.engine.SetFaults(simengine.Faults{})
		<-time.After(15 * time.Second) // the slot is probed every 10 s at the latest
		r = p.post(t.Context(), hello, nil)
		if a := (&r).answer(t); a.finish != "stop" {
			t.Errorf("the next client got %+v", a)
		}
	})
}

// The engine dies in the middle of an answer and comes back: the client sees an
// error and no finish reason, and the line goes on.
func TestEngineDiesAndComesBack(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := start(t, simengine.Config{Thinking: 100}, "")
		first := p.open(t.Context(), hello)
		p.until(func(s simengine.Stats) bool { return s.Running == 1 })
		second := p.open(t.Context(), hello)
		<-time.After(3 * time.Second)
		p.engine.SetFaults(simengine.Faults{Dead: true})
		r := <-first.whole
		if a := (&r).answer(t); a.err == nil || a.finish != "" || a.done != 1 {
			t.Errorf("the first client got %+v", a)
		}
		if record := p.settledRecord(first.header.Get("X-Request-Id")); record["outcome"] != "engine_failed" {
			t.Errorf("its record is %v", record)
		}
		<-time.After(20 * time.Second)
		p.engine.SetFaults(simengine.Faults{})
		r = <-second.whole
		if a := (&r).answer(t); a.finish != "stop" {
			t.Errorf("the second client got %+v, body %s", a, r.body)
		}
	})
}

// A client that stops reading is one that has left.
func TestClientThatDoesNotRead(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := start(t, simengine.Config{Thinking: 500, Ghost: true}, "limits: {write_timeout: 5s}")
		conn, err := p.dial(t.Context(), "tcp", "proxy.test:80")
		if err != nil {
			t.Fatal(err)
		}
		defer closeIt(t, conn)
		head := "POST /v1/chat/completions HTTP/1.1\r\nHost: proxy.test\r\nContent-Type: application/json\r\nContent-Length: "
		if _, err := io.WriteString(conn, head+strconv.Itoa(len(hello))+"\r\n\r\n"+hello); err != nil {
			t.Fatal(err)
		}
		s := p.until(func(s simengine.Stats) bool { return len(s.Runs) == 1 && !s.Runs[0].Ended.IsZero() })
		if s.Runs[0].Outcome != "abort" {
			t.Errorf("the run ended as %q", s.Runs[0].Outcome)
		}
	})
}

// Nobody listens at the engine's address: the client is told at once and the
// slot is not lost.
func TestEngineUnreachable(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := start(t, simengine.Config{}, "queue: {max_wait: 1m, poison_grace: 5s}")
		p.post(t.Context(), hello, nil) // the engine has been seen idle
		p.engine.SetFaults(simengine.Faults{Dead: true})
		r := p.post(t.Context(), hello, nil)
		a := (&r).answer(t)
		if r.status < 500 && a.err == nil {
			t.Errorf("the client got %d: %s", r.status, r.body)
		}
		p.engine.SetFaults(simengine.Faults{})
		<-time.After(15 * time.Second) // the slot is probed every 10 s at the latest
		r = p.post(t.Context(), hello, nil)
		if a := (&r).answer(t); a.finish != "stop" {
			t.Errorf("the next client got %d %+v", r.status, a)
		}
	})
}

// An engine that has given its finish reason and does not end its stream, or
// goes on sending events that say nothing, keeps neither the client nor the slot.
func TestStreamThatDoesNotEnd(t *testing.T) {
	whole := chunk(`{"content":"r</think>a"}`, "")
	stop := script.Write(`data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n")
	empty := script.Repeat(`data: {"choices":[{"index":0,"delta":{"content":""},"finish_reason":null}]}`+"\n\n", 0, time.Second)
	for name, c := range map[string]struct {
		steps  script.Script
		finish string
		within time.Duration
	}{
		"silent after the finish":      {script.Script{whole, stop, script.Hold()}, "stop", 15 * time.Second},
		"empty events after it":        {script.Script{whole, stop, empty}, "stop", 15 * time.Second},
		"empty events instead of text": {script.Script{whole, empty}, "", 80 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				p := start(t, simengine.Config{Scripts: []script.Script{c.steps, {whole, stop, script.Done()}}}, raw+"\nlimits: {engine_idle: 60s}")
				began := time.Now()
				r := p.post(t.Context(), hello, nil)
				if a := (&r).answer(t); a.content != "a" || a.finish != c.finish || (a.err == nil) != (c.finish == "stop") {
					t.Errorf("the client got %+v", a)
				}
				if took := time.Since(began); took > c.within {
					t.Errorf("it took %v", took)
				}
				r = p.post(t.Context(), hello, nil)
				if a := (&r).answer(t); a.finish != "stop" {
					t.Errorf("the next client got %+v", a)
				}
			})
		})
	}
}

// What an engine writes where words belong is in no log and no row.
func TestEngineTextStaysOutOfTheLog(t *testing.T) {
	const canary = "CANARY answer text"
	for name, steps := range map[string]script.Script{
		"finish reason": {script.Write(`data: {"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":"` + canary + `"}]}` + "\n\n"), script.Done()},
		"error event":   {script.Write(`data: {"error":{"message":"` + canary + `","code":"` + canary + `"}}` + "\n\n")},
		"no JSON":       {script.Write("data: " + canary + "\n\n")},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				p := start(t, simengine.Config{Scripts: []script.Script{steps}}, raw+"\ntelemetry: {log: debug}")
				r := p.post(t.Context(), hello, nil)
				row := asJSON(t, p.record(r))
				if strings.Contains(p.logs.String(), "CANARY") || strings.Contains(row, "CANARY") {
					t.Errorf("the log: %s\nthe row: %s", p.logs, row)
				}
			})
		})
	}
}
