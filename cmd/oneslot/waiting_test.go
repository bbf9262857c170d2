package main

import (
	"context"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"oneslot/internal/simengine"
	"oneslot/internal/simengine/script"
)

// waitingCases are the cases of category D, about waiting, leaving and losing the
// slot, that are played here; those played elsewhere are named in playedElsewhere.
var waitingCases = map[string]func(t *testing.T){
	"B070": leavesBeforeTheFirstByte,
	"B071": drainsForALeaver,
	"B072": deadOnesAreNotSentOn,
	"B074": slotSurvivesADeadEngine,
	"B080": engineAsksForTime,
	"B081": queueTimeHasHeaders,
	"B082": fullQueueSaysWhen,
	"B083": smallUsersAreServedSoon,
}

// playedElsewhere says which tests play a case of category D: those of this package,
// after a slash the fault that is meant, and those of queue.
var playedElsewhere = map[string][]string{
	"B068": {"TestClientLeavesWhileRunning"},
	"B075": {"TestFaults/kill -9 of the proxy that holds the slot"},
	"B076": {"TestFaults/kill -9 of a proxy whose clients wait", "queue.TestLeaseTrust"}, // its run lasts longer than the lease
	"B078": {"queue.TestLostReplies", "queue.TestRepeatedFree"},
	"B079": {"TestSecondConnectionJoins", "TestRetryIsAttached", "TestRetryKeepsItsPlace"},
	"B084": {"queue.TestLostPublish"},
	"B085": {"TestFaults/Redis forgets everything"},
	"B086": {"TestStopLetsTheRunningAnswerEnd", "TestTermination"},
	"B088": {"TestSilentEngine"},
}

// testsIn are the names of the tests of a package, each after the prefix.
func testsIn(t *testing.T, dir, prefix string) (names []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no tests in %s: %v", dir, err)
	}
	for _, file := range files {
		tree, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range tree.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Test") {
				names = append(names, prefix+f.Name.Name)
			}
		}
	}
	return names
}

// TestPlayedElsewhere: whatever is said to be tested somewhere is.
func TestPlayedElsewhere(t *testing.T) {
	tests := append(testsIn(t, ".", ""), testsIn(t, "../../queue", "queue.")...)
	for _, f := range faults {
		tests = append(tests, "TestFaults/"+f.name)
	}
	cases := map[string]bool{}
	for _, f := range readFailures(t) {
		cases[f.ID] = f.Category == "D"
	}
	for id, names := range playedElsewhere {
		if !cases[id] || waitingCases[id] != nil || len(names) == 0 {
			t.Errorf("%s, played by %q, is no case of category D, or is played here", id, names)
		}
		for _, name := range names {
			if !slices.Contains(tests, name) {
				t.Errorf("%s is played by %s, which is no test", id, name)
			}
		}
	}
	text, err := os.ReadFile("../../docs/faults.md")
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("`(Test[A-Za-z]+)`").FindAllStringSubmatch(string(text), -1)
	if len(named) < 20 {
		t.Errorf("docs/faults.md names %d tests", len(named))
	}
	tests = append(tests, testsIn(t, "../../api", "api.")...)
	for _, m := range named {
		if !slices.ContainsFunc([]string{"", "queue.", "api."}, func(prefix string) bool { return slices.Contains(tests, prefix+m[1]) }) {
			t.Errorf("docs/faults.md names %s, which is no test", m[1])
		}
	}
}

// TestWaitingCases plays category D, and sees to it that none is left out.
func TestWaitingCases(t *testing.T) {
	for _, f := range readFailures(t) {
		play := waitingCases[f.ID]
		switch {
		case f.Category != "D" || playedElsewhere[f.ID] != nil:
		case play == nil:
			t.Errorf("%s (%s) is played nowhere", f.ID, f.Title)
		default:
			t.Run(f.ID, func(t *testing.T) {
				t.Parallel()
				inBubble(t, play)
			})
		}
	}
}

