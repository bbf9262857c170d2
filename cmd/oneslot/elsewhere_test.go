package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"oneslot/internal/simengine"
)

// errand is a request of a client that may hang up and ask again elsewhere.
type errand struct {
	p      *pair
	body   string
	header http.Header
}

// errand is named in its body, so that its runs are known.
func (p *pair) errand(name string, tokens int, header ...string) errand {
	body := strings.Replace(hello, `"content":"hi"`, fmt.Sprintf(`"content":"errand %s."`, name), 1)
	e := errand{p, strings.Replace(body, `"messages"`, fmt.Sprintf(`"max_tokens":%d,"messages"`, tokens), 1), http.Header{}}
	for i := 0; i < len(header); i += 2 {
		e.header.Set(header[i], header[i+1])
	}
	return e
}

// at asks at a proxy. The client hangs up when hang is called; got tells what it got.
func (e errand) at(proxy int) (hang func(), got chan string) {
	ctx, hang := context.WithCancel(e.p.t.Context())
	got = make(chan string, 1)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.p.proxy[proxy].baseIs+"/v1/chat/completions", strings.NewReader(e.body))
	if err != nil {
		e.p.t.Fatal(err)
	}
	req.Header = e.header.Clone()
	e.p.clients.Go(func() {
		defer hang()
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			got <- "cut"
			return
		}
		text, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close() // it was read to its end
		got <- outcome(string(text), err)
	})
	return hang, got
}

// inLine waits until so many wait, as both proxies see it.
func (p *pair) inLine(n int) {
	p.t.Helper()
	eventually(p.t, fmt.Sprintf("%d wait", n), func() bool { return p.proxy[0].view(p.t).Waiting == n && p.proxy[1].view(p.t).Waiting == n })
}

// kill kills a proxy once so many rows are written, which happens a little later.
func (p *pair) kill(proxy, rows int) {
	p.t.Helper()
	eventually(p.t, "all have their rows", func() bool { return len(p.rowsOf(1)) == rows })
	p.signal(proxy, syscall.SIGKILL)
}

// runs are the names of the errands that the engine has had, in order.
func (p *pair) runs() (names []string) {
	for _, r := range p.engine.Stats().Runs {
		if _, rest, ok := strings.Cut(string(r.Body), "errand "); ok {
			name, _, _ := strings.Cut(rest, ".")
			names = append(names, name)
		}
	}
	return names
}

// check waits for all clients and compares what the engine had, at most one at a time,
// and what the rows say.
func (p *pair) check(runs string, rows ...string) {
	p.t.Helper()
	p.clients.Wait()
	if got := strings.Join(p.runs(), " "); got != runs {
		p.t.Errorf("the engine had %q, want %q", got, runs)
	}
	if s := p.engine.Stats(); s.MaxRunning > 1 || s.MaxWaiting > 0 {
		p.t.Errorf("the engine had %d running and %d waiting at once", s.MaxRunning, s.MaxWaiting)
	}
	var got []string
	slices.Sort(rows)
	eventually(p.t, fmt.Sprintf("the rows are %v", rows), func() bool {
		got = p.rowsOf(1)
		slices.Sort(got)
		return slices.Equal(got, rows)
	})
}

func expect(t *testing.T, who string, got chan string, want string) {
	t.Helper()
	if g := <-got; g != want {
		t.Errorf("%s got %q, want %q", who, g, want)
	}
}

