package telemetry

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	bridge "go.opentelemetry.io/contrib/bridges/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// Config says where telemetry goes.
type Config struct {
	// Endpoint is the collector's base URL, such as http://127.0.0.1:4318; v1/traces
	// and v1/metrics are put behind it. Zero means that telemetry is off.
	Endpoint string
	// Version is the program's.
	Version string
	// Servers are the base URLs of the engines, by slot.
	Servers map[string]string
	// Gatherer has the metrics that Prometheus sees. Zero means none.
	Gatherer prometheus.Gatherer
	// Warn is told why nothing could be sent, now and then. Zero means nobody.
	Warn func(error)
	// Dial makes connections. Zero means TCP.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Validate refuses an endpoint that nothing can be sent to.
func (c Config) Validate() error {
	u, err := url.Parse(c.Endpoint)
	switch {
	case c.Endpoint == "":
		return nil
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.RawQuery != "" || u.Fragment != "":
		return errors.New("must be the base URL of a collector that takes OTLP over HTTP, such as http://127.0.0.1:4318")
	case u.User != nil:
		return errors.New("must not hold a user or password; put them into OTEL_EXPORTER_OTLP_HEADERS, as in Authorization=Basic%20KEY")
	}
	return nil
}

// Telemetry sends. Create it with New.
type Telemetry struct {
	cfg    Config
	http   *http.Client
	spans  *sdktrace.TracerProvider
	meters *sdkmetric.MeterProvider
	tracer trace.Tracer
	record instruments
}

// sendWithin bounds one request to the collector.
const sendWithin = 10 * time.Second

// New returns a Telemetry, or nil if the configuration has it off. The collector
// need not be there.
func New(ctx context.Context, cfg Config) (*Telemetry, error) {
	if err := cfg.Validate(); err != nil || cfg.Endpoint == "" {
		return nil, err
	}
	about, err := describe(ctx, cfg.Version)
	if err != nil {
		return nil, err
	}
	t := &Telemetry{cfg: cfg, http: &http.Client{Timeout: sendWithin, Transport: &http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: cfg.Dial, IdleConnTimeout: time.Minute, MaxIdleConnsPerHost: 2,
	}}}
	base := strings.TrimSuffix(cfg.Endpoint, "/")
	spans, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(base+"/v1/traces"), otlptracehttp.WithHTTPClient(t.http))
	if err != nil {
		return nil, fmt.Errorf("telemetry: %w", err)
	}
	metrics, err := otlpmetrichttp.New(ctx, otlpmetrichttp.WithEndpointURL(base+"/v1/metrics"), otlpmetrichttp.WithHTTPClient(t.http))
	if err != nil {
		return nil, fmt.Errorf("telemetry: %w", err)
	}
	say := &teller{warn: cfg.Warn}
	t.spans = sdktrace.NewTracerProvider(sdktrace.WithResource(about), sdktrace.WithBatcher(spanSender{spans, say}))
	t.tracer = t.spans.Tracer(name)
	var from []sdkmetric.PeriodicReaderOption
	if cfg.Gatherer != nil {
		from = append(from, sdkmetric.WithProducer(bridge.NewMetricProducer(bridge.WithGatherer(cfg.Gatherer))))
	}
	t.meters = sdkmetric.NewMeterProvider(sdkmetric.WithResource(about), sdkmetric.WithReader(sdkmetric.NewPeriodicReader(metricSender{metrics, say}, from...)))
	t.record, err = newInstruments(t.meters.Meter(name))
	return t, err
}

// name is the scope of all that is sent.
const name = "oneslot"

// describe is what is said of the program; variables override it.
func describe(ctx context.Context, version string) (*resource.Resource, error) {
	about, err := resource.New(ctx,
		resource.WithAttributes(attribute.String("service.name", name), attribute.String("service.version", version)),
		resource.WithHost(), resource.WithTelemetrySDK(), resource.WithFromEnv())
	if errors.Is(err, resource.ErrPartialResource) || errors.Is(err, resource.ErrSchemaURLConflict) {
		err = nil // what could be found out is there
	}
	if err != nil {
		return nil, fmt.Errorf("telemetry: OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	return about, nil
}

// Close sends what is left, until ctx ends.
func (t *Telemetry) Close(ctx context.Context) error {
	if t == nil {
		return nil
	}
	err := errors.Join(t.spans.Shutdown(ctx), t.meters.Shutdown(ctx))
	t.http.CloseIdleConnections()
	if err != nil {
		return fmt.Errorf("telemetry: the last of it was not sent: %w", err)
	}
	return nil
}
