package api

import (
	"bufio"
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"oneslot/api/retry"
	"oneslot/internal/simengine"
	"oneslot/ledger"
	"oneslot/proxy/downstream"
	"oneslot/queue"
)

// operate posts to one of the operators' routes.
func operate(path, secret string) call {
	return call{method: http.MethodPost, path: "/v1/queue/" + path, header: bearer(secret)}
}

// talkative are the times of a client that is told soon.
func talkative(cfg Config) Config {
	cfg.Client = downstream.Config{CommitAfter: 500 * time.Millisecond, Heartbeat: 10 * time.Second}
	return cfg
}

// TestPauseAndResume: the switch is an admin's; while it is set requests wait, are
// told so, and everybody sees it.
func TestPauseAndResume(t *testing.T) {
	inBubble(t, setup{cfg: talkative(keyed())}, func(t *testing.T, e *edge) {
		for _, path := range []string{"pause", "resume", "drain", "slots/spark/reset"} {
			if g := e.do(operate(path, secretA)); g.status != 403 || g.fault(t).Code != "admin_key_needed" {
				t.Errorf("%s with a team's key: %d %s", path, g.status, g.body)
			}
		}
		g := e.do(operate("pause", secretRoot))
		sameJSON(t, "the answer", g.body, `{"object":"queue","paused":true,"draining":false}`)
		waits := e.behind(t.Context(), ask(`,"stream":true`, bearer(secretA)))
		<-time.After(25 * time.Second)
		if v := e.do(call{path: "/v1/queue", header: bearer(secretA)}).json(t); v["paused"] != true || v["waiting"] != 1.0 || v["running"] != 0.0 {
			t.Errorf("the view is %v", v)
		}
		if g := e.do(call{path: "/readyz"}); g.status != 200 || g.json(t)["queue"] != "paused" {
			t.Errorf("readiness is %d %s", g.status, g.body)
		}
		if m := e.do(call{path: "/metrics", header: bearer(secretRoot)}); !strings.Contains(m.body, `oneslot_queue_gate{gate="paused"} 1`) || !strings.Contains(m.body, `oneslot_queue_gate{gate="open"} 0`) {
			t.Error("the metrics do not show it")
		}
		if n := len(e.engine.Stats().Runs); n != 0 {
			t.Errorf("the engine ran %d", n)
		}
		sameJSON(t, "the answer", e.do(operate("resume", secretRoot)).body, `{"object":"queue","paused":false,"draining":false}`)
		g = <-waits
		if strings.Count(g.body, ": queue position=1 of=1 paused\n") != 3 || !strings.Contains(g.body, `"finish_reason":"stop"`) {
			t.Errorf("who waited was told %q", g.body)
		}
		var did []any
		for _, l := range e.lines("operator") {
			did = append(did, l["does"], l["key"])
		}
		if want := []any{"pause", "root", "resume", "root"}; !equal(did, want) {
			t.Errorf("the log has %v", did)
		}
	})
}

func equal(a, b []any) bool {
	x, _ := json.Marshal(a)
	y, _ := json.Marshal(b)
	return string(x) == string(y)
}

