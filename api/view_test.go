package api

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"oneslot/internal/simengine"
	"oneslot/internal/simengine/script"
	"oneslot/proxy/downstream"
	"oneslot/proxy/engine"
	"oneslot/proxy/surface/responses"
	"oneslot/queue"
)

// sameJSON compares two texts as JSON values.
func sameJSON(t *testing.T, what, got, want string) {
	t.Helper()
	norm := func(text string) string {
		var v any
		if err := json.Unmarshal([]byte(text), &v); err != nil {
			t.Fatalf("%s: %q: %v", what, text, err)
		}
		out, _ := json.MarshalIndent(v, "", " ")
		return string(out)
	}
	if a, b := norm(got), norm(want); a != b {
		t.Errorf("%s is\n%s\nwant\n%s", what, a, b)
	}
}

// TestLineView follows GET /v1/queue from an idle slot to a run with a waiter:
// figures that nobody has told are null.
func TestLineView(t *testing.T) {
	sim := simengine.Config{TokensPerSecond: 10, Thinking: 100, Answer: 50}
	inBubble(t, setup{sim: sim, queue: queue.Config{MaxWaiting: 7}}, func(t *testing.T, e *edge) {
		e.do(ask(`,"max_tokens":1`, nil)) // the engine is known then, and proved idle
		<-time.After(2500 * time.Millisecond)
		sameJSON(t, "the view of an idle slot", e.do(call{path: "/v1/queue"}).body, `{"object":"queue","waiting":0,"running":0,"limit":7,"paused":false,"draining":false,
			"slots":[{"engine":"spark","state":"idle","since_ms":2500,"prompt_tokens":null,"thinking_tokens":null,"answer_tokens":null,"tokens_per_second":null}],
			"waiters":[],"recent":{"slot_seconds":null,"requests":1}}`)

		ctx, leave := context.WithCancel(t.Context())
		first := e.behind(ctx, ask(`,"stream":true`, nil))
		e.until(running)
		second := e.behind(ctx, ask(`,"stream":true`, map[string]string{"X-Oneslot-Priority": "batch"}))
		<-time.After(5 * time.Second)
		rows := e.rows()
		view := e.do(call{path: "/v1/queue"})
		slot := view.json(t)["slots"].([]any)[0].(map[string]any)
		thinking, speed := slot["thinking_tokens"].(float64), slot["tokens_per_second"].(float64)
		if thinking < 40 || thinking > 50 || speed < 9 || speed > 11 || speed*10 != float64(int(speed*10)) {
			t.Errorf("after 5 s at 10 tokens a second the run has %v at %v", thinking, speed)
		}
		prompt := slot["prompt_tokens"]
		waited := view.json(t)["waiters"].([]any)[0].(map[string]any)["waited_ms"].(float64)
		if waited < 4990 || waited > 5010 {
			t.Errorf("the waiter has waited %v ms", waited)
		}
		guess, _ := view.json(t)["waiters"].([]any)[0].(map[string]any)["eta_seconds"].(map[string]any)
		if p50, _ := guess["p50"].(float64); p50 < 2 || p50 > 30 || guess["p90"].(float64) < 4*p50 {
			t.Errorf("behind a run at 10 tokens a second, after one short answer, the wait is guessed to be %v", guess)
		}
		want := map[string]any{
			"object": "queue", "waiting": 1, "running": 1, "limit": 7, "paused": false, "draining": false,
			"slots": []any{map[string]any{
				"engine": "spark", "state": "busy", "request_id": rows[1].ID, "phase": "thinking", "since_ms": 5000,
				"prompt_tokens": prompt, "thinking_tokens": thinking, "answer_tokens": 0, "tokens_per_second": speed,
			}},
			"waiters": []any{map[string]any{"request_id": rows[0].ID, "position": 1, "priority": "batch", "waited_ms": waited, "eta_seconds": guess}},
			"recent":  map[string]any{"slot_seconds": nil, "requests": 1},
		}
		text, _ := json.Marshal(want)
		sameJSON(t, "the view of a run", view.body, string(text))
		if n, ok := prompt.(float64); !ok || n < 5 {
			t.Errorf("the prompt has %v tokens", prompt)
		}
		one := e.do(call{path: "/v1/queue/" + rows[1].ID}).json(t)
		if one["object"] != "queue.request" || one["state"] != "running" || one["phase"] != "thinking" || one["engine"] != "spark" || one["request_id"] != rows[1].ID {
			t.Errorf("the running one is %v", one)
		}
		one = e.do(call{path: "/v1/queue/chatcmpl-" + rows[0].ID}).json(t)
		if one["object"] != "queue.request" || one["state"] != "queued" || one["position"] != 1.0 || one["request_id"] != rows[0].ID {
			t.Errorf("the waiting one is %v", one)
		}
		<-time.After(8 * time.Second)
		slot = e.do(call{path: "/v1/queue"}).json(t)["slots"].([]any)[0].(map[string]any)
		if slot["phase"] != "answer" || slot["answer_tokens"].(float64) < 20 {
			t.Errorf("after 13 s the run is %v", slot)
		}
		leave()
		<-first
		<-second
	})
}

