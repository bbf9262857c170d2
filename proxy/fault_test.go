package proxy_test

import (
	"errors"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"oneslot/internal/openai"
	"oneslot/internal/simengine"
	"oneslot/internal/simengine/script"
	"oneslot/proxy"
	"oneslot/proxy/engine"
)

// TestEngineFaults: what came before the fault is given out, then the client is
// told, and never that the answer is complete.
func TestEngineFaults(t *testing.T) {
	said := script.Script{event(`{"reasoning_content":"r "}`), event(`{"content":" par"}`), event(`{"content":"tial"}`)}
	raw := func(text string) script.Step { return script.Write(text) }
	for _, x := range []struct {
		name  string
		then  script.Script
		want  error
		idle  bool   // the engine had ended its stream
		code  string // what the client is told, if that is special
		words string
	}{
		{"the end without a finish reason", script.Script{script.End()}, proxy.ErrTruncated, false, "", ""},
		{"[DONE] without a finish reason", script.Script{script.Done()}, proxy.ErrTruncated, false, "", ""},
		{"half an event", script.Script{raw(`data: {"choices":[{"del`), script.End()}, proxy.ErrTruncated, false, "", ""},
		{"half an event, then cut", script.Script{raw(`data: {"choices":[{"del`), script.Cut()}, proxy.ErrCut, false, "", ""},
		{"cut", script.Script{script.Cut()}, proxy.ErrCut, false, "", ""},
		{"reset", script.Script{script.Reset()}, proxy.ErrCut, false, "", ""},
		{"no JSON", script.Script{raw("data: {broken\n\n"), script.Hold()}, openai.ErrNotChunk, false, "", ""},
		{"a list", script.Script{raw("data: []\n\n"), script.Hold()}, openai.ErrNotChunk, false, "", ""},
		{"an error", script.Script{raw(`data: {"error":{"message":"/srv/x.py aborted","type":"abort","code":500}}` + "\n\n"), script.Hold()}, proxy.ErrInStream, false, "upstream_error", "failed on this request"},
		{"an error, flat", script.Script{raw(`data: {"object":"error","message":"too long","code":400}` + "\n\n"), script.Done()}, proxy.ErrInStream, false, "", "too long"},
		{"an error of words", script.Script{raw(`data: {"error":"out of memory"}` + "\n\n"), script.End()}, proxy.ErrInStream, false, "upstream_error", ""},
		{"an error without a place in HTTP", script.Script{raw(`data: {"error":{"message":"x","code":7}}` + "\n\n"), script.End()}, proxy.ErrInStream, false, "upstream_error", ""},
		{"the death of vLLM", script.Script{raw(`data: {"error": {"message": "EngineCore died", "type": "InternalServerError", "param": null, "code": 500}}` + "\n\n"), script.Done()}, proxy.ErrInStream, false, "upstream_error", ""},
		{"the finish reason error", script.Script{finish("error"), script.Done()}, proxy.ErrInStream, false, "", ""},
		{"an abort that nobody asked for", script.Script{finish("abort"), script.Done()}, proxy.ErrAborted, false, "", ""},
		{"a null finish reason only", script.Script{event(`{}`), event(`null`), script.Done()}, proxy.ErrTruncated, false, "", ""},
	} {
		t.Run(x.name, func(t *testing.T) {
			bothWays(t, func(t *testing.T, stream bool) {
				r := newRig(t, setup{sim: simengine.Config{Scripts: []script.Script{append(append(script.Script{}, said...), x.then...)}}})
				got := r.serve(ask(stream, ""))
				reply := got.read()
				if !errors.Is(got.err, x.want) || !errors.Is(got.err, proxy.ErrEngine) || (got.idle.Load() > 0) != x.idle {
					t.Errorf("got %v, idle %d", got.err, got.idle.Load())
				}
				if stream && (reply.reasoning != "r" || reply.content != "partial" || reply.done != 1) || reply.finish != "" || reply.fault == nil {
					t.Errorf("the client got %+v", reply)
				}
				if x.code != "" && reply.fault["code"] != x.code || !strings.Contains(reply.fault["message"].(string), x.words) || strings.Contains(got.w.got(), "/srv") {
					t.Errorf("the client is told %v", reply.fault)
				}
				if got.report.FinishReason != "" || got.report.Tokens.Completion.N == 0 && got.report.Tokens.Completion.Known() {
					t.Errorf("the report says %+v", got.report)
				}
			})
		})
	}
}

// TestHeldTextIsGivenOut before the client is told of a fault.
func TestHeldTextIsGivenOut(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, setup{sim: simengine.Config{Scripts: []script.Script{{event(`{"content":"a</thi"}`), script.Cut()}}}})
		x := r.serve(ask(true, ""))
		if got := x.read(); !errors.Is(x.err, proxy.ErrCut) || got.reasoning != "a</thi" {
			t.Errorf("%v: got %+v", x.err, got)
		}
	})
}