// TestDrainByOperator: what runs ends well; who waits is told, in a stream if it
// has begun; who comes is refused until it is resumed.
func TestDrainByOperator(t *testing.T) {
	inBubble(t, setup{cfg: talkative(Config{})}, func(t *testing.T, e *edge) {
		runs := e.behind(t.Context(), ask("", nil))
		e.until(running)
		begun, whole := e.behind(t.Context(), ask(`,"stream":true`, nil)), e.behind(t.Context(), ask("", nil))
		<-time.After(time.Second)
		sameJSON(t, "the answer", e.do(call{method: http.MethodPost, path: "/v1/queue/drain"}).body, `{"object":"queue","paused":false,"draining":true}`)
		if g := <-begun; g.status != 200 || g.fault(t).Code != "draining" {
			t.Errorf("a stream that had begun got %d %s", g.status, g.body)
		}
		if g := <-whole; g.status != 503 || g.fault(t).Code != "draining" || g.header.Get("X-Oneslot-Reason") != "draining" || g.header.Get("Retry-After") != "30" {
			t.Errorf("who waited got %d %v %s", g.status, g.header, g.body)
		}
		if g := e.do(ask("", nil)); g.status != 503 || g.fault(t).Code != "draining" {
			t.Errorf("who came got %d %s", g.status, g.body)
		}
		if g := e.do(call{path: "/readyz"}); g.status != 503 || g.json(t)["queue"] != "draining" {
			t.Errorf("readiness is %d %s", g.status, g.body)
		}
		if v := e.do(call{path: "/v1/queue"}).json(t); v["draining"] != true || v["paused"] != false || v["waiting"] != 0.0 || v["running"] != 1.0 {
			t.Errorf("the view is %v", v)
		}
		if g := <-runs; g.status != 200 {
			t.Errorf("what ran got %d %s", g.status, g.body)
		}
		e.do(call{method: http.MethodPost, path: "/v1/queue/resume"})
		if g := e.do(ask("", nil)); g.status != 200 {
			t.Errorf("after it was resumed: %d %s", g.status, g.body)
		}
		<-time.After(time.Second) // the ledger writes behind
		outcomes := map[string]int{}
		for _, r := range e.rows() {
			outcomes[string(r.Outcome)+" "+r.Reason]++
		}
		if want := map[string]int{"served ": 2, "rejected draining": 3}; !maps.Equal(outcomes, want) {
			t.Errorf("the outcomes are %v", outcomes)
		}
	})
}

// TestCancelAKey: a key cancels its own requests, an admin anybody's, and nobody
// all by leaving the name out.
func TestCancelAKey(t *testing.T) {
	inBubble(t, setup{cfg: keyed()}, func(t *testing.T, e *edge) {
		runs := e.behind(t.Context(), ask(`,"stream":true`, bearer(secretA)))
		e.until(running)
		own, other := e.behind(t.Context(), ask("", bearer(secretA))), e.behind(t.Context(), ask("", bearer(secretB)))
		synctest.Wait()
		cancel := func(query, secret string) got {
			return e.do(call{method: http.MethodDelete, path: "/v1/queue" + query, header: bearer(secret)})
		}
		if g := cancel("", secretRoot); g.status != 400 || g.fault(t).Param != "key" {
			t.Errorf("without a key: %d %s", g.status, g.body)
		}
		if g := cancel("?key=a", secretB); g.status != 403 || g.fault(t).Code != "admin_key_needed" {
			t.Errorf("another's key: %d %s", g.status, g.body)
		}
		sameJSON(t, "the answer", cancel("?key=a", secretA).body, `{"object":"queue","key":"a","cancelled":2}`)
		if g := <-runs; g.fault(t).Code != "cancelled" {
			t.Errorf("what ran got %s", g.body)
		}
		if g := <-own; g.status != 409 || g.fault(t).Code != "cancelled" {
			t.Errorf("what waited got %d %s", g.status, g.body)
		}
		if g := <-other; g.status != 200 {
			t.Errorf("the other key's got %d %s", g.status, g.body)
		}
		synctest.Wait() // its handler has ended
		sameJSON(t, "the answer", cancel("?key=b", secretRoot).body, `{"object":"queue","key":"b","cancelled":0}`)
	})
}

// TestResetASlot: the operator's word frees a poisoned slot; one that is busy or
// not there is refused.
func TestResetASlot(t *testing.T) {
	sim := simengine.Config{Ghost: true, Deaf: true, Thinking: 50_000, TokensPerSecond: 10}
	inBubble(t, setup{cfg: talkative(Config{}), sim: sim}, func(t *testing.T, e *edge) {
		reset := func(name string) got {
			return e.do(call{method: http.MethodPost, path: "/v1/queue/slots/" + name + "/reset"})
		}
		ctx, leave := context.WithCancel(t.Context())
		gone := e.behind(ctx, ask(`,"stream":true`, nil))
		e.until(running)
		if g := reset("spark"); g.status != 409 || g.fault(t).Code != "slot_busy" {
			t.Errorf("a busy slot: %d %s", g.status, g.body)
		}
		if g := reset("nowhere"); g.status != 404 || g.fault(t).Code != "slot_not_found" {
			t.Errorf("no slot: %d %s", g.status, g.body)
		}
		leave()
		<-gone
		ctx, leave = context.WithCancel(t.Context())
		waits := e.behind(ctx, ask(`,"stream":true`, nil))
		<-time.After(time.Minute)
		if got := e.do(call{path: "/v1/queue"}).json(t)["slots"].([]any)[0].(map[string]any)["state"]; got != "poisoned" {
			t.Fatalf("the slot is %v", got)
		}
		sameJSON(t, "the answer", reset("spark").body, `{"object":"queue.slot","engine":"spark","was":"poisoned"}`)
		e.until(func(s simengine.Stats) bool { return s.Arrivals == 2 })
		leave()
		<-waits
		e.engine.SetFaults(simengine.Faults{})
	})
}