// TestPausedView and estimates: both show once they are there. Nobody knows how long a
// line is paused.
func TestPausedView(t *testing.T) {
	inBubble(t, setup{sim: simengine.Config{TokensPerSecond: 10, Thinking: 10, Answer: 10}}, func(t *testing.T, e *edge) {
		for range 6 {
			e.do(ask("", nil))
		}
		e.must(e.pool.Queue.Switch(queue.Paused))
		ctx, leave := context.WithCancel(t.Context())
		waits := e.behind(ctx, ask("", nil))
		<-time.After(time.Second)
		v := e.do(call{path: "/v1/queue"}).json(t)
		if eta := v["waiters"].([]any)[0].(map[string]any)["eta_seconds"]; v["paused"] != true || v["waiting"] != 1.0 || v["running"] != 0.0 || eta != nil {
			t.Errorf("the paused view is %v", v)
		}
		e.must(e.pool.Queue.Switch(queue.Open))
		next := e.behind(ctx, ask("", nil))
		<-time.After(time.Second)
		v = e.do(call{path: "/v1/queue"}).json(t)
		eta, _ := v["waiters"].([]any)[0].(map[string]any)["eta_seconds"].(map[string]any)
		recent, _ := v["recent"].(map[string]any)["slot_seconds"].(map[string]any)
		if v["paused"] != false || v["waiting"] != 1.0 || v["running"] != 1.0 || eta["p50"] == nil || eta["p90"] == nil || recent["p50"] == nil || recent["p90"] == nil {
			t.Errorf("the view is %v", v)
		}
		leave()
		<-waits
		<-next
	})
}

// TestPositionHeaders: a stream that waits is told its place in its headers.
func TestPositionHeaders(t *testing.T) {
	cfg := Config{Client: downstream.Config{CommitAfter: 500 * time.Millisecond, Heartbeat: 10 * time.Second}}
	inBubble(t, setup{cfg: cfg}, func(t *testing.T, e *edge) {
		first := e.behind(t.Context(), ask("", nil))
		e.until(running)
		g := e.do(ask(`,"stream":true`, nil))
		if g.header.Get("X-Oneslot-Position") != "1" || g.header.Get("X-Oneslot-Wait-Ms") != "500" || !strings.Contains(g.body, ": queue position=1 of=1\n") {
			t.Errorf("the headers are %v, the stream %q", g.header, g.body)
		}
		whole := e.do(ask("", nil))
		if whole.header.Get("X-Oneslot-Position") != "" || whole.header.Get("X-Oneslot-Wait-Ms") != "0" {
			t.Errorf("one that did not wait has %v", whole.header)
		}
		<-first
	})
}

