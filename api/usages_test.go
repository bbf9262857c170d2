package api

import (
	"fmt"
	"testing"

	"oneslot/internal/simengine"
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