// TestEngineDown: a slot whose engine is not there is down as soon as somebody has
// found out, and who waits is told.
func TestEngineDown(t *testing.T) {
	state := func(e *edge) any {
		return e.do(call{path: "/v1/queue"}).json(e.t)["slots"].([]any)[0].(map[string]any)["state"]
	}
	var gone atomic.Bool
	inBubble(t, setup{cfg: talkative(Config{}), queue: queue.Config{PoisonGrace: time.Hour}, gone: &gone}, func(t *testing.T, e *edge) {
		e.do(ask(`,"max_tokens":1`, nil))
		gone.Store(true)
		if got := state(e); got != "idle" {
			t.Errorf("before anybody knows the slot is %v", got)
		}
		<-time.After(3 * time.Second) // its connection is idle no longer
		e.do(call{path: "/readyz"})
		if got := state(e); got != "down" {
			t.Errorf("after a probe the slot is %v", got)
		}
		if g := e.do(ask("", nil)); g.fault(t).Code != "engine_down" {
			t.Errorf("the first to find out got %d %s", g.status, g.body)
		}
		waits := e.behind(t.Context(), ask(`,"stream":true`, nil))
		<-time.After(25 * time.Second)
		if got := state(e); got != "down" {
			t.Errorf("while it is mended the slot is %v", got)
		}
		gone.Store(false)
		began := time.Now()
		g := <-waits
		if !strings.Contains(g.body, ": queue position=1 of=1 engine=down\n") || !strings.Contains(g.body, `"finish_reason":"stop"`) {
			t.Errorf("who waited was told %q", g.body)
		}
		if first := e.engine.Stats().Runs[len(e.engine.Stats().Runs)-1].Started; first.Sub(began) > 3*time.Second {
			t.Errorf("served %v after the engine was back", first.Sub(began))
		}
		if got := state(e); got != "idle" {
			t.Errorf("after it the slot is %v", got)
		}
	})
}

// feed is an open GET /v1/queue/events.
type feed struct {
	t     *testing.T
	lines chan string // each event as "name data", comments with their colon
}

func (e *edge) watch(ctx context.Context, secret string) *feed {
	e.t.Helper()
	resp, err := e.client.Do(call{path: "/v1/queue/events", header: bearer(secret)}.request(ctx, e.t))
	e.must(err)
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "text/event-stream; charset=utf-8" {
		e.t.Fatalf("the feed begins with %d %v", resp.StatusCode, resp.Header)
	}
	f := &feed{e.t, make(chan string, 1000)}
	go func() {
		defer close(f.lines)
		defer resp.Body.Close()
		name := ""
		for s := bufio.NewScanner(resp.Body); s.Scan(); {
			switch line := s.Text(); {
			case strings.HasPrefix(line, "event: "):
				name = line[len("event: "):]
			case strings.HasPrefix(line, "data: "):
				d, err := theDescription()
				if err == nil {
					err = d.feedEvent(name, line[len("data: "):])
				}
				if err != nil {
					f.t.Errorf("%s: %v", line, err)
				}
				f.lines <- name + " " + line[len("data: "):]
			case line != "":
				f.lines <- line
			}
		}
	}()
	return f
}

// next is the next event of a name, its data as an object.
func (f *feed) next(name string) map[string]any {
	f.t.Helper()
	for line := range f.lines {
		if data, ok := strings.CutPrefix(line, name+" "); ok {
			var o map[string]any
			if err := json.Unmarshal([]byte(data), &o); err != nil {
				f.t.Fatalf("%s: %v", line, err)
			}
			return o
		}
	}
	f.t.Fatalf("the feed ended without %q", name)
	return nil
}

