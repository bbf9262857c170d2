package acceptance_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"oneslot/acceptance/stack"
	"oneslot/acceptance/transcript"
)

// watch has what a client is told recorded, and, when its tests have run, held to the
// shapes of OpenAI's and Anthropic's libraries, read strictly, and to the proxy's own
// description. It returns a proxy whose address is the recorder's.
func watch(t *testing.T, proxy *stack.Proxy) *stack.Proxy {
	t.Helper()
	recorder := record(t, proxy)
	t.Cleanup(func() {
		if !t.Failed() { // else what it has told is not what it should have
			checkShapes(t, recorder.Exchanges())
		}
	})
	return &stack.Proxy{URL: recorder.URL, Engine: proxy.Engine}
}

// checkShapes holds each answer to every shape that there is for it.
func checkShapes(t *testing.T, list []transcript.Exchange) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "answers.jsonl")
	out, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	for _, e := range list {
		kind, _, _ := strings.Cut(e.Response.Get("Content-Type"), ";")
		line := map[string]any{"method": e.Method, "path": e.Path, "status": e.Status, "type": kind, "body": string(e.Answer)}
		line["anthropics"] = e.Request.Get("Anthropic-Version") != ""
		if e.Status == 0 {
			continue
		}
		if err := json.NewEncoder(out).Encode(line); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{
		{os.Getenv("ONESLOT_PYTHON"), "python/shapes.py", file},
		{os.Getenv("ONESLOT_API_PYTHON"), "python/own_shapes.py", file, "../api/openapi/openapi.yaml"},
	} {
		process, lines := printing(t, args[0], args[1:]...)
		held := 0
		for line := range lines {
			var result struct {
				Test, Fault string
				Count       int
			}
			if json.Unmarshal([]byte(line), &result) != nil {
				continue
			}
			held += result.Count
			if result.Fault != "" {
				t.Errorf("%s: %s", result.Test, result.Fault)
			}
		}
		if status := process.Status(); status != 0 {
			t.Fatalf("exit status %d:\n%s", status, process.Said())
		}
		t.Logf("%s: %d answers and events of %d exchanges", args[1], held, len(list))
	}
}
