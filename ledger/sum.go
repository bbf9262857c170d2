package ledger

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// By is what rows are added up by.
type By string

// The groupings. A day is a calendar day in UTC.
const (
	ByKey   By = "key"
	ByModel By = "model"
	ByDay   By = "day"
)

// Valid reports whether by is one of the groupings.
func (by By) Valid() bool { return by == ByKey || by == ByModel || by == ByDay }

// of is the group of a row.
func (by By) of(r *Row) string {
	switch by {
	case ByKey:
		return r.Key
	case ByModel:
		return r.Model
	case ByDay:
	}
	return r.Created.UTC().Format(time.DateOnly)
}

// Sum adds up the rows of one group.
type Sum struct {
	// By and Group say which: ByDay and 2026-11-30.
	By    By
	Group string
	// Requests counts rows, Outcomes those of each outcome.
	Requests int
	Outcomes map[Outcome]int
	// Tokens are the sums of the figures that are known. A nil one is known of
	// no row.
	Tokens SumTokens
	// SlotMS is how long engines were held, in ms.
	SlotMS int64
	// QueueWait is over the ended rows that were in line, Slot over those that held
	// an engine.
	QueueWait, Slot Percentiles
}

// SumTokens are sums of token figures.
type SumTokens struct {
	Prompt       *int64 `json:"prompt"`
	CachedPrompt *int64 `json:"cached_prompt"`
	Thinking     *int64 `json:"thinking"`
	Answer       *int64 `json:"answer"`
	Completion   *int64 `json:"completion"`
}

// Percentiles are in ms, each the smallest value that so many per cent of the
// values do not exceed; 0 without values.
type Percentiles struct {
	P50 int64 `json:"p50"`
	P90 int64 `json:"p90"`
	P99 int64 `json:"p99"`
}

// sum is the wire form of a Sum, but for its group.
type sum struct {
	Requests  int             `json:"requests"`
	Outcomes  map[Outcome]int `json:"outcomes"`
	Tokens    SumTokens       `json:"tokens"`
	SlotMS    int64           `json:"slot_ms"`
	QueueWait Percentiles     `json:"queue_wait_ms"`
	Slot      Percentiles     `json:"slot_hold_ms"`
}

// MarshalJSON writes the group under the name of its grouping, before the rest.
func (s Sum) MarshalJSON() ([]byte, error) {
	group, err := json.Marshal(map[By]string{s.By: s.Group})
	if err != nil {
		return nil, err
	}
	rest, err := json.Marshal(sum{s.Requests, s.Outcomes, s.Tokens, s.SlotMS, s.QueueWait, s.Slot})
	if err != nil {
		return nil, err
	}
	return append(append(group[:len(group)-1], ','), rest[1:]...), nil
}

// UnmarshalJSON reads what MarshalJSON writes.
func (s *Sum) UnmarshalJSON(raw []byte) error {
	var rest sum
	var group struct{ Key, Model, Day *string }
	if err := errors.Join(json.Unmarshal(raw, &rest), json.Unmarshal(raw, &group)); err != nil {
		return fmt.Errorf("ledger: sum: %w", err)
	}
	*s = Sum{Requests: rest.Requests, Outcomes: rest.Outcomes, Tokens: rest.Tokens, SlotMS: rest.SlotMS, QueueWait: rest.QueueWait, Slot: rest.Slot}
	switch {
	case group.Key != nil:
		s.By, s.Group = ByKey, *group.Key
	case group.Model != nil:
		s.By, s.Group = ByModel, *group.Model
	case group.Day != nil:
		s.By, s.Group = ByDay, *group.Day
	default:
		return fmt.Errorf("%w: a sum without key, model or day", ErrInvalid)
	}
	return nil
}
