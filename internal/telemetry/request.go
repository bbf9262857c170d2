package telemetry

import (
	"context"
	"net/http"
	"time"

	"oneslot/ledger"

	"github.com/tidwall/gjson"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// A Request is the trace of one request. A nil one is none. Its methods are called
// by one goroutine, in the order Queued, Granted, End; the first two may be left out.
type Request struct {
	t       *Telemetry
	ctx     context.Context // of the server span
	server  trace.Span
	queue   trace.Span
	engine  trace.Span
	inside  context.Context // of the engine span
	granted time.Time
}

// Begin starts the trace of a request that came at a given time.
func (t *Telemetry) Begin(r *http.Request, route, id string, at time.Time) *Request {
	if t == nil {
		return nil
	}
	from := propagation.TraceContext{}.Extract(context.Background(), propagation.HeaderCarrier(r.Header))
	q := &Request{t: t}
	q.ctx, q.server = t.tracer.Start(from, r.Method+" "+route, trace.WithSpanKind(trace.SpanKindServer), trace.WithTimestamp(at), trace.WithAttributes(
		attribute.String("http.request.method", r.Method), attribute.String("http.route", route), attribute.String("url.path", route),
		attribute.String("oneslot.request_id", id)))
	return q
}

// Queued says that the request stands in line.
func (q *Request) Queued(class string) {
	if q == nil {
		return
	}
	_, q.queue = q.t.tracer.Start(q.ctx, "queue", trace.WithAttributes(attribute.String("oneslot.class", class)))
}

// Granted says that the request goes to an engine, and returns the headers that
// the engine is to get, nil for none. body is the client's request, of which only
// numbers are read.
func (q *Request) Granted(row ledger.Row, body []byte) http.Header {
	if q == nil {
		return nil
	}
	q.endQueue(row)
	q.granted = time.Now()
	q.inside, q.engine = q.t.tracer.Start(q.ctx, "chat "+row.Model, trace.WithSpanKind(trace.SpanKindClient), trace.WithTimestamp(q.granted),
		trace.WithAttributes(asked(row, body)...), trace.WithAttributes(server(q.t.cfg.Servers[row.Engine])...))
	h := http.Header{}
	propagation.TraceContext{}.Inject(q.inside, propagation.HeaderCarrier(h))
	return h
}

func (q *Request) endQueue(row ledger.Row) {
	if q.queue != nil {
		q.queue.SetAttributes(attribute.Float64("oneslot.queue.wait", row.QueueWait.Seconds()))
		q.queue.End()
		q.queue = nil
	}
}

// An Ending is what became of a request.
type Ending struct {
	// Row is the request's, as the ledger has it.
	Row ledger.Row
	// Model is the name under which the model is served; unlike Row.Model, no client
	// can choose it.
	Model string
}

// End ends the trace and counts the request.
func (q *Request) End(e Ending) {
	if q == nil {
		return
	}
	r := &e.Row
	q.endQueue(e.Row)
	if q.engine != nil {
		q.phases(r)
		q.engine.SetAttributes(answered(&e)...)
		fail(q.engine, r)
		q.engine.End(trace.WithTimestamp(q.granted.Add(r.Slot)))
		q.t.record.observe(q.ctx, &e)
	}
	q.server.SetAttributes(
		attribute.Int("http.response.status_code", r.Status), attribute.String("oneslot.key", r.Key), attribute.String("oneslot.class", r.Class),
		attribute.String("oneslot.outcome", string(r.Outcome)), attribute.Bool("oneslot.stream", r.Stream))
	fail(q.server, r)
	q.server.End()
}

// phases are the parts of the run, one behind the other.
func (q *Request) phases(r *ledger.Row) {
	at := q.granted
	for _, part := range []struct {
		name string
		took time.Duration
	}{{"prefill", r.Prefill}, {"thinking", r.Thinking}, {"answer", r.Answer}} {
		if part.took <= 0 {
			continue
		}
		_, span := q.t.tracer.Start(q.inside, part.name, trace.WithTimestamp(at))
		at = at.Add(part.took)
		span.End(trace.WithTimestamp(at))
	}
}

// fail marks a span of a request that was not served for somebody else's fault than
// the client's.
func fail(span trace.Span, r *ledger.Row) {
	if r.Outcome == ledger.Served {
		return
	}
	reason := r.Reason
	if reason == "" {
		reason = string(r.Outcome)
	}
	span.SetAttributes(attribute.String("error.type", reason))
	if r.Outcome == ledger.EngineFailed || r.Outcome == ledger.SlotLost || r.Status >= http.StatusInternalServerError {
		span.SetStatus(codes.Error, reason)
	}
}

// asked are the GenAI attributes of a request.
func asked(row ledger.Row, body []byte) []attribute.KeyValue {
	list := []attribute.KeyValue{
		attribute.String("gen_ai.operation.name", "chat"), attribute.String("gen_ai.provider.name", "openai"),
		attribute.String("gen_ai.request.model", row.Model), attribute.Bool("gen_ai.request.stream", row.Stream),
		attribute.String("oneslot.engine", row.Engine),
	}
	for _, n := range []struct {
		field, name string
		whole       bool
	}{
		{"max_tokens", "max_tokens", true},
		{"max_completion_tokens", "max_tokens", true},
		{"top_k", "top_k", true},
		{"seed", "seed", true},
		{"temperature", "temperature", false},
		{"top_p", "top_p", false},
		{"frequency_penalty", "frequency_penalty", false},
		{"presence_penalty", "presence_penalty", false},
	} {
		switch v := gjson.GetBytes(body, n.field); {
		case v.Type != gjson.Number:
		case n.whole:
			list = append(list, attribute.Int64("gen_ai.request."+n.name, v.Int()))
		default:
			list = append(list, attribute.Float64("gen_ai.request."+n.name, v.Float()))
		}
	}
	return list
}

// answered are the GenAI attributes of an answer. What nobody knows is left out.
func answered(e *Ending) []attribute.KeyValue {
	r := &e.Row
	list := []attribute.KeyValue{attribute.String("gen_ai.response.id", r.ID), attribute.String("gen_ai.response.model", e.Model)}
	if r.FinishReason != "" {
		list = append(list, attribute.StringSlice("gen_ai.response.finish_reasons", []string{r.FinishReason}))
	}
	if r.Tokens.Completion.N > 0 {
		list = append(list, attribute.Float64("gen_ai.response.time_to_first_chunk", r.Prefill.Seconds()))
	}
	figures := r.Counts()
	for i, key := range []string{"input_tokens", "cache_read.input_tokens", "reasoning.output_tokens", "text.output_tokens", "output_tokens"} {
		if figures[i].Known() {
			list = append(list, attribute.Int("gen_ai.usage."+key, figures[i].N))
		}
	}
	return append(list, attribute.Int("oneslot.runs", r.Runs))
}
