package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"oneslot/api/metrics"
	"oneslot/internal/simengine"
	"oneslot/internal/simengine/simtest"
	"oneslot/ledger"
	"oneslot/ledger/sqlite"
	"oneslot/proxy"
	"oneslot/proxy/engine"
	"oneslot/queue"
	"oneslot/reasoning"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

func TestMain(m *testing.M) {
	redis.SetLogger(mute{}) // it tells standard error of every failed try
	goleak.VerifyTestMain(m)
}

type mute struct{}

func (mute) Printf(context.Context, string, ...any) {}

// setup is what a test asks of the edge under test. Its zero value is the edge
// without keys in front of a simulated engine.
type setup struct {
	cfg     Config
	sim     simengine.Config
	queue   queue.Config
	proxy   proxy.Config
	engine  engine.Config                                       // URL, Name and Dial are the harness's, Model "-" is none
	dead    bool                                                // nobody listens where the engine should be
	gone    *atomic.Bool                                        // the same, for as long as it is set
	settler queue.Settler                                       // nil: the proxy
	store   func(*testing.T, queue.Config) (queue.Store, error) // nil: memory
	change  func(*Deps)
}

// edge is a Server on pipes, in front of a real queue, proxy and ledger, in a
// bubble: its times are the bubble's.
type edge struct {
	t      *testing.T
	server *Server
	engine *simengine.Engine
	pool   *Pool
	ledger *ledger.Ledger
	dir    string
	line   *simtest.Pipes
	client *http.Client
	logs   *simtest.Buffer
}

// base is the address of the edge under test; its network is the test's own.
const base = "http://edge.test"

// inBubble runs a test on a clock of its own.
func inBubble(t *testing.T, s setup, f func(t *testing.T, e *edge)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, start(t, s)) })
}

func start(t *testing.T, s setup) *edge {
	t.Helper()
	e := &edge{t: t, dir: t.TempDir(), line: simtest.NewPipes(), logs: &simtest.Buffer{}}
	sim, toEngine := simtest.Pipe(t, s.sim)
	e.engine = sim
	s.engine.Name, s.engine.URL, s.engine.SoleClient = "spark", "http://engine.test", true
	s.engine.Dial = toEngine.Transport.(*http.Transport).DialContext
	if dial := s.engine.Dial; s.gone != nil {
		s.engine.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			if s.gone.Load() {
				return nil, errors.New("nobody listens")
			}
			return dial(ctx, network, address)
		}
	}
	if s.dead {
		s.engine.Dial = func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("nobody listens") }
	}
	switch s.engine.Model {
	case "":
		s.engine.Model = "ripple"
	case "-":
		s.engine.Model = ""
	}
	e.build(s)
	served := make(chan error, 1)
	go func() { served <- e.server.Serve(e.line) }()
	transport := &http.Transport{DialContext: e.line.Dial, DisableCompression: true}
	e.client = &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	t.Cleanup(func() {
		e.server.Drain()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		transport.CloseIdleConnections()
		err := e.pool.Queue.Close(ctx)
		if errors.Is(err, queue.ErrStoreDown) {
			err = nil // as the test wants it
		}
		if err := errors.Join(err, e.server.Shutdown(ctx), <-served, e.ledger.Close()); err != nil {
			t.Error(err)
		}
		for _, one := range e.pool.Engines {
			one.Close()
		}
		if t.Failed() {
			t.Logf("the log:\n%s", e.logs)
		}
	})
	return e
}

func (e *edge) build(s setup) {
	e.t.Helper()
	one, err := engine.New(s.engine)
	e.must(err)
	format := reasoning.Format{Name: "f", Open: []string{"<think>"}, Close: []string{"</think>"}, StartsIn: reasoning.StartThinking}
	runner := proxy.New([]proxy.Target{{Engine: one, Format: format}}, s.proxy)
	e.t.Cleanup(runner.Close)
	s.queue.Slots = []string{"spark"}
	if s.store == nil {
		s.store = func(_ *testing.T, cfg queue.Config) (queue.Store, error) { return queue.NewMemory(cfg) }
	}
	store, err := s.store(e.t, s.queue)
	e.must(err)
	if s.settler == nil {
		s.settler = settler{runner}
	}
	line, err := queue.New(store, s.settler, s.queue)
	e.must(err)
	e.pool = &Pool{Queue: line, Engines: []*engine.Engine{one}}
	e.ledger, err = sqlite.Open(e.t.Context(), ledger.Config{Dir: e.dir})
	e.must(err)
	log := zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), zapcore.AddSync(e.logs), zap.DebugLevel))
	deps := Deps{Pools: []*Pool{e.pool}, Proxy: runner, Ledger: e.ledger, Metrics: counted(line), Log: log, Started: time.Now()}
	if s.change != nil {
		s.change(&deps)
	}
	e.server, err = New(deps, s.cfg)
	e.must(err)
}

// crashes has whoever gets a slot panic as soon as it turns to the engine.
func crashes(d *Deps) {
	one, err := engine.New(engine.Config{Name: "spark", URL: "http://crash.test", Dial: func(context.Context, string, string) (net.Conn, error) {
		near, _ := net.Pipe()
		return crash{near}, nil
	}})
	if err != nil {
		panic(err)
	}
	d.Proxy = proxy.New([]proxy.Target{{Engine: one}}, proxy.Config{})
}

type crash struct{ net.Conn }

func (crash) Write([]byte) (int, error) { panic("CANARY") }

func counted(line *queue.Queue) *metrics.Metrics {
	m := metrics.New(func() error { return nil })
	m.Watch(line)
	return m
}

