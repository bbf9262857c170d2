package queue

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"oneslot/queue/codec"
	"oneslot/queue/line"
)

// batchJob is a job whose work says at begin that its first token is there, and ends
// as it is told. Each run of it is sent to runs.
type batchJob struct {
	begin, end chan struct{}
	runs       chan *Hold
	ctx        context.Context // of the latest run
	leave      context.CancelFunc
	done       chan error
}

// batch starts it as job 1.
func (b *bundle) batch() *batchJob {
	ctx, leave := context.WithCancel(context.Background())
	j := &batchJob{begin: make(chan struct{}), end: make(chan struct{}), runs: make(chan *Hold, 10), leave: leave, done: make(chan error, 1)}
	b.wg.Go(func() {
		defer leave()
		j.done <- b.queue.Do(ctx, Job{ID: id(1), Key: "batch", Class: Batch}, func(ctx context.Context, h *Hold) error {
			b.engine.begin(h.Slot, id(1))
			j.ctx = ctx
			j.runs <- h
			defer func() { b.engine.end(h.Slot, id(1)); h.Idle() }()
			for {
				select {
				case <-ctx.Done():
					return context.Cause(ctx)
				case <-j.begin:
					if !h.Begin() {
						return ErrPreempted
					}
				case <-j.end:
					return nil
				}
			}
		})
	})
	return j
}

// TestPreemption: a batch job makes room until its first token is out, but not for
// ever, keeps its place, and is served in the end.
func TestPreemption(t *testing.T) {
	bubble("gives way and is served", t, func(t *testing.T) {
		b := memoryBundle(t, Config{})
		batch := b.batch()
		<-batch.runs
		pass(3 * time.Second)
		behind := b.do(Job{ID: id(2), Key: "batch", Class: Batch})
		better := b.job(3)
		better.begun(t)
		synctest.Wait()
		if p, ok := b.queue.Place(id(1)); !ok || p.Position != 1 || p.Of != 2 || p.Waited != 3*time.Second {
			t.Errorf("it stands at %+v, %v", p, ok)
		}
		pass(5 * time.Second)
		better.end(nil)
		want(t, better.result())
		if again := <-batch.runs; again.Waited != 5*time.Second {
			t.Errorf("it waited %v, in line for 5 s", again.Waited)
		}
		close(batch.end)
		want(t, <-batch.done)
		behind.begun(t)
		behind.end(nil)
		if got := b.engine.order(); len(got) != 4 || got[0] != id(1) || got[1] != id(3) || got[2] != id(1) {
			t.Errorf("served %v", got)
		}
		b.close()
	})
	bubble("not after the first token", t, func(t *testing.T) {
		b := memoryBundle(t, Config{})
		batch := b.batch()
		<-batch.runs
		batch.begin <- struct{}{}
		synctest.Wait()
		better := b.job(2)
		synctest.Wait()
		if better.running() || batch.ctx.Err() != nil {
			t.Error("a run that has begun was stopped")
		}
		if s, _ := b.queue.store.apply(t.Context(), b.queue.caller(), line.Look{}); s.View.Slots[0].Asked != line.Kept {
			t.Errorf("the line was not told: %+v", s.View.Slots[0])
		}
		close(batch.end)
		want(t, <-batch.done)
		better.begun(t)
		better.end(nil)
		b.close()
	})
	bubble("twice at most", t, func(t *testing.T) {
		b := memoryBundle(t, Config{})
		batch := b.batch()
		for n := range mostYields {
			<-batch.runs
			better := b.job(10 + n)
			better.begun(t)
			better.end(nil)
		}
		<-batch.runs
		better := b.job(20)
		synctest.Wait()
		if batch.ctx.Err() != nil {
			t.Error("it had to make room once more")
		}
		close(batch.end)
		want(t, <-batch.done)
		better.begun(t)
		better.end(nil)
		b.close()
	})
}

// TestPreemptedEnds: whatever else ends a preempted job is how it ends.
func TestPreemptedEnds(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(b *bundle, j *batchJob)
		want error
	}{
		"the client leaves": {func(_ *bundle, j *batchJob) { j.leave() }, ErrLeft},
		"cancelled":         {func(b *bundle, _ *batchJob) { b.cancel(1) }, ErrCancelled},
		"drained":           {func(b *bundle, _ *batchJob) { b.queue.Drain() }, ErrStopping},
	} {
		bubble(name, t, func(t *testing.T) {
			b := memoryBundle(t, Config{})
			j := b.batch()
			<-j.runs
			better := b.job(2)
			better.begun(t)
			synctest.Wait()
			c.end(b, j)
			want(t, <-j.done, c.want)
			better.end(nil)
			want(t, better.result())
			if got := b.states(); got != "idle" {
				t.Errorf("slots are %s", got)
			}
			b.close()
		})
	}
}

