package api

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"oneslot/api/intake"
	"oneslot/internal/simengine"
	"oneslot/internal/simengine/script"
	"oneslot/ledger"
	"oneslot/proxy/downstream"
	"oneslot/queue"
	"oneslot/queue/address"
	"oneslot/usage"

	"github.com/labstack/echo/v4"
	"github.com/redis/go-redis/v9"
)

// noRedis is a store whose Redis cannot be reached.
func noRedis(t *testing.T, cfg queue.Config) (queue.Store, error) {
	options, err := address.Parse("redis://127.0.0.1:1")
	if err != nil {
		return nil, err
	}
	options.Dialer = func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("refused") }
	client := redis.NewUniversalClient(options)
	t.Cleanup(func() {
		_ = client.Close()
		<-time.After(2 * time.Second) // its pool looks once a second whether it is closed
	})
	return queue.NewRedis(client, cfg)
}

// outcome is one way in which a request can end.
type outcome struct {
	name   string
	setup  setup
	call   call                                               // zero: ask
	meddle func(e *edge, leave context.CancelFunc, id string) // once the request is where in says
	in     string                                             // "line" or "run": where meddle finds it
	want   ledger.Row                                         // Outcome, Status, Reason, and Engine where it ran
	source usage.Source                                       // of the completion tokens
}

func outcomes() []outcome {
	const notRun, engineSays, unknown = usage.DidNotRun, usage.Engine, usage.Unknown
	row := func(o ledger.Outcome, status int, reason string) ledger.Row {
		return ledger.Row{Outcome: o, Status: status, Reason: reason}
	}
	ran := func(o ledger.Outcome, status int, reason string) ledger.Row {
		return ledger.Row{Outcome: o, Status: status, Reason: reason, Engine: "spark"}
	}
	leave := func(_ *edge, leave context.CancelFunc, _ string) { leave() }
	cancel := func(e *edge, _ context.CancelFunc, id string) {
		e.do(call{method: http.MethodDelete, path: "/v1/queue/" + id})
	}
	drain := func(e *edge, _ context.CancelFunc, _ string) { e.server.Drain() }
	kill := func(e *edge, _ context.CancelFunc, _ string) {
		ctx, now := context.WithCancel(context.Background())
		now()
		_ = e.pool.Queue.Close(ctx)
	}
	full := setup{queue: queue.Config{MaxWaiting: 1}}
	late := setup{queue: queue.Config{MaxWait: time.Second}}
	cut := setup{sim: simengine.Config{Scripts: []script.Script{{script.Answer("x"), script.Sleep(time.Second), script.Cut()}}}}
	small := setup{sim: simengine.Config{ContextLength: 4}}
	crash := setup{change: crashes}
	early := setup{change: func(d *Deps) { d.Pools = []*Pool{{Queue: d.Pools[0].Queue}} }}
	stream := ask(`,"stream":true`, nil)
	return []outcome{
		{name: "served", want: ran(ledger.Served, 200, ""), source: engineSays},
		{name: "served, stream", call: stream, want: ran(ledger.Served, 200, ""), source: engineSays},
		{name: "no JSON", call: call{http.MethodPost, "/v1/chat/completions", "{", nil}, want: row(ledger.Rejected, 400, "invalid_json"), source: notRun},
		{name: "no such model", call: call{http.MethodPost, "/chat/completions", `{"model":"x","messages":[{"role":"user","content":"x"}]}`, nil}, want: row(ledger.Rejected, 404, "model_not_found"), source: notRun},
		{name: "too large", setup: setup{cfg: Config{Bodies: intake.Config{Body: 10}}}, want: row(ledger.Rejected, 413, "request_too_large"), source: notRun},
		{name: "line full", setup: full, in: "full", want: row(ledger.Rejected, 429, "queue_full"), source: notRun},
		{name: "store down", setup: setup{store: noRedis}, want: row(ledger.Rejected, 503, "store_down"), source: notRun},
		{name: "stopping, new", in: "new", meddle: drain, want: row(ledger.Rejected, 503, "draining"), source: notRun},
		{name: "stopping, waiting", in: "line", meddle: drain, want: row(ledger.Rejected, 503, "draining"), source: notRun},
		{name: "stopping, running", in: "run", meddle: kill, want: ran(ledger.SlotLost, 503, "draining"), source: engineSays},
		{name: "waited too long", setup: late, in: "line", want: row(ledger.Expired, 503, "queue_timeout"), source: notRun},
		{name: "cancelled, waiting", in: "line", meddle: cancel, want: row(ledger.Cancelled, 409, "cancelled"), source: notRun},
		{name: "cancelled, waiting, stream", call: stream, in: "line", meddle: cancel, want: row(ledger.Cancelled, 200, "cancelled"), source: notRun},
		{name: "cancelled, running", in: "run", meddle: cancel, want: ran(ledger.Cancelled, 409, "cancelled"), source: engineSays},
		{name: "cancelled, running, stream", call: stream, in: "run", meddle: cancel, want: ran(ledger.Cancelled, 200, "cancelled"), source: engineSays},
		{name: "left, waiting", in: "line", meddle: leave, want: row(ledger.Abandoned, 499, "client_closed"), source: notRun},
		{name: "left, waiting, stream", call: stream, in: "line", meddle: leave, want: row(ledger.Abandoned, 200, "client_closed"), source: notRun},
		{name: "left, running", in: "run", meddle: leave, want: ran(ledger.ClientGone, 499, "client_closed"), source: engineSays},
		{name: "left, running, stream", call: stream, in: "run", meddle: leave, want: ran(ledger.ClientGone, 200, "client_closed"), source: engineSays},
		{name: "engine refuses", setup: small, want: ran(ledger.Rejected, 400, "prompt_refused"), source: notRun},
		{name: "engine breaks off", setup: cut, want: ran(ledger.EngineFailed, 502, "upstream_error"), source: usage.Tokenizer},
		{name: "crash while running", setup: crash, want: ran(ledger.EngineFailed, 500, "internal_error"), source: unknown},
		{name: "crash, stream", setup: crash, call: stream, want: ran(ledger.EngineFailed, 500, "internal_error"), source: unknown},
		{name: "crash before the line", setup: early, want: row(ledger.EngineFailed, 500, "internal_error"), source: notRun},
	}
}