func TestHealthAndReadiness(t *testing.T) {
	ready := func(e *edge) (int, map[string]any) {
		g := e.do(call{path: "/readyz"})
		if g.status != 200 && g.header.Get("Retry-After") == "" {
			e.t.Errorf("status %d without Retry-After", g.status)
		}
		return g.status, g.json(e.t)
	}
	want := func(t *testing.T, e *edge, status int, state map[string]any) {
		t.Helper()
		if got, body := ready(e); got != status || !maps.Equal(body, state) {
			t.Errorf("readiness is %d %v, want %d %v", got, body, status, state)
		}
		if g := e.do(call{path: "/healthz"}); g.status != 200 || g.json(t)["status"] != "ok" {
			t.Errorf("health is %d %s", g.status, g.body)
		}
	}
	inBubble(t, setup{}, func(t *testing.T, e *edge) {
		want(t, e, 200, map[string]any{"status": "ready", "queue": "ok", "engine": "ok", "ledger": "ok"})
		e.engine.SetFaults(simengine.Faults{Dead: true})
		want(t, e, 503, map[string]any{"status": "not ready", "queue": "ok", "engine": "down", "ledger": "ok"})
		e.engine.SetFaults(simengine.Faults{Stall: true})
		began := time.Now()
		want(t, e, 503, map[string]any{"status": "not ready", "queue": "ok", "engine": "down", "ledger": "ok"})
		if since := time.Since(began); since > 3*time.Second {
			t.Errorf("a silent engine held the answer for %v", since)
		}
		e.engine.SetFaults(simengine.Faults{})
		e.server.Drain()
		want(t, e, 503, map[string]any{"status": "not ready", "queue": "draining", "engine": "ok", "ledger": "ok"})
	})
	silent := func(d *Deps) { // before the one that answers
		first, err := engine.New(engine.Config{Name: "mute", URL: "http://mute.test", Dial: func(context.Context, string, string) (net.Conn, error) {
			<-time.After(5 * time.Second)
			return nil, errors.New("no answer")
		}})
		if err != nil {
			t.Fatal(err)
		}
		d.Pools = []*Pool{{Queue: d.Pools[0].Queue, Engines: append([]*engine.Engine{first}, d.Pools[0].Engines...)}}
	}
	inBubble(t, setup{change: silent}, func(t *testing.T, e *edge) {
		want(t, e, 200, map[string]any{"status": "ready", "queue": "ok", "engine": "ok", "ledger": "ok"})
		<-time.After(5 * time.Second) // the dial goes on without whoever asked for it
	})
	inBubble(t, setup{dead: true}, func(t *testing.T, e *edge) {
		want(t, e, 503, map[string]any{"status": "not ready", "queue": "ok", "engine": "down", "ledger": "ok"})
	})
	inBubble(t, setup{store: noRedis}, func(t *testing.T, e *edge) {
		want(t, e, 503, map[string]any{"status": "not ready", "queue": "down", "engine": "ok", "ledger": "ok"})
		if g := e.do(call{path: "/v1/queue"}); g.status != 503 || g.fault(t).Code != "store_down" || g.header.Get("Retry-After") == "" {
			t.Errorf("the line's view is %d %s", g.status, g.body)
		}
	})
}

// TestDrain: those who wait are told, what runs ends well, who comes is refused.
func TestDrain(t *testing.T) {
	inBubble(t, setup{}, func(t *testing.T, e *edge) {
		runs := e.behind(t.Context(), ask("", nil))
		e.until(running)
		waits := e.behind(t.Context(), ask("", nil))
		synctest.Wait()
		e.server.Drain()
		if g := <-waits; g.status != 503 || g.fault(t).Code != "draining" || g.header.Get("Retry-After") == "" {
			t.Errorf("who waited got %d %s", g.status, g.body)
		}
		if g := e.do(ask("", nil)); g.status != 503 || g.header.Get("X-Oneslot-Reason") != "draining" {
			t.Errorf("who came got %d %s", g.status, g.body)
		}
		if g := <-runs; g.status != 200 {
			t.Errorf("what ran got %d %s", g.status, g.body)
		}
	})
}

