package proxy_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"oneslot/internal/simengine"
	"oneslot/internal/simengine/simtest"
	"oneslot/proxy"
	"oneslot/proxy/budget"
	"oneslot/proxy/downstream"
	"oneslot/proxy/engine"
	"oneslot/proxy/surface"
	"oneslot/proxy/surface/chat"
	"oneslot/reasoning"
)

// perRun is how many chunks a run of the benchmark has.
const perRun = 1000

// bulk is a response of an engine with perRun chunks of text, 600 of them of
// thinking, in the shape of SGLang with continuous usage.
func bulk(split bool) string {
	var b strings.Builder
	b.WriteString(streamHead)
	for i := range perRun {
		delta := `{"reasoning_content":" word","content":null}`
		switch {
		case !split && i == 600:
			delta = `{"reasoning_content":null,"content":"</think>\n\n word"}`
		case !split, i >= 600:
			delta = `{"reasoning_content":null,"content":" word"}`
		}
		fmt.Fprintf(&b, `data: {"id":"5f5cda6f56bd43b1a02955429ad5cf85","object":"chat.completion.chunk","created":1796049006,"model":"tiny","choices":[{"index":0,"delta":%s,"logprobs":null,"finish_reason":null,"matched_stop":null}],"usage":{"prompt_tokens":23,"total_tokens":%d,"completion_tokens":%d,"prompt_tokens_details":null,"reasoning_tokens":7}}`+"\n\n", delta, 23+i, i)
	}
	b.WriteString(`data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop","matched_stop":2}]}` + "\n\n")
	b.WriteString(`data: {"choices":[],"usage":{"prompt_tokens":23,"total_tokens":1023,"completion_tokens":1000,"prompt_tokens_details":null,"reasoning_tokens":601}}` + "\n\ndata: [DONE]\n\n")
	return b.String()
}

// sink is a client that reads whatever comes.
type sink struct {
	header  http.Header
	bytes   int
	flushes int
	first   time.Time // of the writes
}

func (s *sink) Header() http.Header { return s.header }
func (s *sink) WriteHeader(int)     {}
func (s *sink) Write(p []byte) (int, error) {
	if s.bytes == 0 {
		s.first = time.Now()
	}
	s.bytes += len(p)
	return len(p), nil
}
func (s *sink) FlushError() error                  { s.flushes++; return nil }
func (s *sink) SetWriteDeadline(_ time.Time) error { return nil }

// BenchmarkServe is what the proxy adds to a chunk: reading the event, parsing,
// splitting, metering and writing, with many at hand at once (bulk) and with
// each alone. One op is perRun chunks.
func BenchmarkServe(b *testing.B) {
	for _, x := range []struct {
		name  string
		split bool
		piece int // bytes that the engine's connection gives at once
		s     bool
	}{
		{"bulk/split by the engine", true, 1 << 30, true},
		{"bulk/split by the parser", false, 1 << 30, true},
		{"bulk/whole", false, 1 << 30, false},
		{"one by one/split by the parser", false, 0, true},
	} {
		b.Run(x.name, func(b *testing.B) { serveBench(b, bulk(x.split), x.piece, x.s) })
	}
}

func serveBench(b *testing.B, response string, piece int, stream bool) {
	source := &canned{pieces: []string{response}}
	if piece == 0 {
		source.pieces = strings.SplitAfter(response, "\n\n")
		source.pieces = source.pieces[:len(source.pieces)-1]
	}
	e, err := engine.New(engine.Config{Name: "spark", URL: "http://engine.test", Dialect: "sglang", Dial: source.dial})
	if err != nil {
		b.Fatal(err)
	}
	defer e.Close()
	p := proxy.New([]proxy.Target{{Engine: e, Format: xml(reasoning.StartThinking), Counter: bytesOf{}}}, proxy.Config{})
	defer p.Close()
	req, talk, err := chat.API{}.Decode(surface.In{ID: id, Created: time.Unix(1764500000, 0), Body: []byte(ask(stream, ""))})
	if err != nil {
		b.Fatal(err)
	}
	call := &proxy.Call{ID: id, Request: req, Talk: talk, Budget: budget.Ask{Tokens: budget.NoLimit}, Slot: "spark", Idle: func() {}}
	request := httptest.NewRequestWithContext(context.Background(), http.MethodPost, "/", io.NopCloser(strings.NewReader("")))
	b.SetBytes(int64(len(response)))
	b.ReportAllocs()
	var w *sink
	for b.Loop() {
		w = &sink{header: http.Header{}}
		client, err := downstream.New(w, request, downstream.Config{Stream: stream, Problem: problem, Voice: talk, CommitAfter: time.Hour})
		if err != nil {
			b.Fatal(err)
		}
		if _, err := p.Serve(context.Background(), call, client); err != nil {
			b.Fatal(err)
		}
		client.Release()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/perRun, "ns/chunk")
	b.ReportMetric(float64(w.flushes), "flushes")
}

// BenchmarkLongPrompt is how long the first token of an answer to a prompt of
// 130,000 tokens takes, on a simulated engine that prefills at once: with a cache
// of which it tells, and with one that has to be predicted, for which the prompt
// is tokenized. The two must not differ.
func BenchmarkLongPrompt(b *testing.B) {
	prompt := strings.Repeat("word ", 130_000)
	body := `{"model":"ripple","stream":true,"sim":{"thinking":200,"answer":1},"messages":[{"role":"user","content":"` + prompt + `"}]}`
	for _, predicted := range []bool{false, true} {
		b.Run(fmt.Sprintf("predicted=%v", predicted), func(b *testing.B) {
			_, url := simtest.Start(b, simengine.Config{RadixCache: true, CacheReport: !predicted, ContextLength: 200_000, TokensPerSecond: 1000, PrefillTokensPerSecond: simengine.Fast})
			e, err := engine.New(engine.Config{Name: "spark", URL: url})
			if err != nil {
				b.Fatal(err)
			}
			defer e.Close()
			p := proxy.New([]proxy.Target{{Engine: e, Format: xml(reasoning.StartThinking)}}, proxy.Config{})
			defer p.Close()
			req, talk, err := chat.API{}.Decode(surface.In{ID: id, Created: time.Unix(1764500000, 0), Body: []byte(body)})
			if err != nil {
				b.Fatal(err)
			}
			call := &proxy.Call{ID: id, Request: req, Talk: talk, Budget: budget.Ask{Tokens: budget.NoLimit}, Slot: "spark", Idle: func() {}}
			request := httptest.NewRequestWithContext(context.Background(), http.MethodPost, "/", io.NopCloser(strings.NewReader("")))
			var first time.Duration
			for b.Loop() {
				w := &sink{header: http.Header{}}
				client, err := downstream.New(w, request, downstream.Config{Stream: true, Problem: problem, CommitAfter: time.Hour})
				if err != nil {
					b.Fatal(err)
				}
				began := time.Now()
				report, err := p.Serve(context.Background(), call, client)
				if err != nil || report.Tokens.Prompt.N < 130_000 {
					b.Fatalf("%v, %+v", err, report.Tokens)
				}
				client.Release()
				first += w.first.Sub(began)
			}
			b.ReportMetric(float64(first.Milliseconds())/float64(b.N), "ms-to-first-token")
		})
	}
}
