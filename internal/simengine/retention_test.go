package simengine_test

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"oneslot/internal/simengine"
	"oneslot/internal/simengine/simtest"
)

// direct calls the handler without a server, for tests of many requests.
func direct(t *testing.T, e *simengine.Engine, path, body string) *httptest.ResponseRecorder {
	t.Helper()
	req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, strings.NewReader(body))
	req.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	e.ServeHTTP(w, req)
	return w
}

// TestOldRunsAreForgotten sends more requests than are remembered: the counters
// go on, the memory does not.
func TestOldRunsAreForgotten(t *testing.T) {
	cfg := fast()
	cfg.Thinking, cfg.Answer = -1, 1
	e := simtest.New(t, cfg)
	const sent, kept = 10_050, 10_000
	for i := range sent {
		if w := direct(t, e, "/v1/completions", fmt.Sprintf(`{"rid":"r%d","prompt":"A"}`, i)); w.Code != http.StatusOK {
			t.Fatalf("%d: %d", i, w.Code)
		}
	}
	s := e.Stats()
	if s.Arrivals != sent || len(s.Runs) != kept || len(s.Started) > kept+1 {
		t.Fatalf("%d arrivals, %d runs, %d started", s.Arrivals, len(s.Runs), len(s.Started))
	}
	if first, last := s.Runs[0].RID, s.Runs[kept-1].RID; first != "r50" || last != "r10049" {
		t.Errorf("kept %s to %s", first, last)
	}
	if last := s.Started[len(s.Started)-1]; last != "r10049" {
		t.Errorf("the last to start was %s", last)
	}
}

// TestLargeBodiesAreForgotten sends more bytes than are remembered.
func TestLargeBodiesAreForgotten(t *testing.T) {
	e := simtest.New(t, fast())
	pad := string(bytes.Repeat([]byte("x"), 5<<19))
	for i := range 8 {
		if w := direct(t, e, "/v1/completions", fmt.Sprintf(`{"rid":"r%d","prompt":"A","unknown":%q}`, i, pad)); w.Code != http.StatusOK {
			t.Fatalf("%d: %d", i, w.Code)
		}
	}
	s := e.Stats()
	if n := len(s.Runs); n != 6 || s.Runs[0].RID != "r2" || s.Arrivals != 8 {
		t.Errorf("%d runs from %s on, %d arrivals", n, s.Runs[0].RID, s.Arrivals)
	}
}

// TestRunningOnesAreNotForgotten keeps a run that has not ended, however much
// comes after it.
func TestRunningOnesAreNotForgotten(t *testing.T) {
	cfg := slow()
	cfg.Slots = 2
	e, url := simtest.Start(t, cfg)
	start(t, url, streamed("first"))
	await(t, e, running(1))
	pad := string(bytes.Repeat([]byte("x"), 10<<20))
	for i := range 2 {
		direct(t, e, "/v1/completions", fmt.Sprintf(`{"sim":{"tokens_per_second":-1},"rid":"r%d","prompt":"A","unknown":%q}`, i, pad))
	}
	if s := e.Stats(); len(s.Runs) != 3 || s.Runs[0].RID != "first" || s.Runs[0].Outcome != "" {
		t.Errorf("%d runs, the first is %s", len(s.Runs), s.Runs[0].RID)
	}
}

// TestDefaults are those of the documentation.
func TestDefaults(t *testing.T) {
	e := simtest.New(t, simengine.Config{TokensPerSecond: simengine.Fast, PrefillTokensPerSecond: simengine.Fast})
	w := direct(t, e, "/v1/chat/completions", `{`+hi+`}`)
	if r := e.Stats().Runs[0]; w.Code != http.StatusOK || r.ThinkingTokens != 61 || r.CompletionTokens != 60+1+1+30+1 {
		t.Errorf("%d, run %+v", w.Code, r)
	}
	if got := e.Faults(); got != (simengine.Faults{}) {
		t.Errorf("faults %+v", got)
	}
	if w := direct(t, e, "/sim/faults", `{"ghost":true}`); w.Code != http.StatusNotFound {
		t.Errorf("the admin face is open: %d", w.Code)
	}
}
