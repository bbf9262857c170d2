package ledger

import (
	"fmt"
	"strings"
	"time"
)

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

// check refuses what can never be right and fills in the limit.
func (q *Query) check() error {
	switch {
	case q.Limit < 0 || q.Limit > maxLimit:
		return fmt.Errorf("%w: limit %d: must be 1 to %d", ErrInvalid, q.Limit, maxLimit)
	case q.Outcome != "" && !q.Outcome.Valid():
		return fmt.Errorf("%w: outcome %q: no such outcome", ErrInvalid, q.Outcome)
	case q.Limit == 0:
		q.Limit = defaultLimit
	}
	// Rows know no less.
	q.Since, q.Until = q.Since.Truncate(time.Millisecond), q.Until.Truncate(time.Millisecond)
	return nil
}

// Selects reports whether a row is among those of q, whatever the page.
func (q *Query) Selects(r *Row) bool {
	return (q.Since.IsZero() || !r.Created.Before(q.Since)) && (q.Until.IsZero() || r.Created.Before(q.Until)) &&
		(q.Key == "" || r.Key == q.Key) && (q.Model == "" || r.Model == q.Model) && (q.Outcome == "" || r.Outcome == q.Outcome)
}

// RowID is the id of the row of a request that a client knows by a response's id,
// such as chatcmpl-ID.
func RowID(id string) string {
	for _, prefix := range []string{"chatcmpl-", "cmpl-", "resp_", "msg_"} {
		if rest, ok := strings.CutPrefix(id, prefix); ok {
			return rest
		}
	}
	return id
}
