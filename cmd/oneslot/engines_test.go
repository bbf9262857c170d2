package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"oneslot/internal/simengine"
	"oneslot/internal/simengine/simtest"
)

// brief and lengthy are requests of half a second and of six.
const (
	brief   = `{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}],"sim":{"thinking":10,"answer":10,"tokens_per_second":50}}`
	lengthy = `{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}],"sim":{"thinking":150,"answer":150,"tokens_per_second":50}}`
)

// complete reports whether a stream is a complete answer.
func complete(text string) bool {
	return strings.Contains(text, `"finish_reason":"stop"`) && strings.HasSuffix(strings.TrimSpace(text), "data: [DONE]")
}

// Two engines of one model share a line: both are used, nobody waits while one is
// free, and the one that is free first takes the next.
func TestTwoEnginesShareALine(t *testing.T) {
	t.Parallel()
	for name, redis := range map[string]bool{"memory": false, "Redis": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, urlA := simtest.Start(t, simengine.Config{Ghost: true})
			b, urlB := simtest.Start(t, simengine.Config{Ghost: true})
			proxies := fleet(t, urlA, urlB, redis)
			var wg sync.WaitGroup
			for n := range 12 {
				wg.Go(func() {
					text, err := proxies[n%len(proxies)].chat(t.Context(), brief)
					if err != nil || !complete(text) {
						t.Errorf("request %d: %v, %s", n, err, text)
					}
				})
			}
			wg.Wait()
			for _, e := range []*simengine.Engine{a, b} {
				if s := e.Stats(); s.MaxRunning != 1 || s.MaxWaiting != 0 || s.Arrivals < 4 {
					t.Errorf("an engine saw %d at once, %d waiting, %d in all", s.MaxRunning, s.MaxWaiting, s.Arrivals)
				}
			}
		})
	}
}

// One of two engines dies in the middle of an answer: its client is told, its slot is
// out, and all others are served by the other engine. When it is back it serves again.
func TestOneOfTwoEnginesDies(t *testing.T) {
	t.Parallel()
	for name, redis := range map[string]bool{"memory": false, "Redis": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mortal, urlA := newMortal(t)
			b, urlB := simtest.Start(t, simengine.Config{Ghost: true})
			proxies := fleet(t, urlA, urlB, redis)
			got := make(chan string, 2)
			for range 2 {
				go func() {
					text, err := proxies[0].chat(t.Context(), lengthy)
					got <- fmt.Sprint(text, err)
				}()
			}
			eventually(t, "both engines run", func() bool { return mortal.running() == 1 && b.Stats().Running == 1 })
			mortal.kill()
			if text := <-got; complete(text) || !strings.Contains(text, `"error"`) {
				t.Errorf("the client of the dead engine got %s", text)
			}
			if text := <-got; !strings.Contains(text, `"finish_reason":"stop"`) || strings.Contains(text, `"error"`) {
				t.Errorf("the client of the other engine got %s", text)
			}
			for n := range 6 {
				text, err := proxies[n%len(proxies)].chat(t.Context(), brief)
				if err != nil || !complete(text) {
					t.Errorf("request %d: %v, %s", n, err, text)
				}
			}
			if s := b.Stats(); s.MaxRunning != 1 || s.Arrivals != 7 {
				t.Errorf("the other engine saw %d at once, %d in all", s.MaxRunning, s.Arrivals)
			}
			eventually(t, "one slot is down, the other idle", func() bool {
				v := proxies[0].view(t)
				return v.Slots[0].State == "down" && v.Slots[1].State == "idle"
			})
			mortal.revive(t)
			eventually(t, "both slots are idle", func() bool {
				v := proxies[0].view(t)
				return v.Slots[0].State == "idle" && v.Slots[1].State == "idle"
			})
		})
	}
}

// fleet starts one proxy in front of two engines, or two that share a Redis.
func fleet(t *testing.T, urlA, urlB string, shared bool) []*process {
	t.Helper()
	file := filepath.Join(t.TempDir(), "oneslot.yaml")
	rows := fmt.Sprintf("queue: {commit_after: 50ms}\nengines: [{name: a, url: %q, model: m, dialect: sglang}, {name: b, url: %q, model: m, dialect: sglang}]\n", urlA, urlB)
	if err := os.WriteFile(file, []byte(rows), 0o600); err != nil {
		t.Fatal(err)
	}
	if !shared {
		return []*process{servingAll(t, "--config", file)}
	}
	redis := redisServer(t)
	return []*process{servingAll(t, "--config", file, "--redis", redis), servingAll(t, "--config", file, "--redis", redis)}
}

// mortal is an engine at one address that dies and comes back.
type mortal struct {
	address string
	mu      sync.Mutex // guards what follows
	engine  *simengine.Engine
	server  *http.Server
}

func newMortal(t *testing.T) (*mortal, string) {
	t.Helper()
	m := &mortal{address: freeAddress(t)}
	m.revive(t)
	t.Cleanup(m.kill)
	return m, "http://" + m.address
}

