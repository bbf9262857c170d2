package usage

import "testing"

// TestAfter: runs that gave nothing count for what the engine did, and for nothing else.
func TestAfter(t *testing.T) {
	told := func(n int) Count { return Count{N: n, Source: Engine} }
	r := Report{Runs: 1, EnginePrompt: told(10), EngineCompletion: told(7), Tokens: Tokens{Completion: told(7)}}
	r.After(&Report{Tokens: NotRun()})
	if r.Runs != 1 || r.EnginePrompt != told(10) {
		t.Errorf("after a request that did not run %+v", r)
	}
	r.After(&Report{Runs: 2, EnginePrompt: told(20), EngineCompletion: told(0)})
	if r.Runs != 3 || r.EnginePrompt != told(30) || r.EngineCompletion != told(7) || r.Tokens.Completion != told(7) {
		t.Errorf("after two runs %+v", r)
	}
	r.After(&Report{Runs: 1})
	if r.Runs != 4 || r.EnginePrompt.Known() || r.EngineCompletion.Known() {
		t.Errorf("after a run of which nothing is known %+v", r)
	}
}
