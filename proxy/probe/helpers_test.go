package probe_test

import (
	"context"
	"encoding/json"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"oneslot/configs"
	"oneslot/internal/simengine"
	"oneslot/internal/simengine/simtest"
	"oneslot/proxy/probe"
	"oneslot/reasoning"

	"github.com/tidwall/gjson"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// shipped are the rows that come with the program, by name.
func shipped(t *testing.T) []reasoning.Format {
	t.Helper()
	byName, err := (&configs.Config{}).FormatRows()
	if err != nil {
		t.Fatal(err)
	}
	var rows []reasoning.Format
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		rows = append(rows, byName[name])
	}
	return rows
}

// wrap changes what an engine answers.
type wrap func(engine http.Handler) http.Handler

// without answers 404 at some paths.
func without(paths ...string) wrap {
	return func(engine http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if slices.Contains(paths, r.URL.Path) {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(http.StatusNotFound)
				_, _ = w.Write([]byte(`{"detail":"Not Found"}`)) // a test that cannot be answered fails by itself
				return
			}
			engine.ServeHTTP(w, r)
		})
	}
}

// answering answers one path with a fixed body.
func answering(path string, status int, body string) wrap {
	return func(engine http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != path {
				engine.ServeHTTP(w, r)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body)) // as above
		})
	}
}

func both(wraps ...wrap) wrap {
	return func(engine http.Handler) http.Handler {
		for _, w := range wraps {
			if w != nil {
				engine = w(engine)
			}
		}
		return engine
	}
}

// box is a simulated engine that can be probed.
type box struct {
	t      *testing.T
	engine *simengine.Engine
	rows   []reasoning.Format
	dial   func(ctx context.Context, network, address string) (net.Conn, error)
	client *http.Client
}

// open serves a simulated engine, as w changes it, inside the caller's bubble.
func open(t *testing.T, sim simengine.Config, w wrap) *box {
	t.Helper()
	b := &box{t: t, engine: simtest.New(t, sim), rows: shipped(t)}
	var handler http.Handler = b.engine
	if w != nil {
		handler = w(handler)
	}
	line := simtest.NewPipes()
	server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Hour}
	served := make(chan error, 1)
	go func() { served <- server.Serve(line) }()
	b.dial = line.Dial
	transport := &http.Transport{DialContext: line.Dial}
	b.client = &http.Client{Transport: transport}
	t.Cleanup(func() {
		b.engine.Close()
		transport.CloseIdleConnections()
		_ = server.Close() // closes line, of which nothing can fail
		<-served
	})
	return b
}

const address = "http://engine.test"

// config is what the probe of the box is told.
func (b *box) config() probe.Config {
	return probe.Config{URL: address, Rows: b.rows, Dial: b.dial}
}

func (b *box) probe() *probe.Report {
	b.t.Helper()
	return b.probeWith(b.config())
}

func (b *box) probeWith(cfg probe.Config) *probe.Report {
	b.t.Helper()
	r, err := probe.Run(b.t.Context(), cfg)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() {
		if b.t.Failed() {
			text, _ := json.MarshalIndent(r, "", "  ")
			b.t.Logf("the report:\n%s", text)
		}
	})
	return r
}

// chat sends a request to the engine past the probe and returns when it has the
// slot; it ends with the test.
func (b *box) chat(body string) {
	b.t.Helper()
	req, err := http.NewRequestWithContext(b.t.Context(), http.MethodPost, address+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	done := make(chan struct{})
	go func() {
		defer close(done)
		if resp, err := b.client.Do(req); err == nil { // else the engine was closed first
			buf := make([]byte, 1<<10)
			for err == nil {
				_, err = resp.Body.Read(buf)
			}
			resp.Body.Close()
		}
	}()
	b.t.Cleanup(func() { b.engine.Close(); <-done })
	if err := b.engine.Await(b.t.Context(), func(s simengine.Stats) bool { return s.Running > 0 }); err != nil {
		b.t.Fatal(err)
	}
}

// inBubble runs a test on a clock of its own.
func inBubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}

// want holds a finding to "state" or "state value"; a value of "…" is any.
func want(t *testing.T, r *probe.Report, name, expected string) {
	t.Helper()
	f, ok := r.Find(name)
	if !ok {
		if expected != "" {
			t.Errorf("%s: there is no such finding, want %s", name, expected)
		}
		return
	}
	state, value, _ := strings.Cut(expected, " ")
	if string(f.State) != state || value != "…" && f.Value != value {
		t.Errorf("%s is %s %q, want %s", name, f.State, f.Value, expected)
	}
}

func wantAll(t *testing.T, r *probe.Report, expected map[string]string) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(expected)) {
		want(t, r, name, expected[name])
	}
}

// field reads a text of a JSON object, items the raw members of a list.
func field(t *testing.T, object, path string) string {
	t.Helper()
	if !gjson.Valid(object) {
		t.Fatalf("not JSON: %q", object)
	}
	return gjson.Get(object, path).String()
}

func items(t *testing.T, object, path string) (out []string) {
	t.Helper()
	for _, one := range gjson.Get(object, path).Array() {
		out = append(out, one.Raw)
	}
	return out
}

func quoted(text string) string {
	raw, _ := json.Marshal(text) // a text always can
	return string(raw)
}
