package redis

import (
	"encoding/json"
	"fmt"
	"time"

	"oneslot/ledger"
	"oneslot/usage"
)

// packed is a row on its way to its packed form and back.
type packed struct {
	row    ledger.Row
	at     int64    // ms since 1970
	spans  [5]int64 // ms
	counts [8]*int
	from   [8]usage.Source
}

// cells point at what is kept, in order. A new one goes to the end: a row that
// was packed without it is read with its zero.
func (p *packed) cells() []any {
	r := &p.row
	list := []any{
		&r.ID, &p.at, &r.Model, &r.Engine, &r.Key, &r.Class, &r.ClientRequestID, &r.Route, &r.Stream,
		&r.Outcome, &r.Status, &r.Reason, &r.FinishReason, &r.AnswerStarted, &r.Runs, &r.Budget,
	}
	for i := range p.spans {
		list = append(list, &p.spans[i])
	}
	for i := range p.counts {
		list = append(list, &p.counts[i], &p.from[i])
	}
	return list
}

func (p *packed) durations() [5]*time.Duration {
	r := &p.row
	return [5]*time.Duration{&r.QueueWait, &r.Prefill, &r.Thinking, &r.Answer, &r.Slot}
}

func pack(r *ledger.Row) (string, error) {
	p := packed{row: *r, at: r.Created.UnixMilli()}
	for i, d := range p.durations() {
		p.spans[i] = d.Milliseconds()
	}
	for i, c := range r.Counts() {
		p.from[i] = usage.Unknown
		if c.Known() {
			p.counts[i], p.from[i] = &c.N, c.Source
		}
	}
	text, err := json.Marshal(p.cells())
	return string(text), err
}

func unpack(text string) (ledger.Row, error) {
	var p packed
	cells := p.cells()
	if err := json.Unmarshal([]byte(text), &cells); err != nil {
		return ledger.Row{}, fmt.Errorf("%w: a row that cannot be read: %w", ledger.ErrDamaged, err)
	}
	p.row.Created = time.UnixMilli(p.at)
	for i, d := range p.durations() {
		*d = time.Duration(p.spans[i]) * time.Millisecond
	}
	for i, c := range p.row.Counts() {
		c.Source = p.from[i]
		if p.counts[i] != nil {
			c.N = *p.counts[i]
		}
	}
	return p.row, nil
}