// TestCompleteWithoutAnEnd: the answer is whole once its finish reason has come.
// Only the end of the stream proves that the engine is idle.
func TestCompleteWithoutAnEnd(t *testing.T) {
	for name, x := range map[string]struct {
		last script.Step
		idle int32
	}{"end": {script.End(), 1}, "cut": {script.Cut(), 0}, "reset": {script.Reset(), 0}, "blanks around [DONE]": {script.Write("data:   [DONE] \n\n"), 1}} {
		t.Run(name, func(t *testing.T) {
			bothWays(t, func(t *testing.T, stream bool) {
				r := newRig(t, setup{sim: simengine.Config{Scripts: []script.Script{{event(`{"reasoning":"r"}`), event(`{"content":"a"}`), finish("stop"), x.last}}}})
				got := r.serve(ask(stream, ""))
				if reply := got.read(); got.err != nil || reply.content != "a" || reply.reasoning != "r" || reply.finish != "stop" || reply.fault != nil || stream && reply.done != 1 || got.idle.Load() != x.idle {
					t.Errorf("%v, idle %d: got %+v", got.err, got.idle.Load(), reply)
				}
			})
		})
	}
}

// TestFinishWithoutAnEnd: an engine that goes silent behind its finish reason
// holds neither the client nor the slot for long, and the answer is whole.
func TestFinishWithoutAnEnd(t *testing.T) {
	bothWays(t, func(t *testing.T, stream bool) {
		r := newRig(t, setup{sim: simengine.Config{Ghost: true, Scripts: []script.Script{{event(`{"reasoning":"r"}`), event(`{"content":"a"}`), finish("stop"), script.Hold()}}}})
		x := r.serve(ask(stream, ""))
		if got := x.read(); x.err != nil || got.content != "a" || got.finish != "stop" || got.fault != nil || x.took > 11*time.Second {
			t.Errorf("%v after %v: got %+v", x.err, x.took, got)
		}
		if run := r.last(); run.Outcome != simengine.Aborted || x.report.FinishReason != "stop" {
			t.Errorf("the run ended %q, the report says %+v", run.Outcome, x.report)
		}
	})
}

// TestOddEventsAreHarmless.
func TestOddEventsAreHarmless(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, setup{sim: simengine.Config{Scripts: []script.Script{{
			script.Write(": ping\n\n:\n\n"), script.Write("event: x\n\n"), script.Write("id: 7\n\n"), script.Write("data: null\n\n"), script.Write("data:\n\n"),
			script.Write(`data: {"choices":[]}` + "\n\n"), script.Write(`data: {"choices":[{"index":0,"delta":null}]}` + "\n\n"), script.Write(`data: {"sglext":{},"choices":[]}` + "\n\n"),
			script.Write("event: message\nid: 7\nretry: 100\ndata: {\"choices\":[{\"delta\":\ndata: {\"content\":\"r</think>a\"}}]}\n\n"),
			script.Write("data:{\"choices\":[{\"delta\":{\"content\":\"b\"}}]}\r\n\r\n"), finish("stop"), script.Done(),
		}}}})
		x := r.serve(ask(true, ""))
		if got := x.read(); x.err != nil || got.reasoning != "r" || got.content != "ab" || len(got.events) != 6 {
			t.Errorf("%v: got %+v", x.err, got)
		}
	})
}

func TestEngineRefuses(t *testing.T) {
	const body = `{"object":"error","message":"The input (9 tokens) is longer than the model's context length (8 tokens).","code":400}`
	for _, x := range []struct {
		status int
		body   string
		want   int
		code   string
		idle   int32
	}{
		{400, body, 400, "context_length_exceeded", 1},
		{404, `{"detail":"Not Found"}`, 404, "", 1},
		{422, `{"detail":[]}`, 422, "", 1},
		{429, `{"error":{"message":"slow down"}}`, 429, "", 0},
		{500, "trace /srv/x.py", 502, "upstream_error", 0},
		{503, body, 503, "engine_down", 0},
		{302, "", 502, "upstream_error", 0},
		{204, "", 502, "upstream_error", 0},
	} {
		t.Run(http.StatusText(x.status), func(t *testing.T) {
			bothWays(t, func(t *testing.T, stream bool) {
				steps := script.Script{script.Status(x.status, http.Header{"Content-Type": {"application/json"}, "Location": {"http://other.test/"}}), script.Write(x.body), script.End()}
				if x.body == "" {
					steps = script.Script{script.Status(x.status, http.Header{"Location": {"http://other.test/"}}), script.End()}
				}
				r := newRig(t, setup{sim: simengine.Config{Scripts: []script.Script{steps}}})
				got := r.serve(ask(stream, ""))
				var p *openai.Problem
				if !errors.As(got.err, &p) || p.Status != x.want || p.Code != x.code || got.w.status != x.want || got.idle.Load() != x.idle {
					t.Errorf("got %v, status %d, idle %d", got.err, got.w.status, got.idle.Load())
				}
				if reply := got.read(); reply.fault["message"] == "" || strings.Contains(got.w.got(), "/srv") {
					t.Errorf("the client got %s", got.w.got())
				}
				if tok := got.report.Tokens; tok.Completion.Source != "not_run" {
					t.Errorf("the report says %+v", tok)
				}
				if n := r.sim.Stats().Arrivals; n != 1 {
					t.Errorf("the engine was asked %d times", n)
				}
			})
		})
	}
}

