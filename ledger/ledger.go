package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Config says where the ledger lives and how long it keeps rows.
type Config struct {
	// Dir is the data folder of a ledger in a file. It is created if it is
	// missing, for its owner alone.
	Dir string
	// Retention is the age at which a row is deleted. Zero means never.
	Retention time.Duration
	// MaxRows is the number of rows kept. Zero means any number.
	MaxRows int
	// Every is how long rows gather before they are written together. Zero
	// means 50 ms.
	Every time.Duration
	// Tend is how often the store is looked after when nothing is written. Zero
	// means once an hour.
	Tend time.Duration
	// Backlog is the number of unwritten rows beyond which Begin refuses. Zero
	// means 100,000.
	Backlog int
	// ReadOnly opens the file of another process. Zero means to own it.
	ReadOnly bool
	// Now is the clock for Retention. Zero means time.Now.
	Now func() time.Time
	// Lost is told of each row that a dead process had left open, as it was ended. Zero
	// means that nobody is.
	Lost func(Row)
}

func (c Config) withDefaults() Config {
	if c.Every == 0 {
		c.Every = 50 * time.Millisecond
	}
	if c.Tend == 0 {
		c.Tend = time.Hour
	}
	if c.Backlog == 0 {
		c.Backlog = 100_000
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return c
}

// Tell passes rows that were ended on to Lost.
func (c Config) Tell(lost []Row) {
	if c.Lost == nil {
		return
	}
	for _, row := range lost {
		c.Lost(row)
	}
}

// Ledger is an open ledger. It is safe for concurrent use.
type Ledger struct {
	store  Store
	writer *writer // nil when opened for reading only
}

// New returns a ledger on a store, which it owns from then on. Call Close when
// done with it.
func New(store Store, cfg Config) *Ledger {
	l := &Ledger{store: store}
	if !cfg.ReadOnly {
		l.writer = newWriter(store, cfg.withDefaults())
		l.writer.start()
	}
	return l
}

// Close writes what has gathered, ends the writer and closes the store. It is
// safe to call it again.
func (l *Ledger) Close() error {
	var err error
	if l.writer != nil {
		err = l.writer.stop()
	}
	return errors.Join(err, l.store.Close())
}

// Begin takes the row of a request that was admitted; an empty outcome is
// Queued. The row is written soon after, not now. A nil error means that it
// will be; ErrBacklog that the store has not kept up.
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

// Flush waits until every row taken so far is in the store.
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

// Get returns the row with the id, also if it is not in the store yet, or
// ErrNotFound.
func (l *Ledger) Get(ctx context.Context, id string) (Row, error) {
	var waiting Row
	var waits bool
	if l.writer != nil {
		waiting, waits = l.writer.find(id)
	}
	row, err := l.store.Get(ctx, id)
	if waits && (err != nil || row.Outcome.Open()) { // an end in the store is the end, whatever still waits
		return waiting, nil
	}
	return row, failed(ctx, err)
}

// failed gives an error of the store its class, unless it is no fault of the store's,
// or one that does not pass.
func failed(ctx context.Context, err error) error {
	if err == nil || ctx.Err() != nil || errors.Is(err, ErrNotFound) || errors.Is(err, ErrDamaged) || errors.Is(err, ErrClosed) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrStore, err)
}

// List returns rows, newest first, and the After of the next page, empty on
// the last one. An After that is no row any more ends the list.
func (l *Ledger) List(ctx context.Context, q Query) (rows []Row, next string, err error) {
	if err := q.check(); err != nil {
		return nil, "", err
	}
	if err := l.Flush(ctx); err != nil {
		return nil, "", failed(ctx, err)
	}
	page := q.Limit
	q.Limit++
	rows, err = l.store.List(ctx, q)
	if len(rows) > page {
		rows = rows[:page]
		next = rows[page-1].ID
	}
	return rows, next, failed(ctx, err)
}

// Sum adds up the rows that q selects, whatever its page. Keys and models come
// in the order of their names, days newest first.
func (l *Ledger) Sum(ctx context.Context, q Query, by By) ([]Sum, error) {
	if !by.Valid() {
		return nil, fmt.Errorf("%w: by %q: must be key, model or day", ErrInvalid, by)
	}
	if err := q.check(); err != nil {
		return nil, err
	}
	if err := l.Flush(ctx); err != nil {
		return nil, failed(ctx, err)
	}
	sums, err := l.store.Sum(ctx, q, by)
	return sums, failed(ctx, err)
}
