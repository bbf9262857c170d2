package api

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"oneslot/ledger"
	"oneslot/queue"

	"github.com/labstack/echo/v4"
)

// The secrets of the tests' keys.
const (
	secretA    = "sk-alpha-0123456789"
	secretB    = "sk-bravo-9876543210"
	secretRoot = "sk-root-5555555555"
)

func key(name, secret string, change func(*Key)) Key {
	sum := sha256.Sum256([]byte(secret))
	k := Key{Name: name, SHA256: hex.EncodeToString(sum[:]), MaxClass: queue.Interactive}
	if change != nil {
		change(&k)
	}
	return k
}

// keyed are two teams and an admin.
func keyed() Config {
	return Config{Keys: []Key{key("a", secretA, nil), key("b", secretB, nil), key("root", secretRoot, func(k *Key) { k.Admin = true })}}
}

func bearer(secret string) map[string]string {
	return map[string]string{"Authorization": "Bearer " + secret}
}

func TestKeys(t *testing.T) {
	inBubble(t, setup{cfg: keyed()}, func(t *testing.T, e *edge) {
		for name, c := range map[string]struct {
			header map[string]string
			status int
		}{
			"bearer":                  {bearer(secretA), 200},
			"bearer in small letters": {map[string]string{"Authorization": "bearer  " + secretA}, 200},
			"x-api-key":               {map[string]string{"x-api-key": secretA}, 200},
			"api-key":                 {map[string]string{"api-key": secretB}, 200},
			"empty bearer, x-api-key": {map[string]string{"Authorization": "Bearer ", "x-api-key": secretB}, 200},
			"basic, x-api-key":        {map[string]string{"Authorization": "Basic abc", "x-api-key": secretB}, 200},
			"none":                    {nil, 401},
			"wrong":                   {bearer("sk-wrong-7777"), 401},
			"wrong, right second":     {map[string]string{"Authorization": "Bearer sk-wrong-7777", "x-api-key": secretA}, 401},
			"prefix":                  {bearer(secretA[:12]), 401},
			"longer":                  {bearer(secretA + "0"), 401},
			"the hash":                {bearer(keyed().Keys[0].SHA256), 401},
			"empty":                   {map[string]string{"x-api-key": ""}, 401},
			"basic":                   {map[string]string{"Authorization": "Basic " + secretA}, 401},
			"bare":                    {map[string]string{"Authorization": secretA}, 401},
		} {
			g := e.do(call{path: "/v1/models", header: c.header})
			if g.status != c.status {
				t.Errorf("%s: status %d, want %d", name, g.status, c.status)
			}
			if c.status != 401 {
				continue
			}
			if f := g.fault(t); f.Code != "invalid_api_key" || f.Type != "invalid_request_error" || g.header.Get("WWW-Authenticate") != "Bearer" {
				t.Errorf("%s: refused with %+v and %v", name, f, g.header)
			}
			for _, part := range []string{"sk-", "7777", "alpha", keyed().Keys[0].SHA256[:8]} {
				if strings.Contains(g.body, part) {
					t.Errorf("%s: the refusal says %q of the key: %s", name, part, g.body)
				}
			}
		}
		if g := e.do(call{path: "/v1/models?api_key=" + secretA}); g.status != 401 {
			t.Errorf("a key in the query got %d", g.status)
		}
	})
}

// TestNoSecretIsNoKey: the hash of nothing lets nobody in.
func TestNoSecretIsNoKey(t *testing.T) {
	inBubble(t, setup{cfg: Config{Keys: []Key{key("empty", "", nil)}}}, func(t *testing.T, e *edge) {
		for _, header := range []map[string]string{nil, {"X-Api-Key": ""}, {"Authorization": "Bearer "}} {
			if g := e.do(call{path: "/v1/models", header: header}); g.status != 401 {
				t.Errorf("%v got %d", header, g.status)
			}
		}
	})
}