// TestEngineIsNotThere, or not yet: nothing of the request has reached it, but
// the slot is not called idle, so that the line waits instead of failing.
func TestEngineIsNotThere(t *testing.T) {
	bothWays(t, func(t *testing.T, stream bool) {
		r := newRig(t, setup{sim: simengine.Config{Slots: 1}})
		r.sim.SetFaults(simengine.Faults{Dead: true})
		if x := r.serve(ask(stream, "")); !errors.Is(x.err, proxy.ErrUnreachable) || x.idle.Load() != 0 || x.report.Tokens.Completion.Source != "not_run" {
			t.Errorf("dead from the start: %v, idle %d", x.err, x.idle.Load())
		}
		r.sim.SetFaults(simengine.Faults{})
		if x := r.serve(ask(stream, "")); x.err != nil {
			t.Errorf("back again: %v", x.err)
		}
		r.sim.SetFaults(simengine.Faults{Dead: true})
		if x := r.serve(ask(stream, "")); !errors.Is(x.err, proxy.ErrCut) || x.idle.Load() != 0 {
			t.Errorf("dead when the request came: %v, idle %d", x.err, x.idle.Load())
		}
	})
	inBubble(t, func(t *testing.T) {
		r := &rig{t: t}
		r.open(setup{engine: engine.Config{Dial: refuse, Dialect: "sglang"}})
		if x := r.serve(ask(true, "")); !errors.Is(x.err, proxy.ErrUnreachable) || !errors.Is(x.err, engine.ErrUnreachable) || x.idle.Load() != 0 || x.w.status != 502 {
			t.Errorf("nobody listens: %v, idle %d, status %d", x.err, x.idle.Load(), x.w.status)
		}
	})
}

// TestEngineGoesAway between what it said of itself and the request.
func TestEngineGoesAway(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		gone := false
		source := &canned{pieces: []string{streamHead}}
		r := &rig{t: t}
		r.open(setup{engine: engine.Config{Dialect: "openai", Dial: source.dialUnless(&gone)}})
		if _, err := r.engine.Info(t.Context()); err != nil {
			t.Fatal(err)
		}
		gone = true
		x := r.serve(ask(true, ""))
		if !errors.Is(x.err, proxy.ErrUnreachable) || x.idle.Load() != 0 {
			t.Errorf("got %v, idle %d", x.err, x.idle.Load())
		}
	})
}

