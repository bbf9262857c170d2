package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"oneslot/internal/simengine"
	"oneslot/internal/simengine/simtest"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main() // ends the process
	}
	goleak.VerifyTestMain(m)
}

// proxyUnderTest is a running program in front of a simulated engine.
type proxyUnderTest struct {
	t      *testing.T
	engine *simengine.Engine
	client *http.Client
	dial   func(ctx context.Context, network, address string) (net.Conn, error)
	logs   *simtest.Buffer
	data   string       // its data folder
	stop   func() error // ends the program as SIGTERM does and waits for it
	whole  *reply       // what an undisturbed client gets; nil until asked for
}

// base is the address of the program under test; its network is the test's own.
const base = "http://proxy.test"

// start runs the whole program in front of a simulated engine, inside the
// caller's bubble. settings is YAML beside the engine's row.
func start(t *testing.T, sim simengine.Config, settings string, first ...answering) *proxyUnderTest {
	t.Helper()
	return startWith(t, sim, settings, func(d dialer) dialer { return d }, first...)
}

// startWith is start with a network around that of the engine.
func startWith(t *testing.T, sim simengine.Config, settings string, around func(dialer) dialer, first ...answering) *proxyUnderTest {
	t.Helper()
	engine, toEngine := simtest.Pipe(t, sim, func(next http.Handler) http.Handler { return before(first, next) })
	p := &proxyUnderTest{t: t, engine: engine, logs: &simtest.Buffer{}}
	line := simtest.NewPipes()
	p.dial = line.Dial
	dir := t.TempDir()
	p.data = filepath.Join(dir, "data")
	if !strings.Contains(settings, "engines:") {
		settings += "\nengines: [{name: spark, url: \"http://engine.test\", model: ripple, dialect: sglang}]\n"
	}
	file := filepath.Join(dir, "oneslot.yaml")
	if err := os.WriteFile(file, []byte(settings+"\ndata: "+p.data+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- run(ctx, []string{"serve", "--config", file}, world{
			out: io.Discard, errs: p.logs,
			listen: func(string, string) (net.Listener, error) { return line, nil },
			dial:   around(toEngine.Transport.(*http.Transport).DialContext),
		})
	}()
	transport := &http.Transport{DialContext: line.Dial, DisableCompression: true}
	p.client = &http.Client{Transport: transport}
	var once sync.Once
	p.stop = func() (err error) {
		once.Do(func() {
			cancel()
			err = <-ended
			transport.CloseIdleConnections()
		})
		return err
	}
	t.Cleanup(func() {
		if err := p.stop(); err != nil {
			t.Errorf("the program ended with: %v", err)
		}
		if t.Failed() {
			t.Logf("its log:\n%s", p.logs)
		}
	})
	return p
}

// answering may take a request to the engine out of its hands.
type answering func(w http.ResponseWriter, body string) (done bool)

func before(first []answering, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the proxy has hung up
		}
		for _, f := range first {
			if f(w, string(body)) {
				return
			}
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		next.ServeHTTP(w, r)
	})
}

// inBubble runs a test on a clock of its own.
func inBubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}

// reply is what a client got.
type reply struct {
	status   int
	header   http.Header
	body     string
	comments []string
	events   []event
	named    bool // events have names, as not with Chat Completions
}

// event is one event of a stream and when it came.
type event struct {
	data string
	at   time.Time
}

// post sends a chat request and reads the whole reply.
func (p *proxyUnderTest) post(ctx context.Context, body string, header http.Header) reply {
	p.t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	for name := range header {
		req.Header.Set(name, header.Get(name))
	}
	return p.do(req)
}

func (p *proxyUnderTest) do(req *http.Request) reply {
	p.t.Helper()
	resp, err := p.client.Do(req)
	if err != nil {
		p.t.Fatal(err)
	}
	return p.read(resp)
}

// read reads a reply, as events where it is a stream. It knows only the rules
// of the event stream format and shares no code with the program.
func (p *proxyUnderTest) read(resp *http.Response) reply {
	p.t.Helper()
	defer resp.Body.Close()
	r := reply{status: resp.StatusCode, header: resp.Header, named: !strings.HasSuffix(resp.Request.URL.Path, "/completions")}
	var all bytes.Buffer
	var pending string
	buf := make([]byte, 4096)
	for {
		n, err := resp.Body.Read(buf)
		all.Write(buf[:n])
		pending += string(buf[:n])
		for {
			block, rest, ok := strings.Cut(pending, "\n\n")
			if !ok || !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
				break
			}
			pending = rest
			r.block(p.t, block)
		}
		if err != nil {
			break
		}
	}
	r.body = all.String()
	return r
}