// TestWhatNeedsAKey goes through the routes: without a key, with one, with an
// admin's.
func TestWhatNeedsAKey(t *testing.T) {
	closed := [3]int{401, 200, 200}
	cases := map[string][3]int{
		"GET /healthz": {200, 200, 200}, "GET /readyz": {200, 200, 200}, "GET /metrics": {401, 403, 200},
		"GET /v1/models": closed, "GET /models": closed, "GET /v1/models/ripple": closed, "GET /v1/queue": closed,
		"GET /v1/queue/" + strings.Repeat("0", 32):    {401, 404, 404},
		"DELETE /v1/queue/" + strings.Repeat("0", 32): {401, 404, 404},
		"GET /v1/usage/" + strings.Repeat("0", 32):    {401, 404, 404},
		"POST /v1/chat/completions":                   {401, 400, 400},
		"POST /chat/completions":                      {401, 400, 400},
		"GET /v1/elsewhere":                           {404, 404, 404},
	}
	inBubble(t, setup{cfg: keyed()}, func(t *testing.T, e *edge) {
		for route, want := range cases {
			method, path, _ := strings.Cut(route, " ")
			for i, secret := range []string{"", secretA, secretRoot} {
				c := call{method: method, path: path}
				if secret != "" {
					c.header = bearer(secret)
				}
				g := e.do(c)
				if g.status != want[i] {
					t.Errorf("%s with key %q: status %d, want %d", route, secret, g.status, want[i])
				}
				if g.status == 403 && g.fault(t).Code != "admin_key_needed" {
					t.Errorf("%s: refused with %s", route, g.body)
				}
			}
		}
	})
	open := keyed()
	open.MetricsPublic = true
	inBubble(t, setup{cfg: open}, func(t *testing.T, e *edge) {
		if g := e.do(call{path: "/metrics"}); g.status != 200 {
			t.Errorf("public metrics got %d", g.status)
		}
	})
	inBubble(t, setup{}, func(t *testing.T, e *edge) {
		for _, path := range []string{"/metrics", "/v1/models", "/v1/queue"} {
			if g := e.do(call{path: path}); g.status != 200 {
				t.Errorf("without keys %s got %d", path, g.status)
			}
		}
	})
}

// TestOwnRequestsOnly: what is another key's does not exist, neither to see nor
// to cancel, while it waits, while it runs and afterwards.
func TestOwnRequestsOnly(t *testing.T) {
	inBubble(t, setup{cfg: keyed()}, func(t *testing.T, e *edge) {
		runs := e.behind(t.Context(), ask(`,"stream":true`, bearer(secretA)))
		e.until(running)
		waits := e.behind(t.Context(), ask(`,"stream":true`, bearer(secretA)))
		synctest.Wait()
		var ids []string
		for _, row := range e.rows() {
			ids = append(ids, row.ID)
		}
		if len(ids) != 2 {
			t.Fatalf("%d requests are known, want 2", len(ids))
		}
		sees := func(secret, id string) (out [3]int) {
			out[0] = e.do(call{path: "/v1/queue/" + id, header: bearer(secret)}).status
			out[1] = e.do(call{path: "/v1/queue/chatcmpl-" + id, header: bearer(secret)}).status
			out[2] = e.do(call{path: "/v1/usage/chatcmpl-" + id, header: bearer(secret)}).status
			return out
		}
		for _, id := range ids {
			if got := sees(secretB, id); got != [3]int{404, 404, 404} {
				t.Errorf("another key sees %v", got)
			}
			if g := e.do(call{method: http.MethodDelete, path: "/v1/queue/" + id, header: bearer(secretB)}); g.status != 404 {
				t.Errorf("another key's cancel got %d", g.status)
			}
			for _, secret := range []string{secretA, secretRoot} {
				if got := sees(secret, id); got != [3]int{200, 200, 200} {
					t.Errorf("%s sees %v", secret, got)
				}
			}
		}
		synctest.Wait()
		if s := e.engine.Stats(); s.Running != 1 {
			t.Fatalf("another key's cancel stopped the run: %+v", s)
		}
		// Newest first: ids[0] waits. Its owner may cancel it, by its other form too;
		// an admin the running one.
		for i, secret := range []string{secretA, secretRoot} {
			g := e.do(call{method: http.MethodDelete, path: "/v1/queue/chatcmpl-" + ids[i], header: bearer(secret)})
			if g.status != 200 || g.json(t)["request_id"] != ids[i] || g.json(t)["state"] != "cancelled" {
				t.Errorf("cancel got %d %s", g.status, g.body)
			}
		}
		for _, g := range []got{<-waits, <-runs} {
			if f := g.fault(t); f.Code != "cancelled" {
				t.Errorf("the cancelled one was told %+v", f)
			}
		}
		synctest.Wait()
		for _, row := range e.rows() {
			if row.Outcome != ledger.Cancelled || row.Key != "a" {
				t.Errorf("the ledger has %+v", row)
			}
		}
		if g := e.do(call{method: http.MethodDelete, path: "/v1/queue/" + ids[0], header: bearer(secretA)}); g.status != 404 {
			t.Errorf("a second cancel got %d", g.status)
		}
		if got := sees(secretB, ids[0]); got[2] != 404 {
			t.Errorf("another key sees a record: %v", got)
		}
	})
}