// leavesBeforeTheFirstByte: the client leaves while the engine has said nothing yet.
func leavesBeforeTheFirstByte(t *testing.T) {
	p := start(t, simengine.Config{PrefillTokensPerSecond: 0.1, Ghost: true}, "")
	ctx, leave := context.WithCancel(t.Context())
	p.open(ctx, hello)
	p.until(func(s simengine.Stats) bool { return s.Running == 1 })
	<-time.After(2 * time.Second)
	left := time.Now()
	leave()
	s := p.until(func(s simengine.Stats) bool { return !s.Runs[0].Aborted.IsZero() && s.Running == 0 })
	if after := s.Runs[0].Aborted.Sub(left); after > time.Second || !s.Runs[0].FirstToken.IsZero() || s.Runs[0].Outcome != simengine.Aborted {
		t.Errorf("aborted after %v: %+v", after, s.Runs[0])
	}
}

// drainsForALeaver: an engine that an abort harms is left to end by itself.
func drainsForALeaver(t *testing.T) {
	p := start(t, simengine.Config{Thinking: 50, TokensPerSecond: 10}, "queue: {on_disconnect: drain}")
	ctx, leave := context.WithCancel(t.Context())
	p.open(ctx, hello)
	p.until(func(s simengine.Stats) bool { return s.Running == 1 })
	<-time.After(time.Second)
	leave()
	r := p.post(t.Context(), hello, nil)
	if a := (&r).answer(t); a.finish != "stop" {
		t.Errorf("the next got %+v", a)
	}
	s := p.engine.Stats()
	if s.Aborts+s.Disconnects > 0 || s.Runs[0].Outcome != simengine.Stopped || s.Runs[1].Arrived.Before(s.Runs[0].Ended) {
		t.Errorf("%d aborts, %d disconnects, the first ended as %q", s.Aborts, s.Disconnects, s.Runs[0].Outcome)
	}
}

// deadOnesAreNotSentOn: of ten that wait nine leave; the engine gets one more
// request, and none the later for the dead.
func deadOnesAreNotSentOn(t *testing.T) {
	p := start(t, simengine.Config{Thinking: 80, Answer: 18, TokensPerSecond: 10}, "")
	first := p.open(t.Context(), hello)
	p.until(func(s simengine.Stats) bool { return s.Running == 1 })
	ctx, leave := context.WithCancel(t.Context())
	for range 9 {
		p.open(ctx, hello)
	}
	last := p.open(t.Context(), hello)
	if at := last.header.Get("X-Oneslot-Position"); at != "10" {
		t.Errorf("the last stands at %s", at)
	}
	leave()
	synctest.Wait()
	if v := p.get("/v1/queue"); v["waiting"] != 1.0 || v["waiters"].([]any)[0].(map[string]any)["position"] != 1.0 {
		t.Errorf("after they left: %v", v)
	}
	<-first.whole
	<-last.whole
	if s := p.engine.Stats(); s.Arrivals != 2 || s.Runs[1].Started.Sub(s.Runs[0].Ended) > 100*time.Millisecond {
		t.Errorf("the engine got %d requests, the second %v after the first", s.Arrivals, s.Runs[1].Started.Sub(s.Runs[0].Ended))
	}
}

// slotSurvivesADeadEngine, twenty times over.
func slotSurvivesADeadEngine(t *testing.T) {
	p := start(t, simengine.Config{Thinking: -1, Answer: 5}, "")
	whole := strings.Replace(hello, `"stream":true,"stream_options":{"include_usage":true},`, "", 1)
	p.post(t.Context(), whole, nil) // the engine has been seen idle
	for n := range 20 {
		p.engine.SetFaults(simengine.Faults{Dead: true})
		if r := p.post(t.Context(), whole, nil); r.status != http.StatusBadGateway && r.status != http.StatusServiceUnavailable || !strings.Contains(r.body, `"error"`) {
			t.Errorf("%d: the engine is dead: %d %s", n, r.status, r.body)
		}
		p.engine.SetFaults(simengine.Faults{})
		if r := p.post(t.Context(), whole, nil); r.status != http.StatusOK {
			t.Errorf("%d: the engine is back: %d %s", n, r.status, r.body)
		}
	}
}

