package api

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"oneslot/internal/simengine"
	"oneslot/ledger"
)

// TestUsageList: rows newest first, in pages, and sums; wrong words are refused.
func TestUsageList(t *testing.T) {
	inBubble(t, setup{sim: simengine.Config{Thinking: 4, Answer: 2, TokensPerSecond: simengine.Fast, PrefillTokensPerSecond: simengine.Fast}}, func(t *testing.T, e *edge) {
		for range 3 {
			e.do(call{method: "POST", path: "/v1/chat/completions", body: `{"model":"ripple","messages":[{"role":"user","content":"hi"}]}`})
		}
		e.do(call{method: "POST", path: "/v1/chat/completions", body: `{"model":"nobody","messages":[{"role":"user","content":"hi"}]}`})
		page := e.do(call{path: "/v1/usage?limit=3"}).json(t)
		rows := page["data"].([]any)
		if page["object"] != "list" || len(rows) != 3 || page["has_more"] != true || rows[0].(map[string]any)["outcome"] != "rejected" {
			t.Errorf("the first page is %v", page)
		}
		rest := e.do(call{path: fmt.Sprintf("/v1/usage?limit=3&after=chatcmpl-%s", page["next_after"])}).json(t)
		if len(rest["data"].([]any)) != 1 || rest["has_more"] != false || rest["next_after"] != nil {
			t.Errorf("the second page is %v", rest)
		}
		sums := e.do(call{path: "/v1/usage?by=model&outcome=served"}).json(t)["data"].([]any)
		if len(sums) != 1 || sums[0].(map[string]any)["requests"] != 3.0 || sums[0].(map[string]any)["model"] != "ripple" {
			t.Errorf("the sums are %v", sums)
		}
		if none := e.do(call{path: "/v1/usage?until=2000-01-01"}).json(t)["data"].([]any); len(none) != 0 {
			t.Errorf("before everything there is %v", none)
		}
		for _, query := range []string{"limit=0", "limit=1001", "by=colour", "since=soon", "outcome=bliss"} {
			if r := e.do(call{path: "/v1/usage?" + query}); r.status != 400 {
				t.Errorf("%s: %d %s", query, r.status, r.body)
			}
		}
	})
}

// noLedger is a ledger's store that is not there.
type noLedger struct{}

var errAway = errors.New("connection refused")

func (noLedger) Write(context.Context, []*ledger.Row, ledger.Keep) (bool, error) {
	return false, errAway
}

func (noLedger) Get(context.Context, string) (ledger.Row, error)          { return ledger.Row{}, errAway }
func (noLedger) List(context.Context, ledger.Query) ([]ledger.Row, error) { return nil, errAway }
func (noLedger) Sum(context.Context, ledger.Query, ledger.By) ([]ledger.Sum, error) {
	return nil, errAway
}
func (noLedger) Close() error { return nil }

// TestUsageWithoutItsStore: callers are told to come back, and the log is not filled
// with what they asked.
func TestUsageWithoutItsStore(t *testing.T) {
	broken := ledger.New(noLedger{}, ledger.Config{})
	t.Cleanup(func() { _ = broken.Close() })
	inBubble(t, setup{change: func(d *Deps) { d.Ledger = broken }}, func(t *testing.T, e *edge) {
		for _, path := range []string{"/v1/usage", "/v1/usage?format=csv", "/v1/usage?by=key", "/v1/usage/" + strings.Repeat("0", 32)} {
			g := e.do(call{path: path})
			if g.status != 503 || g.fault(t).Code != "store_down" || g.header.Get("X-Oneslot-Reason") != "store_down" || g.header.Get("Retry-After") != "5" {
				t.Errorf("%s: %d %v %s", path, g.status, g.header, g.body)
			}
		}
		if strings.Contains(e.logs.String(), "request failed") {
			t.Error("failures of the store are called those of requests")
		}
	})
}
