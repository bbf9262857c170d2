package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"oneslot/api/intake"
	"oneslot/internal/openai"
	"oneslot/internal/simengine"
	"oneslot/internal/simengine/script"
	"oneslot/ledger"
	"oneslot/proxy"
	"oneslot/queue"
	"oneslot/queue/line"

	"github.com/labstack/echo/v4"
)

// late is a cause with a hint when to come back, as the queue gives one.
type late struct {
	error
	after time.Duration
}

func (l late) Unwrap() error             { return l.error }
func (l late) RetryAfter() time.Duration { return l.after }

// hopeless is the refusal of a client with a minute's patience.
func hopeless(seconds int) error {
	return &queue.Hopeless{ETA: queue.Band{P50: time.Duration(seconds) * time.Second}, Patience: time.Minute}
}

// told is what a client and the ledger are told of an error.
type told struct {
	status             int
	kind, code, reason string
	retry, should      string
	outcome            ledger.Outcome
}

// verdictTable has every cause, as it comes out of the queue and the proxy.
func verdictTable() map[string]struct {
	err  error
	want told
} {
	engineSays := func(status int, body string) error {
		return fmt.Errorf("%w: %w", errRefused, openai.EngineProblem(status, body))
	}
	early := fmt.Errorf("%w: %w", proxy.ErrInStream, openai.EngineProblem(400, `{"message":"no such grammar"}`))
	inStream := fmt.Errorf("%w: %w", proxy.ErrInStream, openai.EngineProblem(500, "CUDA error"))
	const rate, away, server, invalid = "rate_limit_error", "service_unavailable_error", "server_error", "invalid_request_error"
	return map[string]struct {
		err  error
		want told
	}{
		"queue full":             {queue.ErrFull, told{429, rate, "rate_limit_exceeded", "queue_full", "10", "", ledger.Rejected}},
		"queue full, with hint":  {late{queue.ErrFull, 7 * time.Second}, told{429, rate, "rate_limit_exceeded", "queue_full", "7", "", ledger.Rejected}},
		"hint below a second":    {late{queue.ErrFull, time.Millisecond}, told{429, rate, "rate_limit_exceeded", "queue_full", "1", "", ledger.Rejected}},
		"hint above a minute":    {late{queue.ErrFull, time.Hour}, told{429, rate, "rate_limit_exceeded", "queue_full", "60", "", ledger.Rejected}},
		"key's bodies":           {intake.ErrKeyFull, told{429, rate, "rate_limit_exceeded", "key_bodies", "10", "", ledger.Rejected}},
		"bodies":                 {intake.ErrFull, told{503, away, "bodies_full", "bodies_full", "5", "", ledger.Rejected}},
		"stopping, ledger":       {ledger.ErrClosed, told{503, away, "draining", "draining", "5", "", ledger.Rejected}},
		"stopping, half read":    {intake.ErrClosed, told{503, away, "draining", "draining", "5", "", ledger.Rejected}},
		"key limit":              {late{queue.ErrKeyLimit, 90 * time.Second}, told{429, rate, "rate_limit_exceeded", "key_limit", "60", "", ledger.Rejected}},
		"hopeless":               {hopeless(179), told{429, rate, "hopeless", "hopeless", "60", "", ledger.Rejected}},
		"hopeless for long":      {hopeless(181), told{429, rate, "hopeless", "hopeless", "60", "false", ledger.Rejected}},
		"draining":               {queue.ErrStopping, told{503, away, "draining", "draining", "5", "", ledger.Rejected}},
		"drained":                {queue.ErrDraining, told{503, away, "draining", "draining", "30", "", ledger.Rejected}},
		"poisoned":               {queue.ErrPoisoned, told{503, away, "slot_poisoned", "slot_poisoned", "30", "", ledger.Rejected}},
		"engine down in line":    {queue.ErrDown, told{503, away, "engine_down", "engine_down", "10", "", ledger.Rejected}},
		"store down":             {fmt.Errorf("%w: i/o timeout", queue.ErrStoreDown), told{503, away, "store_down", "store_down", "5", "", ledger.Rejected}},
		"ledger away":            {fmt.Errorf("%w: i/o timeout", ledger.ErrStore), told{503, away, "store_down", "store_down", "5", "", ledger.Rejected}},
		"twice in line":          {queue.ErrDuplicate, told{409, invalid, "duplicate_request", "", "", "", ledger.Rejected}},
		"waited too long":        {queue.ErrWaited, told{503, away, "queue_timeout", "queue_timeout", "", "false", ledger.Expired}},
		"cancelled":              {queue.ErrCancelled, told{409, invalid, "cancelled", "cancelled", "", "false", ledger.Cancelled}},
		"cancelled while it ran": {fmt.Errorf("%w: %w", queue.ErrCancelled, proxy.ErrCut), told{409, invalid, "cancelled", "cancelled", "", "false", ledger.Cancelled}},
		"slot lost":              {queue.ErrSlotLost, told{503, away, "slot_lost", "slot_lost", "2", "", ledger.SlotLost}},
		"slot lost, it said":     {fmt.Errorf("%w: %w", queue.ErrSlotLost, early), told{503, away, "slot_lost", "slot_lost", "2", "", ledger.SlotLost}},
		"cancelled, it said":     {fmt.Errorf("%w: %w", queue.ErrCancelled, inStream), told{409, invalid, "cancelled", "cancelled", "", "false", ledger.Cancelled}},
		"left the line":          {queue.ErrLeft, told{499, server, "client_closed", "", "", "false", ledger.Abandoned}},
		"left while it ran":      {proxy.ErrClient, told{499, server, "client_closed", "", "", "false", ledger.ClientGone}},
		"context ended":          {context.Canceled, told{499, server, "client_closed", "", "", "false", ledger.ClientGone}},
		"unreachable":            {fmt.Errorf("%w: dial", proxy.ErrUnreachable), told{503, away, "engine_down", "engine_down", "5", "", ledger.EngineFailed}},
		"no answer":              {proxy.ErrNoAnswer, told{504, server, "engine_timeout", "", "", "", ledger.EngineFailed}},
		"stalled":                {proxy.ErrStalled, told{504, server, "engine_timeout", "", "", "", ledger.EngineFailed}},
		"truncated":              {proxy.ErrTruncated, told{502, server, "upstream_error", "", "", "", ledger.EngineFailed}},
		"event too long":         {proxy.ErrEventTooLong, told{502, server, "upstream_error", "", "", "", ledger.EngineFailed}},
		"aborted":                {proxy.ErrAborted, told{502, server, "upstream_error", "", "", "", ledger.EngineFailed}},
		"cut":                    {fmt.Errorf("%w: EOF", proxy.ErrCut), told{502, server, "upstream_error", "", "", "", ledger.EngineFailed}},
		"engine":                 {proxy.ErrEngine, told{502, server, "upstream_error", "", "", "", ledger.EngineFailed}},
		"in the stream":          {inStream, told{502, server, "upstream_error", "", "", "", ledger.EngineFailed}},
		"in the stream, 400":     {early, told{400, invalid, "prompt_refused", "prompt_refused", "", "", ledger.EngineFailed}},
		"engine's 400":           {engineSays(400, `{"object":"error","message":"no","code":400}`), told{400, invalid, "prompt_refused", "prompt_refused", "", "", ledger.Rejected}},
		"engine's context":       {engineSays(400, `{"message":"This model's maximum context length is 5"}`), told{400, invalid, "context_length_exceeded", "prompt_refused", "", "", ledger.Rejected}},
		"engine's odd code":      {engineSays(400, `{"message":"no","code":"you said: hi there"}`), told{400, invalid, "prompt_refused", "prompt_refused", "", "", ledger.Rejected}},
		"engine's 429":           {engineSays(429, `{"message":"busy"}`), told{429, rate, "rate_limit_exceeded", "", "5", "", ledger.Rejected}},
		"engine's 401":           {engineSays(401, `{"message":"Incorrect API key provided: sk-op***ret"}`), told{502, server, "upstream_error", "", "", "", ledger.EngineFailed}},
		"engine's 403":           {engineSays(403, `no`), told{502, server, "upstream_error", "", "", "", ledger.EngineFailed}},
		"engine's 503":           {engineSays(503, `{"message":"loading"}`), told{503, away, "engine_down", "engine_down", "5", "", ledger.EngineFailed}},
		"engine's 500":           {engineSays(500, `boom`), told{502, server, "upstream_error", "", "", "", ledger.EngineFailed}},
		"engine's redirect":      {engineSays(302, ``), told{502, server, "upstream_error", "", "", "", ledger.EngineFailed}},
		"a bad request":          {openai.Invalid("n", "unsupported_value", "one at a time"), told{400, invalid, "unsupported_value", "", "", "", ledger.Rejected}},
		"nobody foresaw it":      {errors.New("disk on fire at /secret/path"), told{500, server, "internal_error", "", "", "", ledger.EngineFailed}},
	}
}

