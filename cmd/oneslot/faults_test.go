package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"oneslot/internal/simengine"
	"oneslot/internal/simengine/simtest"
)

// faultLease is as short as the settings allow, so that a fault takes seconds.
const faultLease = 6 * time.Second

// pair are two proxies with one engine and one Redis, all but the engine processes
// of their own. A client of the first has the slot, two more of either wait.
type pair struct {
	t      *testing.T
	engine *simengine.Engine
	url    string
	redis  *ownRedis
	file   string
	data   [2]string
	proxy  [2]*process

	clients sync.WaitGroup
	mu      sync.Mutex        // guards what follows
	got     map[string]string // what each client got, by its name
}

// ownRedis is a Redis that can be killed and started again on its port.
type ownRedis struct {
	port string
	dir  string
	more []string // flags
	cmd  *exec.Cmd
}

func (r *ownRedis) start(t *testing.T) {
	t.Helper()
	path, err := exec.LookPath("redis-server")
	if err != nil {
		t.Fatal(`redis-server is missing: run "make deps"`)
	}
	r.cmd = exec.CommandContext(t.Context(), path, append([]string{"--port", r.port, "--bind", "127.0.0.1", "--save", "", "--dir", r.dir}, r.more...)...)
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "Redis answers", func() bool {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", "127.0.0.1:"+r.port)
		return err == nil && conn.Close() == nil
	})
}

func (r *ownRedis) kill() {
	_ = r.cmd.Process.Kill() // it may have ended
	_ = r.cmd.Wait()
}

// short asks for an answer of a few tokens.
var short = strings.Replace(hello, `"messages"`, `"max_tokens":5,"messages"`, 1)

// newProxies are a pair of which nobody has asked anything.
func newProxies(t *testing.T, flags ...string) *pair {
	t.Helper()
	p := &pair{t: t, got: map[string]string{}, data: [2]string{t.TempDir(), t.TempDir()}}
	p.engine, p.url = simtest.Start(t, simengine.Config{TokensPerSecond: 100, Thinking: 100_000, Ghost: true})
	_, port, _ := net.SplitHostPort(freeAddress(t))
	p.redis = &ownRedis{port: port, dir: t.TempDir(), more: flags}
	p.redis.start(t)
	t.Cleanup(p.redis.kill)
	p.file = filepath.Join(t.TempDir(), "oneslot.yaml")
	if err := os.WriteFile(p.file, fmt.Appendf(nil, "queue: {lease: %v, commit_after: 50ms, heartbeat: 1s}\n", faultLease), 0o600); err != nil {
		t.Fatal(err)
	}
	for i := range p.proxy {
		p.serve(i)
	}
	return p
}

func newPair(t *testing.T, flags ...string) *pair {
	t.Helper()
	p := newProxies(t, flags...)
	p.ask(0, "holder", strings.Replace(hello, `"messages"`, `"max_tokens":800,"messages"`, 1))
	await(t, p.engine, func(s simengine.Stats) bool { return s.Running == 1 })
	for n := range 4 {
		p.ask(n%2, fmt.Sprint("waiter ", n), short)
		eventually(t, "it waits", func() bool { return p.proxy[0].view(t).Waiting == n+1 && p.proxy[1].view(t).Waiting == n+1 })
	}
	eventually(t, "all have their rows", func() bool { // a row is written a little later
		return len(p.rowsOf(0)) == 5 && len(p.rowsOf(1)) == 5
	})
	return p
}

func (p *pair) serve(i int) {
	p.t.Helper()
	p.proxy[i] = serving(p.t, p.url, "--redis", "redis://127.0.0.1:"+p.redis.port, "--config", p.file, "--data", p.data[i])
}

// ask sends a request whose answer is waited for by finish.
func (p *pair) ask(proxy int, name, body string) {
	at := p.proxy[proxy]
	body = strings.Replace(body, `"content":"hi"`, `"content":"`+name+`"`, 1)
	p.clients.Go(func() {
		text, err := at.chat(p.t.Context(), body)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.got[name] = outcome(text, err)
	})
}

