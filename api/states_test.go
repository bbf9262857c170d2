package api

import (
	"context"
	"testing"
	"time"

	"oneslot/internal/simengine"
)

// TestAbortingView: a slot whose client has left runs nothing any more, but is not
// idle until the engine is.
func TestAbortingView(t *testing.T) {
	inBubble(t, setup{sim: simengine.Config{Ghost: true, Deaf: true, Thinking: 5000}}, func(t *testing.T, e *edge) {
		ctx, leave := context.WithCancel(t.Context())
		gone := e.behind(ctx, ask(`,"stream":true`, nil))
		e.until(running)
		leave()
		<-gone
		<-time.After(20 * time.Second) // beyond what the run itself may take to stop
		v := e.do(call{path: "/v1/queue"}).json(t)
		if state := v["slots"].([]any)[0].(map[string]any)["state"]; v["running"] != 0.0 || state == "busy" || state == "idle" {
			t.Errorf("the view is %v", v)
		}
		e.engine.SetFaults(simengine.Faults{})
		e.until(func(s simengine.Stats) bool { return s.Running == 0 })
		<-time.After(time.Minute)
		if state := e.do(call{path: "/v1/queue"}).json(t)["slots"].([]any)[0].(map[string]any)["state"]; state != "idle" {
			t.Errorf("the slot is %v", state)
		}
	})
}