// TestPreemptedWhileStopping: a cause that comes while the preempted work is on its
// way out holds, and what failed by itself is not tried again.
func TestPreemptedWhileStopping(t *testing.T) {
	run := func(b *bundle, out func() error) error {
		b.job(9).end(nil)
		synctest.Wait()
		return b.queue.Do(context.Background(), Job{ID: id(1), Class: Batch}, func(ctx context.Context, h *Hold) error {
			b.job(2).end(nil)
			<-ctx.Done()
			h.Idle()
			return out()
		})
	}
	bubble("cancelled", t, func(t *testing.T) {
		b := memoryBundle(t, Config{})
		want(t, run(b, func() error { b.cancel(1); return ErrPreempted }), ErrCancelled)
		b.close()
	})
	bubble("failed", t, func(t *testing.T) {
		b := memoryBundle(t, Config{})
		if err := run(b, func() error { return errBroken }); !errors.Is(err, errBroken) || errors.Is(err, ErrPreempted) {
			t.Errorf("error %v", err)
		}
		b.close()
	})
	bubble("ended well", t, func(t *testing.T) {
		b := memoryBundle(t, Config{})
		want(t, run(b, func() error { return nil }))
		b.close()
	})
}

// TestAskedTooEarly: the line may want a slot back before the grant of it has been
// taken in.
func TestAskedTooEarly(t *testing.T) {
	bubble("the grant comes late", t, func(t *testing.T) {
		b := memoryBundle(t, Config{})
		b.busy(9).end(nil)
		synctest.Wait()
		s, err := b.queue.enter(t.Context(), Job{ID: id(1), Class: Batch})
		if err != nil {
			t.Fatal(err)
		}
		reply, err := b.queue.call(line.Join{ID: id(1), Class: Batch}) // not yet assigned
		if err != nil {
			t.Fatal(err)
		}
		better := b.job(2)
		synctest.Wait()
		b.queue.assign(reply.Grants)
		again, err := b.queue.lend(t.Context(), s, func(context.Context, *Hold) error {
			t.Error("started")
			return nil
		})
		if !again || err != nil {
			t.Errorf("again %v, error %v", again, err)
		}
		better.begun(t)
		b.queue.leave(s, ErrLeft)
		b.queue.done()
		better.end(nil)
		b.close()
	})
}

// TestRedisPreemption: the batch job's process is told by another one's.
func TestRedisPreemption(t *testing.T) {
	t.Parallel()
	server, e := startRedis(t), newEngine(t)
	a, b := server.bundle(t, e, brisk("spark")), server.bundle(t, e, brisk("spark"))
	batch := a.batch()
	<-batch.runs
	better := b.job(2)
	better.begun(t)
	if p, ok := a.queue.Place(id(1)); !ok || p.Position != 1 {
		t.Errorf("it stands at %+v, %v", p, ok)
	}
	better.end(nil)
	want(t, better.result())
	<-batch.runs
	close(batch.end)
	want(t, <-batch.done)
	a.close()
	b.close()
}

// TestRedisSharesTimes: a process learns from the jobs of others, of which Redis keeps
// numbers only, and not too many.
func TestRedisSharesTimes(t *testing.T) {
	t.Parallel()
	server, e := startRedis(t), newEngine(t)
	a := server.bundle(t, e, brisk("spark"))
	for n := range 300 {
		c := a.do(Job{ID: id(n), Key: "secret team", Size: 5000})
		c.end(nil)
		want(t, c.result())
	}
	client := server.client(t)
	list := codec.Keys{Name: "default"}.Of("times")
	soon(t, "256 times in Redis", func() bool {
		n, err := client.LLen(t.Context(), list).Result()
		return err == nil && n == 256
	})
	if stats := client.Info(t.Context(), "commandstats").Val(); strings.Count(stats, "cmdstat_lpush:") != 1 ||
		strings.Contains(stats, "cmdstat_lpush:calls=300,") {
		t.Errorf("each hand-over writes its slot time: %s", stats)
	}
	for _, text := range client.LRange(t.Context(), list, 0, -1).Val() {
		for _, r := range text {
			if r != ' ' && (r < '0' || r > '9') {
				t.Fatalf("Redis keeps %q", text)
			}
		}
	}
	b := server.bundle(t, e, brisk("spark"))
	soon(t, "the other process to know them", func() bool { return b.snapshot().Jobs == 256 })
	secret := Job{Key: "secret team", Size: 4500}
	if got := b.queue.forecast.Expect(secret.Asked()); got <= 0 {
		t.Errorf("a job of the key may take %v", got)
	}
	a.close()
	b.close()
}
