package proxy_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"oneslot/internal/openai"
	"oneslot/internal/simengine"
	"oneslot/internal/simengine/simtest"
	"oneslot/proxy"
	"oneslot/proxy/budget"
	"oneslot/proxy/downstream"
	"oneslot/proxy/engine"
	"oneslot/proxy/surface"
	"oneslot/proxy/surface/chat"
	"oneslot/reasoning"
	"oneslot/usage"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// xml is the format of most tests: the template opens thinking.
func xml(start reasoning.State) reasoning.Format {
	return reasoning.Format{Name: "xml", Open: []string{"<think>"}, Close: []string{"</think>"}, StartsIn: start}
}

// writer is a client's connection: what was written is sent with the next flush.
type writer struct {
	mu      sync.Mutex // guards what follows
	header  http.Header
	status  int
	pending strings.Builder
	sent    strings.Builder
	broken  error         // what writes return
	stuck   bool          // writes block until their deadline
	until   time.Time     // the deadline
	flushed chan struct{} // closed at the next flush; nil while nobody waits
}

func (w *writer) Header() http.Header { return w.header }

func (w *writer) WriteHeader(status int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.status = status
}

func (w *writer) Write(p []byte) (int, error) {
	w.mu.Lock()
	stuck, until := w.stuck, w.until
	w.mu.Unlock()
	if stuck {
		<-time.After(time.Until(until))
		return 0, errors.New("i/o timeout")
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.broken != nil {
		return 0, w.broken
	}
	return w.pending.Write(p)
}

func (w *writer) FlushError() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.broken != nil {
		return w.broken
	}
	w.sent.WriteString(w.pending.String())
	w.pending.Reset()
	if w.flushed != nil {
		close(w.flushed)
		w.flushed = nil
	}
	return nil
}

func (w *writer) SetWriteDeadline(t time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.until = t
	return nil
}

func (w *writer) set(change func(*writer)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change(w)
}

// got is all that has been sent.
func (w *writer) got() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.sent.String()
}

// await blocks until text has been sent.
func (w *writer) await(t *testing.T, text string) {
	t.Helper()
	for {
		w.mu.Lock()
		if strings.Contains(w.sent.String(), text) {
			w.mu.Unlock()
			return
		}
		if w.flushed == nil {
			w.flushed = make(chan struct{})
		}
		flushed := w.flushed
		w.mu.Unlock()
		select {
		case <-flushed:
		case <-time.After(time.Hour):
			t.Fatalf("%q was never sent: %s", text, w.got())
		}
	}
}

// problem is what the tests' clients are told.
func problem(err error) *openai.Problem {
	var p *openai.Problem
	if errors.As(err, &p) {
		return p
	}
	return &openai.Problem{Status: http.StatusBadGateway, Type: "server_error", Code: "upstream_error", Message: err.Error()}
}

// rig is a proxy in front of an engine.
type rig struct {
	t      *testing.T
	sim    *simengine.Engine // nil if the engine is another one
	engine *engine.Engine
	proxy  *proxy.Proxy
	slot   string // that requests are served on
	budget int    // of thinking, in tokens; newRig sets it to no limit
	room   int    // see budget.Ask
	again  error  // Call.Again: Serve is called once more after it
	begin  func() bool
	before func(*proxy.Call) (after func()) // what is done while the call waits for its slot
}

// setup says what a test wants to be different.
type setup struct {
	sim    simengine.Config
	engine engine.Config
	proxy  proxy.Config
	format reasoning.Format
	count  usage.Counter
	noSole bool
}

// newRig puts a proxy in front of a simulated engine. Call it in a bubble.
func newRig(t *testing.T, s setup) *rig {
	t.Helper()
	return newRigBehind(t, s)
}

// newRigBehind does so behind handlers that take some calls into their own hands.
func newRigBehind(t *testing.T, s setup, around ...func(http.Handler) http.Handler) *rig {
	t.Helper()
	sim, client := simtest.Pipe(t, s.sim, around...)
	s.engine.Dial = client.Transport.(*http.Transport).DialContext
	r := &rig{t: t, sim: sim}
	r.open(s)
	return r
}

