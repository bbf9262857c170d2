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

// addHeader adds the headers of WithHeader.
func addHeader(ctx context.Context, to http.Header) {
	more, _ := ctx.Value(headerKey{}).(http.Header)
	maps.Copy(to, more)
}

// setHeader sets what every request has.
func (e *Engine) setHeader(h http.Header, body bool) {
	h.Set("User-Agent", "oneslot")
	h.Set("Accept", "text/event-stream, application/json")
	if body {
		h.Set("Content-Type", "application/json")
	}
	if e.cfg.APIKey != "" {
		h.Set("Authorization", "Bearer "+e.cfg.APIKey)
	}
}
