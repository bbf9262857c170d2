package ledger

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

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
	SlotLost     Outcome = "slot_lost"     // the hold on the engine was lost, or the process died
)

// Open reports whether a request with this outcome has not ended.
func (o Outcome) Open() bool { return o == Queued || o == Running }

// Outcomes are all outcomes, the final ones first.
func Outcomes() []Outcome {
	return []Outcome{Served, Rejected, Abandoned, Expired, EngineFailed, ClientGone, Cancelled, SlotLost, Queued, Running}
}

// Valid reports whether o is one of the outcomes.
func (o Outcome) Valid() bool { return slices.Contains(Outcomes(), o) }

// Row is one request. It holds no text of prompt or answer.
type Row struct {
	// ID is ours: 32 hex digits.
	ID string
	// Created is the time of admission, kept to the millisecond.
	Created time.Time
	// Model is the one asked for, Engine the one that answered.
	Model, Engine string
	// Key is the name of the API key, never the key itself.
	Key string
	// Class is the priority the request waited with.
	Class string
	// ClientRequestID is the client's own label, if it sent one.
	ClientRequestID string
	// Route is the path of the request, such as /v1/chat/completions.
	Route  string
	Stream bool
	// Outcome says how the request ended, or that it has not.
	Outcome Outcome
	// Status is the HTTP status the client got. Zero means none was sent.
	Status int
	// Reason is the machine-readable reason of a refusal or failure.
	Reason string
	// FinishReason is why the answer ended. Empty means that it did not end.
	FinishReason string
	// QueueWait, Prefill, Thinking, Answer and Slot are kept to the millisecond. A
	// negative one is not known.
	QueueWait, Prefill, Thinking, Answer, Slot time.Duration
	// AnswerStarted says that visible answer text came.
	AnswerStarted bool
	// Tokens are the figures the client sees.
	Tokens usage.Tokens
	// Runs is the number of engine runs; EnginePrompt and EngineCompletion are
	// the engine's own totals over all of them.
	Runs                           int
	EnginePrompt, EngineCompletion usage.Count
	// Budget says what became of a thinking budget, such as "unsupported".
	Budget string
}

// Record takes over what the meter reports.
func (r *Row) Record(report *usage.Report) {
	r.Tokens = report.Tokens
	r.FinishReason = report.FinishReason
	r.AnswerStarted = report.AnswerStarted
	r.Runs = report.Runs
	r.EnginePrompt = report.EnginePrompt
	r.EngineCompletion = report.EngineCompletion
}

// Counts are the token figures of the row: the client's in the order of
// SumTokens, the accepted drafts, and the engine's own two.
func (r *Row) Counts() [8]*usage.Count {
	return [8]*usage.Count{
		&r.Tokens.Prompt, &r.Tokens.CachedPrompt, &r.Tokens.Thinking, &r.Tokens.Answer,
		&r.Tokens.Completion, &r.Tokens.DraftsAccepted, &r.EnginePrompt, &r.EngineCompletion,
	}
}

// ProcessDied is the reason of a row whose process died before it could end it.
const ProcessDied = "process_died"

// NotKnown is a time that nobody knows.
const NotKnown = -time.Millisecond

// Lose ends an open row whose process has died: running as slot_lost, queued as
// abandoned. What one that ran had produced by then, and for how long it ran or waited
// on, nobody knows.
func (r *Row) Lose() {
	switch r.Outcome {
	case Running:
		r.Outcome, r.Reason = SlotLost, ProcessDied
		r.Prefill, r.Thinking, r.Answer, r.Slot = NotKnown, NotKnown, NotKnown, NotKnown
	case Queued:
		r.Outcome, r.Reason = Abandoned, ProcessDied
		r.QueueWait = NotKnown
		none := usage.NotRun()
		r.Tokens.Thinking, r.Tokens.Answer, r.Tokens.Completion = none.Thinking, none.Answer, none.Completion
	case Rejected, Abandoned, Expired, Served, EngineFailed, ClientGone, Cancelled, SlotLost:
	}
}

// maxLabel is the longest text kept in a column, in bytes.
const maxLabel = 256

// labels are the columns a caller or client may have filled with anything.
func (r *Row) labels() []*string {
	return []*string{
		&r.Model, &r.Engine, &r.Key, &r.Class, &r.ClientRequestID,
		&r.Route, &r.Reason, &r.FinishReason, &r.Budget,
	}
}

