package main

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"oneslot/internal/simengine"
	"oneslot/internal/simengine/script"
)

// Two connections with one Idempotency-Key at a time are one request: both get the
// whole answer, whenever the second comes, and in whatever order they leave.
func TestSecondConnectionJoins(t *testing.T) {
	for _, body := range []string{hello, whole} {
		for name, play := range map[string]func(p *proxyUnderTest) []*try{
			"in the same moment": func(p *proxyUnderTest) []*try { return []*try{p.try(body, keyed), p.try(body, keyed)} },
			"in the middle": func(p *proxyUnderTest) []*try {
				first := p.try(body, keyed)
				pass(12 * time.Second)
				return []*try{first, p.try(body, keyed)}
			},
			"the first leaves": func(p *proxyUnderTest) []*try {
				first := p.try(body, keyed)
				pass(12 * time.Second)
				second := p.try(body, keyed)
				pass(time.Second)
				first.lost()
				pass(20 * time.Second) // longer than the grace
				return []*try{second}
			},
			"the second leaves": func(p *proxyUnderTest) []*try {
				first := p.try(body, keyed)
				second := p.try(body, keyed)
				pass(time.Second)
				second.lost()
				pass(20 * time.Second)
				return []*try{first}
			},
			"two retries at once": func(p *proxyUnderTest) []*try {
				first := p.try(body, keyed)
				pass(3 * time.Second)
				first.lost()
				return []*try{p.try(body, keyed), p.try(body, keyed)}
			},
		} {
			t.Run(name, func(t *testing.T) {
				inBubble(t, func(t *testing.T) {
					p := start(t, long, "")
					var got []reply
					for _, a := range play(p) {
						got = append(got, <-a.got)
					}
					row := p.onlyOne("served")
					for _, r := range got {
						p.isWhole(r, row)
					}
				})
			})
		}
	}
}

// What is no retry of a request is a request of its own.
func TestNotTheSame(t *testing.T) {
	other := http.Header{"Idempotency-Key": {"k-2"}}
	for name, c := range map[string]struct {
		first, second http.Header
		body          string
		lost          bool // the first is, before the second comes
	}{
		"another key":                         {keyed, other, hello, false},
		"a retry while nobody is lost":        {node, again(node), hello, false},
		"a retry of something else":           {node, again(node), strings.Replace(hello, `"hi"`, `"ho"`, 1), true},
		"the same words without a retry":      {node, node, hello, true},
		"a retry of what said nothing":        {nil, again(node), hello, true},
		"a keyless retry of what has a key":   {keyed, again(node), hello, true},
		"a key on the retry of what has none": {node, http.Header{"Idempotency-Key": {"k-1"}, "X-Stainless-Retry-Count": {"1"}}, hello, true},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				p := start(t, simengine.Config{Thinking: 100, Answer: 10}, "")
				first := p.try(hello, c.first)
				pass(10 * time.Second)
				if c.lost {
					first.lost()
				}
				r := <-p.try(c.body, c.second).got
				if a := (&r).answer(t); a.finish != "stop" {
					t.Errorf("the second got %d %+v", r.status, a)
				}
				if n := len(p.rows()); n != 2 || p.engine.Stats().Arrivals != 2 {
					t.Errorf("there are %d rows and %d runs, want 2 of each", n, p.engine.Stats().Arrivals)
				}
			})
		})
	}
}

// A key stands for one body, and is its caller's own.
func TestKeyIsForOneBody(t *testing.T) {
	secrets, keys := newKeys(t, "a", "b")
	inBubble(t, func(t *testing.T) {
		p := start(t, long, keys)
		by := func(name string) http.Header {
			return http.Header{"Idempotency-Key": {"k-1"}, "Authorization": {"Bearer " + secrets[name]}}
		}
		first := p.try(hello, by("a"))
		pass(time.Second)
		r := p.post(t.Context(), whole, by("a"))
		a := (&r).answer(t)
		if r.status != http.StatusUnprocessableEntity || a.err["code"] != "idempotency_key_reused" || a.err["type"] != "invalid_request_error" || r.header.Get("X-Should-Retry") != "false" {
			t.Errorf("another body got %d %v: %s", r.status, r.header, r.body)
		}
		stranger := p.try(whole, by("b"))
		<-first.got
		<-stranger.got
		if s := p.engine.Stats(); s.Arrivals != 2 {
			t.Errorf("the engine saw %d requests, want one of each caller", s.Arrivals)
		}
		long := http.Header{"Idempotency-Key": {strings.Repeat("k", 256)}, "Authorization": {"Bearer " + secrets["a"]}}
		if r := p.post(t.Context(), hello, long); r.status != http.StatusBadRequest || !strings.Contains(r.body, "256 bytes") {
			t.Errorf("a key that is too long got %d: %s", r.status, r.body)
		}
		if h := p.engine.Stats().Runs[0].Header; h.Get("Idempotency-Key") != "" {
			t.Errorf("the engine got %v", h)
		}
	})
}

