package engine

import (
	"context"
	"maps"
	"net/http"
)

type headerKey struct{}

// WithHeader returns a context whose runs carry further headers, such as
// traceparent.
func WithHeader(ctx context.Context, more http.Header) context.Context {
	return context.WithValue(ctx, headerKey{}, more)
}

// withMore adds the headers of WithHeader.
func withMore(ctx context.Context, h http.Header) http.Header {
	more, _ := ctx.Value(headerKey{}).(http.Header)
	maps.Copy(h, more)
	return h
}

// header is what every request has.
func (e *Engine) header(body bool) http.Header {
	h := http.Header{"User-Agent": {"oneslot"}, "Accept": {"text/event-stream, application/json"}}
	if body {
		h["Content-Type"] = []string{"application/json"}
	}
	if e.cfg.APIKey != "" {
		h["Authorization"] = []string{"Bearer " + e.cfg.APIKey}
	}
	return h
}
