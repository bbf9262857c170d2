package telemetry

import (
	"context"
	"encoding/hex"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"oneslot/ledger"
	"oneslot/usage"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// sending is telemetry that goes to a receiver.
func sending(t *testing.T, cfg Config) *Telemetry {
	t.Helper()
	tel, err := New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return tel
}

func shut(t *testing.T, tel *Telemetry) {
	t.Helper()
	if err := tel.Close(context.Background()); err != nil {
		t.Error(err)
	}
}

func request(header map[string]string) *http.Request {
	r := httptest.NewRequestWithContext(context.Background(), http.MethodPost, "/v1/chat/completions", nil)
	for name, v := range header {
		r.Header.Set(name, v)
	}
	return r
}

func queuedRow() ledger.Row {
	return ledger.Row{ID: "aa", Model: "gpt-4o", Key: "team-a", Class: "default", Stream: true, Outcome: ledger.Running, Engine: "spark", QueueWait: 40 * time.Second}
}

func servedRow() ledger.Row {
	r := queuedRow()
	r.Outcome, r.Status, r.FinishReason, r.AnswerStarted, r.Runs = ledger.Served, 200, "stop", true, 1
	r.Prefill, r.Thinking, r.Answer, r.Slot = 1710*time.Millisecond, 65200*time.Millisecond, 10100*time.Millisecond, 77010*time.Millisecond
	r.Tokens = usage.Tokens{
		Prompt: usage.Count{N: 812, Source: usage.Engine}, CachedPrompt: usage.Count{Source: usage.Unknown},
		Thinking: usage.Count{N: 640, Source: usage.Tokenizer}, Answer: usage.Count{N: 102, Source: usage.Tokenizer}, Completion: usage.Count{N: 742, Source: usage.Engine},
	}
	return r
}

const body = `{"model":"gpt-4o","max_tokens":900,"temperature":0.5,"top_k":"secret","seed":7,"stop":["secret"],"messages":[{"role":"user","content":"secret"}]}`

// TestTrace: one request is one tree, with the conventions' attributes, in the
// client's trace, and the engine is told.
func TestTrace(t *testing.T) {
	r := newReceiver(t)
	tel := sending(t, Config{Endpoint: r.url + "/", Version: "1.2", Servers: map[string]string{"spark": "http://10.0.0.7:30000/v1"}})
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	began := time.Now().Add(-time.Minute)
	q := tel.Begin(request(map[string]string{"Traceparent": parent, "Tracestate": "a=b"}), "/v1/chat/completions", "aa", began)
	q.Queued("default")
	h := q.Granted(queuedRow(), []byte(body))
	q.End(Ending{Row: servedRow(), Model: "ripple"})
	shut(t, tel)

	server, queue, engine := r.span("POST /v1/chat/completions"), r.span("queue"), r.span("chat gpt-4o")
	if hex.EncodeToString(server.TraceId) != parent[3:35] || hex.EncodeToString(server.ParentSpanId) != parent[36:52] || server.StartTimeUnixNano != uint64(began.UnixNano()) {
		t.Errorf("the client's trace is not continued: %v", server)
	}
	for _, s := range []struct{ child, parent []byte }{
		{queue.ParentSpanId, server.SpanId},
		{engine.ParentSpanId, server.SpanId},
		{r.span("prefill").ParentSpanId, engine.SpanId},
		{r.span("thinking").ParentSpanId, engine.SpanId},
		{r.span("answer").ParentSpanId, engine.SpanId},
	} {
		if string(s.child) != string(s.parent) {
			t.Errorf("a span hangs elsewhere:\n%s", r.tree())
		}
	}
	if want := "00-" + parent[3:35] + "-" + hex.EncodeToString(engine.SpanId) + "-01"; h.Get("Traceparent") != want || h.Get("Tracestate") != "a=b" {
		t.Errorf("the engine gets %v, want %s", h, want)
	}
	for name, took := range map[string]time.Duration{"prefill": 1710 * time.Millisecond, "thinking": 65200 * time.Millisecond, "answer": 10100 * time.Millisecond, "chat gpt-4o": 77010 * time.Millisecond} {
		if s := r.span(name); time.Duration(s.EndTimeUnixNano-s.StartTimeUnixNano) != took {
			t.Errorf("%s took %v", name, time.Duration(s.EndTimeUnixNano-s.StartTimeUnixNano))
		}
	}
	if r.span("thinking").StartTimeUnixNano != r.span("prefill").EndTimeUnixNano {
		t.Error("thinking does not begin where prefill ends")
	}
	got := attributes(engine)
	for name, want := range map[string]string{
		"gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "gen_ai.request.model": "gpt-4o", "gen_ai.request.stream": "true", "gen_ai.request.max_tokens": "900",
		"gen_ai.request.temperature": "0.5", "gen_ai.request.seed": "7", "gen_ai.response.model": "ripple", "gen_ai.response.id": "aa", "gen_ai.response.finish_reasons": "[stop]",
		"gen_ai.response.time_to_first_chunk": "1.71", "gen_ai.usage.input_tokens": "812", "gen_ai.usage.output_tokens": "742", "gen_ai.usage.reasoning.output_tokens": "640",
		"gen_ai.usage.text.output_tokens": "102", "server.address": "10.0.0.7", "server.port": "30000", "oneslot.engine": "spark",
	} {
		if got[name] != want {
			t.Errorf("%s is %q, want %q", name, got[name], want)
		}
	}
	for _, name := range []string{"gen_ai.usage.cache_read.input_tokens", "gen_ai.request.top_k", "error.type"} {
		if v, ok := got[name]; ok {
			t.Errorf("%s is %q", name, v)
		}
	}
	if a := attributes(server); a["http.response.status_code"] != "200" || a["oneslot.outcome"] != "served" || a["oneslot.key"] != "team-a" || a["oneslot.request_id"] != "aa" {
		t.Errorf("%v", a)
	}
	if attributes(queue)["oneslot.queue.wait"] != "40" {
		t.Errorf("%v", attributes(queue))
	}
	if strings.Contains(r.raw.String(), "secret") {
		t.Error("what was said is sent")
	}
	if r.resource["service.name"] != "oneslot" || r.resource["service.version"] != "1.2" || r.resource["host.name"] == "" {
		t.Errorf("it is described as %v", r.resource)
	}
	t.Logf("\n%s", r.tree())
}

// TestEndings: how each way to end looks.
func TestEndings(t *testing.T) {
	for _, tc := range []struct {
		outcome      ledger.Outcome
		status       int
		reason, kind string
		ran, bad     bool
	}{
		{ledger.Served, 200, "", "", true, false},
		{ledger.Rejected, 429, "queue_full", "queue_full", false, false},
		{ledger.Abandoned, 499, "", "abandoned", false, false},
		{ledger.Expired, 503, "queue_timeout", "queue_timeout", false, true},
		{ledger.ClientGone, 200, "", "client_gone", true, false},
		{ledger.EngineFailed, 200, "upstream_error", "upstream_error", true, true},
		{ledger.SlotLost, 200, "slot_lost", "slot_lost", true, true},
	} {
		t.Run(string(tc.outcome), func(t *testing.T) {
			r := newReceiver(t)
			tel := sending(t, Config{Endpoint: r.url})
			row := servedRow()
			row.Outcome, row.Status, row.Reason = tc.outcome, tc.status, tc.reason
			q := tel.Begin(request(nil), "/v1/chat/completions", "aa", time.Now())
			q.Queued("default")
			if tc.ran {
				q.Granted(queuedRow(), nil)
			}
			q.End(Ending{Row: row, Model: "ripple"})
			shut(t, tel)
			names := []string{"POST /v1/chat/completions"}
			if tc.ran {
				names = append(names, "chat gpt-4o")
			} else if len(r.spans) != 2 {
				t.Errorf("%d spans, want the server's and the queue's", len(r.spans))
			}
			for _, name := range names {
				s := r.span(name)
				if attributes(s)["error.type"] != tc.kind || (s.Status.GetCode() == 2) != tc.bad {
					t.Errorf("%s: error.type %q, status %v", name, attributes(s)["error.type"], s.Status)
				}
			}
		})
	}
}

// TestMetrics: what Prometheus sees and what the conventions name is sent.
func TestMetrics(t *testing.T) {
	r := newReceiver(t)
	reg := prometheus.NewRegistry()
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: "oneslot_things_total", Help: "Things."})
	c.Add(3)
	reg.MustRegister(c)
	tel := sending(t, Config{Endpoint: r.url, Gatherer: reg})
	q := tel.Begin(request(nil), "/v1/chat/completions", "aa", time.Now())
	q.Granted(queuedRow(), nil)
	q.End(Ending{Row: servedRow(), Model: "ripple"})
	shut(t, tel)
	if m := r.metrics["oneslot_things_total"]; m == nil || m.GetSum().DataPoints[0].GetAsDouble() != 3 {
		t.Errorf("%v", m)
	}
	h := r.metrics["gen_ai.client.operation.duration"].GetHistogram().GetDataPoints()
	if len(h) != 1 || h[0].GetSum() != 77.01 || h[0].ExplicitBounds[len(h[0].ExplicitBounds)-1] != 3600 {
		t.Errorf("%v", h)
	}
	for _, kv := range h[0].Attributes {
		if kv.Key == "gen_ai.request.model" && value(kv.Value) != "ripple" {
			t.Error("a client chooses a label")
		}
	}
	if p := r.metrics["gen_ai.client.token.usage"].GetHistogram().GetDataPoints(); len(p) != 2 || p[0].GetSum()+p[1].GetSum() != 812+742 {
		t.Errorf("%v", p)
	}
	if p := r.metrics["gen_ai.client.operation.time_to_first_chunk"].GetHistogram().GetDataPoints(); len(p) != 1 || p[0].GetSum() != 1.71 {
		t.Errorf("%v", p)
	}
}

