package acceptance_test

import (
	"os"
	"testing"

	"oneslot/acceptance/stack"
)

// TestImpatientClients: libraries whose timeout is shorter than an answer, or than the
// wait for it, get it whole by their own retries, from one run, with one row.
func TestImpatientClients(t *testing.T) {
	for name, client := range map[string][]string{
		"openai-python": {os.Getenv("ONESLOT_PYTHON"), "python/retry_test.py"},
		"openai-node":   {"node", "node/retry_test.mjs"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// Nothing is to be heard before the answer, or the libraries would wait on.
			proxy := stack.StartPaced(t, []string{"--tokens-per-second", "12", "--thinking", "36", "--answer", "12", "--admin"},
				"queue: {commit_after: 60s, heartbeat: 60s}")
			process, lines := printing(t, client[0], client[1], proxy.URL+"/v1", "simulated")
			report(t, process, lines)
			var usage struct{ Data []stack.Record }
			proxy.Get(t, "/v1/usage", &usage)
			if len(usage.Data) != 3 { // one of each test, and the other that one waits for
				t.Errorf("there are %d rows, want 3: %+v", len(usage.Data), usage.Data)
			}
			for _, row := range usage.Data {
				if row.Outcome != "served" || row.Runs > 1 {
					t.Errorf("a row is %+v", row)
				}
			}
			var engine struct {
				Arrivals, Aborts int
			}
			(&stack.Proxy{URL: proxy.Engine}).Get(t, "/sim/stats", &engine)
			if engine.Arrivals != 3 || engine.Aborts != 0 {
				t.Errorf("the engine saw %d requests and %d aborts, want 3 and none", engine.Arrivals, engine.Aborts)
			}
		})
	}
}
