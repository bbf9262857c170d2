package acceptance_test

import (
	"os"
	"regexp"
	"strconv"
	"testing"
	"time"

	"oneslot/acceptance/stack"
)

// TestAnthropicClient runs the tests that are written with Anthropic's client.
func TestAnthropicClient(t *testing.T) {
	engine := stack.StartEngine(t, stack.ByEngine)
	proxy := watch(t, stack.StartProxy(t, engine, short))
	process, lines := printing(t, os.Getenv("ONESLOT_API_PYTHON"), "python/messages_test.py", proxy.URL, engine.Model, engine.CallToken(t))
	columns := map[string][]string{
		"test_whole": {"plain", "reasoning", "usage"}, "test_streamed_is_whole": {"stream"}, "test_tools_round_trip": {"tools"},
		"test_errors": {"error"}, "test_leaving": {"cancel"}, "test_retry": {"retry"}, "test_two_at_once": {"two"},
	}
	var ran []string
	for _, name := range report(t, process, lines) {
		ran = append(ran, columns[name]...)
	}
	readTable(t).check(t, "Anthropic (Python) messages", ran)
}

// TestDescribedAPI makes requests out of the API's own description, right ones and
// wrong ones, always the same: each answer has a described status, type and form,
// and none is a 5xx.
func TestDescribedAPI(t *testing.T) {
	proxy := stack.StartSimulated(t, "accept_any_model: true")
	process, lines := printing(t, os.Getenv("ONESLOT_API_PYTHON"), "python/described.py", proxy.URL)
	made, count := 0, regexp.MustCompile(`^\s*(\d+) generated`)
	for open := true; open; {
		select {
		case line, more := <-lines:
			open = more
			if m := count.FindStringSubmatch(line); m != nil {
				made, _ = strconv.Atoi(m[1])
			}
		case <-time.After(5 * time.Minute):
			t.Fatalf("it hangs:\n%s", process.Said())
		}
	}
	t.Logf("%d requests were made", made)
	if status := process.Status(); status != 0 || made < 300 {
		t.Errorf("exit status %d after %d requests:\n%s", status, made, process.Said())
	}
}
