package stack

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"
)

// Context is the context length of the real engine in tokens.
const Context = 32768

// Engine is a real llama.cpp server with one slot.
type Engine struct {
	// URL is its base address, without /v1.
	URL string
	// Model is the name it serves: tiny or smollm2.
	Model string
	// Tokenizer is the model's tokenizer.json, empty where there is none.
	Tokenizer string
}

// Split says who separates thinking from answer in front of the client.
type Split string

// Who splits: the engine, by its own chat template, or the proxy, from raw markers.
const (
	ByEngine Split = "engine"
	ByProxy  Split = "proxy"
	// Unaware is the proxy too, in front of an engine whose template knows nothing
	// of thinking, so that it keeps no budget of it either.
	Unaware Split = "proxy, from an engine that knows of no thinking"
)

// StartEngine starts the real engine and returns when it serves.
func StartEngine(t testing.TB, split Split) *Engine {
	t.Helper()
	model := os.Getenv("ONESLOT_MODEL")
	if model == "" {
		model = "tiny"
	}
	args := []string{"engine/serve.py", "--model", model, "--folder", t.TempDir(), "--context", fmt.Sprint(Context)}
	switch split {
	case ByProxy:
		args = append(args, "--raw")
	case Unaware:
		args = append(args, "--unaware")
	case ByEngine:
	}
	read, write := io.Pipe()
	process := Start(t, write, env(t, "ONESLOT_PYTHON"), args...)
	lines := make(chan string, 1)
	go func() {
		scan := bufio.NewScanner(read)
		for scan.Scan() {
			if line := scan.Text(); strings.HasPrefix(line, `{"port"`) {
				lines <- line
			}
		}
	}()
	ready := struct {
		Port      int     `json:"port"`
		Tokenizer *string `json:"tokenizer"`
	}{}
	select {
	case line := <-lines:
		if err := json.Unmarshal([]byte(line), &ready); err != nil {
			t.Fatalf("the engine's first line %q: %v", line, err)
		}
	case <-process.Done():
		t.Fatalf("the engine ended:\n%s", process.Said())
	case <-time.After(2 * patience):
		t.Fatalf("the engine is not ready after %s:\n%s", 2*patience, process.Said())
	}
	engine := &Engine{URL: fmt.Sprintf("http://127.0.0.1:%d", ready.Port), Model: model}
	if ready.Tokenizer != nil {
		engine.Tokenizer = *ready.Tokenizer
	}
	return engine
}

// Post sends a JSON body to the engine itself, past the proxy, and reads the JSON answer.
func (e *Engine) Post(t testing.TB, path string, body, into any) {
	t.Helper()
	raw, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	e.do(t, http.MethodPost, path, bytes.NewReader(raw), func(answer io.Reader) error {
		return json.NewDecoder(answer).Decode(into)
	})
}

// Busy says whether the slot is processing. The engine overlooks clients that
// leave when it is asked often, so ask every two seconds at most.
func (e *Engine) Busy(t testing.TB) bool {
	t.Helper()
	var slots []struct {
		Processing bool `json:"is_processing"`
	}
	e.do(t, http.MethodGet, "/slots", nil, func(answer io.Reader) error {
		return json.NewDecoder(answer).Decode(&slots)
	})
	if len(slots) != 1 {
		t.Fatalf("the engine has %d slots, want 1", len(slots))
	}
	return slots[0].Processing
}

// Deferred is the number of requests that wait inside the engine.
func (e *Engine) Deferred(t testing.TB) string {
	t.Helper()
	value := ""
	e.do(t, http.MethodGet, "/metrics", nil, func(answer io.Reader) error {
		scan := bufio.NewScanner(answer)
		for scan.Scan() {
			if rest, ok := strings.CutPrefix(scan.Text(), "llamacpp:requests_deferred "); ok {
				value = rest
			}
		}
		return scan.Err()
	})
	return value
}

func (e *Engine) do(t testing.TB, method, path string, body io.Reader, read func(io.Reader) error) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, e.URL+path, body)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(response.Body)
		t.Fatalf("%s %s: %s %s", method, path, response.Status, text)
	}
	if err := read(response.Body); err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
}