// TestOneRowAndOneLine: however a request ends, the ledger gets one row, the log
// one line, and both say the same.
func TestOneRowAndOneLine(t *testing.T) {
	for _, o := range outcomes() {
		t.Run(o.name, func(t *testing.T) {
			if o.call.path == "" {
				o.call = ask("", nil)
			}
			o.setup.cfg.Client = downstream.Config{CommitAfter: 500 * time.Millisecond, Heartbeat: time.Hour, Beat: downstream.BeatOff}
			inBubble(t, o.setup, func(t *testing.T, e *edge) { o.play(t, e) })
		})
	}
}

func (o outcome) play(t *testing.T, e *edge) {
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	others := 0
	if o.in == "line" || o.in == "full" { // somebody else has the slot
		e.behind(ctx, ask("", nil))
		e.until(running)
		others++
	}
	if o.in == "full" {
		e.behind(ctx, ask("", nil))
		synctest.Wait()
		others++
	}
	if o.in == "new" {
		o.meddle(e, leave, "")
	}
	gone, goes := context.WithCancel(t.Context())
	defer goes()
	reply := e.behind(gone, o.call)
	switch o.in {
	case "run":
		e.until(running)
		<-time.After(5 * time.Second)
	case "line":
		<-time.After(700 * time.Millisecond)
	}
	synctest.Wait()
	if o.meddle != nil && o.in != "new" {
		o.meddle(e, goes, e.rows()[0].ID)
	}
	<-reply
	<-time.After(time.Minute)
	rows := e.rows()
	if len(rows) != others+1 {
		t.Fatalf("the ledger has %d rows for %d requests", len(rows), others+1)
	}
	got := rows[0]
	if got.Outcome != o.want.Outcome || got.Status != o.want.Status || got.Reason != o.want.Reason || got.Engine != o.want.Engine {
		t.Errorf("the row is %s %d %q on %q, want %s %d %q on %q", got.Outcome, got.Status, got.Reason, got.Engine, o.want.Outcome, o.want.Status, o.want.Reason, o.want.Engine)
	}
	if c := got.Tokens.Completion; c.Source != o.source && (c.Source != "" || o.source != usage.Unknown) {
		t.Errorf("the completion tokens are %+v, want source %s", c, o.source)
	}
	if o.want.Engine != "" && o.name != "engine refuses" && got.Slot <= 0 && e.engine.Stats().Arrivals > 0 {
		t.Errorf("the time in the slot is %v", got.Slot)
	}
	if o.in == "line" && got.QueueWait < 700*time.Millisecond {
		t.Errorf("the wait is %v", got.QueueWait)
	}
	var mine []map[string]any
	for _, line := range e.lines("request") {
		if line["id"] == got.ID {
			mine = append(mine, line)
		}
	}
	if len(mine) != 1 || mine[0]["outcome"] != string(got.Outcome) || mine[0]["status"] != float64(got.Status) || mine[0]["reason"] != got.Reason {
		t.Errorf("the log has %v", mine)
	}
	if n := len(e.lines("request failed")); n != 0 {
		t.Errorf("%d further lines tell of it", n)
	}
}

