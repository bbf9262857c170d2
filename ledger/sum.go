package ledger

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"
	"sort"
)

// By is what rows are added up by.
type By string

// The groupings. A day is a calendar day in UTC.
const (
	ByKey   By = "key"
	ByModel By = "model"
	ByDay   By = "day"
)

// group is the SQL expression of the grouping.
func (by By) group() (string, error) {
	switch by {
	case ByKey, ByModel:
		return string(by), nil
	case ByDay:
		return "strftime('%Y-%m-%d', created/1000, 'unixepoch')", nil
	}
	return "", fmt.Errorf("%w: by %q: must be key, model or day", ErrInvalid, by)
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
	// QueueWait is over the rows that have left the line.
	QueueWait Percentiles
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

// MarshalJSON writes the group under the name of its grouping.
func (s Sum) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]any{
		string(s.By): s.Group, "requests": s.Requests, "outcomes": s.Outcomes,
		"tokens": s.Tokens, "slot_ms": s.SlotMS, "queue_wait_ms": s.QueueWait,
	})
}

// Sum adds up the rows that q selects, whatever its page. Keys and models come
// in the order of their names, days newest first.
func (l *Ledger) Sum(ctx context.Context, q Query, by By) ([]Sum, error) {
	group, err := by.group()
	if err != nil {
		return nil, err
	}
	where, args, err := q.where()
	if err != nil {
		return nil, err
	}
	if err := l.Flush(ctx); err != nil {
		return nil, err
	}
	tx, err := l.reader.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return nil, fault(l.path, "add up", err)
	}
	defer func() { _ = tx.Rollback() }()
	from := " FROM usage WHERE " + where
	sums := adder{tx: tx, groups: map[string]*Sum{}}
	if err := sums.addTotals(ctx, "SELECT "+group+" AS g, outcome, count(*), sum(prompt), sum(cached), sum(thinking), sum(answer),"+
		" sum(completion), sum(slot_ms)"+from+" GROUP BY g, outcome", args); err != nil {
		return nil, fault(l.path, "add up", err)
	}
	if err := sums.addWaits(ctx, "SELECT "+group+", queue_wait_ms"+from+" AND outcome NOT IN ('queued','rejected')", args); err != nil {
		return nil, fault(l.path, "add up waits", err)
	}
	return ordered(sums.groups, by), nil
}

// adder adds up the rows of queries by group.
type adder struct {
	tx     *sql.Tx
	groups map[string]*Sum
}

func ordered(sums map[string]*Sum, by By) []Sum {
	list := make([]Sum, 0, len(sums))
	for group, s := range sums {
		s.By, s.Group = by, group
		list = append(list, *s)
	}
	sort.Slice(list, func(i, j int) bool {
		return (list[i].Group < list[j].Group) != (by == ByDay)
	})
	return list
}

// addTotals reads rows of group, outcome, count, five token sums and slot time.
func (a adder) addTotals(ctx context.Context, query string, args []any) error {
	rows, err := a.tx.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var (
			group   string
			outcome Outcome
			n       int
			slot    int64
			t       SumTokens
		)
		if err := rows.Scan(&group, &outcome, &n, &t.Prompt, &t.CachedPrompt, &t.Thinking, &t.Answer, &t.Completion, &slot); err != nil {
			return err
		}
		s := a.groups[group]
		if s == nil {
			s = &Sum{Outcomes: map[Outcome]int{}}
			a.groups[group] = s
		}
		s.Requests += n
		s.Outcomes[outcome] += n
		s.SlotMS += slot
		s.Tokens.add(&t)
	}
	return rows.Err()
}

func (t *SumTokens) add(more *SumTokens) {
	for _, f := range [...]struct{ sum, n **int64 }{
		{&t.Prompt, &more.Prompt},
		{&t.CachedPrompt, &more.CachedPrompt},
		{&t.Thinking, &more.Thinking},
		{&t.Answer, &more.Answer},
		{&t.Completion, &more.Completion},
	} {
		switch {
		case *f.n == nil:
		case *f.sum == nil:
			*f.sum = *f.n
		default:
			**f.sum += **f.n
		}
	}
}

// addWaits reads rows of group and wait.
func (a adder) addWaits(ctx context.Context, query string, args []any) error {
	rows, err := a.tx.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	waits := map[string][]int64{}
	for rows.Next() {
		var group string
		var wait int64
		if err := rows.Scan(&group, &wait); err != nil {
			return err
		}
		waits[group] = append(waits[group], wait)
	}
	for group, list := range waits {
		slices.Sort(list)
		a.groups[group].QueueWait = Percentiles{P50: percentile(list, 50), P90: percentile(list, 90), P99: percentile(list, 99)}
	}
	return rows.Err()
}

// percentile is the nearest rank in sorted values.
func percentile(sorted []int64, p int) int64 {
	return sorted[(len(sorted)*p+99)/100-1]
}
