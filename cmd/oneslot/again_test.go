package main

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"oneslot/internal/simengine"
)

// A try is one connection of a client that may try again.
type try struct {
	p     *proxyUnderTest
	leave context.CancelFunc
	got   chan reply // the reply, or the zero value where the client left before it
}

// try sends a chat request and reads on in the background.
func (p *proxyUnderTest) try(body string, header http.Header) *try {
	p.t.Helper()
	return p.tryAt("/v1/chat/completions", body, header)
}

// tryAt does so on any route.
func (p *proxyUnderTest) tryAt(path, body string, header http.Header) *try {
	p.t.Helper()
	ctx, leave := context.WithCancel(p.t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+path, strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	req.Header = header.Clone()
	a := &try{p: p, leave: leave, got: make(chan reply, 1)}
	go func() {
		resp, err := p.client.Do(req)
		if err != nil {
			a.got <- reply{}
			return
		}
		a.got <- p.read(resp)
	}()
	synctest.Wait()
	return a
}

// lost is the end of the connection, as a library that gives up ends it.
func (a *try) lost() {
	a.leave()
	<-a.got
	synctest.Wait()
}

// rows are all rows of the ledger, once handlers whose answers are out have returned.
func (p *proxyUnderTest) rows() []any {
	p.t.Helper()
	synctest.Wait()
	return p.get("/v1/usage")["data"].([]any)
}

// pass lets time go by and everything happen that is due.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// onlyOne reports what is wrong if all tries were not one request: one run on the
// engine, one row, which is returned.
func (p *proxyUnderTest) onlyOne(outcome string) map[string]any {
	p.t.Helper()
	rows := p.rows()
	if len(rows) != 1 {
		p.t.Fatalf("there are %d rows, want 1: %v", len(rows), rows)
	}
	row := p.settledRecord(rows[0].(map[string]any)["id"].(string))
	if row["outcome"] != outcome {
		p.t.Errorf("the row is %v, want %s", row, outcome)
	}
	if s := p.engine.Stats(); s.Arrivals != 1 || s.MaxRunning > 1 {
		p.t.Errorf("the engine saw %d requests, want 1", s.Arrivals)
	}
	return row
}

var (
	keyed  = http.Header{"Idempotency-Key": {"k-1"}}
	node   = http.Header{"X-Stainless-Timeout": {"10"}, "X-Stainless-Retry-Count": {"0"}}
	python = http.Header{"X-Stainless-Read-Timeout": {"10"}, "X-Stainless-Retry-Count": {"0"}}
)

// again is what a library sends the next time.
func again(h http.Header) http.Header {
	h = h.Clone()
	if h.Get("X-Stainless-Retry-Count") != "" {
		h.Set("X-Stainless-Retry-Count", "1")
	}
	return h
}

// long is an engine that takes 35 s for an answer.
var long = simengine.Config{Thinking: 300, Answer: 50, Ghost: true}

// isWhole reports what is wrong if a reply is not the whole answer of the request that
// the row is about: what somebody gets who is never lost.
func (p *proxyUnderTest) isWhole(r reply, row map[string]any) {
	p.t.Helper()
	row = p.settledRecord(row["id"].(string))
	got := (&r).answer(p.t)
	if p.whole == nil {
		undisturbed := start(p.t, long, "").post(p.t.Context(), hello, nil)
		p.whole = &undisturbed
	}
	want := p.whole.answer(p.t)
	if got.finish != "stop" || got.err != nil || got.reasoning != want.reasoning || got.content != want.content ||
		got.usage["completion_tokens"] != tokens(row, "completion") || got.usage["completion_tokens"] != want.usage["completion_tokens"] {
		p.t.Errorf("the reply is %d %+v\nwant %+v\nthe row is %v", r.status, got, want, row)
	}
	if id := r.header.Get("X-Request-Id"); id != row["id"] || !strings.Contains(r.body, `"id":"chatcmpl-`+id+`"`) {
		p.t.Errorf("X-Request-Id is %s, that of the row %v", id, row["id"])
	}
}

// A client that is lost while its request runs, and comes back in time, gets the
// whole answer of the one run, from its beginning.
func TestRetryIsAttached(t *testing.T) {
	for name, c := range map[string]struct {
		body   string
		header http.Header
		after  time.Duration // until the client is lost
	}{
		"key, stream":      {hello, keyed, 3 * time.Second},
		"key, whole":       {whole, keyed, 3 * time.Second},
		"node, stream":     {hello, node, 10 * time.Second},
		"node, whole":      {whole, node, 10500 * time.Millisecond},
		"python, whole":    {whole, python, 9 * time.Second},
		"python, stream":   {hello, python, 11 * time.Second},
		"before a byte":    {hello, keyed, 200 * time.Millisecond},
		"in prefill":       {whole, keyed, 5 * time.Millisecond},
		"lost many times":  {hello, keyed, 3 * time.Second},
		"long after start": {hello, keyed, 30 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				p := start(t, long, "")
				first := p.try(c.body, c.header)
				pass(c.after)
				first.lost()
				times := 1
				if name == "lost many times" {
					times = 4
				}
				var r reply
				for n := range times {
					pass(time.Second)
					a := p.try(c.body, again(c.header))
					if n < times-1 {
						pass(c.after)
						a.lost()
						continue
					}
					r = <-a.got
				}
				row := p.onlyOne("served")
				p.isWhole(r, row)
				p.coalesced(times)
			})
		})
	}
}

