package queue

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"oneslot/queue/address"
	"oneslot/queue/claims"
	"oneslot/queue/codec"
	"oneslot/queue/line"

	"github.com/redis/go-redis/v9"
)

// redisServer is a real Redis of one test, without any file unless its flags ask
// for one.
type redisServer struct {
	addr   string
	flags  []string                 // "PORT" stands for its port; without it --port is added
	conf   string                   // its own file; then its flags are all it gets
	binary string                   // zero means redis-server
	env    []string                 // added to the test's own
	dir    string                   // zero means one for each start
	url    func(addr string) string // zero means redis://addr
	stop   func()
}

func startRedis(t testing.TB) *redisServer {
	t.Helper()
	s := &redisServer{}
	s.launch(t)
	return s
}

// launch starts the server on a port that was free a moment ago, and on another one
// if somebody was faster.
func (s *redisServer) launch(t testing.TB) {
	t.Helper()
	s.stop = func() {}
	t.Cleanup(func() { s.stop() })
	for range 10 {
		l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		s.addr = l.Addr().String()
		_ = l.Close()
		if s.start(t) {
			return
		}
	}
	t.Fatal("redis-server does not start")
}

// start reports whether it is this server that answers on the port.
func (s *redisServer) start(t testing.TB) bool {
	t.Helper()
	binary := s.binary
	if binary == "" {
		found, err := exec.LookPath("redis-server")
		if err != nil {
			t.Fatal(`redis-server is missing: run "make deps"`)
		}
		binary = found
	}
	_, port, _ := net.SplitHostPort(s.addr)
	dir := s.dir
	if dir == "" {
		dir = t.TempDir()
	}
	flags := append([]string{"--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", dir}, s.flags...)
	if i := slices.Index(flags, "PORT"); i >= 0 {
		flags[i] = port
	} else {
		flags = append(flags, "--port", port)
	}
	if s.conf != "" {
		flags = append([]string{s.conf}, append([]string{"--bind", "127.0.0.1", "--port", port}, s.flags...)...)
	}
	cmd := exec.CommandContext(context.Background(), binary, flags...)
	cmd.Env = append(os.Environ(), s.env...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	exited := make(chan struct{})
	go func() { _ = cmd.Wait(); close(exited) }()
	s.stop = func() {
		_ = cmd.Process.Kill()
		<-exited
	}
	client := s.client(t)
	for {
		info, err := client.InfoMap(t.Context(), "server").Result()
		if err == nil {
			return info["Server"]["process_id"] == strconv.Itoa(cmd.Process.Pid)
		}
		select {
		case <-exited:
			return false
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// client returns a client made as the program makes its own.
func (s *redisServer) client(t testing.TB) *redis.Client {
	t.Helper()
	url := "redis://" + s.addr
	if s.url != nil {
		url = s.url(s.addr)
	}
	options, err := address.Parse(url)
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewUniversalClient(options).(*redis.Client)
	t.Cleanup(func() {
		if err := client.Close(); err != nil && !errors.Is(err, redis.ErrClosed) {
			t.Error(err)
		}
	})
	return client
}

// brisk are short times, for tests on a real Redis.
func brisk(slots ...string) Config {
	return Config{
		Slots: slots, MaxWaiting: 10_000, MaxWaitingPerKey: 10_000,
		Lease: 4 * time.Second, Margin: 200 * time.Millisecond, CallTimeout: 2 * time.Second, Poll: 200 * time.Millisecond,
	}
}

func (s *redisServer) bundle(t *testing.T, e *engine, cfg Config) *bundle {
	t.Helper()
	store, err := NewRedis(s.client(t), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return newBundle(t, store, e, cfg)
}

// soon waits until a condition holds.
func soon(t *testing.T, what string, holds func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for !holds() {
		select {
		case <-ctx.Done():
			t.Fatal("never:", what)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// TestRedisManyJobs: two processes drive two slots with many jobs, some of which
// leave, some end dirty. No slot is ever used by two, nothing is lost.
func TestRedisManyJobs(t *testing.T) {
	t.Parallel()
	server, e := startRedis(t), newEngine(t)
	calm := brisk("one", "two")
	calm.Lease = 15 * time.Second // nothing dies here, however slow the machine
	a, b := server.bundle(t, e, calm), server.bundle(t, e, calm)
	const jobs = 400
	var wg sync.WaitGroup
	var served, left atomic.Int64
	for n := range jobs {
		q := a.queue
		if n%2 == 1 {
			q = b.queue
		}
		ctx, leave := context.WithCancel(t.Context())
		wg.Go(func() {
			defer leave()
			err := q.Do(ctx, Job{ID: id(n), Key: []string{"", "a", "b"}[n%3]}, func(_ context.Context, h *Hold) error {
				e.begin(h.Slot, id(n))
				runtime.Gosched()
				if n%9 > 0 {
					e.end(h.Slot, id(n))
					h.Idle()
				}
				return nil
			})
			switch {
			case err == nil:
				served.Add(1)
			case errors.Is(err, ErrLeft):
				left.Add(1)
			default:
				t.Error(err)
			}
		})
		if n%5 == 0 {
			leave()
		}
	}
	wg.Wait()
	if served.Load() < jobs*4/5 || served.Load()+left.Load() != jobs {
		t.Errorf("%d served, %d left", served.Load(), left.Load())
	}
	a.close()
	b.close()
	client := server.client(t)
	left2, err := client.HLen(t.Context(), codec.Keys{Name: "default"}.Of("tickets")).Result()
	if err != nil || left2 != 0 {
		t.Errorf("%d still in line, %v", left2, err)
	}
	for _, part := range []string{"tickets", "queues"} {
		if n, err := client.Exists(t.Context(), codec.Keys{Name: "default"}.Of(part)).Result(); err != nil || n != 0 {
			t.Errorf("%s is not empty, %v", part, err)
		}
	}
}

func TestRedisMessages(t *testing.T) {
	t.Parallel()
	server, e := startRedis(t), newEngine(t)
	slow := brisk("spark")
	slow.Lease, slow.Poll = time.Hour, 20*time.Minute // no poll will heal anything here
	a, b := server.bundle(t, e, slow), server.bundle(t, e, slow)
	first := a.busy(1)
	second := b.job(2)
	soon(t, "second in line", func() bool { return len(a.snapshot().Waiting) == 1 })
	soon(t, "both listen", func() bool {
		n, err := server.client(t).PubSubNumSub(t.Context(), codec.Keys{Name: "default"}.Wake(a.queue.owner), codec.Keys{Name: "default"}.Wake(b.queue.owner)).Result()
		return err == nil && n[codec.Keys{Name: "default"}.Wake(a.queue.owner)] == 1 && n[codec.Keys{Name: "default"}.Wake(b.queue.owner)] == 1
	})
	first.end(nil)
	second.begun(t)
	if found, err := a.queue.Cancel(id(2)); !found || err != nil {
		t.Errorf("cancel elsewhere: found %v, %v", found, err)
	}
	want(t, second.result(), ErrCancelled, context.Canceled)
	if found, err := a.queue.Cancel(id(77)); found || err != nil {
		t.Errorf("cancelled a job that is not there: %v", err)
	}
	b.close()
	a.close()
}

// TestRedisCrowd: with many keys in line a place is not told with the join, and none is
// made up, but for whoever may not wait that long.
func TestRedisCrowd(t *testing.T) {
	t.Parallel()
	server, e := startRedis(t), newEngine(t)
	cfg := brisk("spark")
	cfg.Lease, cfg.Poll, cfg.crowd = time.Hour, 20*time.Minute, 1
	a := server.bundle(t, e, cfg)
	first := a.busy(0)
	var calls []*call
	for n, position := range []int{1, 0, 0} {
		calls = append(calls, a.do(Job{ID: id(n + 1), Key: fmt.Sprint("key", n)}))
		soon(t, "it waits", func() bool { return len(a.snapshot().Waiting) == n+1 })
		soon(t, "it knows", func() bool {
			p, waits := a.queue.Place(id(n + 1))
			return waits && p.Position == position
		})
		a.queue.mu.Lock()
		rough := a.queue.jobs[id(n+1)].told.rough
		a.queue.mu.Unlock()
		if rough != (n > 0) {
			t.Errorf("%d: the place is rough: %v", n, rough)
		}
	}
	calls = append([]*call{a.do(Job{ID: id(9), Key: "key0", Class: Interactive, Patience: time.Hour})}, calls...)
	soon(t, "the last one to come knows that it is the next", func() bool {
		a.queue.mu.Lock()
		defer a.queue.mu.Unlock()
		s := a.queue.jobs[id(9)]
		return s != nil && s.told.at.Place == 1 && s.told.of == 4 && !s.told.rough
	})
	first.end(nil)
	for _, c := range calls {
		c.end(nil)
		want(t, c.result())
	}
	a.close()
}

// TestRedisRestart: Redis is killed, and comes back with nothing.
func TestRedisRestart(t *testing.T) {
	t.Parallel()
	server, e := startRedis(t), newEngine(t)
	cfg := brisk("spark")
	cfg.Lease = 10 * time.Second // the outage is shorter, however slow the machine
	a, b := server.bundle(t, e, cfg), server.bundle(t, e, cfg)
	running := a.busy(0)
	var calls []*call
	for n := 1; n <= 6; n++ {
		q := []*bundle{a, b}[n%2]
		calls = append(calls, q.job(n))
		soon(t, "in line", func() bool { return len(a.snapshot().Waiting) == n })
	}
	server.stop()
	soon(t, "new ones are refused", func() bool { return errors.Is(b.job(50).result(), ErrStoreDown) })
	if !server.start(t) {
		t.Fatal("redis-server does not start again")
	}
	soon(t, "all are back", func() bool {
		s, err := b.queue.Snapshot(t.Context())
		return err == nil && len(s.Waiting) == len(calls) && s.Slots[0].ID == id(0)
	})
	if running.returned() {
		t.Fatal("the running job was lost:", running.err)
	}
	running.end(nil)
	for _, c := range calls {
		c.begun(t)
		c.end(nil)
		want(t, c.result())
	}
	order := []string{id(0), id(1), id(2), id(3), id(4), id(5), id(6)}
	if got := e.order(); !slices.Equal(got, order) {
		t.Errorf("served %v", got)
	}
	a.close()
	b.close()
}

const victimEnv = "ONESLOT_QUEUE_VICTIM"

// victim is a process that holds the slot and waits for it, until it is killed.
func victim() {
	options, err := address.Parse("redis://" + os.Getenv(victimEnv))
	if err != nil {
		panic(err)
	}
	cfg := brisk("spark")
	store, err := NewRedis(redis.NewUniversalClient(options), cfg)
	if err != nil {
		panic(err)
	}
	q, err := New(store, &engine{user: map[string]string{}}, cfg)
	if err != nil {
		panic(err)
	}
	for n := range 10 {
		go func() {
			_ = q.Do(context.Background(), Job{ID: id(100 + n)}, func(ctx context.Context, _ *Hold) error {
				<-ctx.Done()
				fmt.Println(context.Cause(ctx))
				select {}
			})
		}()
	}
	select {}
}

// startVictim starts a process that holds the only slot, and waits until it does.
func (s *redisServer) startVictim(t *testing.T, b *bundle) (*exec.Cmd, *bufio.Reader) {
	t.Helper()
	process := exec.CommandContext(context.Background(), os.Args[0])
	process.Env = append(os.Environ(), victimEnv+"="+s.addr)
	process.Stderr = os.Stderr
	out, err := process.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = process.Process.Kill()
		_ = process.Wait()
	})
	soon(t, "the victim holds the slot and waits", func() bool {
		s := b.snapshot()
		return s.Slots[0].State == line.Busy && len(s.Waiting) == 9
	})
	return process, bufio.NewReader(out)
}

// TestRedisDeadProcess: a process is killed with kill -9, or is stopped and goes on
// later. Its slot and its places are free within its lease + 1 s, by the clock of
// Redis; a stopped one learns that it has lost its slot.
func TestRedisDeadProcess(t *testing.T) {
	for name, signal := range map[string]os.Signal{"killed": os.Kill, "stopped": syscall.SIGSTOP} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, e := startRedis(t), newEngine(t)
			b := server.bundle(t, e, brisk("spark"))
			process, says := server.startVictim(t, b)
			next := b.job(1)
			soon(t, "in line", func() bool { return len(b.snapshot().Waiting) == 10 })
			if err := process.Process.Signal(signal); err != nil {
				t.Fatal(err)
			}
			dead, err := server.client(t).Time(t.Context()).Result()
			if err != nil {
				t.Fatal(err)
			}
			next.begun(t)
			if after := time.UnixMicro(next.hold.Fence).Sub(dead); after > brisk().Lease+time.Second {
				t.Errorf("free %v after the signal", after)
			}
			if e.settlements() == 0 {
				t.Error("the ghost of the dead was not settled")
			}
			if s := b.snapshot(); len(s.Waiting) != 0 {
				t.Errorf("the dead wait: %+v", s.Waiting)
			}
			if signal == syscall.SIGSTOP {
				if err := process.Process.Signal(syscall.SIGCONT); err != nil {
					t.Fatal(err)
				}
				if text, err := says.ReadString('\n'); err != nil || text != ErrSlotLost.Error()+"\n" {
					t.Errorf("the stopped process says %q, %v", text, err)
				}
			}
			next.end(nil)
			want(t, next.result())
			b.close()
		})
	}
}

// TestRedisCluster: the scripts keep to one slot of a cluster.
func TestRedisCluster(t *testing.T) {
	t.Parallel()
	server := &redisServer{flags: []string{"--cluster-enabled", "yes"}}
	server.launch(t)
	if err := server.client(t).ClusterAddSlotsRange(t.Context(), 0, 16383).Err(); err != nil {
		t.Fatal(err)
	}
	soon(t, "the cluster is well", func() bool {
		info, err := server.client(t).ClusterInfo(t.Context()).Result()
		return err == nil && strings.Contains(info, "cluster_state:ok")
	})
	options, err := address.Parse("redis://" + server.addr + "?cluster=true")
	if err != nil {
		t.Fatal(err)
	}
	client, e := redis.NewUniversalClient(options), newEngine(t)
	defer func() { _ = client.Close() }()
	store, err := NewRedis(client, brisk("spark"))
	if err != nil {
		t.Fatal(err)
	}
	a, b := newBundle(t, store, e, brisk("spark")), newBundle(t, store, e, brisk("spark"))
	first, second := a.busy(1), b.job(2)
	soon(t, "in line", func() bool { return len(a.snapshot().Waiting) == 1 })
	first.end(nil)
	second.begun(t)
	second.end(nil)
	want(t, second.result())
	a.close()
	b.close()
}

func TestRedisOtherSlots(t *testing.T) {
	t.Parallel()
	server, e := startRedis(t), newEngine(t)
	a := server.bundle(t, e, brisk("one"))
	a.busy(1).end(nil)
	b := server.bundle(t, e, brisk("one", "two"))
	err := b.job(2).result()
	want(t, err, ErrStoreDown)
	if err == nil || !strings.Contains(err.Error(), "other slots") {
		t.Errorf("error %v does not say what is wrong", err)
	}
	a.close()
	soon(t, "the new slots are taken over", func() bool {
		c := b.job(3)
		c.end(nil)
		return c.result() == nil
	})
	b.close()
}

// TestRedisOldSlots: a slot that was held by a process now dead, left out of the
// set and taken in again, is free.
func TestRedisOldSlots(t *testing.T) {
	t.Parallel()
	client := startRedis(t).client(t)
	now := time.Unix(1_700_000_000, 0)
	apply := func(owner string, step line.Step, slots ...string) line.Reply {
		t.Helper()
		store, err := newRedisStore(client, brisk(slots...))
		if err != nil {
			t.Fatal(err)
		}
		store.clock = func() int64 { return now.UnixMicro() }
		reply, err := store.apply(t.Context(), line.Caller{Owner: owner}, step)
		if err != nil {
			t.Fatal(err)
		}
		return reply
	}
	apply("a", line.Join{ID: id(1)}, "one", "two")
	now = now.Add(time.Minute)
	apply("b", line.Renew{}, "one")
	now = now.Add(time.Minute)
	for _, s := range apply("c", line.Look{}, "one", "two").View.Slots {
		if s.State != line.Idle || s.Clean {
			t.Errorf("slot %+v", s)
		}
	}
}

func TestNewRedisRefuses(t *testing.T) {
	unbounded := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	defer func() { _ = unbounded.Close() }()
	if _, err := NewRedis(unbounded, brisk("one")); err == nil || !strings.Contains(err.Error(), "ContextTimeoutEnabled") {
		t.Errorf("a client without bounds: %v", err)
	}
	ring := redis.NewRing(&redis.RingOptions{})
	defer func() { _ = ring.Close() }()
	if _, err := NewRedis(ring, brisk("one")); err == nil {
		t.Error("a ring was taken")
	}
	if _, err := NewRedis(unbounded, Config{}); err == nil {
		t.Error("a line without slots was taken")
	}
}

// TestClaims: a process takes the place of a job of another one that gives it up, and
// stands before all who came later. The scripts say who has a claim.
func TestClaims(t *testing.T) {
	t.Parallel()
	server, e := startRedis(t), newEngine(t)
	a, b := server.bundle(t, e, brisk("spark")), server.bundle(t, e, brisk("spark"))
	a.queue.Claims().Answer(func(string) (bool, bool) { return false, true })
	running, first := a.busy(1), a.job(2)
	soon(t, "in line", func() bool { return len(b.snapshot().Waiting) == 1 })
	later := b.job(3)
	soon(t, "in line", func() bool { return len(b.snapshot().Waiting) == 2 })
	claim := func(n int) claims.Claim { return claims.Claim{Name: "name", ID: id(n), Body: "body"} }
	if place, rest, err := a.queue.Claims().Take(t.Context(), claim(2)); place.ID != "" || rest != nil || err != nil {
		t.Fatalf("nobody had it: %+v, %v", place, err)
	}
	place, rest, err := b.queue.Claims().Take(t.Context(), claim(4))
	if err != nil || rest == nil || place.ID != id(2) || place.Arrival == 0 {
		t.Fatalf("took %+v: %v", place, err)
	}
	retry := b.do(Job{ID: id(4), Stead: place})
	soon(t, "it stands where the other stood", func() bool {
		w := b.snapshot().Waiting
		return len(w) == 2 && w[0].ID == id(4) && w[1].ID == id(3)
	})
	first.leave()
	want(t, first.result(), ErrLeft)
	a.queue.Claims().Drop(claim(2))
	if err := rest(t.Context()); err != nil {
		t.Error(err)
	}
	running.end(nil)
	retry.begun(t)
	// Of a job that runs the place is where it came.
	b.queue.Claims().Answer(func(string) (bool, bool) { return false, true })
	if now, rest, err := a.queue.Claims().Take(t.Context(), claim(5)); err != nil || rest == nil || now != (claims.Place{ID: id(4), Arrival: place.Arrival}) {
		t.Errorf("took %+v of one that runs: %v", now, err)
	}
	if _, _, err := a.queue.Claims().Take(t.Context(), claims.Claim{Name: "name", ID: id(5), Body: "other"}); !errors.Is(err, claims.ErrOther) {
		t.Errorf("another body: %v", err)
	}
	retry.end(nil)
	later.begun(t)
	later.end(nil)
	want(t, later.result())
	a.close()
	b.close()
}