// engineAsksForTime: an engine that answers 429 with Retry-After is left alone for
// that long, whoever waits; each client is told once, in order.
func engineAsksForTime(t *testing.T) {
	var attempts []time.Time
	began := time.Now()
	p := start(t, simengine.Config{Thinking: -1, Answer: 5}, "", func(w http.ResponseWriter, body string) bool {
		if !strings.Contains(body, `"messages"`) || time.Since(began) > 20*time.Second {
			return false
		}
		attempts = append(attempts, time.Now())
		w.Header().Set("Retry-After", "2")
		w.WriteHeader(http.StatusTooManyRequests)
		_, _ = io.WriteString(w, `{"error":{"message":"Too many requests."}}`)
		return true
	})
	type told struct {
		n int
		reply
	}
	var order []int
	done := make(chan told)
	for n := range 15 {
		go func() {
			done <- told{n, p.post(t.Context(), strings.Replace(hello, `"stream":true,"stream_options":{"include_usage":true},`, "", 1), http.Header{"X-Oneslot-Heartbeat": {"off"}})}
		}()
		synctest.Wait()
	}
	refused := 0
	for range 15 {
		r := <-done
		order = append(order, r.n)
		if r.status == http.StatusTooManyRequests && r.header.Get("Retry-After") != "" {
			refused++
		} else if r.status != http.StatusOK {
			t.Errorf("a client got %d %s", r.status, r.body)
		}
	}
	if refused != len(attempts) || refused < 5 {
		t.Errorf("%d clients were refused by %d attempts", refused, len(attempts))
	}
	for i := 1; i < len(attempts); i++ {
		if apart := attempts[i].Sub(attempts[i-1]); apart < 2*time.Second {
			t.Errorf("attempt %d came %v after the one before", i, apart)
		}
	}
	for i, n := range order {
		if n != i {
			t.Errorf("told in the order %v", order)
			break
		}
	}
}

// queueTimeHasHeaders: whoever waits for more than five minutes has the headers at
// once, and signs of life.
func queueTimeHasHeaders(t *testing.T) {
	text := `data: {"id":"c1","object":"chat.completion.chunk","created":1,"model":"ripple","choices":[{"index":0,"delta":{"content":"r</think>a"},"finish_reason":null}]}` + "\n\n"
	stop := `data: {"id":"c1","object":"chat.completion.chunk","created":1,"model":"ripple","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n"
	slow := script.Script{script.Sleep(320 * time.Second), script.Write(text), script.Write(stop), script.Done()}
	p := start(t, simengine.Config{Scripts: []script.Script{slow}}, raw+"\nqueue: {heartbeat: 15s}")
	began := time.Now()
	s := p.open(t.Context(), hello)
	if after := time.Since(began); after > time.Second {
		t.Errorf("the headers came after %v", after)
	}
	r := <-s.whole
	if a := (&r).answer(t); a.content != "a" || a.finish != "stop" || len(r.comments) < 20 {
		t.Errorf("the client got %+v and %d comments", a, len(r.comments))
	}
	if n := len(p.engine.Stats().Runs); n != 1 {
		t.Errorf("%d runs", n)
	}
}

// fullQueueSaysWhen to come back, at once.
func fullQueueSaysWhen(t *testing.T) {
	p := start(t, simengine.Config{Thinking: 100}, "queue: {max_waiting: 1}")
	first := p.open(t.Context(), hello)
	p.until(func(s simengine.Stats) bool { return s.Running == 1 })
	second := p.open(t.Context(), hello)
	began := time.Now()
	r := p.post(t.Context(), hello, nil)
	if after := time.Since(began); after > 100*time.Millisecond {
		t.Errorf("told after %v", after)
	}
	a := (&r).answer(t)
	if r.status != http.StatusTooManyRequests || !regexp.MustCompile(`^[1-9][0-9]*$`).MatchString(r.header.Get("Retry-After")) || a.err["type"] == nil || a.err["code"] == nil {
		t.Errorf("told %d %v %s", r.status, r.header, r.body)
	}
	if n := p.engine.Stats().Arrivals; n != 1 {
		t.Errorf("the engine was asked %d times", n)
	}
	<-first.whole
	<-second.whole
}

// smallUsersAreServedSoon: one request of a key that comes after twenty of another.
func smallUsersAreServedSoon(t *testing.T) {
	secrets, keys := newKeys(t, "a", "b")
	p := start(t, simengine.Config{Thinking: 30, Answer: 18, TokensPerSecond: 10}, keys+"queue: {max_waiting_per_key: 32}")
	var order []string
	done := make(chan string)
	ask := func(name string) {
		go func() {
			p.post(t.Context(), hello, bearer(secrets[name]))
			done <- name
		}()
		synctest.Wait()
	}
	for range 20 {
		ask("a")
	}
	ask("b")
	for range 21 {
		order = append(order, <-done)
	}
	if order[1] != "b" && order[2] != "b" {
		t.Errorf("served in the order %v", order)
	}
}
