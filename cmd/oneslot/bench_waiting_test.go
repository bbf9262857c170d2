package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"oneslot/internal/simengine"
	"oneslot/internal/simengine/simtest"
)

// waiters is how many wait in BenchmarkWaiting, and waitFor how long.
const (
	waiters = 5000
	waitFor = 20 * time.Second
)

// BenchmarkWaiting is what clients cost who wait behind a busy engine with heartbeats,
// and what is left when all leave at once. The program is a process of its own, of which
// Linux tells memory and processor time.
func BenchmarkWaiting(b *testing.B) {
	for b.Loop() {
		_, engine := simtest.Start(b, simengine.Config{Thinking: 100_000})
		p := benched(b, engine, "")
		idle := p.memory()
		block, release := context.WithCancel(b.Context())
		held := p.ask(block)
		<-held.told
		var all []*waiting
		for i := range waiters {
			all = append(all, p.ask(b.Context()))
			if i%50 == 49 {
				<-time.After(20 * time.Millisecond)
			}
		}
		used := p.processor()
		<-time.After(waitFor)
		b.ReportMetric(100*(p.processor()-used).Seconds()/waitFor.Seconds(), "%cpu-waiting")
		b.ReportMetric(float64(p.memory()-idle)/1e3/waiters, "kB/waiter")
		slowest := time.Duration(0)
		for _, w := range all {
			select {
			case <-w.told:
				slowest = max(slowest, w.after)
			default:
				b.Fatal("a client has been told nothing")
			}
		}
		b.ReportMetric(float64(slowest.Milliseconds()), "ms-first-bytes")
		for _, w := range all {
			_ = w.conn.Close() // it is gone
		}
		<-time.After(time.Second)
		began := time.Now()
		release()
		_ = held.conn.Close()
		<-p.ask(b.Context()).told
		b.ReportMetric(float64(time.Since(began).Microseconds())/1e3, "ms-next-served")
		<-time.After(3 * time.Second)
		b.ReportMetric(float64(idle)/1e6, "MB-idle")
		b.ReportMetric(float64(p.memory())/1e6, "MB-after")
		p.end()
	}
}

// benchedProcess is the program as a process that is measured.
type benchedProcess struct {
	b       *testing.B
	cmd     *exec.Cmd
	address string
}

// benched starts the program in front of an engine, with more settings.
func benched(b *testing.B, engine, more string) *benchedProcess {
	b.Helper()
	line, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // a benchmark
	if err != nil {
		b.Fatal(err)
	}
	p := &benchedProcess{b: b, address: line.Addr().String()}
	_ = line.Close() // the program takes its place
	dir := b.TempDir()
	file := filepath.Join(dir, "oneslot.yaml")
	settings := fmt.Sprintf("listen: %s\ndata: %s\ntelemetry: {log: error}\nengines: [{name: spark, url: %q, model: ripple}]\nqueue: {max_waiting: 20000, max_waiting_per_key: 20000}\n%s", p.address, dir, engine, more)
	if err := os.WriteFile(file, []byte(settings), 0o600); err != nil {
		b.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	p.cmd = exec.CommandContext(b.Context(), self, "serve", "--config", file)
	p.cmd.Env = append(os.Environ(), asProgram+"=1")
	if err := p.cmd.Start(); err != nil {
		b.Fatal(err)
	}
	for {
		if status, _, err := fetch(b.Context(), "http://"+p.address+"/readyz"); err == nil && status == http.StatusOK {
			return p
		}
		<-time.After(50 * time.Millisecond)
	}
}

func (p *benchedProcess) end() {
	_ = p.cmd.Process.Kill() // it ends by this alone
	_ = p.cmd.Wait()
}

// fields reads a file of the process in /proc, behind the name in parentheses.
func (p *benchedProcess) fields(file string) []string {
	p.b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", p.cmd.Process.Pid, file))
	if err != nil {
		p.b.Fatalf("this benchmark needs Linux: %v", err)
	}
	_, rest, found := strings.Cut(string(text), ") ")
	if !found {
		rest = string(text)
	}
	return strings.Fields(rest)
}

// memory is how much of it the process has in memory, in bytes.
func (p *benchedProcess) memory() int {
	p.b.Helper()
	pages, err := strconv.Atoi(p.fields("statm")[1])
	if err != nil {
		p.b.Fatal(err)
	}
	return pages * os.Getpagesize()
}

// processor is the time that the process has run.
func (p *benchedProcess) processor() (sum time.Duration) {
	p.b.Helper()
	for _, text := range p.fields("stat")[11:13] {
		ticks, err := strconv.Atoi(text)
		if err != nil {
			p.b.Fatal(err)
		}
		sum += time.Duration(ticks) * 10 * time.Millisecond
	}
	return sum
}

// waiting is a client on a connection of its own.
type waiting struct {
	conn  net.Conn
	told  chan struct{} // closed with the first byte
	over  chan struct{} // closed when there are no more
	after time.Duration // it came
}

// ask sends a streamed request and reads what comes of it.
func (p *benchedProcess) ask(ctx context.Context) *waiting {
	p.b.Helper()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", p.address)
	if err != nil {
		p.b.Fatal(err)
	}
	w, began := &waiting{conn: conn, told: make(chan struct{}), over: make(chan struct{})}, time.Now()
	if _, err := fmt.Fprintf(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", p.address, len(hello), hello); err != nil {
		p.b.Fatal(err)
	}
	var once sync.Once
	go func() {
		defer close(w.over)
		in := bufio.NewReaderSize(conn, 512)
		for {
			if _, err := in.ReadByte(); err != nil {
				return
			}
			once.Do(func() {
				w.after = time.Since(began)
				close(w.told)
			})
			_, _ = io.CopyN(io.Discard, in, int64(in.Buffered()))
		}
	}()
	return w
}