func (r *rig) open(s setup) {
	r.t.Helper()
	if s.format.Name == "" {
		s.format = xml(reasoning.StartThinking)
	}
	s.engine.Name, s.engine.URL, s.engine.SoleClient = "spark", "http://engine.test", !s.noSole
	e, err := engine.New(s.engine)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(e.Close)
	r.engine, r.slot, r.budget = e, "spark", budget.NoLimit
	r.proxy = proxy.New([]proxy.Target{{Engine: e, Format: s.format, Counter: s.count}}, s.proxy)
	r.t.Cleanup(r.proxy.Close)
}

// exchange is one request on its way.
type exchange struct {
	t      *testing.T
	w      *writer
	leave  context.CancelFunc      // the client closes its connection
	end    context.CancelCauseFunc // the hold on the slot ends
	done   chan struct{}           // closed when Serve has returned
	idle   atomic.Int32
	report proxy.Report
	err    error
	took   time.Duration
}

const id = "0123456789abcdef0123456789abcdef"

// start runs a request through the proxy.
func (r *rig) start(body string) *exchange {
	r.t.Helper()
	return r.startAs(body, openai.FieldReasoningContent)
}

func (r *rig) startAs(body string, field openai.ReasoningField) *exchange {
	r.t.Helper()
	req, talk, err := chat.API{}.Decode(surface.In{ID: id, Created: time.Unix(1764500000, 0), Body: []byte(body)})
	if err != nil {
		r.t.Fatal(err)
	}
	x := &exchange{t: r.t, w: &writer{header: http.Header{}}, done: make(chan struct{})}
	ctx, leave := context.WithCancel(r.t.Context())
	hold, end := context.WithCancelCause(context.WithoutCancel(r.t.Context()))
	x.leave, x.end = leave, end
	httpRequest := httptest.NewRequestWithContext(ctx, http.MethodPost, "/v1/chat/completions", nil)
	client, err := downstream.New(x.w, httpRequest, downstream.Config{Stream: req.Stream, Problem: problem, Voice: talk, CommitAfter: 500 * time.Millisecond, Heartbeat: 10 * time.Second})
	if err != nil {
		r.t.Fatal(err)
	}
	call := &proxy.Call{
		ID: id, Key: "team-a", Request: req, Talk: talk, Field: field,
		Sources: req.IncludeSources, Budget: budget.Ask{Tokens: r.budget, Room: r.room, Named: r.budget != budget.NoLimit}, Slot: r.slot, Idle: func() { x.idle.Add(1) },
		Begin: r.begin, Again: r.again,
	}
	after := func() {}
	if r.before != nil {
		after = r.before(call)
	}
	go func() {
		defer close(x.done)
		defer after()
		defer end(nil)
		defer leave()
		defer client.Release()
		began := time.Now()
		x.report, x.err = r.proxy.Serve(hold, call, client)
		if r.again != nil && errors.Is(x.err, r.again) {
			x.report, x.err = r.proxy.Serve(context.WithoutCancel(hold), call, client)
		}
		x.took = time.Since(began)
		if x.err != nil {
			client.Fail(x.err)
		}
	}()
	return x
}

// wait returns what came of it.
func (x *exchange) wait() *exchange {
	x.t.Helper()
	select {
	case <-x.done:
	case <-time.After(3 * time.Hour):
		x.t.Fatalf("Serve does not return; the client got %s", x.w.got())
	}
	return x
}

// serve runs a request to its end.
func (r *rig) serve(body string) *exchange {
	r.t.Helper()
	return r.start(body).wait()
}

// reply is what a client makes of what it got.
type reply struct {
	reasoning, content string
	tools              []openai.ToolCalls
	finish             string
	usage              map[string]any
	fault              map[string]any
	done, roles        int
	comments           []string
	logprobs           []any
	events             []string
}

