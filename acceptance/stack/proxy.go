package stack

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// Proxy is the built proxy, serving.
type Proxy struct {
	// URL is its base address, without /v1.
	URL string
	// Engine is the address of the simulated engine behind it; empty if there is none.
	Engine string
}

// StartProxy starts the proxy in front of a real engine. The lines of more are
// added to its configuration file; one that begins with queue: replaces the short
// times that tests of the line want.
func StartProxy(t testing.TB, engine *Engine, more ...string) *Proxy {
	t.Helper()
	return startProxy(t, engine, "llamacpp", more)
}

// StartPlainProxy is StartProxy with a proxy that takes the engine for one that
// knows the OpenAI API and nothing more.
func StartPlainProxy(t testing.TB, engine *Engine, more ...string) *Proxy {
	t.Helper()
	return startProxy(t, engine, "openai", more)
}

func startProxy(t testing.TB, engine *Engine, dialect string, more []string) *Proxy {
	t.Helper()
	tokenizer := ""
	if os.Getenv("ONESLOT_TOKENIZER") == "yes" {
		tokenizer = engine.Tokenizer
	}
	return serve(t, append([]string{
		"engines:",
		fmt.Sprintf("  - {name: real, url: %q, model: %s, dialect: %s, slots: 1, format: made, tokenizer: %q}",
			engine.URL, engine.Model, dialect, tokenizer),
		"formats:",
		fmt.Sprintf("  - {name: made, open: [\"<think>\"], close: [\"</think>\"], starts_in: auto, markers_special: %t, off_prefill: \"</think>\\n\\n\"}",
			engine.Model == "tiny"),
	}, more...))
}

// StartSimulated starts the simulated engine, as fast as it can, and the proxy in
// front of it.
func StartSimulated(t testing.TB, more ...string) *Proxy {
	t.Helper()
	return StartPaced(t, []string{"--tokens-per-second", "-1", "--prefill-tokens-per-second", "-1"}, more...)
}

// StartPaced starts the simulated engine with the given flags and the proxy in front
// of it.
func StartPaced(t testing.TB, flags []string, more ...string) *Proxy {
	t.Helper()
	address := freeAddress(t)
	Start(t, nil, env(t, "ONESLOT_BIN"), append([]string{"sim", "--listen", address}, flags...)...)
	Eventually(t, 50*time.Millisecond, "the simulated engine answers", func() bool {
		return status(t, "http://"+address+"/v1/models") == http.StatusOK
	})
	proxy := serve(t, append([]string{
		"engines:",
		fmt.Sprintf("  - {name: simulated, url: %q, model: simulated, slots: 1}", "http://"+address),
	}, more...))
	proxy.Engine = "http://" + address
	return proxy
}

// serve starts the proxy with a configuration and returns when it is ready.
func serve(t testing.TB, config []string) *Proxy {
	t.Helper()
	address, folder := freeAddress(t), t.TempDir()
	file := filepath.Join(folder, "oneslot.yaml")
	lines := append([]string{
		"listen: " + address,
		fmt.Sprintf("data: %q", filepath.Join(folder, "data")),
	}, config...)
	if !slices.ContainsFunc(config, func(line string) bool { return strings.HasPrefix(line, "queue:") }) {
		lines = append(lines, "queue: {commit_after: 200ms, heartbeat: 500ms}")
	}
	if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	process := Start(t, nil, env(t, "ONESLOT_BIN"), "serve", "--config", file)
	proxy := &Proxy{URL: "http://" + address}
	Eventually(t, 50*time.Millisecond, "the proxy is ready", func() bool {
		select {
		case <-process.Done():
			t.Fatalf("the proxy ended:\n%s", process.Said())
		default:
		}
		return status(t, proxy.URL+"/readyz") == http.StatusOK
	})
	return proxy
}

// Get reads a JSON answer of the proxy.
func (p *Proxy) Get(t testing.TB, path string, into any) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.URL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	if response.StatusCode != http.StatusOK {
		t.Fatalf("GET %s: %s %s", path, response.Status, body)
	}
	if err := json.Unmarshal(body, into); err != nil {
		t.Fatalf("GET %s: %v in %s", path, err, body)
	}
}

// status is the status of a GET, or 0 when nothing answers.
func status(t testing.TB, url string) int {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0
	}
	defer response.Body.Close()
	return response.StatusCode
}