// TestEvents: a watcher sees the view and then what changes, whole where it is his
// own; the feed is kept alive, and ends when the proxy stops.
func TestEvents(t *testing.T) {
	inBubble(t, setup{cfg: talkative(keyed()), sim: simengine.Config{TokensPerSecond: 10, Thinking: 100, Answer: 50}}, func(t *testing.T, e *edge) {
		a, b := e.watch(t.Context(), secretA), e.watch(t.Context(), secretB)
		if v := a.next("snapshot"); v["object"] != "queue" || v["waiting"] != 0.0 {
			t.Errorf("it begins with %v", v)
		}
		b.next("snapshot")
		<-time.After(12 * time.Second)
		if line := <-a.lines; line != ": keep-alive" {
			t.Errorf("after 10 s of silence came %q", line)
		}
		first := e.behind(t.Context(), ask("", bearer(secretA)))
		e.until(running)
		if s := a.next("slot"); s["state"] != "busy" || s["request_id"] == nil {
			t.Errorf("own slot: %v", s)
		}
		if s := b.next("slot"); s["state"] != "busy" || s["request_id"] != nil || s["phase"] != nil {
			t.Errorf("another's slot: %v", s)
		}
		if p := a.next("phase"); p["phase"] == nil {
			t.Errorf("own phase: %v", p)
		}
		second := e.behind(t.Context(), ask("", bearer(secretB)))
		joined := b.next("joined")
		if joined["position"] != 1.0 || joined["key"] != "b" {
			t.Errorf("joined: %v", joined)
		}
		if n := a.next("line"); n["waiting"] == 1.0 {
			t.Log("told with the first change of counts")
		} else if n = a.next("line"); n["waiting"] != 1.0 {
			t.Errorf("counts: %v", n)
		}
		e.do(operate("pause", secretRoot))
		if n := b.next("line"); n["paused"] != true {
			if n = b.next("line"); n["paused"] != true {
				t.Errorf("paused: %v", n)
			}
		}
		<-first
		e.do(operate("resume", secretRoot))
		if g := b.next("granted"); g["request_id"] != joined["request_id"] || g["engine"] != "spark" {
			t.Errorf("granted: %v", g)
		}
		<-second
		e.server.Drain()
		for range a.lines { // to its end
		}
		for line := range b.lines {
			if strings.Contains(line, `"a"`) {
				t.Errorf("a key's name in another's feed: %s", line)
			}
		}
		if g := e.do(call{path: "/v1/queue/events", header: bearer(secretA)}); g.status != 503 || g.fault(t).Code != "draining" {
			t.Errorf("a feed of a proxy that stops: %d %s", g.status, g.body)
		}
	})
}

// TestEventsWithoutAStore: the feed says so, and goes on when there is one.
func TestEventsWithoutAStore(t *testing.T) {
	inBubble(t, setup{store: noRedis}, func(t *testing.T, e *edge) {
		ctx, leave := context.WithCancel(t.Context())
		f := e.watch(ctx, "")
		if u := f.next("unavailable"); u["reason"] != "store_down" {
			t.Errorf("it says %v", u)
		}
		leave()
		for range f.lines {
		}
	})
}

// TestCancelInTheTail: a request whose run has ended is in no line while its answer is
// kept for a client that may come back. Who would cancel it is told that.
func TestCancelInTheTail(t *testing.T) {
	cfg := talkative(keyed())
	cfg.Retry = retry.Config{Grace: time.Hour}
	inBubble(t, setup{cfg: cfg}, func(t *testing.T, e *edge) {
		ctx, leave := context.WithCancel(t.Context())
		e.behind(ctx, ask(`,"stream":true`, map[string]string{"Authorization": "Bearer " + secretA, "Idempotency-Key": "k"}))
		e.until(running)
		leave()
		e.until(func(s simengine.Stats) bool { return s.Running == 0 })
		synctest.Wait()
		row := e.rows()[0]
		if row.Outcome != ledger.Running {
			t.Fatalf("its row says %s", row.Outcome)
		}
		for _, c := range []call{{method: http.MethodDelete, path: "/v1/queue/" + row.ID}, {method: http.MethodPost, path: "/v1/responses/" + row.ID + "/cancel"}} {
			for secret, code := range map[string]string{secretA: "request_ending", secretB: "request_not_found"} {
				c.header = bearer(secret)
				if f := e.do(c).fault(t); f.Code != code {
					t.Errorf("%s %s answers %+v, want %s", c.method, c.path, f, code)
				}
			}
		}
	})
}
