package main

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"oneslot/internal/simengine"
	"oneslot/internal/simengine/simtest"

	collect "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"
)

// collector is where the program under test sends its telemetry.
type collector struct {
	mu    sync.Mutex // guards what follows
	spans map[string]string
	paths map[string]int
	raw   bytes.Buffer
}

func (c *collector) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.paths[r.URL.Path]++
	c.raw.Write(body)
	var got collect.ExportTraceServiceRequest
	if r.URL.Path != "/v1/traces" || proto.Unmarshal(body, &got) != nil {
		return
	}
	for _, one := range got.ResourceSpans {
		for _, scope := range one.ScopeSpans {
			for _, s := range scope.Spans {
				c.spans[s.Name] = string(s.ParentSpanId)
			}
		}
	}
}

// serve answers on a network of its own until the test ends, and returns what dials
// it under the name otlp.test, and all else by other.
func (c *collector) serve(t *testing.T, other dialer) dialer {
	t.Helper()
	pipes := simtest.NewPipes()
	server := &http.Server{Handler: c}
	var ended sync.WaitGroup
	ended.Go(func() { _ = server.Serve(pipes) })
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		ended.Wait()
	})
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		if strings.HasPrefix(address, "otlp.test:") {
			return pipes.Dial(ctx, network, address)
		}
		return other(ctx, network, address)
	}
}

type dialer = func(ctx context.Context, network, address string) (net.Conn, error)

// TestTelemetry: a request becomes spans, the metrics are sent too, all of it by
// the end of the program at the latest, and nothing that was said.
func TestTelemetry(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := &collector{spans: map[string]string{}, paths: map[string]int{}}
		p := startWith(t, simengine.Config{Thinking: 4, Answer: 2}, `telemetry: {otlp: "http://otlp.test:4318"}`, func(d dialer) dialer { return c.serve(t, d) })
		r := p.post(t.Context(), `{"model":"ripple","stream":true,"messages":[{"role":"user","content":"unspeakable"}]}`, nil)
		if a := (&r).answer(t); a.finish != "stop" {
			t.Fatalf("%+v", a)
		}
		if err := p.stop(); err != nil {
			t.Fatal(err)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, name := range []string{"POST /v1/chat/completions", "queue", "chat ripple", "prefill", "thinking", "answer"} {
			if parent, ok := c.spans[name]; !ok || (parent == "") != strings.HasPrefix(name, "POST") {
				t.Errorf("the span %q is not there, or hangs wrong: %v", name, c.spans)
			}
		}
		if c.paths["/v1/metrics"] == 0 || !strings.Contains(c.raw.String(), "oneslot_outcomes_total") || !strings.Contains(c.raw.String(), "gen_ai.client.operation.duration") {
			t.Errorf("no metrics were sent: %v", c.paths)
		}
		if strings.Contains(c.raw.String(), "unspeakable") {
			t.Error("the prompt was sent")
		}
	})
}

// TestTelemetryAway: without a collector everything is served, and the log says so.
func TestTelemetryAway(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := startWith(t, simengine.Config{Thinking: 4, Answer: 2}, `telemetry: {otlp: "http://otlp.test:4318"}`, func(d dialer) dialer {
			return func(ctx context.Context, network, address string) (net.Conn, error) {
				if strings.HasPrefix(address, "otlp.test:") {
					return nil, net.ErrClosed
				}
				return d(ctx, network, address)
			}
		})
		if r := p.post(t.Context(), hello, nil); r.status != http.StatusOK {
			t.Errorf("%d %s", r.status, r.body)
		}
		if err := p.stop(); err != nil {
			t.Error(err)
		}
		if n := strings.Count(p.logs.String(), "telemetry cannot be sent"); n != 1 {
			t.Errorf("it is said %d times:\n%s", n, p.logs)
		}
	})
}