// TestOthersArePlaces: in the line, others' requests are positions and nothing
// else; a slot that runs one says only that it is busy.
func TestOthersArePlaces(t *testing.T) {
	inBubble(t, setup{cfg: keyed()}, func(t *testing.T, e *edge) {
		ctx, leave := context.WithCancel(t.Context())
		first := e.behind(ctx, ask("", bearer(secretA)))
		e.until(running)
		second := e.behind(ctx, ask("", bearer(secretA)))
		synctest.Wait()
		third := e.behind(ctx, ask("", bearer(secretB)))
		synctest.Wait()
		view := e.do(call{path: "/v1/queue", header: bearer(secretB)})
		for _, hidden := range []string{`"a"`, e.rows()[1].ID, e.rows()[2].ID} {
			if strings.Contains(view.body, hidden) {
				t.Errorf("another key's view shows %s: %s", hidden, view.body)
			}
		}
		o := view.json(t)
		slot := o["slots"].([]any)[0].(map[string]any)
		if slot["state"] != "busy" || slot["prompt_tokens"] != nil || slot["phase"] != nil {
			t.Errorf("another key's run is %v", slot)
		}
		waiters := o["waiters"].([]any)
		if len(waiters) != 2 || len(waiters[0].(map[string]any)) != 1 || waiters[0].(map[string]any)["position"] != 1.0 {
			t.Errorf("another key's place is %v", waiters)
		}
		if mine := waiters[1].(map[string]any); mine["key"] != "b" || mine["position"] != 2.0 || mine["request_id"] != e.rows()[0].ID {
			t.Errorf("the own place is %v", mine)
		}
		all := e.do(call{path: "/v1/queue", header: bearer(secretRoot)})
		for _, row := range e.rows() {
			if !strings.Contains(all.body, row.ID) {
				t.Errorf("the admin does not see %s: %s", row.ID, all.body)
			}
		}
		leave()
		<-first
		<-second
		<-third
	})
}