func (m *mortal) revive(t *testing.T) {
	t.Helper()
	e, err := simengine.New(simengine.Config{Ghost: true})
	if err != nil {
		t.Fatal(err)
	}
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", m.address)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: e, ReadHeaderTimeout: time.Minute}
	m.mu.Lock()
	m.engine, m.server = e, server
	m.mu.Unlock()
	go func() { _ = server.Serve(l) }() // ends with ErrServerClosed
}

func (m *mortal) kill() {
	m.mu.Lock()
	defer m.mu.Unlock()
	_ = m.server.Close() // closes every connection; nothing of that can fail here
	m.engine.Close()
}

func (m *mortal) running() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.engine.Stats().Running
}

// An engine with two slots runs two requests and no third; each client gets its own
// answer, and a client that leaves costs the other nothing: its run is aborted by
// name, and its slot is lent again while the other run goes on.
func TestEngineWithTwoSlots(t *testing.T) {
	for _, dialect := range []simengine.Dialect{simengine.SGLang, simengine.VLLM, simengine.LlamaCPP} {
		t.Run(fmt.Sprint(dialect), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				p := start(t, simengine.Config{Slots: 2, Dialect: dialect, Metrics: true, Thinking: 300, Answer: 300, TokensPerSecond: 10},
					`engines: [{name: spark, url: "http://engine.test", model: ripple, slots: 2}]`)
				stays := p.open(t.Context(), hello)
				ctx, leave := context.WithCancel(t.Context())
				leaves := p.open(ctx, hello)
				p.until(func(s simengine.Stats) bool { return s.Running == 2 && s.Runs[1].CompletionTokens > 3 })
				next := p.open(t.Context(), hello)
				if v := p.get("/v1/queue"); v["running"] != 2.0 || v["waiting"] != 1.0 || v["slots"].([]any)[1].(map[string]any)["engine"] != "spark#2" {
					t.Errorf("the queue view is %v", v)
				}
				left := time.Now()
				leave()
				<-leaves.whole
				p.until(func(s simengine.Stats) bool { return len(s.Runs) == 3 && !s.Runs[2].Started.IsZero() })
				if late := time.Since(left); late > 5*time.Second {
					t.Errorf("the slot was lent again after %v", late)
				}
				first, third := <-stays.whole, <-next.whole
				if x, y := (&first).answer(t), (&third).answer(t); x.finish != "stop" || x.err != nil || y.finish != "stop" || y.err != nil {
					t.Errorf("those who stayed got %+v and %+v", x, y)
				}
				s := p.engine.Stats()
				if s.MaxRunning != 2 || s.MaxWaiting != 0 || s.Arrivals != 3 || s.Runs[0].Outcome != simengine.Stopped || s.Runs[2].Outcome != simengine.Stopped {
					t.Errorf("the engine saw %d at once, %d waiting: %+v", s.MaxRunning, s.MaxWaiting, s.Runs)
				}
				if row := p.settledRecord(third.header.Get("X-Request-Id")); row["engine"] != "spark" {
					t.Errorf("its row is %v", row)
				}
			})
		})
	}
}

// A ghost on one slot of two is never joined by a second run there, and what runs on
// the other slot is not aborted for it. The slot is lent again when the ghost has gone.
func TestGhostOnOneOfTwoSlots(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := start(t, simengine.Config{Slots: 2, Ghost: true, Deaf: true, Thinking: 300, Answer: 300, TokensPerSecond: 10},
			"queue: {abort_bound: 5s}\nengines: [{name: spark, url: \"http://engine.test\", model: ripple, dialect: sglang, slots: 2}]")
		stays := p.open(t.Context(), strings.Replace(hello, `"messages"`, `"sim":{"thinking":2000,"answer":10},"messages"`, 1))
		ctx, leave := context.WithCancel(t.Context())
		ghost := p.open(ctx, hello)
		p.until(func(s simengine.Stats) bool { return s.Running == 2 && s.Runs[1].CompletionTokens > 3 })
		leave()
		<-ghost.whole
		next := p.open(t.Context(), hello)
		<-time.After(20 * time.Second)
		v := p.get("/v1/queue")
		one, other := v["slots"].([]any)[0].(map[string]any)["state"], v["slots"].([]any)[1].(map[string]any)["state"]
		if v["waiting"] != 1.0 || (one != "poisoned" || other != "busy") && (one != "busy" || other != "poisoned") {
			t.Errorf("the queue view is %v", v)
		}
		third := <-next.whole
		if a := (&third).answer(t); a.finish != "stop" {
			t.Errorf("who waited got %+v", a)
		}
		first := <-stays.whole
		if a := (&first).answer(t); a.finish != "stop" {
			t.Errorf("who stayed got %+v", a)
		}
		s := p.engine.Stats()
		if s.MaxRunning != 2 || s.MaxWaiting != 0 || s.Runs[0].Outcome != simengine.Stopped || s.Runs[1].Outcome != simengine.Stopped {
			t.Errorf("the engine saw %d at once, %d waiting: %+v", s.MaxRunning, s.MaxWaiting, s.Runs)
		}
	})
}
