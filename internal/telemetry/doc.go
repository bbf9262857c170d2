// Package telemetry sends traces and metrics by OpenTelemetry's protocol, OTLP
// over HTTP, to a collector.
//
// A queued request is one trace: the server span; below it the wait in line and the
// run on the engine, with the attributes of the GenAI conventions; below the run
// its prefill, thinking and answer. A traceparent of the client is continued and
// passed on to the engine. The metrics are all that Prometheus sees, and the GenAI
// conventions' histograms with buckets up to an hour.
//
// What was said is in neither: no prompt, no answer, no stop string. The variables
// of the OpenTelemetry SDK (OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES,
// OTEL_TRACES_SAMPLER, OTEL_EXPORTER_OTLP_HEADERS, ...) hold, but for the endpoint.
//
// A nil *Telemetry and a nil *Request are telemetry that is off: all their methods
// do nothing. A collector that is slow, full or away costs requests nothing: spans
// wait in a bounded queue and are dropped beyond it, and Config.Warn is told at
// most once in ten minutes.
package telemetry
