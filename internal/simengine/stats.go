package simengine

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"time"
)

// Outcome is how a run ended. The empty Outcome means it has not.
type Outcome string

// The outcomes of a run.
const (
	Stopped  Outcome = "stop"   // by itself or by a stop string
	Length   Outcome = "length" // by max_tokens or the context
	Aborted  Outcome = "abort"  // by /abort_request
	Left     Outcome = "left"   // by the engine, since its client had left
	Scripted Outcome = "script" // at the end of its script
	Died     Outcome = "died"   // with the engine
)

// Run is one request for text as the engine saw it. Times that have not come
// are zero.
type Run struct {
	RID    string          `json:"rid"` // from the request, else the engine's own
	Path   string          `json:"path"`
	Body   json.RawMessage `json:"body,omitempty"`
	Header http.Header     `json:"-"` // not to be changed; never told over HTTP
	Stream bool            `json:"stream"`

	Arrived    time.Time `json:"arrived"`
	Started    time.Time `json:"started,omitzero"`     // got the slot
	FirstToken time.Time `json:"first_token,omitzero"` // prefill was over, or a script wrote something
	Aborted    time.Time `json:"aborted,omitzero"`     // an abort reached it
	Left       time.Time `json:"left,omitzero"`        // its client left before the end
	Ended      time.Time `json:"ended,omitzero"`       // gave the slot back, or left the line
	Outcome    Outcome   `json:"outcome,omitempty"`

	PromptTokens     int    `json:"prompt_tokens"`
	CachedTokens     int    `json:"cached_tokens"`
	CompletionTokens int    `json:"completion_tokens"` // so far
	ThinkingTokens   int    `json:"thinking_tokens"`   // so far, as the engine counts them
	Thinking         string `json:"thinking,omitempty"`
	Answer           string `json:"answer,omitempty"` // both once it has ended, without markers
}

// Stats is what the engine saw since it was made.
type Stats struct {
	Arrivals        int            `json:"arrivals"` // requests for text that were accepted
	Refused         int            `json:"refused"`  // requests for text answered with an error
	Waiting         int            `json:"waiting"`  // now
	Running         int            `json:"running"`  // now
	MaxRunning      int            `json:"max_running"`
	MaxWaiting      int            `json:"max_waiting"`
	Ghosts          int            `json:"ghosts"` // running now without a client
	Disconnects     int            `json:"disconnects"`
	Aborts          int            `json:"aborts"`           // calls of /abort_request
	AbortsEffective int            `json:"aborts_effective"` // those that ended a run
	Calls           map[string]int `json:"calls"`            // requests by path
	Runs            []Run          `json:"runs"`             // in order of arrival; the oldest are forgotten
	Started         []string       `json:"started"`          // rids in the order they got a slot
}

const (
	keepRuns  = 10_000   // runs remembered
	keepBytes = 16 << 20 // of their bodies and texts
)

// Stats returns a copy of what the engine saw so far.
func (e *Engine) Stats() Stats {
	e.mu.Lock()
	s := e.snapshot()
	e.mu.Unlock()
	for i := range s.Runs {
		s.Runs[i].Body = slices.Clone(s.Runs[i].Body)
	}
	return s
}

// Await blocks until is holds for the stats, or ctx ends, and then returns the
// cause. It looks at every event, so nothing is missed between two calls of is;
// is must not change the bodies in the stats.
func (e *Engine) Await(ctx context.Context, is func(Stats) bool) error {
	for {
		e.mu.Lock()
		s := e.snapshot()
		if e.changed == nil {
			e.changed = make(chan struct{})
		}
		changed := e.changed
		e.mu.Unlock()
		if is(s) {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// snapshot copies the stats; bodies are shared. The caller holds mu.
func (e *Engine) snapshot() Stats {
	s := e.stats
	s.Waiting, s.Running = len(e.waiting), len(e.running)
	for r := range e.running {
		if !r.rec.Left.IsZero() {
			s.Ghosts++
		}
	}
	s.Calls = maps.Clone(s.Calls)
	s.Started = slices.Clone(s.Started)
	s.Runs = make([]Run, len(e.records))
	for i, rec := range e.records {
		s.Runs[i] = *rec
	}
	return s
}

// event tells those who wait in Await. The caller holds mu.
func (e *Engine) event() {
	if e.changed != nil {
		close(e.changed)
		e.changed = nil
	}
}

// remember adds rec and forgets the oldest runs that have ended. The caller
// holds mu.
func (e *Engine) remember(rec *Run) {
	e.records = append(e.records, rec)
	e.kept += len(rec.Body)
	for len(e.records) > keepRuns || e.kept > keepBytes {
		oldest := e.records[0]
		if oldest.Outcome == "" {
			break
		}
		e.kept -= len(oldest.Body) + len(oldest.Thinking) + len(oldest.Answer)
		e.records = e.records[1:]
	}
	if n := len(e.stats.Started); n > keepRuns {
		e.stats.Started = slices.Clone(e.stats.Started[n-keepRuns:])
	}
}
