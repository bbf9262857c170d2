package main

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"oneslot/internal/simengine"
)

// whole is hello as one JSON object.
var whole = strings.Replace(hello, `"stream":true,"stream_options":{"include_usage":true},`, "", 1)

// A client that does not stream and would have left before its turn is told at
// once, with the time to come back; who streams, or says nothing, waits.
func TestHopelessIsRefused(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := start(t, simengine.Config{Thinking: 400, Answer: 100}, "")
		for range 5 { // about 50 s each, so that there is something to foresee with
			p.post(t.Context(), hello, nil)
		}
		running := p.open(t.Context(), hello)
		p.until(func(s simengine.Stats) bool { return s.Running == 1 })
		began := time.Now()
		for name, h := range map[string]http.Header{
			"python": {"X-Stainless-Read-Timeout": {"20"}, "X-Stainless-Retry-Count": {"0"}},
			"node":   {"X-Stainless-Timeout": {"20"}},
		} {
			r := p.post(t.Context(), whole, h)
			a := (&r).answer(t)
			if r.status != http.StatusTooManyRequests || r.header.Get("X-Oneslot-Reason") != "hopeless" || a.err["code"] != "hopeless" || a.err["type"] != "rate_limit_error" || time.Since(began) > 0 {
				t.Errorf("%s got %d after %v: %v %s", name, r.status, time.Since(began), r.header, r.body)
			}
			if after := r.header.Get("Retry-After"); after < "40" || after > "60" || len(after) != 2 {
				t.Errorf("%s is to come back after %q s", name, after)
			}
			if row := p.record(r); row["outcome"] != "rejected" || row["reason"] != "hopeless" {
				t.Errorf("its row is %v", row)
			}
		}
		streams := p.open(t.Context(), hello)
		patient := make(chan reply, 1)
		go func() { patient <- p.post(t.Context(), whole, http.Header{"X-Stainless-Timeout": {"600"}}) }()
		for _, r := range []reply{<-running.whole, <-streams.whole, <-patient} {
			if a := (&r).answer(t); a.finish != "stop" {
				t.Errorf("one that can wait got %d %+v", r.status, a)
			}
		}
		if s := p.engine.Stats(); s.Arrivals != 8 {
			t.Errorf("the engine saw %d requests, want 8", s.Arrivals)
		}
	})
}

// Refusing what is hopeless can be switched off.
func TestHopelessMayWait(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := start(t, simengine.Config{Thinking: 10, Answer: 10}, "queue: {refuse_hopeless: false}")
		for range 5 {
			p.post(t.Context(), hello, nil)
		}
		first := p.open(t.Context(), hello)
		r := p.post(t.Context(), whole, http.Header{"X-Stainless-Timeout": {"1"}})
		if a := (&r).answer(t); a.finish != "stop" {
			t.Errorf("it got %d %+v", r.status, a)
		}
		<-first.whole
	})
}

// A key may have a limit of its own.
func TestLimitOfAKey(t *testing.T) {
	secrets, keys := newKeys(t, "usual")
	few, row := newKey(t, "--name", "few", "--max-waiting", "1")
	secrets["few"] = few
	inBubble(t, func(t *testing.T) {
		p := start(t, simengine.Config{}, keys+"  "+row+"\nqueue: {max_waiting_per_key: 2}")
		got := map[string]int{}
		replies := make(chan reply)
		for _, name := range []string{"usual", "few", "few", "usual", "usual", "usual"} {
			go func() {
				r := p.post(t.Context(), hello, bearer(secrets[name]))
				r.body = name
				replies <- r
			}()
			synctest.Wait()
		}
		for range 6 {
			r := <-replies
			if reason := r.header.Get("X-Oneslot-Reason"); reason != "" {
				got[r.body+" "+reason]++
			}
		}
		if got["few key_limit"] != 1 || got["usual key_limit"] != 1 || len(got) != 2 {
			t.Errorf("refused were %v", got)
		}
	})
}