// TestNoRow: who has no key, and what is not queued, has no row.
func TestNoRow(t *testing.T) {
	inBubble(t, setup{cfg: keyed()}, func(t *testing.T, e *edge) {
		e.do(ask("", nil))
		e.do(ask("", bearer("sk-wrong")))
		e.do(call{method: http.MethodPut, path: "/v1/chat/completions", header: bearer(secretA)})
		e.do(call{path: "/v1/models", header: bearer(secretA)})
		if rows := e.rows(); len(rows) != 0 || e.logs.String() != "" {
			t.Errorf("the ledger has %+v, the log %s", rows, e.logs)
		}
	})
}

// TestCrashes: a panic is a 500 in OpenAI's shape, in a stream an error event; the
// slot is free afterwards, and of what was thrown the log says only the type.
func TestCrashes(t *testing.T) {
	inBubble(t, setup{}, func(t *testing.T, e *edge) {
		e.server.echo.GET("/test/crash", func(echo.Context) error { panic("prompt CANARY-1") })
		g := e.do(call{path: "/test/crash"})
		if f := g.fault(t); g.status != 500 || f.Type != "server_error" || f.Code != "internal_error" || strings.Contains(g.body, "CANARY") {
			t.Errorf("got %d %s", g.status, g.body)
		}
		if lines := e.lines("panic"); len(lines) != 1 || lines[0]["type"] != "string" || lines[0]["id"] != g.id() || !strings.Contains(lines[0]["stack"].(string), "row_test.go") {
			t.Errorf("the log has %v", lines)
		}
		if lines := e.lines("request failed"); len(lines) != 1 || lines[0]["status"] != 500.0 {
			t.Errorf("the log has %v", lines)
		}
		if strings.Contains(e.logs.String(), "CANARY") {
			t.Errorf("the log repeats what was thrown: %s", e.logs)
		}
	})
	inBubble(t, setup{change: crashes}, func(t *testing.T, e *edge) {
		for range 2 { // the second one shows that the slot came free
			if g := e.do(ask("", nil)); g.status != 500 || g.fault(t).Code != "internal_error" {
				t.Errorf("got %d %s", g.status, g.body)
			}
		}
	})
}