// TestModels: names, aliases and what the engine says of its context, in the
// shape of the models route.
func TestModels(t *testing.T) {
	cfg := Config{Aliases: map[string]string{"gpt-4o": "org/ripple-65b", "a.b:c": "org/ripple-65b", "lost": "nowhere", "org/ripple-65b": "org/ripple-65b"}}
	s := setup{cfg: cfg, engine: engine.Config{Model: "org/ripple-65b"}, sim: simengine.Config{ContextLength: 4096}}
	inBubble(t, s, func(t *testing.T, e *edge) {
		started, _ := json.Marshal(e.server.Started.Unix())
		own := `"object":"model","created":` + string(started) + `,"owned_by":"oneslot","max_model_len":4096`
		for _, path := range []string{"/v1/models", "/models", "/v1/models/"} {
			sameJSON(t, path, e.do(call{path: path}).body, `{"object":"list","data":[{"id":"org/ripple-65b",`+own+`},
				{"id":"a.b:c","root":"org/ripple-65b",`+own+`},{"id":"gpt-4o","root":"org/ripple-65b",`+own+`}]}`)
		}
		at, _ := json.Marshal(e.server.Started.UTC())
		theirs := func(id string) string {
			return own + `,"type":"model","display_name":"` + id + `","created_at":` + string(at) + `,"max_input_tokens":4096`
		}
		sameJSON(t, "for Anthropic's clients", e.do(call{path: "/v1/models", header: map[string]string{"Anthropic-Version": "2023-06-01"}}).body,
			`{"object":"list","data":[{"id":"org/ripple-65b",`+theirs("org/ripple-65b")+`},{"id":"a.b:c","root":"org/ripple-65b",`+theirs("a.b:c")+`},
			{"id":"gpt-4o","root":"org/ripple-65b",`+theirs("gpt-4o")+`}],"has_more":false,"first_id":"org/ripple-65b","last_id":"gpt-4o"}`)
		for path, id := range map[string]string{
			"/v1/models/org/ripple-65b": "org/ripple-65b", "/v1/models/org%2Fripple-65b": "org/ripple-65b", "/models/gpt-4o": "gpt-4o",
			"/v1/models/a.b:c": "a.b:c", "/v1/models/a.b%3Ac": "a.b:c",
		} {
			if g := e.do(call{path: path}); g.status != 200 || g.json(t)["id"] != id {
				t.Errorf("%s is %d %s", path, g.status, g.body)
			}
		}
		for _, path := range []string{"/v1/models/other", "/v1/models/lost", "/v1/models/org%252Fripple-65b", "/v1/models/org"} {
			if g := e.do(call{path: path}); g.status != 404 || g.fault(t).Code != "model_not_found" || g.fault(t).Param != "model" {
				t.Errorf("%s is %d %s", path, g.status, g.body)
			}
		}
		for model, status := range map[string]int{"org/ripple-65b": 200, "gpt-4o": 200, "a.b:c": 200, "lost": 404, "ripple": 404} {
			c := ask(`,"max_tokens":1`, nil)
			c.body = strings.Replace(c.body, `"ripple"`, `"`+model+`"`, 1)
			g := e.do(c)
			if g.status != status {
				t.Errorf("a request for %s got %d %s", model, g.status, g.body)
			}
			if booked := e.do(call{path: "/v1/usage/" + g.id()}).json(t)["model"]; status == 404 && booked != "unknown" {
				t.Errorf("a request for %s is booked as for %v", model, booked)
			}
			if status == 200 && (g.json(t)["model"] != model || e.do(call{path: "/v1/usage/" + g.id()}).json(t)["model"] != model) {
				t.Errorf("the answer to a request for %s: %s", model, g.body)
			}
		}
		tried := map[any]any{}
		for _, line := range e.lines("request") {
			tried[line["asked_model"]] = line["model"]
		}
		if len(tried) != 3 || tried["lost"] != "unknown" || tried["ripple"] != "unknown" {
			t.Errorf("the log has %v", tried)
		}
	})
	inBubble(t, setup{cfg: Config{AcceptAnyModel: true}}, func(t *testing.T, e *edge) {
		c := ask(`,"max_tokens":1`, nil)
		c.body = strings.Replace(c.body, `"ripple"`, `"gpt-9-\u0007 nobody"`, 1)
		g := e.do(c)
		if g.status != 200 || e.do(call{path: "/v1/usage/" + g.id()}).json(t)["model"] != "ripple" || !strings.Contains(g.body, "nobody") {
			t.Errorf("any model got %d %s", g.status, g.body)
		}
	})
}

