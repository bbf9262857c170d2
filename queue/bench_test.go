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

// BenchmarkHandOver hands a slot on, with ten waiting and with 5,000: an operation is
// a job that joins, waits, gets the slot, does nothing and gives it back. The last
// figure is how much of the rate with ten is left with 5,000, in one run.
func BenchmarkHandOver(b *testing.B) {
	cfg := Config{Slots: []string{"one"}, MaxWaiting: 100_000, MaxWaitingPerKey: 100_000}
	for name, open := range map[string]func(b *testing.B) Store{
		"memory": func(b *testing.B) Store {
			store, err := NewMemory(cfg)
			if err != nil {
				b.Fatal(err)
			}
			return store
		},
		"redis": func(b *testing.B) Store {
			store, err := NewRedis(startRedis(b).client(b), cfg)
			if err != nil {
				b.Fatal(err)
			}
			return store
		},
	} {
		b.Run(name, func(b *testing.B) {
			few := handOver(b, open(b), cfg, 10)
			many := handOver(b, open(b), cfg, 5000)
			b.ReportMetric(few/float64(b.N), "ns/job-of-10")
			b.ReportMetric(many/float64(b.N), "ns/job-of-5000")
			b.ReportMetric(few/many, "rate-left")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// handOver returns how many ns it takes until b.N jobs were served while so many wait.
func handOver(b *testing.B, store Store, cfg Config, waiting int) float64 {
	q, err := New(store, settled{}, cfg)
	if err != nil {
		b.Fatal(err)
	}
	var made, served atomic.Int64
	ctx, leave := context.WithCancel(b.Context())
	first, blocked, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		_ = q.Do(ctx, Job{ID: id(int(made.Add(1)))}, func(_ context.Context, h *Hold) error {
			close(blocked)
			<-first
			h.Idle()
			return nil
		})
	})
	<-blocked
	for range waiting {
		all.Go(func() {
			for ctx.Err() == nil {
				_ = q.Do(ctx, Job{ID: id(int(made.Add(1)))}, func(_ context.Context, h *Hold) error {
					h.Idle()
					if served.Add(1) == int64(b.N) {
						close(done)
					}
					return nil
				})
			}
		})
	}
	for many := 0; many < waiting; {
		<-time.After(20 * time.Millisecond)
		if s, err := q.Snapshot(ctx); err == nil {
			many = len(s.Waiting)
		}
	}
	began := time.Now()
	close(first)
	<-done
	took := time.Since(began)
	leave()
	all.Wait()
	if err := q.Close(context.Background()); err != nil {
		b.Error(err)
	}
	return float64(took)
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