// TestNothingIsRepeated (B103, B110): no prompt, answer or key is in the log, at
// debug level, in a metric, in the ledger or its files, however a request ends.
func TestNothingIsRepeated(t *testing.T) {
	const canary = "CANARY"
	echoing := func(status int) script.Script {
		body := `{"object":"error","message":"cannot take \"CANARY-prompt\"","code":"CANARY","type":"CANARY","param":"CANARY"}`
		return script.Script{{Kind: script.KindStatus, Status: status}, script.Write(body)}
	}
	say := script.Script{script.Thinking("CANARY-thought "), script.Answer("CANARY-answer"), script.Finish("stop"), script.Done()}
	broken := script.Script{script.Answer("CANARY-answer"), script.Write("data: {\"error\":{\"message\":\"CANARY-prompt\",\"code\":500}}\n\n"), script.End()}
	garbage := script.Script{script.Answer("x"), script.Write("data: {CANARY-garbage\n\n"), script.End()}
	cfg := Config{Keys: []Key{key("team", "sk-CANARY-1", nil)}}
	sim := simengine.Config{Scripts: []script.Script{say, say, echoing(400), echoing(500), echoing(401), echoing(503), broken, garbage, {script.Answer("CANARY-answer"), script.Cut()}}}
	inBubble(t, setup{cfg: cfg, sim: sim}, func(t *testing.T, e *edge) {
		key := bearer("sk-CANARY-1")
		key["X-Api-Key"] = "sk-CANARY-2"
		prompt := func(members string, header map[string]string) call {
			c := ask(members, header)
			c.body = strings.Replace(c.body, `"hi"`, `"CANARY-prompt"`, 1)
			return c
		}
		for i := range sim.Scripts {
			e.do(prompt(fmt.Sprintf(`,"stream":%v`, i%2 == 1), key))
		}
		for _, c := range []call{
			prompt("", bearer("sk-CANARY-wrong")), prompt("", map[string]string{"api-key": "sk-CANARY-wrong"}), prompt("", nil),
			prompt(`,"n":"CANARY"`, key), prompt(`,"stop":[7,"CANARY"]`, key), prompt("CANARY", key), prompt(`,"service_tier":"CANARY"`, key),
			{path: "/v1/models?key=sk-CANARY-query"},
			{path: "/v1/CANARY"},
			{path: "/v1/models/CANARY", header: key},
			{path: "/v1/queue/CANARY", header: key},
		} {
			e.do(c)
		}
		ctx, leave := context.WithCancel(t.Context())
		gone := e.behind(ctx, prompt(`,"stream":true`, key))
		<-time.After(time.Second)
		leave()
		<-gone
		synctest.Wait()
		var metrics strings.Builder
		e.server.Metrics.ServeHTTP(&textWriter{header: http.Header{}, b: &metrics}, call{path: "/metrics"}.request(t.Context(), t))
		places := map[string]string{"the log": e.logs.String(), "the metrics": metrics.String()}
		rows := e.rows()
		for _, row := range rows {
			places["the ledger"] += asText(t, row)
		}
		files, err := filepath.Glob(filepath.Join(e.dir, "*"))
		if err != nil || len(files) == 0 {
			t.Fatalf("the ledger has no files: %v", err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			places[filepath.Base(file)] = string(text)
		}
		for name, text := range places {
			if at := strings.Index(text, canary); at >= 0 {
				t.Errorf("%s repeats it: …%s…", name, text[max(0, at-200):min(len(text), at+100)])
			}
		}
		if len(rows) != len(sim.Scripts)+5 || len(e.lines("request")) != len(rows) {
			t.Errorf("%d rows and %d lines", len(rows), len(e.lines("request")))
		}
	})
}

// textWriter is a ResponseWriter that keeps the body.
type textWriter struct {
	header http.Header
	b      *strings.Builder
}

func (w *textWriter) Header() http.Header         { return w.header }
func (w *textWriter) Write(p []byte) (int, error) { return w.b.Write(p) }
func (w *textWriter) WriteHeader(int)             {}

func asText(t *testing.T, row ledger.Row) string {
	t.Helper()
	text, err := row.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
