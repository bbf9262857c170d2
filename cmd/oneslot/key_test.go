package main

import (
	"bytes"
	"errors"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"oneslot/internal/simengine"
)

// newKey runs `oneslot key new` and returns the key and its row.
func newKey(t *testing.T, args ...string) (secret, row string) {
	t.Helper()
	var out bytes.Buffer
	if err := run(t.Context(), append([]string{"key", "new"}, args...), world{out: &out, errs: &out}); err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?s)\n  (sk-[\w-]{43})\n.*\n  (- \{.*\})\n$`).FindStringSubmatch(out.String())
	if m == nil {
		t.Fatalf("no key and row in %q", out.String())
	}
	if strings.Count(out.String(), m[1]) != 1 || strings.Contains(m[2], m[1]) {
		t.Errorf("the key is shown more than once: %q", out.String())
	}
	return m[1], m[2]
}

// newKeys makes a key for each name: their secrets, and the settings that let them in.
func newKeys(t *testing.T, names ...string) (secrets map[string]string, settings string) {
	t.Helper()
	secrets, settings = map[string]string{}, "keys:\n"
	for _, name := range names {
		secret, row := newKey(t, "--name", name)
		secrets[name], settings = secret, settings+"  "+row+"\n"
	}
	return secrets, settings
}

// bearer is the header with which a key is shown.
func bearer(secret string) http.Header { return http.Header{"Authorization": {"Bearer " + secret}} }

// TestNewKeys can be used as their rows say, and are in no log.
func TestNewKeys(t *testing.T) {
	plain, plainRow := newKey(t)
	batch, batchRow := newKey(t, "--name", `Team "B": ünd`, "--class", "batch", "--max-class", "default", "--max-waiting", "2", "--reasoning-field", "hidden")
	root, rootRow := newKey(t, "--name=root", "--admin")
	if plain == batch || plain == root {
		t.Fatal("a key came twice")
	}
	if !regexp.MustCompile(`name: "key-[0-9a-f]{8}"`).MatchString(plainRow) {
		t.Errorf("the row without a name is %s", plainRow)
	}
	settings := "keys:\n  " + plainRow + "\n  " + batchRow + "\n  " + rootRow + "\n"
	inBubble(t, func(t *testing.T) {
		p := start(t, simengine.Config{}, settings)
		ask := func(secret string) reply {
			return p.post(t.Context(), hello, http.Header{"Authorization": {"Bearer " + secret}, "X-Oneslot-Priority": {"interactive"}})
		}
		status := func(path, secret string) (int, string) {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("X-Api-Key", secret)
			got := p.do(r)
			return got.status, got.body
		}
		for secret, want := range map[string]int{plain: 200, batch: 200, root: 200, plain[:len(plain)-1]: 401, "": 401} {
			if r := ask(secret); r.status != want {
				t.Errorf("a request got %d, want %d: %s", r.status, want, r.body)
			}
		}
		if r := ask(plain); !strings.Contains(r.body, `"reasoning_content"`) {
			t.Errorf("a key that says nothing of thinking gets none: %s", r.body)
		}
		r := ask(batch)
		if strings.Contains(r.body, `"reasoning_content"`) {
			t.Errorf("a key that hides thinking gets it: %s", r.body)
		}
		if code, body := status("/v1/usage/"+r.header.Get("X-Request-Id"), batch); code != 200 || !strings.Contains(body, `"class":"default"`) || !strings.Contains(body, `"key":"Team \"B\": ünd"`) {
			t.Errorf("the row of a capped request is %d %s", code, body)
		}
		for secret, want := range map[string]int{plain: 403, root: 200} {
			if code, _ := status("/metrics", secret); code != want {
				t.Errorf("/metrics got %d, want %d", code, want)
			}
		}
		for _, secret := range []string{plain, batch, root} {
			if strings.Contains(p.logs.String(), secret[3:20]) {
				t.Error("a key is in the log")
			}
		}
	})
}

// TestKeyRefusals: a row that the settings would refuse is not printed.
func TestKeyRefusals(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"class":    {[]string{"--class", "high"}, "none of interactive, default, batch"},
		"above":    {[]string{"--class", "interactive", "--max-class", "batch"}, "is above max_class"},
		"negative": {[]string{"--max-waiting", "-1"}, "max_waiting"},
		"field":    {[]string{"--reasoning-field", "nowhere"}, "none of reasoning_content, reasoning, both"},
		"argument": {[]string{"team-a"}, "takes no argument"},
	} {
		var out bytes.Buffer
		err := run(t.Context(), append([]string{"key", "new"}, c.args...), world{out: &out, errs: &out})
		if !errors.Is(err, errUsage) || !strings.Contains(err.Error(), c.want) || strings.Contains(out.String(), "sk-") {
			t.Errorf("%s: %v %s", name, err, out.String())
		}
	}
}