// outcome is what a client makes of what it got.
func outcome(text string, err error) string {
	switch {
	case err != nil:
		return "cut"
	case strings.Contains(text, `"finish_reason":"length"`) && strings.Contains(text, "data: [DONE]"):
		return "answer"
	}
	if _, rest, ok := strings.Cut(text, `"code":"`); ok {
		return rest[:strings.IndexByte(rest, '"')]
	}
	return "nothing"
}

// again is how long after a moment the engine began the next run.
func (p *pair) again(since time.Time) time.Duration {
	p.t.Helper()
	var started time.Time
	await(p.t, p.engine, func(s simengine.Stats) bool {
		for _, r := range s.Runs {
			if r.Started.After(since) {
				started = r.Started
				return true
			}
		}
		return false
	})
	return started.Sub(since)
}

// order is whose requests the engine has had, in order: the numbers of those who
// waited.
func (p *pair) order() (waiters string) {
	for _, r := range p.engine.Stats().Runs {
		if m := waiterInBody.FindSubmatch(r.Body); m != nil {
			waiters += string(m[1])
		}
	}
	return waiters
}

var waiterInBody = regexp.MustCompile(`"waiter ([0-9])"`)

// finish waits for all clients, and checks what holds after each fault: the order in
// which those who waited were served; what all got; that the engine never had two;
// and that each request has one row, closed.
func (p *pair) finish(order string, got, rows map[string]int) {
	p.t.Helper()
	p.clients.Wait()
	if o := p.order(); o != order {
		p.t.Errorf("served in the order %q, want %q", o, order)
	}
	counts := map[string]int{}
	for _, g := range p.got {
		counts[g]++
	}
	if !maps.Equal(counts, got) {
		p.t.Errorf("the clients got %v, want %v", p.got, got)
	}
	if s := p.engine.Stats(); s.MaxRunning != 1 || s.MaxWaiting != 0 {
		p.t.Errorf("the engine had %d running and %d waiting at once", s.MaxRunning, s.MaxWaiting)
	}
	outcomes := map[string]int{}
	eventually(p.t, "all rows are closed", func() bool {
		clear(outcomes)
		for _, row := range p.rowsOf(0) {
			outcomes[row]++
		}
		return len(outcomes) > 0 && outcomes["queued"]+outcomes["running"] == 0
	})
	if !maps.Equal(outcomes, rows) {
		p.t.Errorf("the rows are %v, want %v", outcomes, rows)
	}
}

// late is what may pass beyond the lease. The others look when it ends, and a process
// that dies has renewed it up to a second before. The figures are in the log.
const late = time.Second

// promptly reports a slot that was not used again within a lease and what is late.
func (p *pair) promptly(after time.Duration) {
	p.t.Helper()
	p.t.Logf("the slot was in use again after %v, the lease being %v", after.Round(time.Millisecond), faultLease)
	if after > faultLease+late {
		p.t.Errorf("the slot was in use again after %v", after)
	}
}

// faults are what is done to a pair. Each says what holds afterwards.
var faults = []struct {
	name  string
	flags []string // of Redis
	play  func(t *testing.T, p *pair)
}{
	{"the proxy that holds the slot is stopped beyond its lease, and goes on", nil, stoppedHolder},
	{"kill -9 of the proxy that holds the slot", nil, killedHolder},
	{"kill -9 of a proxy whose clients wait", nil, killedWaiters},
	{"Redis is killed, and back without its data", nil, killedRedis},
	{"Redis forgets everything", nil, forgetfulRedis},
	{"Redis is killed, and back with its data", []string{"--appendonly", "yes", "--appendfsync", "always"}, killedRedis},
}

func allFaults() bool { return os.Getenv("FAULTS") == "all" }

// TestFaults: real processes on a real Redis. Only the first fault is played unless
// FAULTS is "all".
func TestFaults(t *testing.T) {
	list := faults
	if !allFaults() {
		list = list[:1]
	}
	for _, f := range list {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			f.play(t, newPair(t, f.flags...))
		})
	}
}

func killedHolder(_ *testing.T, p *pair) {
	killed := time.Now()
	p.signal(0, syscall.SIGKILL)
	p.promptly(p.again(killed))
	p.serve(0) // its rows are closed at its next start
	p.finish("13", map[string]int{"cut": 3, "answer": 2}, map[string]int{"slot_lost": 1, "abandoned": 2, "served": 2})
}