// TestModelNobodyNamed: without a configured name the engine's own counts, also
// while it cannot be asked: then the line decides, not a 404.
func TestModelNobodyNamed(t *testing.T) {
	inBubble(t, setup{engine: engine.Config{Model: "-"}}, func(t *testing.T, e *edge) {
		if g := e.do(ask(`,"max_tokens":1`, nil)); g.status != 200 {
			t.Errorf("the first request got %d %s", g.status, g.body)
		}
		c := ask("", nil)
		c.body = strings.Replace(c.body, "ripple", "other", 1)
		if g := e.do(c); g.status != 404 {
			t.Errorf("another name got %d", g.status)
		}
	})
	var gone atomic.Bool
	inBubble(t, setup{engine: engine.Config{Model: "-"}, gone: &gone, queue: queue.Config{PoisonGrace: time.Hour}}, func(t *testing.T, e *edge) {
		e.do(ask(`,"max_tokens":1`, nil))
		gone.Store(true)
		<-time.After(3 * time.Second) // its connection is idle no longer
		e.do(call{path: "/readyz"})
		c := ask("", nil)
		c.body = strings.Replace(c.body, "ripple", "other", 1)
		if g := e.do(c); g.status != 404 {
			t.Errorf("while the engine is away another name got %d", g.status)
		}
		first := e.do(ask("", nil))
		if row := e.do(call{path: "/v1/usage/" + first.id()}); first.status != 503 || row.json(t)["model"] != "ripple" {
			t.Errorf("while the engine is away: %d, booked as %s", first.status, row.body)
		}
		if g := e.do(call{path: "/v1/models"}); !strings.Contains(g.body, `"id":"ripple"`) {
			t.Errorf("while the engine is away the models are %s", g.body)
		}
	})
	inBubble(t, setup{engine: engine.Config{Model: "-"}, dead: true, queue: queue.Config{MaxWait: time.Minute}}, func(t *testing.T, e *edge) {
		if g := e.do(ask("", nil)); g.status != 503 || g.header.Get("Retry-After") == "" && g.header.Get("X-Should-Retry") == "" {
			t.Errorf("while the engine is down: %d %s", g.status, g.body)
		}
	})
}

// TestRecord: GET /v1/usage/{id} has the members of the contract, by either id.
func TestRecord(t *testing.T) {
	inBubble(t, setup{cfg: keyed()}, func(t *testing.T, e *edge) {
		g := e.do(ask("", bearer(secretA)))
		id := g.json(t)["id"].(string)
		if id != "chatcmpl-"+g.id() {
			t.Errorf("the response is %s, the request %s", id, g.id())
		}
		a, b := e.do(call{path: "/v1/usage/" + id, header: bearer(secretA)}), e.do(call{path: "/v1/usage/" + g.id(), header: bearer(secretA)})
		if a.body != b.body {
			t.Errorf("two forms of the id, two records: %s %s", a.body, b.body)
		}
		record := a.json(t)
		for _, member := range []string{
			"object", "id", "created", "model", "engine", "key", "outcome", "finish_reason", "queue_wait_ms", "prefill_ms", "thinking_ms", "answer_ms", "slot_ms", "answer_started", "tokens",
		} {
			if _, ok := record[member]; !ok {
				t.Errorf("the record lacks %s: %s", member, a.body)
			}
		}
		tokens := record["tokens"].(map[string]any)
		kinds := slices.Sorted(maps.Keys(tokens))
		if want := []string{"answer", "cached_prompt", "completion", "drafts_accepted", "prompt", "thinking"}; !slices.Equal(kinds, want) {
			t.Errorf("the tokens are %v", kinds)
		}
		if record["outcome"] != "served" || record["key"] != "a" || record["engine"] != "spark" || record["finish_reason"] != "stop" {
			t.Errorf("the record is %s", a.body)
		}
		for _, bad := range []string{"x", g.id()[1:], "chatcmpl-", "resp-" + g.id(), strings.ToUpper(g.id()) + "0", strings.Repeat("0", 32)} {
			if g := e.do(call{path: "/v1/usage/" + bad, header: bearer(secretA)}); g.status != 404 || g.fault(t).Code != "request_not_found" {
				t.Errorf("the record of %q is %d %s", bad, g.status, g.body)
			}
		}
	})
}

