package sqlite

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"oneslot/ledger"
)

// Get finds a row on disk.
func (s *store) Get(ctx context.Context, id string) (ledger.Row, error) {
	row, err := scan(s.reader.QueryRowContext(ctx, "SELECT "+columns+" FROM usage WHERE id = ?", id).Scan)
	if errors.Is(err, sql.ErrNoRows) {
		return ledger.Row{}, fmt.Errorf("%w: %s", ledger.ErrNotFound, id)
	}
	return row, fault(s.path, "read row "+id, err)
}

// List finds a page of rows.
func (s *store) List(ctx context.Context, q ledger.Query) ([]ledger.Row, error) {
	rows, err := s.list(ctx, q)
	return rows, fault(s.path, "list", err)
}

func (s *store) list(ctx context.Context, q ledger.Query) (rows []ledger.Row, err error) {
	where, args := condition(q)
	if q.After != "" {
		where += " AND (created, seq) < (SELECT created, seq FROM usage WHERE id = ?)"
		args = append(args, q.After)
	}
	found, err := s.reader.QueryContext(ctx, "SELECT "+columns+" FROM usage WHERE "+where+
		" ORDER BY created DESC, seq DESC LIMIT ?", append(args, q.Limit)...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = found.Close() }()
	for found.Next() {
		row, err := scan(found.Scan)
		if err != nil {
			return nil, err
		}
		rows = append(rows, row)
	}
	return rows, found.Err()
}

// condition is that of q without its page, with its arguments.
func condition(q ledger.Query) (string, []any) {
	where, args := []string{"1"}, []any{}
	also := func(condition string, arg any) {
		where, args = append(where, condition), append(args, arg)
	}
	if !q.Since.IsZero() {
		also("created >= ?", q.Since.UnixMilli())
	}
	if !q.Until.IsZero() {
		also("created < ?", q.Until.UnixMilli())
	}
	if q.Key != "" {
		also("key = ?", q.Key)
	}
	if q.Model != "" {
		also("model = ?", q.Model)
	}
	if q.Outcome != "" {
		also("outcome = ?", string(q.Outcome))
	}
	return strings.Join(where, " AND "), args
}

// grouping is the SQL expression of a grouping. The plus keeps SQLite from reading
// in the order of an index, which is a look into the table for each row; a day is
// the number of days since 1970.
func grouping(by ledger.By) string {
	if by == ledger.ByDay {
		return "created/86400000"
	}
	return "+" + string(by)
}

// Sum adds up in one view of the file.
func (s *store) Sum(ctx context.Context, q ledger.Query, by ledger.By) ([]ledger.Sum, error) {
	tx, err := s.reader.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return nil, fault(s.path, "add up", err)
	}
	defer func() { _ = tx.Rollback() }()
	where, args := condition(q)
	from := " FROM usage WHERE " + where
	a := &adder{Adder: ledger.NewAdder(by), tx: tx, args: args, days: by == ledger.ByDay}
	if err := a.totals(ctx, "SELECT "+grouping(by)+" AS g, outcome, count(*), sum(prompt), sum(cached), sum(thinking), sum(answer),"+
		" sum(completion), sum(max(slot_ms, 0))"+from+" GROUP BY g, outcome"); err != nil {
		return nil, fault(s.path, "add up", err)
	}
	if err := a.times(ctx, "SELECT "+grouping(by)+", queue_wait_ms, queue_wait_ms >= 0 AND outcome NOT IN ('queued','running','rejected'),"+
		" slot_ms, slot_ms >= 0 AND engine <> '' AND outcome NOT IN ('queued','running')"+from); err != nil {
		return nil, fault(s.path, "add up times", err)
	}
	return a.Sums(), nil
}

// adder adds up the rows of queries.
type adder struct {
	*ledger.Adder
	tx   *sql.Tx
	args []any
	days bool
	// number and day are the last one turned into a date.
	number, day []byte
}

// name is the name of a group, which is good until the next call.
func (a *adder) name(group []byte) []byte {
	if !a.days {
		return group
	}
	if !bytes.Equal(group, a.number) {
		a.number = append(a.number[:0], group...)
		n, _ := strconv.ParseInt(string(group), 10, 64)
		a.day = time.Unix(n*86400, 0).UTC().AppendFormat(a.day[:0], time.DateOnly)
	}
	return a.day
}

// totals reads rows of group, outcome, count, five token sums and slot time.
func (a *adder) totals(ctx context.Context, query string) error {
	return a.each(ctx, query, func(rows *sql.Rows) error {
		var group sql.RawBytes
		var t ledger.Total
		n := &t.Tokens
		if err := rows.Scan(&group, &t.Outcome, &t.Requests, &n.Prompt, &n.CachedPrompt, &n.Thinking, &n.Answer, &n.Completion, &t.SlotMS); err != nil {
			return err
		}
		a.Total(a.name(group), &t)
		return nil
	})
}

// times reads rows of group, wait and slot time, with whether either counts.
func (a *adder) times(ctx context.Context, query string) error {
	return a.each(ctx, query, func(rows *sql.Rows) error {
		var group sql.RawBytes
		var t ledger.Times
		if err := rows.Scan(&group, &t.Wait, &t.Waited, &t.Hold, &t.Held); err != nil {
			return err
		}
		a.Times(a.name(group), t)
		return nil
	})
}

// each has take read every row of what query finds.
func (a *adder) each(ctx context.Context, query string, take func(rows *sql.Rows) error) error {
	rows, err := a.tx.QueryContext(ctx, query, a.args...)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		if err := take(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}