// TestOff: without an endpoint there is nothing, and nothing is allocated.
func TestOff(t *testing.T) {
	tel := sending(t, Config{})
	if tel != nil {
		t.Fatal("it is on")
	}
	r, row, raw := request(nil), servedRow(), []byte(body)
	if n := testing.AllocsPerRun(100, func() {
		q := tel.Begin(r, "/v1/chat/completions", "aa", time.Time{})
		q.Queued("default")
		if q.Granted(row, raw) != nil {
			t.Error("the engine gets headers")
		}
		q.End(Ending{Row: row})
	}); n != 0 {
		t.Errorf("%v allocations a request", n)
	}
	shut(t, tel)
}

// TestVariables: those of the SDK hold.
func TestVariables(t *testing.T) {
	t.Setenv("OTEL_SERVICE_NAME", "box")
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=lab")
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-token=abc")
	r := newReceiver(t)
	tel := sending(t, Config{Endpoint: r.url})
	tel.Begin(request(nil), "/", "aa", time.Now()).End(Ending{})
	shut(t, tel)
	if r.resource["service.name"] != "box" || r.resource["deployment.environment.name"] != "lab" || r.headers.Get("X-Token") != "abc" {
		t.Errorf("%v, %v", r.resource, r.headers)
	}
	t.Setenv("OTEL_TRACES_SAMPLER", "always_off")
	r = newReceiver(t)
	tel = sending(t, Config{Endpoint: r.url})
	tel.Begin(request(nil), "/", "aa", time.Now()).End(Ending{})
	shut(t, tel)
	if len(r.spans) != 0 {
		t.Errorf("%d spans are sent", len(r.spans))
	}
}

