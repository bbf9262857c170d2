package usage

import (
	"encoding/json"
	"fmt"
	"strconv"

	"oneslot/internal/openai"
)

// Source says where a figure comes from.
type Source string

// The sources, best first.
const (
	Engine      Source = "engine"        // the engine's own totals
	Tokenizer   Source = "tokenizer"     // counted with the model's tokenizer
	EngineSplit Source = "engine_split"  // the engine's own thinking figure
	Predicted   Source = "prefix_model"  // what the engine's prefix cache must have held
	EngineSetup Source = "engine_config" // follows from how the engine was started
	Estimate    Source = "estimate"      // from the length of the text
	Unknown     Source = "unknown"       // nobody knows; there is no figure
	DidNotRun   Source = "not_run"       // the request never reached an engine
)

// Count is a number of tokens and where it comes from. The zero Count is
// unknown.
type Count struct {
	N      int
	Source Source
}

// Known reports whether c holds a figure.
func (c Count) Known() bool { return c.Source != "" && c.Source != Unknown }

// AppendJSON appends {"n":812,"source":"engine"}, or {"n":null,"source":"unknown"}.
func (c Count) AppendJSON(b []byte) []byte {
	if !c.Known() {
		return append(b, `{"n":null,"source":"unknown"}`...)
	}
	b = append(b, `{"n":`...)
	b = strconv.AppendInt(b, int64(c.N), 10)
	b = append(b, `,"source":`...)
	b = openai.AppendString(b, string(c.Source))
	return append(b, '}')
}

// MarshalJSON is AppendJSON for encoding/json.
func (c Count) MarshalJSON() ([]byte, error) { return c.AppendJSON(nil), nil }

// UnmarshalJSON reads what AppendJSON writes. A null figure is unknown,
// whatever its source says.
func (c *Count) UnmarshalJSON(raw []byte) error {
	var wire struct {
		N      *int   `json:"n"`
		Source Source `json:"source"`
	}
	if err := json.Unmarshal(raw, &wire); err != nil {
		return fmt.Errorf("usage: count: %w", err)
	}
	if wire.N == nil || wire.Source == "" {
		*c = Count{Source: Unknown}
		return nil
	}
	*c = Count{N: *wire.N, Source: wire.Source}
	return nil
}

// Tokens are the figures of one request. Thinking and Answer add up to
// Completion where all three are known.
type Tokens struct {
	Prompt         Count `json:"prompt"`
	CachedPrompt   Count `json:"cached_prompt"`
	Thinking       Count `json:"thinking"`
	Answer         Count `json:"answer"`
	Completion     Count `json:"completion"`
	DraftsAccepted Count `json:"drafts_accepted"`
}

// NotRun returns the figures of a request that never reached an engine: it
// produced nothing, and nobody counted its prompt.
func NotRun() Tokens {
	none := Count{Source: DidNotRun}
	no := Count{Source: Unknown}
	return Tokens{Prompt: no, CachedPrompt: no, Thinking: none, Answer: none, Completion: none, DraftsAccepted: no}
}

// rank orders the sources from best to worst.
func rank(s Source) int {
	switch s {
	case Engine:
		return 0
	case Tokenizer:
		return 1
	case EngineSplit, EngineSetup:
		return 2
	case Predicted:
		return 3
	case Estimate:
		return 4
	case Unknown, DidNotRun:
	}
	return 5
}

func worse(a, b Source) Source {
	if rank(b) > rank(a) {
		return b
	}
	return a
}

// plus adds two counts; the sum is as good as the worse of them.
func plus(a, b Count) Count {
	if !a.Known() || !b.Known() {
		return Count{Source: Unknown}
	}
	return Count{N: a.N + b.N, Source: worse(a.Source, b.Source)}
}