// A run that ends while its client is lost is answered from memory, for the length
// of the grace; nobody then knows it any more.
func TestAnswerIsKept(t *testing.T) {
	for name, c := range map[string]struct {
		header http.Header
		lost   bool          // the client, before the end; else it gets the answer
		after  time.Duration // from the end to the retry
		stored bool
	}{
		"key, lost":               {keyed, true, 5 * time.Second, true},
		"key, at the end":         {keyed, true, 14900 * time.Millisecond, true},
		"key, too late":           {keyed, true, 15100 * time.Millisecond, false},
		"key, delivered":          {keyed, false, 10 * time.Second, true},
		"key, delivered, late":    {keyed, false, 16 * time.Second, false},
		"no key, lost":            {http.Header{"X-Stainless-Timeout": {"33"}}, true, time.Second, true},
		"no key, delivered":       {http.Header{"X-Stainless-Timeout": {"60"}}, false, time.Second, false},
		"no key, at the last sec": {http.Header{"X-Stainless-Timeout": {"36"}}, false, time.Second, true},
	} {
		for _, body := range []string{hello, whole} {
			t.Run(name, func(t *testing.T) {
				inBubble(t, func(t *testing.T) {
					p := start(t, long, "")
					first := p.try(body, c.header)
					if pass(33 * time.Second); c.lost {
						first.lost()
					}
					p.until(func(s simengine.Stats) bool { return s.Runs[0].Outcome != "" })
					pass(c.after)
					h := c.header.Clone()
					h.Set("X-Stainless-Retry-Count", "1")
					asked := time.Now()
					r := <-p.try(body, h).got
					if stored := time.Since(asked) == 0; stored != c.stored || stored != (p.engine.Stats().Arrivals == 1) {
						t.Errorf("the retry was answered after %v, with %d runs in all", time.Since(asked), p.engine.Stats().Arrivals)
					}
					rows := p.rows()
					p.isWhole(r, rows[0].(map[string]any))
					if first := p.settledRecord(rows[len(rows)-1].(map[string]any)["id"].(string)); (first["outcome"] == "served") != (c.stored || !c.lost) {
						t.Errorf("the first row is %v", first)
					}
				})
			})
		}
	}
}

// A failure is not repeated: who comes back after it gets a run of its own.
func TestFailureIsNotKept(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := start(t, simengine.Config{Scripts: []script.Script{{chunk(`{"content":"x"}`, ""), script.Sleep(5 * time.Second), script.Cut()}, {chunk(`{"content":"r</think>a"}`, ""), finish()}}}, raw)
		first := p.try(whole, keyed)
		pass(time.Second)
		first.lost()
		joined := p.try(whole, keyed) // hears of the failure that is still to come
		r := <-joined.got
		if a := (&r).answer(t); r.status != http.StatusBadGateway || a.err["code"] != "upstream_error" {
			t.Errorf("who was attached got %d %s", r.status, r.body)
		}
		r = <-p.try(whole, keyed).got
		if a := (&r).answer(t); a.content != "a" || a.finish != "stop" {
			t.Errorf("the next retry got %d %+v", r.status, a)
		}
		if rows := p.rows(); len(rows) != 2 || rows[1].(map[string]any)["outcome"] != "engine_failed" {
			t.Errorf("the rows are %v", rows)
		}
	})
}

