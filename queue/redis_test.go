package queue

import (
	"errors"
	"net"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// redisServer is a real Redis of one test, without any file.
type redisServer struct {
	addr string
	cmd  *exec.Cmd
}

func startRedis(t *testing.T) *redisServer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &redisServer{addr: l.Addr().String()}
	_ = l.Close()
	s.start(t)
	t.Cleanup(s.stop)
	return s
}

func (s *redisServer) start(t *testing.T) {
	t.Helper()
	binary, err := exec.LookPath("redis-server")
	if err != nil {
		t.Fatal(`redis-server is missing: run "make deps"`)
	}
	_, port, _ := net.SplitHostPort(s.addr)
	s.cmd = exec.Command(binary, "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", t.TempDir())
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(10 * time.Second)
	for {
		conn, err := net.DialTimeout("tcp", s.addr, time.Second)
		if err == nil {
			_ = conn.Close()
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("redis-server does not accept connections within 10 s:", err)
		}
		runtime.Gosched()
	}
}

func (s *redisServer) stop() {
	if s.cmd != nil {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
		s.cmd = nil
	}
}

// client returns a client made as the program makes its own.
func (s *redisServer) client(t *testing.T) *redis.Client {
	t.Helper()
	options, err := ParseRedis("redis://" + s.addr)
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

func id(n int) string {
	return strings.Repeat("0", 26) + string([]byte{hexDigit(n >> 20), hexDigit(n >> 16), hexDigit(n >> 12), hexDigit(n >> 8), hexDigit(n >> 4), hexDigit(n)})
}

func hexDigit(n int) byte { return "0123456789abcdef"[n&15] }