// TestPriority: a request's class is its header's, else its service tier's, else
// its key's, and never above what the key may have.
func TestPriority(t *testing.T) {
	cfg := Config{Keys: []Key{
		key("free", secretA, nil),
		key("bound", secretB, func(k *Key) { k.Class, k.MaxClass = queue.Batch, queue.Default }),
	}}
	inBubble(t, setup{cfg: cfg}, func(t *testing.T, e *edge) {
		for _, c := range []struct{ secret, header, tier, want string }{
			{secretA, "", "", "default"},
			{secretA, "interactive", "", "interactive"},
			{secretA, "BATCH", "", "batch"},
			{secretA, "", "priority", "interactive"},
			{secretA, "", "fast", "interactive"},
			{secretA, "", "flex", "batch"},
			{secretA, "", "scale", "batch"},
			{secretA, "", "auto", "default"},
			{secretA, "", "default", "default"},
			{secretA, "batch", "priority", "batch"},
			{secretB, "", "", "batch"},
			{secretB, "", "auto", "batch"},
			{secretB, "default", "", "default"},
			{secretB, "interactive", "", "default"},
			{secretB, "", "priority", "default"},
		} {
			header, tier := bearer(c.secret), ""
			if c.header != "" {
				header["X-Oneslot-Priority"] = c.header
			}
			if c.tier != "" {
				tier = `,"service_tier":"` + c.tier + `"`
			}
			g := e.do(ask(tier+`,"max_tokens":1`, header))
			if class := e.do(call{path: "/v1/usage/" + g.id(), header: bearer(c.secret)}).json(t)["class"]; class != c.want {
				t.Errorf("%+v: the class is %v", c, class)
			}
		}
		header := bearer(secretA)
		header["X-Oneslot-Priority"] = "urgent"
		if g := e.do(ask("", header)); g.status != 400 || !strings.Contains(g.fault(t).Message, "interactive, default or batch") {
			t.Errorf("an unknown priority got %d %s", g.status, g.body)
		}
	})
}

// TestKeysOwnLimit: a key may have fewer or more requests in line than others.
func TestKeysOwnLimit(t *testing.T) {
	cfg := Config{Keys: []Key{key("few", secretA, func(k *Key) { k.MaxWaiting = 1 }), key("many", secretB, func(k *Key) { k.MaxWaiting = 3 })}}
	inBubble(t, setup{cfg: cfg, queue: queue.Config{MaxWaitingPerKey: 2}}, func(t *testing.T, e *edge) {
		ctx, leave := context.WithCancel(t.Context())
		var waiting []<-chan got
		send := func(secret string) {
			waiting = append(waiting, e.behind(ctx, ask("", bearer(secret))))
			synctest.Wait()
		}
		send(secretA)
		e.until(running)
		for _, secret := range []string{secretA, secretB, secretB, secretB} {
			send(secret)
		}
		for _, secret := range []string{secretA, secretB} {
			g := e.do(ask("", bearer(secret)))
			if g.status != 429 || g.header.Get("X-Oneslot-Reason") != "key_limit" {
				t.Errorf("got %d %s", g.status, g.body)
			}
		}
		if n := e.do(call{path: "/v1/queue", header: bearer(secretA)}).json(t)["waiting"]; n != 4.0 {
			t.Errorf("%v wait, want 4", n)
		}
		leave()
		for _, one := range waiting {
			<-one
		}
	})
}

// TestUsersOfNobody: without keys, who knows a user's name does not know what stands
// for it, which is another one in each process.
func TestUsersOfNobody(t *testing.T) {
	stands := func(names ...string) (out []string) {
		inBubble(t, setup{cfg: Config{ByUser: true}}, func(_ *testing.T, e *edge) {
			h := e.server.auth(func(c echo.Context) error {
				for _, name := range names {
					out = append(out, callerOf(c).user(name))
				}
				return nil
			})
			e.must(h(echo.New().NewContext(httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", nil), nil)))
		})
		return out
	}
	a, b := stands("anna@example.com", "anna@example.com", "ben@example.com"), stands("anna@example.com")
	if a[0] != a[1] || a[0] == a[2] || a[0] == b[0] {
		t.Errorf("users stand as %q, and in another process as %q", a, b)
	}
}

// TestKeyFaults are found when the edge is made, all at once.
func TestKeyFaults(t *testing.T) {
	_, err := New(Deps{}, Config{Keys: []Key{key("", secretA, nil), {Name: "short", SHA256: "abc"}, {Name: "text", SHA256: strings.Repeat("x", 64)}}})
	for _, want := range []string{"keys[0]", "keys[1]", "short", "keys[2]", "text"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error %q does not name %s", err, want)
		}
	}
}