// elsewhere are the ways in which a request may be asked again at another proxy, on one
// Redis and one engine.
var elsewhere = []struct {
	name string
	all  bool // only where all faults are played
	play func(t *testing.T, p *pair)
}{
	{"it waits, and its client is lost", false, func(t *testing.T, p *pair) {
		p.errand("holder", 250).at(0)
		await(t, p.engine, func(s simengine.Stats) bool { return s.Running == 1 })
		w := p.errand("w", 5, "Idempotency-Key", "k")
		hang, _ := w.at(0)
		p.inLine(1)
		p.errand("x", 5).at(1)
		p.inLine(2)
		hang()
		_, got := w.at(1)
		expect(t, "the retry", got, "answer")
		p.check("holder w x", "served", "served", "served", "abandoned")
	}},
	{"it runs, and its client is lost", false, func(t *testing.T, p *pair) {
		w := p.errand("w", 300, "Idempotency-Key", "k")
		hang, _ := w.at(0)
		await(t, p.engine, func(s simengine.Stats) bool { return s.Running == 1 })
		p.errand("x", 5).at(1)
		p.inLine(1)
		hang()
		_, got := w.at(1)
		expect(t, "the retry", got, "answer")
		p.check("w w x", "client_gone", "served", "served")
	}},
	{"a library asks again at its time, without a key", false, func(t *testing.T, p *pair) {
		p.errand("holder", 400).at(0)
		await(t, p.engine, func(s simengine.Stats) bool { return s.Running == 1 })
		w := p.errand("w", 5, "X-Stainless-Read-Timeout", "1")
		hang, _ := w.at(0)
		asked := time.Now()
		p.inLine(1)
		p.errand("x", 5).at(1)
		p.inLine(2)
		<-time.After(time.Until(asked.Add(time.Second)))
		hang()
		<-time.After(500 * time.Millisecond) // as libraries pause
		w.header.Set("X-Stainless-Retry-Count", "1")
		_, got := w.at(1)
		expect(t, "the retry", got, "answer")
		p.check("holder w x", "served", "served", "served", "abandoned")
	}},
	{"its client is there", false, func(t *testing.T, p *pair) {
		w := p.errand("w", 150, "Idempotency-Key", "k")
		_, first := w.at(0)
		await(t, p.engine, func(s simengine.Stats) bool { return s.Running == 1 })
		_, second := w.at(1)
		expect(t, "the second", second, "idempotency_key_in_use")
		_, other := p.errand("y", 5, "Idempotency-Key", "k").at(1)
		expect(t, "another request of the same key", other, "idempotency_key_reused")
		again := p.errand("w", 150, "X-Stainless-Retry-Count", "1")
		_, own := again.at(1)
		expect(t, "the first", first, "answer")
		expect(t, "one that asks the same for himself", own, "answer")
		p.check("w w", "rejected", "rejected", "served", "served")
		_, third := w.at(1)
		expect(t, "one that comes when it is over", third, "answer")
	}},
	{"it waits at a proxy that dies", true, func(t *testing.T, p *pair) {
		p.errand("holder", 900).at(1)
		await(t, p.engine, func(s simengine.Stats) bool { return s.Running == 1 })
		w := p.errand("w", 5, "Idempotency-Key", "k")
		_, first := w.at(0)
		p.inLine(1)
		p.errand("x", 5).at(1)
		p.inLine(2)
		p.kill(0, 3)
		expect(t, "the first", first, "cut")
		_, got := w.at(1)
		expect(t, "the retry", got, "answer")
		p.serve(0)
		p.check("holder w x", "served", "served", "served", "abandoned")
	}},
	{"it runs at a proxy that dies", true, func(t *testing.T, p *pair) {
		w := p.errand("w", 300, "Idempotency-Key", "k")
		_, first := w.at(0)
		await(t, p.engine, func(s simengine.Stats) bool { return s.Running == 1 })
		p.errand("x", 5).at(1)
		p.inLine(1)
		p.kill(0, 2)
		killed := time.Now()
		expect(t, "the first", first, "cut")
		_, got := w.at(1) // nobody knows before the lease ends that it is not answered there
		p.promptly(p.again(killed))
		expect(t, "the retry", got, "answer")
		p.serve(0)
		p.check("w x w", "served", "served", "slot_lost")
	}},
}

// TestElsewhere: real processes on a real Redis; where a proxy dies only if FAULTS is
// "all".
func TestElsewhere(t *testing.T) {
	for _, e := range elsewhere {
		t.Run(e.name, func(t *testing.T) {
			if e.all && !allFaults() {
				return
			}
			t.Parallel()
			e.play(t, newProxies(t))
		})
	}
}
