package stack

import "testing"

// Record is a row of the ledger, as GET /v1/usage/{id} tells it. Times are in
// milliseconds.
type Record struct {
	Outcome       string           `json:"outcome"`
	FinishReason  string           `json:"finish_reason"`
	Model         string           `json:"model"`
	Engine        string           `json:"engine"`
	AnswerStarted bool             `json:"answer_started"`
	SlotMS        int64            `json:"slot_ms"`
	QueueWaitMS   int64            `json:"queue_wait_ms"`
	Tokens        map[string]Count `json:"tokens"`
	// Budget says what became of a thinking budget, Runs how many of the engine's
	// runs made the answer; the engine's own totals are over all of them.
	Budget           string `json:"budget"`
	Runs             int    `json:"runs"`
	EnginePrompt     Count  `json:"engine_prompt"`
	EngineCompletion Count  `json:"engine_completion"`
}

// Count is a number of tokens with its source; N is nil where it is unknown.
type Count struct {
	N      *int64 `json:"n"`
	Source string `json:"source"`
}

// Of returns a count of the record, and fails the test where it is unknown.
func (r Record) Of(t testing.TB, name string) int64 {
	t.Helper()
	count, ok := r.Tokens[name]
	if !ok || count.N == nil {
		t.Fatalf("the record has no %s tokens: %+v", name, r.Tokens)
	}
	return *count.N
}

// Queue is the state of the line, as GET /v1/queue tells it.
type Queue struct {
	Waiting int `json:"waiting"`
	Running int `json:"running"`
	Slots   []struct {
		State     string `json:"state"`
		RequestID string `json:"request_id"`
		Phase     string `json:"phase"`
	} `json:"slots"`
	Waiters []struct {
		RequestID string `json:"request_id"`
		Position  int    `json:"position"`
	} `json:"waiters"`
}
