package queue

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"oneslot/queue/line"
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

// BenchmarkSteps times the scripts with 10,000 waiting, of few keys and of many: a
// slot freed and handed on, a job that joins, and a hundred positions.
func BenchmarkSteps(b *testing.B) {
	for _, keys := range []int{1, 10, 1000} {
		s := newSteps(b, keys)
		b.Run(fmt.Sprintf("free/%d", keys), func(b *testing.B) {
			for range b.N {
				s.grant = s.take(line.Free{Slot: s.grant.Slot, Fence: s.grant.Fence, Clean: true}).Grants[0]
				b.StopTimer()
				s.join()
				b.StartTimer()
			}
		})
		b.Run(fmt.Sprintf("join/%d", keys), func(b *testing.B) {
			for range b.N {
				s.join()
			}
		})
		b.Run(fmt.Sprintf("rank100/%d", keys), func(b *testing.B) {
			ids := make([]string, 100)
			for i := range ids {
				ids[i] = id(s.made - i)
			}
			for range b.N {
				s.take(line.Rank{IDs: ids})
			}
		})
	}
}

// steps is a line in Redis in which 10,000 wait for a slot that is taken.
type steps struct {
	*testing.B
	store Store
	keys  int
	made  int
	grant line.Grant
}

func newSteps(b *testing.B, keys int) *steps {
	b.Helper()
	store, err := NewRedis(startRedis(b).client(b), Config{
		Slots: []string{"one"}, MaxWaiting: 1 << 20, MaxWaitingPerKey: 1 << 20, StarvationAfter: time.Hour, Lease: time.Hour,
	})
	if err != nil {
		b.Fatal(err)
	}
	s := &steps{B: b, store: store, keys: keys}
	mended := s.join().Grants[0]
	s.grant = s.take(line.Free{Slot: mended.Slot, Fence: mended.Fence, Clean: true}).Grants[0]
	for s.made < 10_000 {
		s.join()
	}
	return s
}

func (s *steps) take(step line.Step) line.Reply {
	r, err := s.store.apply(s.Context(), line.Caller{Owner: "a"}, step)
	if err != nil {
		s.Fatal(err)
	}
	return r
}

func (s *steps) join() line.Reply {
	s.made++
	return s.take(line.Join{ID: id(s.made), Key: fmt.Sprint("k", s.made%s.keys)})
}
