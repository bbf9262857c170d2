package queue

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
)

// BenchmarkHandOver lets 32 clients take turns on one slot: an operation is a
// whole call of Do whose work does nothing, with others waiting behind them.
func BenchmarkHandOver(b *testing.B) {
	for _, waiting := range []int{0, 5000} {
		cfg := Config{Slots: []string{"one"}, MaxWaiting: 100_000, MaxWaitingPerKey: 100_000}
		b.Run(fmt.Sprintf("memory/%d", waiting), func(b *testing.B) {
			store, err := NewMemory(cfg)
			if err != nil {
				b.Fatal(err)
			}
			handOver(b, store, cfg, waiting)
		})
		b.Run(fmt.Sprintf("redis/%d", waiting), func(b *testing.B) {
			server := startRedis(b)
			client := server.client(b)
			store, err := NewRedis(client, cfg)
			if err != nil {
				b.Fatal(err)
			}
			handOver(b, store, cfg, waiting)
		})
	}
}

func handOver(b *testing.B, store Store, cfg Config, waiting int) {
	q, err := New(store, settled{}, cfg)
	if err != nil {
		b.Fatal(err)
	}
	work := func(_ context.Context, h *Hold) error { h.Idle(); return nil }
	var next atomic.Int64
	ctx, leave := context.WithCancel(b.Context())
	var wg, behind sync.WaitGroup
	first, blocked := make(chan struct{}), make(chan struct{})
	go func() {
		_ = q.Do(ctx, Job{ID: id(int(next.Add(1)))}, func(_ context.Context, h *Hold) error {
			close(blocked)
			<-first
			h.Idle()
			return nil
		})
	}()
	<-blocked
	// Those who wait behind are refilled, since whoever is served was one of them.
	for range waiting {
		behind.Go(func() {
			for ctx.Err() == nil {
				_ = q.Do(ctx, Job{ID: id(int(next.Add(1)))}, work)
			}
		})
	}
	for waiting > 0 {
		if s, err := q.Snapshot(ctx); err == nil && len(s.Waiting) >= waiting {
			break
		}
	}
	close(first)
	b.ResetTimer()
	var left atomic.Int64
	left.Store(int64(b.N))
	for range 32 {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				if err := q.Do(ctx, Job{ID: id(int(next.Add(1)))}, work); err != nil {
					b.Error(err)
				}
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	leave()
	behind.Wait()
	if err := q.Close(context.Background()); err != nil {
		b.Error(err)
	}
}

type settled struct{}

func (settled) Settle(context.Context, string) error { return nil }