// killedWaiters: kill -9 of a proxy whose clients only wait. What runs goes on,
// and the dead ones' places are gone before it ends.
func killedWaiters(t *testing.T, p *pair) {
	killed := time.Now()
	p.signal(1, syscall.SIGKILL)
	eventually(t, "the places of the dead are gone", func() bool { return p.proxy[0].view(t).Waiting == 2 })
	gone := time.Since(killed)
	t.Logf("their places were gone after %v, the lease being %v", gone.Round(time.Millisecond), faultLease)
	if gone > faultLease+late {
		t.Errorf("the dead waited for %v", gone)
	}
	p.serve(1)
	p.finish("02", map[string]int{"answer": 3, "cut": 2}, map[string]int{"served": 3, "abandoned": 2})
}

// stoppedHolder: the proxy that holds the slot is paused for longer than its
// lease, and goes on. It has lost its slot; those who wait there are served yet.
func stoppedHolder(t *testing.T, p *pair) {
	stopped := time.Now()
	p.signal(0, syscall.SIGSTOP)
	p.promptly(p.again(stopped))
	eventually(t, "the other's clients are served", func() bool { return p.served() == 2 })
	p.signal(0, syscall.SIGCONT)
	p.finish("1302", map[string]int{"slot_lost": 1, "answer": 4}, map[string]int{"slot_lost": 1, "served": 4})
}

func (p *pair) served() (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, g := range p.got {
		if g == "answer" {
			n++
		}
	}
	return n
}

func (p *pair) signal(proxy int, s syscall.Signal) {
	p.t.Helper()
	if err := p.proxy[proxy].cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// killedRedis: nobody notices but by the clock.
func killedRedis(t *testing.T, p *pair) {
	killed := time.Now()
	p.redis.kill()
	eventually(t, "new ones are refused", func() bool {
		text, err := p.proxy[1].chat(t.Context(), short)
		return outcome(text, err) == "store_down"
	})
	p.redis.start(t)
	eventually(t, "the line is whole again", func() bool {
		a, okA := p.look(0)
		b, okB := p.look(1)
		return okA && okB && a == 4 && b == 4
	})
	t.Logf("the line was whole again after %v", time.Since(killed).Round(time.Millisecond))
	p.clients.Wait()
	p.finish("0123", map[string]int{"answer": 5}, map[string]int{"served": 5, "rejected": len(p.rowsOf(0)) - 5})
}

// forgetfulRedis: its data are gone from one moment to the next, the leases too.
func forgetfulRedis(t *testing.T, p *pair) {
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", "127.0.0.1:"+p.redis.port)
	if err != nil {
		t.Fatal(err)
	}
	defer closeIt(t, conn)
	forgot := time.Now()
	if _, err := conn.Write([]byte("FLUSHALL\r\n")); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Read(make([]byte, 16)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the line is whole again", func() bool {
		a, okA := p.look(0)
		b, okB := p.look(1)
		return okA && okB && a == 4 && b == 4
	})
	t.Logf("the line was whole again after %v", time.Since(forgot).Round(time.Millisecond))
	p.clients.Wait()
	p.finish("0123", map[string]int{"answer": 5}, map[string]int{"served": 5})
}

// rowsOf are the outcomes in the ledger, which the proxies share.
func (p *pair) rowsOf(proxy int) (out []string) {
	var list struct{ Data []struct{ Outcome string } }
	_, body, err := fetch(p.t.Context(), p.proxy[proxy].baseIs+"/v1/usage")
	if err != nil || json.Unmarshal(body, &list) != nil {
		return nil
	}
	for _, row := range list.Data {
		out = append(out, row.Outcome)
	}
	return out
}

// look is how many wait, if the line can be seen.
func (p *pair) look(proxy int) (waiting int, ok bool) {
	var v struct{ Waiting int }
	ctx, cancel := context.WithTimeout(p.t.Context(), 5*time.Second)
	defer cancel()
	status, body, err := fetch(ctx, p.proxy[proxy].baseIs+"/v1/queue")
	ok = err == nil && status == http.StatusOK && json.Unmarshal(body, &v) == nil
	return v.Waiting, ok
}
