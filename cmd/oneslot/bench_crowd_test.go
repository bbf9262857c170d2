package main

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// BenchmarkHandOverCrowd hands the slot from one stream to the next among 32 clients, while
// ten streams of a lower class wait with heartbeats, and while 5,000 do. The last figure is
// how much of the rate with ten is left with 5,000.
func BenchmarkHandOverCrowd(b *testing.B) {
	for name, more := range map[string]func() string{
		"embedded": func() string { return "" },
		"redis":    func() string { return "redis: " + redisServer(b) + "\n" },
	} {
		b.Run(name, func(b *testing.B) {
			engine := httptest.NewServer(cannedEngine(1))
			b.Cleanup(engine.Close)
			p := benched(b, engine.URL, more())
			defer p.end()
			for b.Loop() {
				few, many := p.handOver(10), p.handOver(waiters)
				b.ReportMetric(few, "streams/s-of-10")
				b.ReportMetric(many, "streams/s-of-5000")
				b.ReportMetric(many/few, "rate-left")
				b.ReportMetric(0, "ns/op")
			}
		})
	}
}

// handOver is how many streams a second 32 clients get, while so many wait behind them for
// longer than between two heartbeats.
func (p *benchedProcess) handOver(behind int) float64 {
	const clients, watched = 32, 12 * time.Second
	ctx, leave := context.WithCancel(p.b.Context())
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients}}
	var served atomic.Int64
	var all sync.WaitGroup
	for range clients {
		all.Go(func() {
			for ctx.Err() == nil {
				text, err := p.stream(ctx, client)
				switch {
				case err == nil && strings.HasSuffix(text, "data: [DONE]\n\n") && !strings.Contains(text, "error"):
					served.Add(1)
				case ctx.Err() == nil:
					p.b.Errorf("%s, %v", text, err)
					return
				}
			}
		})
	}
	for i := range behind {
		all.Go(func() {
			for ctx.Err() == nil { // now and then one is served
				w := p.ask(ctx)
				select {
				case <-w.over:
				case <-ctx.Done():
				}
				_ = w.conn.Close() // it is gone
			}
		})
		if i%50 == 49 {
			<-time.After(20 * time.Millisecond)
		}
	}
	<-time.After(time.Second)
	began, before := time.Now(), served.Load()
	<-time.After(watched)
	rate := float64(served.Load()-before) / time.Since(began).Seconds()
	leave()
	all.Wait()
	client.CloseIdleConnections()
	return rate
}

// stream is what a client of a better class than those who wait is told.
func (p *benchedProcess) stream(ctx context.Context, client *http.Client) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+p.address+"/v1/chat/completions", strings.NewReader(hello))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Oneslot-Priority", "interactive")
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return string(text), err
}