// TestVerdicts sends every cause to a client, as a whole response, through the
// client's side of a queued request, and in a stream that has begun.
func TestVerdicts(t *testing.T) {
	causes := verdictTable()
	inBubble(t, setup{}, func(t *testing.T, e *edge) {
		e.server.echo.GET("/test/:how", func(c echo.Context) error {
			err := causes[c.QueryParam("cause")].err
			x := &exchange{row: e.server.newRow(c), began: time.Now(), pool: e.pool}
			if c.Param("how") == "whole" {
				return err
			}
			x.call = &proxy.Call{Request: &openai.Request{Stream: true}}
			if fault := e.server.connect(c, x); fault != nil {
				return fault
			}
			defer x.client.Release()
			if c.Param("how") == "stream" {
				_ = x.client.Send([]byte(`{}`))
			}
			x.client.Fail(err)
			return nil
		})
		for name, c := range causes {
			for _, how := range []string{"whole", "client", "stream"} {
				g := e.do(call{path: "/test/" + how + "?cause=" + url.QueryEscape(name)})
				f := g.fault(t)
				h := g.header.Get
				have := told{g.status, f.Type, f.Code, h("X-Oneslot-Reason"), h("Retry-After"), h("X-Should-Retry"), judge(c.err).outcome}
				want := c.want
				if how == "stream" { // the status line and the headers are out
					want.status, want.reason, want.retry, want.should = 200, "", "", ""
				}
				if have != want {
					t.Errorf("%s, %s: the client was told %+v\nwant %+v", name, how, have, want)
				}
				if f.Message == "" || strings.Contains(g.body, "secret") || strings.Contains(g.body, "sk-op") {
					t.Errorf("%s, %s: the text is %q", name, how, f.Message)
				}
				if len(g.id()) != 32 {
					t.Errorf("%s, %s: X-Request-Id is %q", name, how, g.id())
				}
			}
		}
	})
}