// An answer that outgrows its buffer cannot be heard a second time: a second
// connection is told so, the first goes on, and is aborted at once when it leaves.
func TestAnswerOutgrowsItsBuffer(t *testing.T) {
	big := chunk(`{"content":"`+strings.Repeat("a", 1<<20)+`"}`, "")
	endless := script.Script{chunk(`{"content":"r</think>"}`, ""), script.Repeat(big.Data, 10, time.Second), script.Sleep(time.Hour), finish()}
	for _, lost := range []time.Duration{20 * time.Second, 5 * time.Second} { // after the overflow, or before
		inBubble(t, func(t *testing.T) {
			p := start(t, simengine.Config{Ghost: true, Scripts: []script.Script{endless, {chunk(`{"content":"r</think>a"}`, ""), finish()}}}, raw)
			first := p.try(hello, keyed)
			pass(lost)
			left := time.Now()
			if lost > 10*time.Second {
				r := p.post(t.Context(), hello, keyed)
				if a := (&r).answer(t); r.status != http.StatusConflict || a.err["code"] != "idempotency_key_in_use" || r.header.Get("Retry-After") == "" {
					t.Errorf("a second connection got %d %v: %s", r.status, r.header, r.body)
				}
			}
			first.lost()
			s := p.until(func(s simengine.Stats) bool { return s.Runs[0].Outcome != "" })
			want := 0 * time.Second
			if lost < 10*time.Second {
				want = 2 * time.Second // when the buffer is full
			}
			if after := s.Runs[0].Ended.Sub(left); after < want || after > want+time.Second {
				t.Errorf("lost after %v it went on for %v, want %v", lost, after, want)
			}
			r := <-p.try(hello, keyed).got
			if a := (&r).answer(t); a.content != "a" || a.finish != "stop" {
				t.Errorf("the retry got %d %+v", r.status, a)
			}
			if s := p.engine.Stats(); s.MaxRunning != 1 {
				t.Errorf("the engine ran %d at once", s.MaxRunning)
			}
		})
	}
}

// Cancelling ends a request for all its connections, and for those to come.
func TestCancelEndsAllConnections(t *testing.T) {
	for _, running := range []bool{true, false} {
		inBubble(t, func(t *testing.T) {
			p := start(t, long, "")
			if !running {
				p.try(hello, nil)
			}
			first := p.try(whole, keyed)
			pass(2 * time.Second)
			second := p.try(whole, keyed)
			pass(2 * time.Second)
			row := p.rows()[0].(map[string]any)
			p.cancel(row["id"].(string))
			for _, a := range []*try{first, second, p.try(whole, keyed)} {
				r := <-a.got
				if got := (&r).answer(t); r.status != http.StatusConflict || got.err["code"] != "cancelled" || r.header.Get("X-Should-Retry") != "false" {
					t.Errorf("a connection got %d %v: %s", r.status, r.header, r.body)
				}
			}
			if row := p.settledRecord(row["id"].(string)); row["outcome"] != "cancelled" {
				t.Errorf("the row is %v", row)
			}
		})
	}
}

