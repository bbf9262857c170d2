package telemetry

import (
	"context"
	"errors"
	"net/url"
	"strconv"

	"oneslot/ledger"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// server are the attributes of an engine's address.
func server(base string) []attribute.KeyValue {
	u, err := url.Parse(base)
	if err != nil || u.Hostname() == "" {
		return nil
	}
	list := []attribute.KeyValue{attribute.String("server.address", u.Hostname())}
	if port, err := strconv.Atoi(u.Port()); err == nil {
		list = append(list, attribute.Int("server.port", port))
	}
	return list
}

// instruments are the histograms of the GenAI conventions.
type instruments struct {
	duration, first metric.Float64Histogram
	tokens          metric.Int64Histogram
}

func newInstruments(m metric.Meter) (i instruments, err error) {
	// The conventions' own buckets end long before a run on one slot does.
	seconds := metric.WithExplicitBucketBoundaries(.005, .025, .1, .5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1200, 1800, 3600)
	var faults [3]error
	i.duration, faults[0] = m.Float64Histogram("gen_ai.client.operation.duration", metric.WithUnit("s"), metric.WithDescription("Time of a run on the engine."), seconds)
	i.first, faults[1] = m.Float64Histogram("gen_ai.client.operation.time_to_first_chunk", metric.WithUnit("s"), metric.WithDescription("Time from dispatch to the first token."), seconds)
	i.tokens, faults[2] = m.Int64Histogram("gen_ai.client.token.usage", metric.WithUnit("{token}"), metric.WithDescription("Tokens of a run."),
		metric.WithExplicitBucketBoundaries(1, 4, 16, 64, 256, 1024, 4096, 16384, 32768, 65536, 131072))
	return i, errors.Join(faults[:]...)
}

// observe counts a run.
func (i *instruments) observe(ctx context.Context, e *Ending) {
	r := &e.Row
	of := []attribute.KeyValue{
		attribute.String("gen_ai.operation.name", "chat"), attribute.String("gen_ai.provider.name", "openai"), attribute.String("gen_ai.request.model", e.Model),
	}
	duration := of
	if r.Outcome != ledger.Served {
		duration = append(duration[:len(of):len(of)], attribute.String("error.type", string(r.Outcome)))
	}
	i.duration.Record(ctx, r.Slot.Seconds(), metric.WithAttributes(duration...))
	if r.Tokens.Completion.N > 0 {
		i.first.Record(ctx, r.Prefill.Seconds(), metric.WithAttributes(of...))
	}
	for kind, count := range map[string]int{"input": 0, "output": 4} {
		if c := r.Counts()[count]; c.Known() {
			i.tokens.Record(ctx, int64(c.N), metric.WithAttributes(append(of[:len(of):len(of)], attribute.String("gen_ai.token.type", kind))...))
		}
	}
}
