package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// Config says where the ledger lives and how long it keeps rows.
type Config struct {
	// Dir is the data folder. It is created if it is missing, for its owner alone.
	Dir string
	// Retention is the age at which a row is deleted. Zero means never.
	Retention time.Duration
	// MaxRows is the number of rows kept. Zero means any number.
	MaxRows int
	// Every is how long rows gather before they are written together. Zero
	// means 20 ms.
	Every time.Duration
	// Backlog is the number of unwritten rows beyond which Begin refuses. Zero
	// means 100,000.
	Backlog int
	// ReadOnly opens the ledger of another process. Zero means to own it.
	ReadOnly bool
	// Now is the clock for Retention. Zero means time.Now.
	Now func() time.Time
}

// The names in the data folder.
const (
	ledgerName = "ledger.db"
	lockName   = "ledger.lock"
)

func (c Config) withDefaults() Config {
	if c.Every == 0 {
		c.Every = 20 * time.Millisecond
	}
	if c.Backlog == 0 {
		c.Backlog = 100_000
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return c
}

// Ledger is an open ledger. It is safe for concurrent use.
type Ledger struct {
	path   string
	reader *sql.DB
	writer *writer // nil when opened for reading only
	lock   *sql.DB // holds the folder while it is open
}

// Open opens the ledger in cfg.Dir and closes the rows that a dead process
// left open. Call Close when done with it.
func Open(ctx context.Context, cfg Config) (*Ledger, error) {
	cfg = cfg.withDefaults()
	l := &Ledger{path: filepath.Join(cfg.Dir, ledgerName)}
	if err := l.open(ctx, cfg); err != nil {
		return nil, errors.Join(err, l.release())
	}
	return l, nil
}

func (l *Ledger) open(ctx context.Context, cfg Config) error {
	if cfg.ReadOnly {
		if _, err := os.Stat(l.path); err != nil {
			return fmt.Errorf("%w: %w; name the data folder of the proxy", ErrFolder, err)
		}
		return l.openReader(ctx)
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return fmt.Errorf("%w: %w; choose another one", ErrFolder, err)
	}
	if err := l.take(ctx, filepath.Join(cfg.Dir, lockName)); err != nil {
		return err
	}
	db, err := l.openFile(writerSettings)
	if err != nil {
		return err
	}
	l.writer = newWriter(db, l.path, cfg)
	if err := migrate(ctx, db, l.path); err != nil {
		return err
	}
	if err := recoverRows(ctx, db); err != nil {
		return fault(l.path, "close the rows of the last process", err)
	}
	if err := l.openReader(ctx); err != nil {
		return err
	}
	l.writer.start()
	return nil
}

// take locks the folder: an exclusive transaction on a file of its own, which
// the system ends with the process, however that dies.
func (l *Ledger) take(ctx context.Context, path string) error {
	probe, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("%w: %w; it must be writable", ErrFolder, err)
	}
	if err := probe.Close(); err != nil {
		return fmt.Errorf("%w: %w", ErrFolder, err)
	}
	name, err := source(path, "")
	if err != nil {
		return err
	}
	if l.lock, err = sql.Open("sqlite", name); err != nil {
		return fault(path, "open", err)
	}
	l.lock.SetMaxOpenConns(1)
	if _, err := l.lock.ExecContext(ctx, "BEGIN EXCLUSIVE"); err != nil {
		if busy(err) {
			return fmt.Errorf("%w: %s is locked by another oneslot: stop it, or use another data folder", ErrLocked, path)
		}
		return fault(path, "lock", err)
	}
	return nil
}

func (l *Ledger) openFile(settings string) (*sql.DB, error) {
	name, err := source(l.path, settings)
	if err != nil {
		return nil, err
	}
	db, err := sql.Open("sqlite", name)
	if err != nil {
		return nil, fault(l.path, "open", err)
	}
	db.SetMaxOpenConns(1)
	return db, nil
}

func (l *Ledger) openReader(ctx context.Context) error {
	db, err := l.openFile(readerSettings)
	if err != nil {
		return err
	}
	l.reader = db
	db.SetMaxOpenConns(2)
	db.SetConnMaxIdleTime(time.Minute)
	var rows int
	if err := db.QueryRowContext(ctx, "SELECT count(*) FROM (SELECT 1 FROM usage LIMIT 1)").Scan(&rows); err != nil {
		return fault(l.path, "read", err)
	}
	return nil
}

// recoverRows ends what a dead process left open. What those that ran had
// produced by then nobody knows.
func recoverRows(ctx context.Context, db *sql.DB) error {
	_, err := db.ExecContext(ctx, `UPDATE usage SET
		reason = CASE outcome WHEN 'running' THEN 'slot_lost' ELSE reason END,
		thinking = CASE outcome WHEN 'queued' THEN 0 ELSE thinking END,
		thinking_source = CASE outcome WHEN 'queued' THEN 'not_run' ELSE thinking_source END,
		answer = CASE outcome WHEN 'queued' THEN 0 ELSE answer END,
		answer_source = CASE outcome WHEN 'queued' THEN 'not_run' ELSE answer_source END,
		completion = CASE outcome WHEN 'queued' THEN 0 ELSE completion END,
		completion_source = CASE outcome WHEN 'queued' THEN 'not_run' ELSE completion_source END,
		outcome = CASE outcome WHEN 'running' THEN 'slot_lost' ELSE 'abandoned' END
		WHERE outcome IN ('queued', 'running')`)
	return err
}

// Close writes what has gathered, ends the writer and gives the folder back.
// It is safe to call it again.
func (l *Ledger) Close() error {
	var err error
	if l.writer != nil {
		err = l.writer.stop()
	}
	return errors.Join(err, l.release())
}

// release closes the files, the lock last.
func (l *Ledger) release() error {
	var err error
	if l.reader != nil {
		err = l.reader.Close()
	}
	if l.writer != nil {
		err = errors.Join(err, l.writer.db.Close())
	}
	if l.lock != nil {
		err = errors.Join(err, l.lock.Close())
	}
	if err != nil {
		return fmt.Errorf("ledger: %s: close: %w", l.path, err)
	}
	return nil
}
