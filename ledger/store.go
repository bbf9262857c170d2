package ledger

import (
	"context"
	"time"
)

// A Store keeps the rows of a Ledger. Its calls come from the one goroutine that
// writes, and from any that reads.
type Store interface {
	Reader
	// Write keeps the newest form of each row, all or none, unless the row has
	// ended; then it deletes what Keep does not allow, some of it, and reports
	// whether there is more to delete. It is also called without rows.
	Write(ctx context.Context, rows []*Row, keep Keep) (more bool, err error)
	// Close ends the store after the last Write.
	Close() error
}

// A Reader finds rows. Its queries have been checked.
type Reader interface {
	// Get returns the row with the id, or ErrNotFound.
	Get(ctx context.Context, id string) (Row, error)
	// List returns at most Limit rows of a page, newest first.
	List(ctx context.Context, q Query) ([]Row, error)
	// Sum adds up the rows that q selects, whatever its page.
	Sum(ctx context.Context, q Query, by By) ([]Sum, error)
}

// Keep is which ended rows stay.
type Keep struct {
	// Since is the age limit. Zero means none.
	Since time.Time
	// Most is the number of the newest rows that stay. Zero means all.
	Most int
}

// MaxDelete is how many rows a Write may delete by age, and as many by number.
const MaxDelete = maxBatch
