package ledger

import (
	"fmt"
	"strconv"
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

// ParseMoment reads a time: as in RFC 3339, a day (in UTC), seconds since 1970, or how
// long before now, as 24h or 7d. The empty text is the zero time.
func ParseMoment(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return time.Unix(n, 0), nil
	}
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.Atoi(days); err == nil && n >= 0 {
			return now.AddDate(0, 0, -n), nil
		}
	}
	if ago, err := time.ParseDuration(text); err == nil {
		return now.Add(-ago.Abs()), nil
	}
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("%q is no time; write 2026-11-30, 2026-11-30T15:00:00Z, seconds since 1970, or 24h or 7d for how long ago", text)
}