// TestEveryRulingIsTested holds the table above to the one in the code.
func TestEveryRulingIsTested(t *testing.T) {
	for _, r := range rulings() {
		found := false
		for _, c := range verdictTable() {
			found = found || errors.Is(c.err, r.is) && judge(c.err) == r.verdict
		}
		if !found {
			t.Errorf("%v is in no test", r.is)
		}
	}
}

// TestRefusals meets the causes that the queue and the engine bring about by
// themselves, through the route.
func TestRefusals(t *testing.T) {
	play := func(steps ...script.Step) simengine.Config {
		return simengine.Config{Scripts: []script.Script{steps}}
	}
	event := script.Write(`data: {"choices":[{"index":0,"delta":{"content":"x</think>y"},"finish_reason":null}]}` + "\n\n")
	cases := map[string]struct {
		setup   setup
		status  int
		code    string
		reason  string
		outcome ledger.Outcome
	}{
		"engine down":       {setup{dead: true, queue: queue.Config{PoisonGrace: time.Nanosecond}}, 503, "engine_down", "engine_down", ledger.Rejected},
		"engine refuses":    {setup{sim: simengine.Config{ContextLength: 4}}, 400, "context_length_exceeded", "prompt_refused", ledger.Rejected},
		"waits too long":    {setup{dead: true, queue: queue.Config{MaxWait: time.Minute, PoisonGrace: time.Hour}}, 503, "queue_timeout", "queue_timeout", ledger.Expired},
		"engine breaks off": {setup{sim: play(event, script.Cut())}, 502, "upstream_error", "", ledger.EngineFailed},
		"engine stops":      {setup{sim: play(event, script.End())}, 502, "upstream_error", "", ledger.EngineFailed},
		"engine falls mute": {setup{sim: play(event, script.Hold()), proxy: proxy.Config{Idle: time.Minute}}, 504, "engine_timeout", "", ledger.EngineFailed},
		"engine is mute":    {setup{sim: play(script.Hold()), proxy: proxy.Config{FirstToken: time.Minute}}, 504, "engine_timeout", "", ledger.EngineFailed},
		"endless event":     {setup{sim: play(event), proxy: proxy.Config{MaxEvent: 16}}, 502, "upstream_error", "", ledger.EngineFailed},
		"engine redirects":  {setup{sim: play(script.Step{Kind: script.KindStatus, Status: 302, Header: http.Header{"Location": {"http://elsewhere.test/"}}})}, 502, "upstream_error", "", ledger.EngineFailed},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			c.setup.cfg.Client.Heartbeat = -1 // so that a whole answer keeps its status
			inBubble(t, c.setup, func(t *testing.T, e *edge) {
				if name == "engine down" {
					e.findDown()
				}
				g := e.do(ask("", nil))
				f := g.fault(t)
				if g.status != c.status || f.Code != c.code || g.header.Get("X-Oneslot-Reason") != c.reason {
					t.Errorf("status %d, code %q, reason %q; want %d, %q, %q", g.status, f.Code, g.header.Get("X-Oneslot-Reason"), c.status, c.code, c.reason)
				}
				synctest.Wait()
				rows := e.rows()
				if len(rows) < 1 || rows[0].Outcome != c.outcome || rows[0].Status != c.status {
					t.Errorf("the ledger has %+v, want one row: %s, %d", rows, c.outcome, c.status)
				}
			})
		})
	}
}

