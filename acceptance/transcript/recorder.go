package transcript

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"sync"
	"time"
)

// Exchange is one request with its answer, as far as it has come.
type Exchange struct {
	Method, Path string // the path with its query
	Request      http.Header
	Body         []byte
	Status       int // 0 while there is no answer
	Response     http.Header
	Answer       []byte
}

// Recorder is a proxy before the proxy. It changes nothing of what passes.
type Recorder struct {
	// URL is where clients find it.
	URL    string
	server *http.Server

	mu   sync.Mutex // guards seen and what it points to
	seen []*Exchange
}

// Listen begins to record what goes to the target. The address may have port 0.
func Listen(ctx context.Context, address, target string) (*Recorder, error) {
	to, err := url.Parse(target)
	if err != nil {
		return nil, err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("transcript: %w", err)
	}
	r := &Recorder{URL: "http://" + listener.Addr().String()}
	r.server = &http.Server{Handler: r.handler(to), ReadHeaderTimeout: time.Minute}
	go func() { _ = r.server.Serve(listener) }() // ends with Close
	return r, nil
}

// Close stops it, also in the middle of an answer.
func (r *Recorder) Close() error { return r.server.Close() }

// Exchanges are copies of what was recorded, in the order in which it was asked.
func (r *Recorder) Exchanges() []Exchange {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]Exchange, len(r.seen))
	for i, e := range r.seen {
		out[i] = *e
		out[i].Answer = slices.Clone(e.Answer)
	}
	return out
}

func (r *Recorder) handler(to *url.URL) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return // the client has left
		}
		e := &Exchange{Method: req.Method, Path: req.URL.RequestURI(), Request: req.Header.Clone(), Body: body}
		r.mu.Lock()
		r.seen = append(r.seen, e)
		r.mu.Unlock()
		pass := &httputil.ReverseProxy{
			FlushInterval: -1,
			Rewrite: func(p *httputil.ProxyRequest) {
				p.SetURL(to)
				p.Out.Body, p.Out.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
			},
			ModifyResponse: func(resp *http.Response) error {
				r.mu.Lock()
				defer r.mu.Unlock()
				e.Status, e.Response = resp.StatusCode, resp.Header.Clone()
				resp.Body = &tee{resp.Body, r, e}
				return nil
			},
			ErrorHandler: func(http.ResponseWriter, *http.Request, error) {
				panic(http.ErrAbortHandler) // the connection ends as the proxy's did
			},
		}
		pass.ServeHTTP(w, req)
	})
}

// tee takes down a body while it is read.
type tee struct {
	io.ReadCloser
	recorder *Recorder
	exchange *Exchange
}

func (t *tee) Read(b []byte) (int, error) {
	n, err := t.ReadCloser.Read(b)
	t.recorder.mu.Lock()
	defer t.recorder.mu.Unlock()
	t.exchange.Answer = append(t.exchange.Answer, b[:n]...)
	return n, err
}