// cancel is DELETE /v1/queue/{id}.
func (p *proxyUnderTest) cancel(id string) {
	p.t.Helper()
	req, err := http.NewRequestWithContext(p.t.Context(), http.MethodDelete, base+"/v1/queue/"+id, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	if r := p.do(req); r.status != http.StatusOK {
		p.t.Fatalf("cancelling got %d: %s", r.status, r.body)
	}
}

// A thinking budget makes two runs of one answer; a client that comes back between
// them or after them gets it whole, as does one whose stop string ends it.
func TestRetryOfACutAnswer(t *testing.T) {
	for name, body := range map[string]string{"budget": ask(true, `,"thinking_budget":24`), "budget, whole": ask(false, `,"thinking_budget":24`)} {
		for _, lost := range []time.Duration{time.Second, 4 * time.Second} {
			t.Run(name, func(t *testing.T) {
				inBubble(t, func(t *testing.T) {
					p := start(t, simengine.Config{Thinking: 200, Answer: 20, Ghost: true}, "")
					first := p.try(body, keyed)
					pass(lost)
					first.lost()
					pass(time.Second)
					r := <-p.try(body, keyed).got
					a := (&r).answer(t)
					s := p.engine.Stats()
					if len(s.Runs) != 2 || a.finish != "stop" || a.content != strings.TrimSpace(s.Runs[1].Answer) || !strings.HasPrefix(s.Runs[0].Thinking, a.reasoning) || a.reasoning == "" {
						t.Errorf("the retry got %+v; the engine saw %d runs", a, len(s.Runs))
					}
					synctest.Wait() // the row is closed after the client has its answer
					if rows := p.rows(); len(rows) != 1 || rows[0].(map[string]any)["budget"] != "cut" {
						t.Errorf("the rows are %v", rows)
					}
				})
			})
		}
	}
	inBubble(t, func(t *testing.T) {
		p := start(t, simengine.Config{Scripts: []script.Script{{chunk(`{"content":"r</think>a"}`, ""), script.Sleep(5 * time.Second), chunk(`{"content":"bENDc"}`, ""), script.Hold()}}}, raw)
		first := p.try(ask(true, `,"stop":["END"]`), keyed)
		pass(time.Second)
		first.lost()
		r := <-p.try(ask(true, `,"stop":["END"]`), keyed).got
		if a := (&r).answer(t); a.content != "ab" || a.finish != "stop" {
			t.Errorf("the retry got %+v", a)
		}
		p.onlyOne("served")
	})
}

// Stopping: a lost client's run may end while the grace lasts, and whoever comes
// back meanwhile still gets it; nobody else is waited for.
func TestStopWithALostClient(t *testing.T) {
	for _, back := range []bool{true, false} {
		inBubble(t, func(t *testing.T) {
			p := start(t, long, "")
			first := p.try(hello, keyed)
			pass(25 * time.Second)
			first.lost()
			row := p.rows()[0].(map[string]any)["id"].(string)
			stopped, ended := time.Now(), make(chan error, 1)
			go func() { ended <- p.stop() }()
			synctest.Wait()
			if back {
				r := <-p.try(hello, keyed).got
				if a := (&r).answer(t); a.finish != "stop" || r.header.Get("X-Request-Id") != row {
					t.Errorf("who came back got %d %+v", r.status, a)
				}
			}
			if err := <-ended; err != nil || time.Since(stopped) > 12*time.Second {
				t.Errorf("the program ended with %v after %v", err, time.Since(stopped))
			}
			want := `"outcome":"client_gone"`
			if back {
				want = `"outcome":"served"`
			}
			if !strings.Contains(p.logs.String(), want) {
				t.Errorf("the log has no %s", want)
			}
		})
	}
}

// Without a grace nothing outlives its connections.
func TestNoGrace(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := start(t, long, "queue: {detach_grace: 0s}")
		first := p.try(hello, keyed)
		pass(time.Second)
		left := time.Now()
		first.lost()
		s := p.until(func(s simengine.Stats) bool { return s.Runs[0].Outcome != "" })
		if after := s.Runs[0].Aborted.Sub(left); after > 20*time.Millisecond {
			t.Errorf("its run was stopped %v after its client left", after)
		}
		both := []*try{p.try(hello, keyed), p.try(hello, keyed)} // they are still one
		row := map[string]any{}
		for _, a := range both {
			r := <-a.got
			if row["id"] == nil {
				row = p.record(r)
			}
			p.isWhole(r, row)
		}
		if s := p.engine.Stats(); s.Arrivals != 2 {
			t.Errorf("the engine saw %d requests, want 2", s.Arrivals)
		}
	})
}

// A retry hears the answer in the words of its API, whose signs of life may be a part
// of it.
func TestRetryInOtherWords(t *testing.T) {
	for path, check := range map[string]func(t *testing.T, r reply, row map[string]any){
		"/v1/messages": func(t *testing.T, r reply, row map[string]any) {
			m := (&r).message(t)
			if m.ID != "msg_"+row["id"].(string) || m.StopReason != "end_turn" || len(m.Content) != 2 || len(strings.Fields(m.Content[0].Thinking)) < 250 || float64(m.Usage.Output) != tokens(row, "completion") {
				t.Errorf("the retry got %+v; the row is %v", m, row)
			}
		},
		"/v1/responses": func(t *testing.T, r reply, row map[string]any) {
			all := happenings(t, r) // which have to be numbered without a gap
			object, _ := all[len(all)-1].data["response"].(map[string]any)
			thinking, text, _ := told(t, object)
			if object["id"] != "resp_"+row["id"].(string) || object["status"] != "completed" || len(strings.Fields(thinking)) < 250 || len(strings.Fields(text)) < 40 {
				t.Errorf("the retry got %v; the row is %v", object, row)
			}
		},
	} {
		t.Run(path, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				const body = `{"model":"ripple","stream":true,"max_tokens":4000,"thinking":{"type":"enabled","budget_tokens":3000},"messages":[{"role":"user","content":"hi"}],"input":"hi"}`
				p := start(t, long, "")
				running := p.try(hello, nil)
				first := p.tryAt(path, body, keyed)
				pass(20 * time.Second) // it has heard that it waits
				first.lost()
				pass(12 * time.Second) // and somebody would have heard so again
				r := <-p.tryAt(path, body, keyed).got
				<-running.got
				check(t, r, p.settledRecord(r.header.Get("X-Request-Id")))
				if s := p.engine.Stats(); s.Arrivals != 2 || len(p.rows()) != 2 {
					t.Errorf("the engine saw %d requests, there are %d rows; want 2 of each", s.Arrivals, len(p.rows()))
				}
			})
		})
	}
}