func (e *edge) must(err error) {
	e.t.Helper()
	if err != nil {
		e.t.Fatal(err)
	}
}

// settler tells the queue of engines in the queue's words, as the program does.
type settler struct{ proxy *proxy.Proxy }

func (s settler) Settle(ctx context.Context, slot string) error {
	err := s.proxy.Settle(ctx, slot)
	if errors.Is(err, engine.ErrUnreachable) {
		return fmt.Errorf("%w: %w", queue.ErrDown, err)
	}
	return err
}

// call is a request to the edge. Zero fields: GET, no body, no further headers.
type call struct {
	method, path, body string
	header             map[string]string // "Host" is the request's host
}

// got is the whole response to a call.
type got struct {
	status int
	header http.Header
	body   string
}

func (c call) request(ctx context.Context, t *testing.T) *http.Request {
	t.Helper()
	if c.method == "" {
		c.method = http.MethodGet
	}
	var body io.Reader
	if c.body != "" {
		body = strings.NewReader(c.body)
	}
	r, err := http.NewRequestWithContext(ctx, c.method, base+c.path, body)
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range c.header {
		if name == "Host" {
			r.Host = value
		} else {
			r.Header.Set(name, value)
		}
	}
	return r
}

func (e *edge) do(c call) got {
	e.t.Helper()
	resp, err := e.client.Do(c.request(e.t.Context(), e.t))
	e.must(err)
	return e.read(resp)
}

func (e *edge) read(resp *http.Response) got {
	e.t.Helper()
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	e.must(err)
	g := got{resp.StatusCode, resp.Header, string(body)}
	if err := described(resp.Request, g); err != nil {
		e.t.Errorf("%s %.80s answers %d as the description does not say: %v\n%.500s", resp.Request.Method, resp.Request.URL.Path, g.status, err, g.body)
	}
	return g
}

// fault is an error as OpenAI's clients read it. All four members are required.
type fault struct {
	Message, Type, Param, Code string
}

// fault reads the error of a body, or of the last event but [DONE] of a stream.
func (g got) fault(t *testing.T) fault {
	t.Helper()
	text := g.body
	if events := g.events(); events != nil {
		if len(events) < 2 || events[len(events)-1] != "[DONE]" {
			t.Fatalf("the stream does not end with an error and [DONE]: %q", events)
		}
		text = events[len(events)-2]
	}
	var o struct {
		Error map[string]*string
	}
	if err := json.Unmarshal([]byte(text), &o); err != nil || len(o.Error) != 4 {
		t.Fatalf("status %d: not an error in OpenAI's shape: %q: %v", g.status, text, err)
	}
	read := func(name string) string {
		v, ok := o.Error[name]
		if !ok {
			t.Errorf("the error has no member %q: %s", name, text)
		}
		if v == nil {
			return ""
		}
		return *v
	}
	return fault{read("message"), read("type"), read("param"), read("code")}
}

// events are the data of a stream's events; nil for another body.
func (g got) events() (out []string) {
	if !strings.HasPrefix(g.header.Get("Content-Type"), "text/event-stream") {
		return nil
	}
	for line := range strings.Lines(g.body) {
		if data, ok := strings.CutPrefix(strings.TrimRight(line, "\n"), "data: "); ok {
			out = append(out, data)
		}
	}
	return out
}

func (g got) json(t *testing.T) map[string]any {
	t.Helper()
	var o map[string]any
	if err := json.Unmarshal([]byte(g.body), &o); err != nil {
		t.Fatalf("status %d: not an object: %q: %v", g.status, g.body, err)
	}
	return o
}

func (g got) id() string { return g.header.Get("X-Request-Id") }

// ask is a chat request; members are added to its body.
func ask(members string, header map[string]string) call {
	return call{http.MethodPost, "/v1/chat/completions", `{"model":"ripple","messages":[{"role":"user","content":"hi"}]` + members + `}`, header}
}

// until waits for the engine to have seen something.
func (e *edge) until(is func(simengine.Stats) bool) {
	e.t.Helper()
	ctx, cancel := context.WithTimeout(e.t.Context(), 24*time.Hour)
	defer cancel()
	if err := e.engine.Await(ctx, is); err != nil {
		e.t.Fatalf("the engine never got there: %v; it saw %+v", err, e.engine.Stats())
	}
}

func running(s simengine.Stats) bool { return s.Running == 1 }

// rows are all rows of the ledger, the newest first.
func (e *edge) rows() []ledger.Row {
	e.t.Helper()
	rows, _, err := e.ledger.List(e.t.Context(), ledger.Query{})
	e.must(err)
	return rows
}

// lines are the log's entries of the given kind.
func (e *edge) lines(msg string) (out []map[string]any) {
	e.t.Helper()
	for line := range strings.Lines(e.logs.String()) {
		var o map[string]any
		if err := json.Unmarshal([]byte(line), &o); err != nil {
			e.t.Fatalf("a log line is no JSON: %q", line)
		}
		if o["msg"] == msg {
			out = append(out, o)
		}
	}
	return out
}

// behind sends a request that stays away from the test's goroutine: its response
// comes on the channel.
func (e *edge) behind(ctx context.Context, c call) <-chan got {
	out := make(chan got, 1)
	r := c.request(ctx, e.t)
	go func() {
		defer close(out)
		resp, err := e.client.Do(r)
		if err != nil {
			return
		}
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		out <- got{resp.StatusCode, resp.Header, string(body)}
	}()
	return out
}
