package ledger

import (
	"context"
	"errors"
	"time"
)

// Causes a caller can test for.
var (
	// ErrNotFound means that no row has the id.
	ErrNotFound = errors.New("ledger: no such row")
	// ErrLocked means that another process has the data folder open.
	ErrLocked = errors.New("ledger: in use by another process")
	// ErrClosed means that Close was called.
	ErrClosed = errors.New("ledger: closed")
)

// Config says where the ledger lives and how long it keeps rows.
type Config struct {
	// Dir is the data folder; it is created if missing.
	Dir string
	// Retention is the age at which a row is dropped. Zero means never.
	Retention time.Duration
	// MaxRows is the number of rows kept. Zero means any number.
	MaxRows int
	// Now is the clock. Zero means time.Now.
	Now func() time.Time
}

// Query selects rows. Zero fields select everything.
type Query struct {
	// Since is the first moment of admission included, Until the first one excluded.
	Since, Until time.Time
	Key, Model   string
	Outcome      Outcome
	// Limit is the largest number of rows returned, at most 1000. Zero means 100.
	Limit int
	// After is the id of the last row of the page before. Empty means the newest.
	After string
}

// Ledger is an open ledger. It is safe for concurrent use.
type Ledger struct{}

var _ = context.Background