// coalesced reports what is wrong if the metrics do not count so many retries.
func (p *proxyUnderTest) coalesced(want int) {
	p.t.Helper()
	if text := p.fetch("/metrics").body; !strings.Contains(text, fmt.Sprintf("\noneslot_coalesced_retries_total %d\n", want)) {
		p.t.Errorf("the metrics do not count %d retries: %s", want, regexp.MustCompile(`(?m)^oneslot_coalesced.*`).FindString(text))
	}
}

// A client that is lost while it waits and comes back has its old place.
func TestRetryKeepsItsPlace(t *testing.T) {
	for _, header := range []http.Header{keyed, node} {
		inBubble(t, func(t *testing.T) {
			p := start(t, long, "")
			running := p.open(t.Context(), hello)
			p.until(func(s simengine.Stats) bool { return s.Running == 1 })
			first := p.try(whole, header)
			other := p.try(hello, nil)
			pass(10 * time.Second)
			first.lost()
			pass(2 * time.Second)
			waiters := p.get("/v1/queue")["waiters"].([]any)
			retry := p.try(whole, again(header))
			if now := p.get("/v1/queue")["waiters"].([]any); len(now) != 2 || now[0].(map[string]any)["request_id"] != waiters[0].(map[string]any)["request_id"] {
				t.Errorf("the line was %v and is %v", waiters, now)
			}
			<-running.whole
			r := <-retry.got
			if r.header.Get("X-Request-Id") != waiters[0].(map[string]any)["request_id"] {
				t.Errorf("the retry is %s, the place was %v", r.header.Get("X-Request-Id"), waiters[0])
			}
			p.isWhole(r, p.record(r))
			<-other.got
			p.coalesced(1) // the other request is none
			if s := p.engine.Stats(); s.Arrivals != 3 {
				t.Errorf("the engine saw %d requests, want 3", s.Arrivals)
			}
		})
	}
}

// A client that is lost and never comes back: its run is stopped when the grace is
// over, not before, and the slot is free for the next.
func TestLostForGood(t *testing.T) {
	for name, c := range map[string]struct {
		header http.Header
		after  time.Duration // until it is lost
		kept   time.Duration // until its run is stopped
	}{
		"key":                {keyed, 5 * time.Second, 15 * time.Second},
		"at its time":        {node, 10 * time.Second, 15 * time.Second},
		"at nine tenths":     {python, 9 * time.Second, 15 * time.Second},
		"at eleven tenths":   {python, 11 * time.Second, 15 * time.Second},
		"earlier":            {python, 8900 * time.Millisecond, 0},
		"later":              {python, 11100 * time.Millisecond, 0},
		"nothing was said":   {nil, 10 * time.Second, 0},
		"a first, keyless":   {http.Header{"X-Stainless-Retry-Count": {"0"}}, 10 * time.Second, 0},
		"none for a blank":   {http.Header{"Idempotency-Key": {" "}}, 10 * time.Second, 0},
		"other timeout told": {http.Header{"X-Stainless-Timeout": {"600"}}, 10 * time.Second, 0},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				p := start(t, long, "")
				first := p.try(hello, c.header)
				second := p.try(hello, nil)
				pass(c.after)
				first.lost()
				left := time.Now()
				s := p.until(func(s simengine.Stats) bool { return s.Runs[0].Outcome != "" })
				if kept := s.Runs[0].Aborted.Sub(left); kept < c.kept || kept > c.kept+20*time.Millisecond || s.Runs[0].Outcome != "abort" {
					t.Errorf("its run ended as %q %v after it was lost, want %v", s.Runs[0].Outcome, kept, c.kept)
				}
				r := <-second.got
				if a := (&r).answer(t); a.finish != "stop" {
					t.Errorf("the next got %d %+v", r.status, a)
				}
				if row := p.settledRecord(p.rows()[1].(map[string]any)["id"].(string)); row["outcome"] != "client_gone" || tokens(row, "completion") != float64(s.Runs[0].CompletionTokens) {
					t.Errorf("its row is %v", row)
				}
			})
		})
	}
}

// The answer of one that is lost ends within the grace: what it used is told at once,
// how it came out when the grace is over.
func TestLostButAnswered(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := start(t, long, "")
		first := p.try(hello, keyed)
		pass(30 * time.Second)
		first.lost()
		s := p.until(func(s simengine.Stats) bool { return s.Runs[0].Outcome != "" })
		pass(time.Second)
		row := p.rows()[0].(map[string]any)
		if row["outcome"] != "running" || tokens(row, "completion") != float64(s.Runs[0].CompletionTokens) || row["slot_ms"].(float64) < 30_000 {
			t.Errorf("after the run its row is %v", row)
		}
		pass(15 * time.Second)
		if row := p.rows()[0].(map[string]any); row["outcome"] != "client_gone" || tokens(row, "completion") != float64(s.Runs[0].CompletionTokens) {
			t.Errorf("after the grace its row is %v", row)
		}
	})
}

// One that is lost for good while it waits is out of the line after the grace, and
// the engine never hears of it.
func TestLostInLineForGood(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := start(t, long, "")
		running := p.try(hello, nil)
		first := p.try(hello, keyed)
		pass(time.Second)
		first.lost()
		pass(14900 * time.Millisecond)
		if n := p.get("/v1/queue")["waiting"]; n != 1.0 {
			t.Errorf("%v wait within the grace, want 1", n)
		}
		pass(200 * time.Millisecond)
		if n := p.get("/v1/queue")["waiting"]; n != 0.0 {
			t.Errorf("%v wait after the grace, want 0", n)
		}
		<-running.got
		if row := p.rows()[0].(map[string]any); row["outcome"] != "abandoned" {
			t.Errorf("its row is %v", row)
		}
		retry := p.try(hello, keyed) // too late: one of its own
		p.isWhole(<-retry.got, p.rows()[0].(map[string]any))
	})
}