// TestHiddenThinking: a request may leave it out, and it is counted all the same.
func TestHiddenThinking(t *testing.T) {
	sim := simengine.Config{Scripts: []script.Script{{script.Thinking("deep"), script.Answer("flat"), script.Finish("stop"), script.Done()}}}
	inBubble(t, setup{sim: sim}, func(t *testing.T, e *edge) {
		for members, shown := range map[string]bool{"": true, `,"include_reasoning":false`: false, `,"reasoning":{"exclude":true}`: false} {
			g := e.do(ask(members, nil))
			if strings.Contains(g.body, "deep") != shown || !strings.Contains(g.body, "flat") || g.status != http.StatusOK {
				t.Errorf("with %q: %s", members, g.body)
			}
		}
	})
}

// TestShutdown waits for what runs as long as it may, and then cuts it off.
func TestShutdown(t *testing.T) {
	for name, patience := range map[string]time.Duration{"in time": time.Hour, "cut off": time.Second} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, setup{}, func(t *testing.T, e *edge) {
				reply := e.behind(t.Context(), ask("", nil))
				e.until(running)
				e.server.Drain()
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				err := e.server.Shutdown(ctx)
				g, whole := <-reply
				if name == "in time" && (err != nil || g.status != 200) || name == "cut off" && (!errors.Is(err, context.DeadlineExceeded) || whole) {
					t.Errorf("Shutdown gave %v, the client %+v", err, g)
				}
			})
		})
	}
}

// TestKeptResponsesCannotBeWritten: it is said once, shown while it lasts, and
// takes nothing from the requests.
func TestKeptResponsesCannotBeWritten(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "kept")
	inBubble(t, setup{cfg: Config{Responses: responses.Config{On: true, Dir: dir}}}, func(t *testing.T, e *edge) {
		ask := func(ready any, up string) {
			t.Helper()
			if g := e.do(call{method: "POST", path: "/v1/responses", body: `{"model":"ripple","input":"hi"}`}); g.status != 200 {
				t.Errorf("status %d: %s", g.status, g.body)
			}
			synctest.Wait()
			if g := e.do(call{path: "/readyz"}); g.status != 200 || g.json(t)["responses"] != ready {
				t.Errorf("readiness is %d %s", g.status, g.body)
			}
			if g := e.do(call{path: "/metrics"}); !strings.Contains(g.body, "\noneslot_responses_up "+up+"\n") {
				t.Errorf("the metric is not %s", up)
			}
		}
		ask(nil, "1")
		e.must(os.RemoveAll(dir))
		ask("failing", "0")
		ask("failing", "0")
		e.must(os.Mkdir(dir, 0o700))
		ask(nil, "1")
		for line, want := range map[string]int{"the folder of kept responses cannot be written": 1, "can be written again": 1} {
			if n := strings.Count(e.logs.String(), line); n != want {
				t.Errorf("%q is logged %d times", line, n)
			}
		}
	})
}

// TestPlaceText: a place that is not known is not told.
func TestPlaceText(t *testing.T) {
	for want, p := range map[string]queue.Place{
		"queue position=2 of=5 eta=9-20s": {Position: 2, Of: 5, ETA: &queue.Band{P50: 9 * time.Second, P90: 20 * time.Second}},
		"queue of=50":                     {Of: 50},
		"queue of=50 paused":              {Of: 50, Gate: queue.Paused},
		"queue position=1 of=1 paused":    {Position: 1, Of: 1, Gate: queue.Paused},
	} {
		if got := placeText(p); got != want {
			t.Errorf("%+v is told as %q, want %q", p, got, want)
		}
	}
}