// read reads a stream or a whole answer and checks what every client relies on.
func (x *exchange) read() reply {
	x.t.Helper()
	text := x.w.got()
	var r reply
	if !strings.Contains(x.w.header.Get("Content-Type"), "text/event-stream") {
		r.object(x.t, strings.TrimLeft(text, "\n"), "message")
		return r
	}
	for block := range strings.SplitSeq(strings.TrimSuffix(text, "\n\n"), "\n\n") {
		data, isData := strings.CutPrefix(block, "data: ")
		switch {
		case strings.HasPrefix(block, ": ") && !strings.Contains(block, "\n"):
			r.comments = append(r.comments, block[2:])
		case data == "[DONE]":
			r.done++
		case !isData || strings.Contains(data, "\n"):
			x.t.Errorf("a block that clients cannot read: %q", block)
		case r.done > 0:
			x.t.Errorf("an event after [DONE]: %q", block)
		default:
			r.events = append(r.events, data)
			r.object(x.t, data, "delta")
		}
	}
	return r
}

// object reads one chunk or one whole answer.
func (r *reply) object(t *testing.T, data, member string) {
	t.Helper()
	var o map[string]any
	if err := json.Unmarshal([]byte(data), &o); err != nil {
		t.Errorf("no JSON: %q: %v", data, err)
		return
	}
	if fault, ok := o["error"].(map[string]any); ok {
		r.fault = fault
		return
	}
	if o["id"] != "chatcmpl-"+id || o["created"] != 1764500000.0 {
		t.Errorf("id or created changed: %s", data)
	}
	if u, ok := o["usage"].(map[string]any); ok {
		r.usage = u
	}
	choices, _ := o["choices"].([]any)
	for _, c := range choices {
		r.choice(t, c.(map[string]any), member)
	}
}

func (r *reply) choice(t *testing.T, choice map[string]any, member string) {
	t.Helper()
	delta := choice[member].(map[string]any)
	for key, value := range delta {
		if value == nil && (member == "delta" || key != "refusal") {
			t.Errorf("null for %s", key)
		}
		switch key {
		case "role":
			r.roles++
		case "content":
			r.content += value.(string)
		case "reasoning_content", "reasoning":
			r.reasoning += value.(string)
		case "tool_calls":
			raw, _ := json.Marshal(value)
			if r.tools == nil {
				r.tools = make([]openai.ToolCalls, 1)
			}
			r.tools[0].Add(string(raw))
		}
	}
	if probs, ok := choice["logprobs"].(map[string]any); ok {
		r.logprobs = append(r.logprobs, probs["content"].([]any)...)
	}
	if len(delta) == 0 && choice["finish_reason"] == nil {
		t.Error("an empty delta")
	}
	if reason, ok := choice["finish_reason"].(string); ok {
		if r.finish != "" {
			t.Errorf("a second finish reason: %s", reason)
		}
		r.finish = reason
	}
}

func (r *reply) toolCalls() string {
	if r.tools == nil {
		return ""
	}
	return string(r.tools[0].JSON())
}

// ask is a request with members beside a model and a message.
func ask(stream bool, members string) string {
	if members != "" {
		members = "," + members
	}
	s := "false"
	if stream {
		s = `true,"stream_options":{"include_usage":true}`
	}
	return `{"model":"ripple","messages":[{"role":"user","content":"hi"}],"stream":` + s + members + `}`
}

// inBubble runs a test on a clock of its own.
func inBubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}

// bothWays runs a test for a client that streams and for one that does not.
func bothWays(t *testing.T, f func(t *testing.T, stream bool)) {
	t.Helper()
	for _, stream := range []bool{true, false} {
		name := map[bool]string{true: "stream", false: "whole"}[stream]
		t.Run(name, func(t *testing.T) { inBubble(t, func(t *testing.T) { f(t, stream) }) })
	}
}
