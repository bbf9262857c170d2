package ledger

import (
	"time"

	"oneslot/usage"
)

// Outcome says how a request ended, or that it has not.
type Outcome string

// The outcomes. Queued and Running are open; all others are final.
const (
	Queued       Outcome = "queued"
	Running      Outcome = "running"
	Rejected     Outcome = "rejected"      // refused, by the proxy or by the engine's 4xx
	Abandoned    Outcome = "abandoned"     // left the line
	Expired      Outcome = "expired"       // waited too long
	Served       Outcome = "served"        // answered to the end
	EngineFailed Outcome = "engine_failed" // the engine broke off
	ClientGone   Outcome = "client_gone"   // the client left while it ran
	Cancelled    Outcome = "cancelled"     // by the API
	SlotLost     Outcome = "slot_lost"     // the lease on the engine was lost, or the process died
)

// Row is one request. It holds no text of prompt or answer.
type Row struct {
	// ID is ours: 32 hex digits.
	ID      string
	Created time.Time
	Model   string
	Engine  string
	// Key is the name of the API key, never the key itself.
	Key   string
	Class string
	// ClientRequestID is the client's own label, if it sent one.
	ClientRequestID string
	// Route is the path of the request, such as /v1/chat/completions.
	Route   string
	Stream  bool
	Outcome Outcome
	// Status is the HTTP status the client got. Zero means none was sent.
	Status int
	// Reason is the machine-readable reason of a refusal or failure.
	Reason       string
	FinishReason string
	// QueueWait, Prefill, Thinking, Answer and Slot are kept to the millisecond.
	QueueWait, Prefill, Thinking, Answer, Slot time.Duration

	AnswerStarted bool
	Tokens        usage.Tokens
	// Runs is the number of engine runs; EnginePrompt and EngineCompletion are
	// the engine's own totals over all of them.
	Runs                           int
	EnginePrompt, EngineCompletion usage.Count
	// Budget says what became of a thinking budget, such as "unsupported".
	Budget string
}