// clip makes every label valid UTF-8 of at most maxLabel bytes.
func (r *Row) clip() {
	for _, label := range r.labels() {
		if len(*label) > maxLabel || !utf8.ValidString(*label) {
			*label = cut(strings.ToValidUTF8(cut(*label), "\ufffd"))
		}
	}
}

// cut returns a copy of s without what is beyond maxLabel bytes, so that the
// rest does not stay in memory with it.
func cut(s string) string {
	if len(s) <= maxLabel {
		return s
	}
	end := maxLabel
	for end > maxLabel-utf8.UTFMax && !utf8.RuneStart(s[end]) {
		end--
	}
	return strings.Clone(s[:end])
}

// record is the wire form of a row.
type record struct {
	Object           string       `json:"object"`
	ID               string       `json:"id"`
	Created          int64        `json:"created"`
	Model            string       `json:"model"`
	Engine           *string      `json:"engine"`
	Key              *string      `json:"key"`
	Class            string       `json:"class,omitempty"`
	ClientRequestID  string       `json:"client_request_id,omitempty"`
	Route            string       `json:"route,omitempty"`
	Stream           bool         `json:"stream"`
	Outcome          Outcome      `json:"outcome"`
	Status           int          `json:"status,omitempty"`
	Reason           string       `json:"reason,omitempty"`
	FinishReason     *string      `json:"finish_reason"`
	QueueWait        *int64       `json:"queue_wait_ms"`
	Prefill          *int64       `json:"prefill_ms"`
	Thinking         *int64       `json:"thinking_ms"`
	Answer           *int64       `json:"answer_ms"`
	Slot             *int64       `json:"slot_ms"`
	AnswerStarted    bool         `json:"answer_started"`
	Tokens           usage.Tokens `json:"tokens"`
	Runs             int          `json:"runs,omitempty"`
	EnginePrompt     usage.Count  `json:"engine_prompt"`
	EngineCompletion usage.Count  `json:"engine_completion"`
	Budget           string       `json:"budget,omitempty"`
}

// MarshalJSON writes a row as a usage.record object.
func (r Row) MarshalJSON() ([]byte, error) {
	return json.Marshal(record{
		Object: "usage.record", ID: r.ID, Created: r.Created.Unix(),
		Model: r.Model, Engine: optional(r.Engine), Key: optional(r.Key), Class: r.Class,
		ClientRequestID: r.ClientRequestID, Route: r.Route, Stream: r.Stream,
		Outcome: r.Outcome, Status: r.Status, Reason: r.Reason, FinishReason: optional(r.FinishReason),
		QueueWait: span(r.QueueWait), Prefill: span(r.Prefill), Thinking: span(r.Thinking), Answer: span(r.Answer), Slot: span(r.Slot),
		AnswerStarted: r.AnswerStarted, Tokens: r.Tokens, Runs: r.Runs,
		EnginePrompt: r.EnginePrompt, EngineCompletion: r.EngineCompletion, Budget: r.Budget,
	})
}

// UnmarshalJSON reads a usage.record object.
func (r *Row) UnmarshalJSON(raw []byte) error {
	var w record
	if err := json.Unmarshal(raw, &w); err != nil {
		return fmt.Errorf("ledger: usage record: %w", err)
	}
	*r = Row{
		ID: w.ID, Created: time.Unix(w.Created, 0), Model: w.Model, Engine: text(w.Engine), Key: text(w.Key),
		Class: w.Class, ClientRequestID: w.ClientRequestID, Route: w.Route, Stream: w.Stream,
		Outcome: w.Outcome, Status: w.Status, Reason: w.Reason, FinishReason: text(w.FinishReason),
		QueueWait: ms(w.QueueWait), Prefill: ms(w.Prefill), Thinking: ms(w.Thinking), Answer: ms(w.Answer), Slot: ms(w.Slot),
		AnswerStarted: w.AnswerStarted, Tokens: w.Tokens, Runs: w.Runs,
		EnginePrompt: w.EnginePrompt, EngineCompletion: w.EngineCompletion, Budget: w.Budget,
	}
	return nil
}

// optional is s, or nil for the empty string, which is null on the wire.
func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// span is a time in ms, nil if it is not known.
func span(d time.Duration) *int64 {
	if d < 0 {
		return nil
	}
	n := d.Milliseconds()
	return &n
}

func ms(n *int64) time.Duration {
	if n == nil {
		return NotKnown
	}
	return time.Duration(*n) * time.Millisecond
}