func TestSilence(t *testing.T) {
	say := event(`{"reasoning_content":"r"}`)
	for _, x := range []struct {
		name  string
		s     setup
		steps script.Script
		want  error
		after time.Duration
	}{
		{"no headers", setup{engine: engine.Config{Headers: 3 * time.Second}}, script.Script{script.Sleep(time.Hour)}, proxy.ErrNoAnswer, 3 * time.Second},
		{"no token", setup{proxy: proxy.Config{FirstToken: 5 * time.Second}}, script.Script{script.Sleep(time.Hour)}, proxy.ErrNoAnswer, 5 * time.Second},
		{
			"headers and a role, but no token",
			setup{proxy: proxy.Config{FirstToken: 50 * time.Second, Idle: time.Second}, engine: engine.Config{Headers: time.Second}},
			script.Script{event(`{"role":"assistant","content":""}`), script.Sleep(time.Hour)},
			proxy.ErrNoAnswer, 50 * time.Second,
		},
		{"only pings", setup{proxy: proxy.Config{FirstToken: 50 * time.Second}}, script.Script{script.Repeat(":\n\n", 0, time.Second)}, proxy.ErrNoAnswer, 50 * time.Second},
		{"in the middle", setup{proxy: proxy.Config{Idle: 10 * time.Second, FirstToken: time.Minute}}, script.Script{script.Sleep(20 * time.Second), say, script.Sleep(9 * time.Second), say, script.Sleep(time.Hour)}, proxy.ErrStalled, 39 * time.Second},
		{"events that say nothing", setup{proxy: proxy.Config{Idle: 10 * time.Second}}, script.Script{say, script.Repeat(`data: {"choices":[]}`+"\n\n", 0, time.Second)}, proxy.ErrStalled, 10 * time.Second},
		{"pings in the middle", setup{proxy: proxy.Config{Idle: 10 * time.Second}}, script.Script{say, script.Repeat(":\n\n", 0, time.Second)}, proxy.ErrStalled, 10 * time.Second},
	} {
		t.Run(x.name, func(t *testing.T) {
			bothWays(t, func(t *testing.T, stream bool) {
				x.s.sim = simengine.Config{Ghost: true, Scripts: []script.Script{x.steps}}
				r := newRig(t, x.s)
				got := r.serve(ask(stream, ""))
				if !errors.Is(got.err, x.want) || !errors.Is(got.err, proxy.ErrEngine) || got.took < x.after || got.took > x.after+time.Second {
					t.Errorf("got %v after %v, want %v after %v", got.err, got.took, x.want, x.after)
				}
				if run := r.last(); run.Outcome != simengine.Aborted || !run.Left.IsZero() || got.idle.Load() != 1 {
					t.Errorf("the run ended %q, left %v, idle %d", run.Outcome, !run.Left.IsZero(), got.idle.Load())
				}
				if reply := got.read(); reply.fault == nil || reply.finish != "" || stream && reply.done != 1 {
					t.Errorf("the client got %+v", reply)
				}
			})
		})
	}
}

// TestPatience: neither a long prefill nor slow tokens are taken for silence.
func TestPatience(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, setup{proxy: proxy.Config{FirstToken: time.Hour, Idle: 10 * time.Minute}, engine: engine.Config{Headers: time.Hour}})
		x := r.serve(ask(true, `"sim":{"prefill_tokens_per_second":0.005,"tokens_per_second":0.01,"thinking":5,"answer":5}`))
		if x.err != nil || x.took < 30*time.Minute {
			t.Errorf("got %v after %v", x.err, x.took)
		}
		if got := x.read(); len(got.comments) < 60 || !strings.HasPrefix(got.comments[1], "prefill 10s") || got.comments[len(got.comments)-1] != "keep-alive" {
			t.Errorf("the client heard %q", got.comments)
		}
	})
}

// TestEventTooLong bounds the memory that an event without end can take.
func TestEventTooLong(t *testing.T) {
	bothWays(t, func(t *testing.T, stream bool) {
		r := newRig(t, setup{proxy: proxy.Config{MaxEvent: 4096}, sim: simengine.Config{Ghost: true, Scripts: []script.Script{{
			event(`{"content":"r</think>a"}`), script.Write("data: " + strings.Repeat("x", 5000)), script.Hold(),
		}}}})
		x := r.serve(ask(stream, ""))
		got := x.read()
		if !errors.Is(x.err, proxy.ErrEventTooLong) || !strings.Contains(x.err.Error(), "4096") || x.idle.Load() != 0 {
			t.Errorf("got %v, idle %d", x.err, x.idle.Load())
		}
		run := r.last()
		if got.fault == nil || got.finish != "" || stream && got.content != "a" || run.Outcome != simengine.Aborted || !run.Left.IsZero() {
			t.Errorf("the client got %+v, the run ended %q, its connection was closed: %v", got, run.Outcome, !run.Left.IsZero())
		}
	})
}

func TestEventWithoutEndTakesLittleMemory(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := &rig{t: t}
		source := &canned{pieces: []string{streamHead, "data: "}, flood: 256 << 20}
		r.open(setup{proxy: proxy.Config{MaxEvent: 1 << 20}, engine: engine.Config{Dialect: "sglang", Dial: source.dial}})
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		x := r.serve(ask(true, ""))
		runtime.ReadMemStats(&after)
		if used := after.TotalAlloc - before.TotalAlloc; !errors.Is(x.err, proxy.ErrEventTooLong) || used > 8<<20 {
			t.Errorf("got %v, and %d bytes were taken", x.err, used)
		}
	})
}

// TestLargeEventsPass up to the limit.
func TestLargeEventsPass(t *testing.T) {
	bothWays(t, func(t *testing.T, stream bool) {
		text := strings.Repeat("x", 300_000)
		r := newRig(t, setup{sim: simengine.Config{Scripts: []script.Script{{event(`{"content":"</think>` + text + `"}`), finish("stop"), script.Done()}}}})
		if x := r.serve(ask(stream, "")); x.err != nil || x.read().content != text {
			t.Errorf("got %v", x.err)
		}
	})
}
