package ledger_test

import (
	"context"
	"errors"
	"net"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"oneslot/ledger"
	shared "oneslot/ledger/redis"
	"oneslot/ledger/sqlite"

	"github.com/redis/go-redis/v9"
)

// A place is where the rows of a test are kept, whoever opens it.
type place interface {
	open(ctx context.Context, cfg ledger.Config) (*ledger.Ledger, error)
}

// folder keeps them in a file.
type folder struct{ dir string }

func (f folder) open(ctx context.Context, cfg ledger.Config) (*ledger.Ledger, error) {
	cfg.Dir = f.dir
	return sqlite.Open(ctx, cfg)
}

// server keeps them in a Redis of the test's own.
type server struct {
	address string
	lease   time.Duration
	client  redis.UniversalClient
}

func (s *server) open(ctx context.Context, cfg ledger.Config) (*ledger.Ledger, error) {
	return shared.Open(ctx, s.client, shared.Config{Ledger: cfg, Lease: s.lease})
}

// stores are the places that every ledger test has to pass.
func stores(t *testing.T) map[string]func(*testing.T) place {
	t.Helper()
	return map[string]func(*testing.T) place{
		"file":  func(t *testing.T) place { t.Helper(); return folder{t.TempDir()} },
		"redis": func(t *testing.T) place { t.Helper(); return newServer(t) },
	}
}

// each runs a test on every store.
func each(t *testing.T, f func(t *testing.T, p place)) {
	t.Helper()
	for name, fresh := range stores(t) {
		t.Run(name, func(t *testing.T) { f(t, fresh(t)) })
	}
}

// at opens the ledger of a place, closed with the test.
func at(t testing.TB, p place, cfg ledger.Config) *ledger.Ledger {
	t.Helper()
	l, err := p.open(context.Background(), cfg)
	must(t, err)
	t.Cleanup(func() { must(t, l.Close()) })
	return l
}

// newServer starts a Redis without any file, on a port that was free a moment ago,
// and on another one if somebody was faster.
func newServer(t testing.TB, flags ...string) *server {
	t.Helper()
	binary, err := exec.LookPath("redis-server")
	if err != nil {
		t.Fatal(`redis-server is missing: run "make deps"`)
	}
	for range 10 {
		if s := tryServer(t, binary, flags); s != nil {
			return s
		}
	}
	t.Fatal("redis-server does not start")
	return nil
}

func tryServer(t testing.TB, binary string, flags []string) *server {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	address := l.Addr().String()
	_ = l.Close()
	_, port, _ := net.SplitHostPort(address)
	cmd := exec.CommandContext(context.Background(), binary, append([]string{
		"--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", t.TempDir(),
	}, flags...)...)
	must(t, cmd.Start())
	exited := make(chan struct{})
	go func() { _ = cmd.Wait(); close(exited) }()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-exited
	})
	s := &server{address: address, client: redis.NewClient(&redis.Options{Addr: address, ContextTimeoutEnabled: true})}
	t.Cleanup(func() { _ = s.client.Close() })
	for s.pid(t) != cmd.Process.Pid {
		select {
		case <-exited:
			return nil
		case <-time.After(2 * time.Millisecond):
		}
	}
	if len(flags) > 0 {
		s.cluster(t)
	}
	return s
}

// pid is the process that answers.
func (s *server) pid(t testing.TB) int {
	t.Helper()
	info, err := s.client.InfoMap(t.Context(), "server").Result()
	if err != nil {
		return 0
	}
	pid, _ := strconv.Atoi(info["Server"]["process_id"])
	return pid
}

// cluster makes the server a cluster of one node.
func (s *server) cluster(t testing.TB) {
	t.Helper()
	must(t, s.client.ClusterAddSlotsRange(t.Context(), 0, 16383).Err())
	for {
		info, err := s.client.ClusterInfo(t.Context()).Result()
		must(t, errors.Join(err, t.Context().Err()))
		if len(info) > 17 && info[:16] == "cluster_state:ok" {
			break
		}
		<-time.After(5 * time.Millisecond)
	}
	old := s.client
	s.client = redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{s.address}, ContextTimeoutEnabled: true})
	must(t, old.Close())
	t.Cleanup(func() { _ = s.client.Close() })
}
