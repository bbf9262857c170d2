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

// withMore adds the headers of WithHeader. It does not change h.
func withMore(ctx context.Context, h http.Header) http.Header {
	more, _ := ctx.Value(headerKey{}).(http.Header)
	if len(more) == 0 {
		return h
	}
	h = maps.Clone(h)
	maps.Copy(h, more)
	return h
}

// headers are what every request has, one with a body also a type. Nobody changes them.
type headers struct{ bare, body http.Header }

func newHeaders(key string) headers {
	h := http.Header{"User-Agent": {"oneslot"}, "Accept": {"text/event-stream, application/json"}}
	if key != "" {
		h["Authorization"] = []string{"Bearer " + key}
	}
	body := maps.Clone(h)
	body["Content-Type"] = []string{"application/json"}
	return headers{bare: h, body: body}
}