// TestCollectorAway: requests go on, the operator is told once, and the end is
// bounded.
func TestCollectorAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told atomic.Int64 // two senders tell
		tel := sending(t, Config{
			Endpoint: "http://collector.test:4318", Warn: func(error) { told.Add(1) },
			Dial: func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("no route") },
		})
		began := time.Now()
		for range 5000 { // more than may wait
			tel.Begin(request(nil), "/v1/chat/completions", "aa", time.Now()).End(Ending{Row: servedRow()})
		}
		if took := time.Since(began); took > 0 {
			t.Errorf("the requests waited %v", took)
		}
		<-time.After(5 * time.Minute)
		synctest.Wait()
		if n := told.Load(); n != 1 {
			t.Errorf("told %d times", n)
		}
		<-time.After(20 * time.Minute)
		synctest.Wait()
		if n := told.Load(); n < 2 || n > 3 {
			t.Errorf("told %d times in 25 minutes", n)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		defer cancel()
		began = time.Now()
		_ = tel.Close(ctx)
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("the end took %v", took)
		}
	})
}

// TestRefusedOnce: a collector that refuses is not asked again for the same.
func TestRefusedOnce(t *testing.T) {
	r := newReceiver(t)
	r.status = http.StatusBadRequest
	var told []error
	tel := sending(t, Config{Endpoint: r.url, Warn: func(err error) { told = append(told, err) }})
	tel.Begin(request(nil), "/", "aa", time.Now()).End(Ending{})
	shut(t, tel)
	if len(told) != 1 || !strings.Contains(told[0].Error(), "400") || r.asked > 2 { // once for spans, once for metrics
		t.Errorf("%d requests, told %v", r.asked, told)
	}
}

func TestEndpoints(t *testing.T) {
	for _, good := range []string{"", "http://127.0.0.1:4318", "https://collector/base/", "http://[::1]:4318"} {
		if err := (Config{Endpoint: good}).Validate(); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	for _, bad := range []string{"127.0.0.1:4317", "grpc://127.0.0.1:4317", "http://", "http://me:secret@collector", "http://collector?x=1", "::"} {
		err := Config{Endpoint: bad}.Validate()
		if err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", bad, err)
		}
		if tel, err := New(t.Context(), Config{Endpoint: bad}); err == nil || tel != nil {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