func (r *reply) block(t *testing.T, block string) {
	t.Helper()
	for line := range strings.SplitSeq(block, "\n") {
		switch {
		case strings.HasPrefix(line, ":"):
			r.comments = append(r.comments, strings.TrimPrefix(line[1:], " "))
		case strings.HasPrefix(line, "data: "):
			r.events = append(r.events, event{line[len("data: "):], time.Now()})
		case strings.HasPrefix(line, "event: ") && r.named:
			if _, data, _ := strings.Cut(block, "\ndata: "); !strings.HasPrefix(data, `{"type":"`+line[len("event: "):]+`"`) {
				t.Errorf("the event's name is not its type: %q", block)
			}
		default:
			t.Errorf("a line that clients do not expect: %q", line)
		}
	}
}

// answer is what an SDK makes of a reply.
type answer struct {
	content, reasoning string
	finish             string
	done               int
	err                map[string]any
	usage              map[string]any
	tools              map[int]map[string]string
	logprobs           []string
}

func (r *reply) answer(t *testing.T) answer {
	t.Helper()
	a := answer{tools: map[int]map[string]string{}}
	if !strings.HasPrefix(r.header.Get("Content-Type"), "text/event-stream") {
		a.add(t, r.body, "message")
		return a
	}
	for _, e := range r.events {
		if e.data == "[DONE]" {
			a.done++
			continue
		}
		if a.done > 0 {
			t.Errorf("an event after [DONE]: %s", e.data)
		}
		a.add(t, e.data, "delta")
	}
	return a
}

func (a *answer) add(t *testing.T, data, member string) {
	t.Helper()
	var o struct {
		Error   map[string]any
		Usage   map[string]any
		Choices []struct {
			Delta, Message json.RawMessage
			Finish         *string `json:"finish_reason"`
			Logprobs       *struct{ Content []struct{ Token string } }
		}
	}
	if err := json.Unmarshal([]byte(data), &o); err != nil {
		t.Fatalf("not JSON: %q: %v", data, err)
	}
	if o.Error != nil {
		a.err = o.Error
	}
	if o.Usage != nil {
		a.usage = o.Usage
	}
	for _, c := range o.Choices {
		part := c.Delta
		if member == "message" {
			part = c.Message
		}
		a.part(t, part)
		if c.Finish != nil {
			if a.finish != "" {
				t.Errorf("a second finish reason %q after %q", *c.Finish, a.finish)
			}
			a.finish = *c.Finish
		}
		if c.Logprobs != nil {
			for _, l := range c.Logprobs.Content {
				a.logprobs = append(a.logprobs, l.Token)
			}
		}
	}
}

func (a *answer) part(t *testing.T, raw json.RawMessage) {
	t.Helper()
	var d struct {
		Content   *string
		Reasoning *string `json:"reasoning_content"`
		Tools     []struct {
			Index    int
			ID       string
			Function struct{ Name, Arguments string }
		} `json:"tool_calls"`
	}
	if err := json.Unmarshal(raw, &d); err != nil {
		t.Fatalf("not a delta: %s: %v", raw, err)
	}
	if a.finish != "" && d.Content != nil {
		t.Errorf("text after the finish reason: %s", raw)
	}
	if d.Content != nil {
		a.content += *d.Content
	}
	if d.Reasoning != nil {
		a.reasoning += *d.Reasoning
	}
	for i, tool := range d.Tools {
		at := tool.Index
		if at == 0 && i > 0 && tool.ID != "" {
			at = i
		}
		if a.tools[at] == nil {
			a.tools[at] = map[string]string{}
		}
		a.tools[at]["id"] += tool.ID
		a.tools[at]["name"] += tool.Function.Name
		a.tools[at]["arguments"] += tool.Function.Arguments
	}
}

// get reads a JSON object.
func (p *proxyUnderTest) get(path string) (out map[string]any) {
	p.t.Helper()
	if err := json.Unmarshal([]byte(p.fetch(path).body), &out); err != nil {
		p.t.Fatalf("GET %s: %v", path, err)
	}
	return out
}

func (p *proxyUnderTest) fetch(path string) reply {
	p.t.Helper()
	req, err := http.NewRequestWithContext(p.t.Context(), http.MethodGet, base+path, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	return p.do(req)
}

// record is a request's row in the ledger.
func (p *proxyUnderTest) record(r reply) map[string]any {
	p.t.Helper()
	return p.get("/v1/usage/" + r.header.Get("X-Request-Id"))
}

// tokens is one figure of a record: a number, or nil for unknown.
func tokens(record map[string]any, name string) any {
	all, _ := record["tokens"].(map[string]any)
	one, _ := all[name].(map[string]any)
	return one["n"]
}
