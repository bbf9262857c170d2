package telemetry

import (
	"context"
	"sync"
	"time"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// tellEvery is how often a failure is told of.
const tellEvery = 10 * time.Minute

// teller tells of failures, not of every one.
type teller struct {
	warn func(error)

	mu   sync.Mutex // guards last
	last time.Time
}

// tell swallows err: nobody but the operator can do anything about it.
func (t *teller) tell(err error) error {
	if err == nil || t.warn == nil {
		return nil
	}
	t.mu.Lock()
	again := !t.last.IsZero() && time.Since(t.last) < tellEvery
	if !again {
		t.last = time.Now()
	}
	t.mu.Unlock()
	if !again {
		t.warn(err)
	}
	return nil
}

// spanSender sends spans. The SDK would print a failure to standard error.
type spanSender struct {
	sdktrace.SpanExporter
	*teller
}

// ExportSpans sends spans.
func (s spanSender) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	return s.tell(s.SpanExporter.ExportSpans(ctx, spans))
}

// metricSender sends metrics.
type metricSender struct {
	sdkmetric.Exporter
	*teller
}

// Export sends metrics.
func (m metricSender) Export(ctx context.Context, all *metricdata.ResourceMetrics) error {
	return m.tell(m.Exporter.Export(ctx, all))
}
