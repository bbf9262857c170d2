package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	neturl "net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// cannedEngine answers at once with perAnswer chunks, in the shape of SGLang.
func cannedEngine(perAnswer int) http.Handler {
	var b strings.Builder
	for i := range perAnswer {
		delta := `{"reasoning_content":" word","content":null}`
		if i >= perAnswer*6/10 {
			delta = `{"reasoning_content":null,"content":" word"}`
		}
		fmt.Fprintf(&b, `data: {"id":"5f5cda6f56bd43b1a02955429ad5cf85","object":"chat.completion.chunk","created":1796049006,"model":"ripple","choices":[{"index":0,"delta":%s,"logprobs":null,"finish_reason":null,"matched_stop":null}],"usage":{"prompt_tokens":23,"total_tokens":%d,"completion_tokens":%d,"prompt_tokens_details":null,"reasoning_tokens":7}}`+"\n\n", delta, 24+i, i+1)
	}
	b.WriteString(`data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop","matched_stop":2}]}` + "\n\n")
	fmt.Fprintf(&b, `data: {"choices":[],"usage":{"prompt_tokens":23,"total_tokens":%d,"completion_tokens":%d,"reasoning_tokens":7}}`+"\n\ndata: [DONE]\n\n", 24+perAnswer, perAnswer+1)
	stream := b.String()
	mux := http.NewServeMux()
	mux.HandleFunc("/v1/models", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"data":[{"id":"ripple","max_model_len":131072}]}`)
	})
	mux.HandleFunc("/server_info", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"version":"0.5.19","max_running_requests":1,"context_length":131072,"disable_radix_cache":true}`)
	})
	mux.HandleFunc("/get_load", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `[{"num_reqs":0}]`) })
	mux.HandleFunc("/tokenize", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"tokens":[1],"count":1}`) })
	mux.HandleFunc("/v1/chat/completions", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, stream)
	})
	return mux
}

// BenchmarkProgram is the whole program over loopback, with a client and an
// engine in the same process: short answers one after the other, which shows the
// price of a request, and long ones, which shows that of a chunk.
func BenchmarkProgram(b *testing.B) {
	for _, x := range []struct {
		name   string
		stream bool
		chunks int
	}{
		{"request/whole", false, 4},
		{"request/stream", true, 4},
		{"chunks/stream", true, 8192},
	} {
		b.Run(x.name, func(b *testing.B) {
			url := serveBench(b, x.chunks)
			body := fmt.Sprintf(`{"model":"ripple","stream":%v,"messages":[{"role":"user","content":"hi"}]}`, x.stream)
			b.ReportAllocs()
			for b.Loop() {
				resp, err := http.Post(url+"/v1/chat/completions", "application/json", strings.NewReader(body)) //nolint:noctx // a benchmark
				if err != nil {
					b.Fatal(err)
				}
				n, _ := io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
				if resp.StatusCode != http.StatusOK || n < 100 {
					b.Fatalf("%d, %d bytes", resp.StatusCode, n)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/float64(x.chunks), "us/chunk")
		})
	}
}

// serveBench starts the program and returns its address.
func serveBench(b *testing.B, chunks int) string {
	b.Helper()
	engine := httptest.NewServer(cannedEngine(chunks))
	b.Cleanup(engine.Close)
	line, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // a benchmark
	if err != nil {
		b.Fatal(err)
	}
	settings := fmt.Sprintf("queue: {max_waiting_per_key: 64}\nengines: [{name: spark, url: %q, model: ripple}]\n", engine.URL)
	started(b, settings, world{listen: func(string, string) (net.Listener, error) { return line, nil }})
	b.Cleanup(http.DefaultClient.CloseIdleConnections)
	return "http://" + line.Addr().String()
}

// started runs the program in a world until the benchmark ends, with these settings and a
// folder for its data.
func started(b *testing.B, settings string, w world) {
	b.Helper()
	dir := b.TempDir()
	file := filepath.Join(dir, "oneslot.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, "data: %s\ntelemetry: {log: error}\n%s", dir, settings), 0o600); err != nil {
		b.Fatal(err)
	}
	w.out, w.errs = io.Discard, io.Discard
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, []string{"serve", "--config", file}, w) }()
	b.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			b.Error(err)
		}
	})
}

// BenchmarkHandOver hands the slot from one stream to the next: 32 clients ask without
// a pause, the engine answers at once, and an operation is a stream. Beside the whole
// program stands the least that could be called a proxy with a line, net/http's own
// behind a semaphore, over the same loopback; the last figure is how many times its
// rate the program makes.
func BenchmarkHandOver(b *testing.B) {
	url := serveBench(b, 1)
	engine := httptest.NewServer(cannedEngine(1))
	b.Cleanup(engine.Close)
	target, err := neturl.Parse(engine.URL)
	if err != nil {
		b.Fatal(err)
	}
	slot := make(chan struct{}, 1)
	pass := &httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }}
	least := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		slot <- struct{}{}
		defer func() { <-slot }()
		pass.ServeHTTP(w, r)
	}))
	b.Cleanup(least.Close)
	rest, ours := streams(b, least.URL), streams(b, url)
	b.ReportMetric(rest, "semaphore-streams/s")
	b.ReportMetric(ours, "streams/s")
	b.ReportMetric(ours/rest, "x-semaphore")
	b.ReportMetric(0, "ns/op")
}

// streams returns how many streams a second 32 clients get of b.N.
func streams(b *testing.B, url string) float64 {
	const clients = 32
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients}}
	defer client.CloseIdleConnections()
	var left atomic.Int64
	left.Store(int64(b.N))
	var all sync.WaitGroup
	began := time.Now()
	for range clients {
		all.Go(func() {
			for left.Add(-1) >= 0 {
				resp, err := client.Post(url+"/v1/chat/completions", "application/json", strings.NewReader(`{"model":"ripple","stream":true,"messages":[{"role":"user","content":"hi"}]}`)) //nolint:noctx // a benchmark
				if err != nil {
					b.Error(err)
					return
				}
				text, err := io.ReadAll(resp.Body)
				resp.Body.Close()
				if err != nil || !strings.HasSuffix(string(text), "data: [DONE]\n\n") || strings.Contains(string(text), "error") {
					b.Errorf("%d %s %v", resp.StatusCode, text, err)
					return
				}
			}
		})
	}
	all.Wait()
	return float64(b.N) / time.Since(began).Seconds()
}
