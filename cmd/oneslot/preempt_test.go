package main

import (
	"strings"
	"testing"
	"time"

	"oneslot/internal/simengine"
)

const batchJob = `{"model":"ripple","stream":true,"service_tier":"flex","messages":[{"role":"user","content":"hi"}],"sim":{"prefill_tokens_per_second":1,"thinking":20,"answer":20}}`

// A batch request gives way to somebody who waits until its first token is out. It
// hears that it waits again, and gets its answer whole; both have one row.
func TestBatchGivesWay(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := start(t, simengine.Config{Thinking: 20, Answer: 20, Ghost: true}, "queue: {heartbeat: 1s}")
		batch := p.open(t.Context(), batchJob)
		<-time.After(5 * time.Second)
		person := p.open(t.Context(), hello)
		r := <-person.whole
		if a := (&r).answer(t); a.finish != "stop" || a.err != nil {
			t.Errorf("the person got %+v", a)
		}
		late := <-batch.whole
		if a := (&late).answer(t); a.finish != "stop" || a.err != nil || a.done != 1 || a.reasoning == "" || a.content == "" {
			t.Errorf("the batch got %+v", a)
		}
		told := strings.Join(late.comments, "|")
		before, after, waited := strings.Cut(told, "|queue position=1 of=1")
		if !waited || !strings.Contains(before, "prefill 4s") || !strings.Contains(after, "prefill 4s") {
			t.Errorf("the batch was told %s", told)
		}
		row, other := p.settledRecord(late.header.Get("X-Request-Id")), p.settledRecord(r.header.Get("X-Request-Id"))
		wait, slot := row["queue_wait_ms"].(float64), row["slot_ms"].(float64)
		if row["outcome"] != "served" || row["runs"] != 2.0 || wait < other["slot_ms"].(float64) || slot < row["prefill_ms"].(float64)+4900 {
			t.Errorf("its row is %v", row)
		}
		if s := p.engine.Stats(); s.MaxRunning != 1 || s.Arrivals != 3 || s.Disconnects != 0 {
			t.Errorf("the engine saw %d at once, %d arrivals, %d disconnects", s.MaxRunning, s.Arrivals, s.Disconnects)
		}
		if n := len(p.get("/v1/usage")["data"].([]any)); n != 2 {
			t.Errorf("%d rows", n)
		}
	})
}

// A batch request that has begun to answer runs to its end.
func TestBatchThatHasBegunGoesOn(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := start(t, simengine.Config{Thinking: 20, Answer: 20}, "")
		batch := p.open(t.Context(), batchJob)
		p.until(func(s simengine.Stats) bool { return len(s.Runs) == 1 && s.Runs[0].CompletionTokens > 2 })
		person := p.open(t.Context(), hello)
		r, late := <-person.whole, <-batch.whole
		if a, b := (&r).answer(t), (&late).answer(t); a.finish != "stop" || b.finish != "stop" || p.engine.Stats().Arrivals != 2 {
			t.Errorf("the person got %+v, the batch %+v", a, b)
		}
		if row := p.settledRecord(late.header.Get("X-Request-Id")); row["queue_wait_ms"] != 0.0 {
			t.Errorf("its row is %v", row)
		}
	})
}
