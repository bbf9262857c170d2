package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Begin takes the row of a request that was admitted; an empty outcome is
// Queued. The row is written soon after, not now. A nil error means that it
// will be; ErrBacklog that the disk has not kept up.
func (l *Ledger) Begin(row Row) error {
	if row.Outcome == "" {
		row.Outcome = Queued
	}
	return l.put(row, true, row.Outcome.Open())
}

// Update takes the newest form of an open row.
func (l *Ledger) Update(row Row) error { return l.put(row, false, row.Outcome.Open()) }

// Finish takes the last form of a row; its outcome is final. A row that was
// never begun is written whole.
func (l *Ledger) Finish(row Row) error {
	return l.put(row, false, row.Outcome.Valid() && !row.Outcome.Open())
}

func (l *Ledger) put(row Row, refusable, fits bool) error {
	switch {
	case l.writer == nil:
		return ErrReadOnly
	case row.ID == "":
		return fmt.Errorf("%w: a row without an id", ErrInvalid)
	case !fits:
		return fmt.Errorf("%w: row %s: outcome %q does not fit the call", ErrInvalid, row.ID, row.Outcome)
	}
	if row.Created.IsZero() {
		row.Created = l.writer.cfg.Now()
	}
	return l.writer.put(row, refusable)
}

// Flush waits until every row taken so far is on disk.
func (l *Ledger) Flush(ctx context.Context) error {
	if l.writer == nil {
		return nil
	}
	return l.writer.flush(ctx)
}

// Err is the error of the last write, nil when it went well. Rows wait in
// memory meanwhile.
func (l *Ledger) Err() error {
	if l.writer == nil {
		return nil
	}
	return l.writer.lastError()
}

// Get returns the row with the id, also if it is not on disk yet, or
// ErrNotFound.
func (l *Ledger) Get(ctx context.Context, id string) (Row, error) {
	var waiting Row
	var waits bool
	if l.writer != nil {
		waiting, waits = l.writer.find(id)
	}
	row, err := scan(l.reader.QueryRowContext(ctx, "SELECT "+columns+" FROM usage WHERE id = ?", id).Scan)
	switch {
	case err == nil && (!waits || !row.Outcome.Open()):
		return row, nil // an end on disk is the end, whatever still waits
	case waits:
		return waiting, nil
	case errors.Is(err, sql.ErrNoRows):
		return Row{}, fmt.Errorf("%w: %s", ErrNotFound, id)
	}
	return Row{}, fault(l.path, "read row "+id, err)
}

// Query selects rows. Its zero value selects the newest ones.
type Query struct {
	// Since is the first moment of admission included, Until the first one
	// excluded. Zero means no limit.
	Since, Until time.Time
	// Key, Model and Outcome select equal values. Zero means any.
	Key, Model string
	Outcome    Outcome
	// Limit is the largest number of rows returned, 1 to 1000. Zero means 100.
	Limit int
	// After is the id of the last row of the page before. Zero means none.
	After string
}

// The limits of a page.
const (
	defaultLimit = 100
	maxLimit     = 1000
)

// List returns rows, newest first, and the After of the next page, empty on
// the last one. An After that is no row any more ends the list.
func (l *Ledger) List(ctx context.Context, q Query) (rows []Row, next string, err error) {
	if q.Limit == 0 {
		q.Limit = defaultLimit
	}
	if q.Limit < 0 || q.Limit > maxLimit {
		return nil, "", fmt.Errorf("%w: limit %d: must be 1 to %d", ErrInvalid, q.Limit, maxLimit)
	}
	where, args, err := q.where()
	if err != nil {
		return nil, "", err
	}
	if err := l.Flush(ctx); err != nil {
		return nil, "", err
	}
	if q.After != "" {
		where += " AND (created, seq) < (SELECT created, seq FROM usage WHERE id = ?)"
		args = append(args, q.After)
	}
	found, err := l.reader.QueryContext(ctx, "SELECT "+columns+" FROM usage WHERE "+where+
		" ORDER BY created DESC, seq DESC LIMIT ?", append(args, q.Limit+1)...)
	if err != nil {
		return nil, "", fault(l.path, "list", err)
	}
	defer func() { _ = found.Close() }()
	for found.Next() {
		row, err := scan(found.Scan)
		if err != nil {
			return nil, "", fault(l.path, "list", err)
		}
		rows = append(rows, row)
	}
	if err := found.Err(); err != nil {
		return nil, "", fault(l.path, "list", err)
	}
	if len(rows) > q.Limit {
		rows = rows[:q.Limit]
		next = rows[q.Limit-1].ID
	}
	return rows, next, nil
}

// where is the condition of q without its page, and its arguments.
func (q *Query) where() (string, []any, error) {
	if q.Outcome != "" && !q.Outcome.Valid() {
		return "", nil, fmt.Errorf("%w: outcome %q: no such outcome", ErrInvalid, q.Outcome)
	}
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
	return strings.Join(where, " AND "), args, nil
}
