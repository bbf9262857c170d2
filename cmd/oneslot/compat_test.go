package main

import (
	"maps"
	"net/http"
	"strings"
	"testing"

	"oneslot/internal/simengine"
)

// The failure cases of category E that are described rather than given as data,
// through the whole program. Those about paths, methods, CORS and the size of bodies
// (B094, B097, B100, B101) are tested at the edge.

// TestWhatTheEngineReads (B090, B091, B093, B096): messages keep their form and
// their nulls; only what no template knows is changed.
func TestWhatTheEngineReads(t *testing.T) {
	for name, c := range map[string]struct {
		members, messages, want string
		keys                    map[string]any
	}{
		"B090, developer": {
			"", `[{"role":"developer","content":"Answer in Latin."},{"role":"user","content":"hi"}]`,
			`[{"content":"Answer in Latin.","role":"system"},{"content":"hi","role":"user"}]`, nil,
		},
		"B091, nulls": {
			"", `[{"role":"user","content":"a"},{"role":"assistant","content":null,"tool_calls":[{"id":"k","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"k","content":"1"},{"role":"assistant","content":"","tool_calls":null},{"role":"user","content":"b"}]`,
			`[{"content":"a","role":"user"},{"content":null,"role":"assistant","tool_calls":[{"function":{"arguments":"{}","name":"f"},"id":"k","type":"function"}]},{"content":"1","role":"tool","tool_call_id":"k"},{"content":"","role":"assistant","tool_calls":null},{"content":"b","role":"user"}]`, nil,
		},
		"B093, the newer limit":  {`,"max_completion_tokens":16`, `[{"role":"user","content":"hi"}]`, `[{"content":"hi","role":"user"}]`, map[string]any{"max_tokens": 16.0, "max_completion_tokens": nil}},
		"B093, the older limit":  {`,"max_tokens":16`, `[{"role":"user","content":"hi"}]`, `[{"content":"hi","role":"user"}]`, map[string]any{"max_tokens": 16.0, "max_completion_tokens": nil}},
		"B093, both":             {`,"max_tokens":16,"max_completion_tokens":8`, `[{"role":"user","content":"hi"}]`, `[{"content":"hi","role":"user"}]`, map[string]any{"max_tokens": 8.0, "max_completion_tokens": nil}},
		"B096, a list of parts":  {"", `[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}]`, `[{"content":[{"text":"a","type":"text"},{"text":"b","type":"text"}],"role":"user"}]`, nil},
		"B089, vendors' members": {`,"top_k":7,"custom_x":{"deep":[1,null]}`, `[{"role":"user","content":"hi"}]`, `[{"content":"hi","role":"user"}]`, map[string]any{"top_k": 7.0}},
	} {
		for _, mode := range []string{"true", "false"} {
			inBubble(t, func(t *testing.T) {
				p := start(t, simengine.Config{}, "")
				if r := p.post(t.Context(), `{"model":"ripple","stream":`+mode+c.members+`,"messages":`+c.messages+`}`, nil); r.status != 200 {
					t.Fatalf("%s: refused with %d %s", name, r.status, r.body)
				}
				got := p.upstream()
				if text := asJSON(t, got["messages"]); text != c.want {
					t.Errorf("%s, stream %s: the engine got %s\nwant %s", name, mode, text, c.want)
				}
				for key, want := range c.keys {
					if got[key] != want {
						t.Errorf("%s, stream %s: the engine got %s: %v, want %v", name, mode, key, got[key], want)
					}
				}
			})
		}
	}
}

// TestEveryAPINeedsAKey (B099): none of the APIs answers without one, and none with
// one sends a client away with a page or a redirect.
func TestEveryAPINeedsAKey(t *testing.T) {
	secret, row := newKey(t)
	inBubble(t, func(t *testing.T) {
		p := start(t, simengine.Config{}, "keys:\n  "+row+"\n")
		routes := maps.Clone(eachAPI)
		routes["/v1/messages/count_tokens"] = eachAPI["/v1/messages"]
		for path, asked := range routes {
			post := func(key string) reply {
				body := `{"model":"ripple",` + asked + `}`
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+path, strings.NewReader(body))
				if err != nil {
					t.Fatal(err)
				}
				req.Header = bearer(key)
				return p.do(req)
			}
			if with := post(secret); with.status != 200 || !strings.HasPrefix(with.header.Get("Content-Type"), "application/json") {
				t.Errorf("%s with a key: %d %v %s", path, with.status, with.header, with.body)
			}
			if without := post("sk-other"); without.status != 401 || without.header.Get("WWW-Authenticate") != "Bearer" {
				t.Errorf("%s without a key: %d %s", path, without.status, without.body)
			}
		}
		for _, route := range []string{"GET /v1/responses/resp_x", "DELETE /v1/responses/resp_x", "POST /v1/responses/resp_x/cancel"} {
			method, path, _ := strings.Cut(route, " ")
			if r := p.send(t.Context(), method, path, ""); r.status != 401 || !strings.Contains(r.body, `"code":"invalid_api_key"`) {
				t.Errorf("%s without a key: %d %s", route, r.status, r.body)
			}
		}
		if strings.Contains(p.logs.String(), secret[3:]) || strings.Contains(p.logs.String(), "sk-other") {
			t.Error("a key is in the log")
		}
	})
}
