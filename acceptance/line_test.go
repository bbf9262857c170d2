package acceptance_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"oneslot/acceptance/stack"
)

// often is how often a test asks the proxy; politely is how often it may ask the
// engine, which overlooks clients that leave when it is asked more.
const (
	often    = 100 * time.Millisecond
	politely = 2 * time.Second
)

// raw is a streamed request as it stands on the wire, comments included.
type raw struct {
	id    string
	lines chan string
	hang  context.CancelFunc
}

// open sends a streamed question that runs for the given number of tokens.
func open(t *testing.T, proxy *stack.Proxy, engine *stack.Engine, tokens int) *raw {
	t.Helper()
	body := map[string]any{
		"model": engine.Model, "stream": true, "max_tokens": tokens, "ignore_eos": true,
		"messages": []map[string]string{{"role": "user", "content": "Wie lange dauert es?"}},
	}
	sent, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	ctx, hang := context.WithCancel(t.Context())
	t.Cleanup(hang)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, proxy.URL+"/v1/chat/completions", bytes.NewReader(sent))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	if response.StatusCode != http.StatusOK {
		t.Fatalf("status %s", response.Status)
	}
	r := &raw{id: response.Header.Get("X-Request-Id"), lines: make(chan string, 1024), hang: hang}
	go func() {
		defer close(r.lines)
		defer response.Body.Close()
		for scan := bufio.NewScanner(response.Body); scan.Scan(); {
			select {
			case r.lines <- scan.Text():
			case <-ctx.Done():
				return
			}
		}
	}()
	return r
}

// next reads on until a line has the prefix, and returns it.
func (r *raw) next(t *testing.T, prefix string) string {
	t.Helper()
	deadline := time.After(time.Minute)
	for {
		select {
		case line, ok := <-r.lines:
			if !ok {
				t.Fatalf("the stream ended before a line with %q", prefix)
			}
			if strings.HasPrefix(line, prefix) {
				return line
			}
		case <-deadline:
			t.Fatalf("no line with %q in time", prefix)
		}
	}
}

// TestTwoAtOnce has two clients at one slot: the second learns its place at once,
// and the engine never sees it before the first is done.
func TestTwoAtOnce(t *testing.T) {
	engine := stack.StartEngine(t, stack.ByProxy)
	proxy := stack.StartProxy(t, engine)

	first := open(t, proxy, engine, engine.Long())
	first.next(t, "data: {")
	second := open(t, proxy, engine, 40)
	if line := second.next(t, ":"); !strings.HasPrefix(line, ": queue position=1 of=1") {
		t.Errorf("the first comment is %q", line)
	}

	var line stack.Queue
	proxy.Get(t, "/v1/queue", &line)
	if line.Running != 1 || line.Waiting != 1 || len(line.Waiters) != 1 || len(line.Slots) != 1 {
		t.Fatalf("the line is %+v", line)
	}
	if line.Waiters[0].RequestID != second.id || line.Waiters[0].Position != 1 {
		t.Errorf("waiting is %+v, want %s at 1", line.Waiters[0], second.id)
	}
	if line.Slots[0].RequestID != first.id || line.Slots[0].State != "busy" {
		t.Errorf("the slot is %+v, want busy with %s", line.Slots[0], first.id)
	}
	if !engine.Busy(t) || engine.Deferred(t) != "0" {
		t.Errorf("the engine is busy: %t, and has %s waiting, want 0", engine.Busy(t), engine.Deferred(t))
	}

	for _, stream := range []*raw{first, second} {
		stream.next(t, "data: [DONE]")
		row := closed(t, proxy, stream.id, "served")
		if row.FinishReason != "length" || stream == second && row.QueueWaitMS <= 0 {
			t.Errorf("ledger %+v", row)
		}
	}
}

// TestManyInARow sends more requests than the engine serves on one connection. It
// closes connections without a word; no request and no count may suffer from it.
func TestManyInARow(t *testing.T) {
	p := connect(t, stack.ByProxy)
	for seed := range int64(80) {
		want := p.engine.Reply(t, stack.Question{Text: "Wie lange dauert es?", Seed: seed})
		p.check(t, ask(t, p.proxy, question(p.engine, seed)), want)
		p.check(t, stream(t, p.proxy, question(p.engine, seed)), want)
	}
}

// TestGone has clients that leave in the middle of a stream: the slot comes free,
// who waits is served, and the row tells what was made until then.
func TestGone(t *testing.T) {
	leave := map[string]func(*testing.T, *stack.Proxy, *stack.Engine) string{
		"socket closed": func(t *testing.T, proxy *stack.Proxy, engine *stack.Engine) string {
			stream := open(t, proxy, engine, 30000)
			stream.next(t, "data: {")
			stream.next(t, "data: {")
			stream.hang()
			return stream.id
		},
		"client killed": func(t *testing.T, proxy *stack.Proxy, engine *stack.Engine) string {
			return killed(t, proxy, engine)
		},
	}
	for name, goAway := range leave {
		t.Run(name, func(t *testing.T) {
			engine := stack.StartEngine(t, stack.ByProxy)
			proxy := stack.StartProxy(t, engine)
			id := goAway(t, proxy, engine)
			next := open(t, proxy, engine, 40)
			next.next(t, "data: [DONE]")

			row := closed(t, proxy, id, "client_gone")
			made := row.Of(t, "completion")
			if made <= 0 || made >= 30000 || row.Of(t, "thinking")+row.Of(t, "answer") != made {
				t.Errorf("tokens %+v", row.Tokens)
			}
			stack.Eventually(t, politely, "the engine is idle", func() bool { return !engine.Busy(t) })
			var line stack.Queue
			proxy.Get(t, "/v1/queue", &line)
			if line.Running != 0 || line.Waiting != 0 || line.Slots[0].State != "idle" {
				t.Errorf("the line is %+v", line)
			}
		})
	}
}

// TestCancel cancels a running request by the API: the stream says so and ends.
func TestCancel(t *testing.T) {
	engine := stack.StartEngine(t, stack.ByProxy)
	proxy := stack.StartProxy(t, engine)
	stream := open(t, proxy, engine, 30000)
	stream.next(t, "data: {")
	response, err := http.DefaultClient.Do(request(t, http.MethodDelete, proxy.URL+"/v1/queue/"+stream.id, ""))
	if err != nil {
		t.Fatal(err)
	}
	if err := response.Body.Close(); err != nil || response.StatusCode/100 != 2 {
		t.Fatalf("the cancel is answered with %s, %v", response.Status, err)
	}
	if line := stream.next(t, `data: {"error"`); !strings.Contains(line, `"cancelled"`) {
		t.Errorf("the stream ends with %s", line)
	}
	stream.next(t, "data: [DONE]")
	closed(t, proxy, stream.id, "cancelled")
	stack.Eventually(t, politely, "the engine is idle", func() bool { return !engine.Busy(t) })
}

// closed waits until the row of a request is closed, and returns it.
func closed(t *testing.T, proxy *stack.Proxy, id, outcome string) stack.Record {
	t.Helper()
	var row stack.Record
	stack.Eventually(t, often, "the row is closed", func() bool {
		proxy.Get(t, "/v1/usage/"+id, &row)
		return row.Outcome != "running" && row.Outcome != "queued"
	})
	if row.Outcome != outcome {
		t.Errorf("the outcome is %s, want %s", row.Outcome, outcome)
	}
	return row
}
