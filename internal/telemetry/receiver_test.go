package telemetry

import (
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	collectmetrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	collecttrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	metrics "go.opentelemetry.io/proto/otlp/metrics/v1"
	spans "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// receiver is a collector that keeps what it gets.
type receiver struct {
	t   testing.TB
	url string

	mu       sync.Mutex // guards what follows
	spans    []*spans.Span
	metrics  map[string]*metrics.Metric
	resource map[string]string
	raw      strings.Builder // all bodies
	headers  http.Header     // of the last request
	asked    int
	status   int // the answer; 0 is 200
}

func newReceiver(t testing.TB) *receiver {
	t.Helper()
	r := &receiver{t: t, metrics: map[string]*metrics.Metric{}, resource: map[string]string{}}
	s := httptest.NewServer(r)
	t.Cleanup(s.Close)
	r.url = s.URL
	return r
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked++
	r.headers = req.Header
	if r.status != 0 {
		w.WriteHeader(r.status)
		return
	}
	var body io.Reader = req.Body
	if req.Header.Get("Content-Encoding") == "gzip" {
		unzipped, err := gzip.NewReader(req.Body)
		if err != nil {
			r.t.Error(err)
			return
		}
		body = unzipped
	}
	raw, err := io.ReadAll(body)
	if err != nil || req.Header.Get("Content-Type") != "application/x-protobuf" {
		r.t.Errorf("%v, %v", err, req.Header)
	}
	r.raw.Write(raw)
	switch req.URL.Path {
	case "/v1/traces":
		r.traces(raw)
	case "/v1/metrics":
		r.measures(raw)
	default:
		r.t.Errorf("something is sent to %s", req.URL.Path)
	}
}

func (r *receiver) traces(raw []byte) {
	var got collecttrace.ExportTraceServiceRequest
	if err := proto.Unmarshal(raw, &got); err != nil {
		r.t.Error(err)
	}
	for _, one := range got.ResourceSpans {
		r.about(one.Resource.GetAttributes())
		for _, scope := range one.ScopeSpans {
			r.spans = append(r.spans, scope.Spans...)
		}
	}
}

func (r *receiver) measures(raw []byte) {
	var got collectmetrics.ExportMetricsServiceRequest
	if err := proto.Unmarshal(raw, &got); err != nil {
		r.t.Error(err)
	}
	for _, one := range got.ResourceMetrics {
		for _, scope := range one.ScopeMetrics {
			for _, m := range scope.Metrics {
				r.metrics[m.Name] = m
			}
		}
	}
}

func (r *receiver) about(list []*common.KeyValue) {
	for _, kv := range list {
		r.resource[kv.Key] = kv.Value.GetStringValue()
	}
}

// span finds the one of a name.
func (r *receiver) span(name string) *spans.Span {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	var found *spans.Span
	for _, s := range r.spans {
		if s.Name == name {
			if found != nil {
				r.t.Errorf("two spans are named %s", name)
			}
			found = s
		}
	}
	if found == nil {
		r.t.Fatalf("no span is named %s", name)
	}
	return found
}

// attributes are those of a span as text.
func attributes(s *spans.Span) map[string]string {
	out := map[string]string{}
	for _, kv := range s.Attributes {
		out[kv.Key] = value(kv.Value)
	}
	return out
}

func value(v *common.AnyValue) string {
	switch v := v.GetValue().(type) {
	case *common.AnyValue_StringValue:
		return v.StringValue
	case *common.AnyValue_IntValue:
		return fmt.Sprint(v.IntValue)
	case *common.AnyValue_DoubleValue:
		return fmt.Sprint(v.DoubleValue)
	case *common.AnyValue_BoolValue:
		return fmt.Sprint(v.BoolValue)
	case *common.AnyValue_ArrayValue:
		var list []string
		for _, one := range v.ArrayValue.Values {
			list = append(list, value(one))
		}
		return "[" + strings.Join(list, " ") + "]"
	}
	return fmt.Sprint(v)
}

// tree is the trace as a person reads it.
func (r *receiver) tree() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	ids := map[string]bool{}
	for _, s := range r.spans {
		ids[string(s.SpanId)] = true
	}
	var b strings.Builder
	var below func(parent string, depth int)
	show := func(s *spans.Span, depth int) {
		fmt.Fprintf(&b, "%s%s %s +%.3fs\n", strings.Repeat("  ", depth), s.Name, strings.TrimPrefix(s.Kind.String(), "SPAN_KIND_"), float64(s.EndTimeUnixNano-s.StartTimeUnixNano)/1e9)
		for _, kv := range s.Attributes {
			fmt.Fprintf(&b, "%s  - %s = %s\n", strings.Repeat("  ", depth), kv.Key, value(kv.Value))
		}
		below(string(s.SpanId), depth+1)
	}
	slices.SortStableFunc(r.spans, func(a, b *spans.Span) int { return int(int64(a.StartTimeUnixNano) - int64(b.StartTimeUnixNano)) })
	below = func(parent string, depth int) {
		for _, s := range r.spans {
			if string(s.ParentSpanId) == parent {
				show(s, depth)
			}
		}
	}
	for _, s := range r.spans {
		if !ids[string(s.ParentSpanId)] {
			show(s, 0)
		}
	}
	return b.String()
}