// findDown lets a first request find out that the engine is down, and go.
func (e *edge) findDown() {
	ctx, leave := context.WithCancel(e.t.Context())
	first := e.behind(ctx, ask("", nil))
	for range 100 {
		snap, err := e.pool.Queue.Snapshot(ctx)
		e.must(err)
		if snap.Slots[0].State == line.Down && snap.Slots[0].For > 0 {
			leave()
			<-first
			synctest.Wait()
			return
		}
		<-time.After(time.Second)
	}
	leave()
	e.t.Fatal("the line never learnt that the engine is down")
}

// TestFullLine is refused with a time to come back, and takes others later.
func TestFullLine(t *testing.T) {
	s := setup{queue: queue.Config{MaxWaiting: 1}}
	inBubble(t, s, func(t *testing.T, e *edge) {
		first := e.behind(t.Context(), ask("", nil))
		e.until(running)
		second := e.behind(t.Context(), ask("", nil))
		synctest.Wait()
		began := time.Now()
		g := e.do(ask(`,"stream":true`, nil))
		f := g.fault(t)
		if g.status != 429 || f.Type != "rate_limit_error" || f.Code != "rate_limit_exceeded" || g.header.Get("X-Oneslot-Reason") != "queue_full" || g.header.Get("Retry-After") == "" {
			t.Errorf("got %d %+v %v", g.status, f, g.header)
		}
		if since := time.Since(began); since > 100*time.Millisecond {
			t.Errorf("the refusal took %v", since)
		}
		for _, one := range []got{<-first, <-second} {
			if one.status != 200 {
				t.Errorf("one in line got %d", one.status)
			}
		}
		if n := len(e.engine.Stats().Runs); n != 2 {
			t.Errorf("the engine saw %d runs", n)
		}
	})
}
