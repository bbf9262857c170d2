package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"oneslot/ledger"
)

// The names in the data folder.
const (
	ledgerName = "ledger.db"
	lockName   = "ledger.lock"
)

// store is the file. All its fields are set once.
type store struct {
	end     sync.Once
	path    string
	reader  *sql.DB
	writer  *sql.DB // nil when opened for reading only
	writing writing
	lock    *sql.DB // holds the folder while it is open
}

// Open opens the ledger in cfg.Dir and closes the rows that a dead process
// left open. Call Close when done with it.
func Open(ctx context.Context, cfg ledger.Config) (*ledger.Ledger, error) {
	s := &store{path: filepath.Join(cfg.Dir, ledgerName)}
	if err := s.open(ctx, cfg); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return ledger.New(s, cfg), nil
}

// Usable reports what would keep Open from making its folder, or from writing in it.
// It leaves nothing behind.
func Usable(dir string) error {
	info, err := os.Stat(dir)
	for up := filepath.Dir(dir); errors.Is(err, os.ErrNotExist) && up != dir; up = filepath.Dir(dir) {
		dir = up
		info, err = os.Stat(dir)
	}
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s is no folder", dir)
	}
	var trial string
	if err == nil {
		trial, err = os.MkdirTemp(dir, ".oneslot-")
	}
	if err == nil {
		err = os.Remove(trial)
	}
	if err != nil {
		return fmt.Errorf("%w: %w; choose another one", ledger.ErrFolder, err)
	}
	return nil
}

func (s *store) open(ctx context.Context, cfg ledger.Config) error {
	if cfg.ReadOnly {
		if _, err := os.Stat(s.path); err != nil {
			return fmt.Errorf("%w: %w; name the data folder of the proxy", ledger.ErrFolder, err)
		}
		return s.openReader(ctx)
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return fmt.Errorf("%w: %w; choose another one", ledger.ErrFolder, err)
	}
	if err := s.take(ctx, filepath.Join(cfg.Dir, lockName)); err != nil {
		return err
	}
	var err error
	if s.writer, err = s.openFile(writerSettings); err != nil {
		return err
	}
	if err := migrate(ctx, s.writer, s.path); err != nil {
		return err
	}
	lost, err := recoverRows(ctx, s.writer)
	if err != nil {
		return fault(s.path, "close the rows of the last process", err)
	}
	if err := s.prepare(ctx); err != nil {
		return err
	}
	cfg.Tell(lost)
	return s.openReader(ctx)
}

// take locks the folder: an exclusive transaction on a file of its own, which
// the system ends with the process, however that dies.
func (s *store) take(ctx context.Context, path string) error {
	probe, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("%w: %w; it must be writable", ledger.ErrFolder, err)
	}
	if err := probe.Close(); err != nil {
		return fmt.Errorf("%w: %w", ledger.ErrFolder, err)
	}
	name, err := source(path, "")
	if err != nil {
		return err
	}
	if s.lock, err = sql.Open("sqlite", name); err != nil {
		return fault(path, "open", err)
	}
	s.lock.SetMaxOpenConns(1)
	if _, err := s.lock.ExecContext(ctx, "BEGIN EXCLUSIVE"); err != nil {
		if busy(err) {
			return fmt.Errorf("%w: %s is locked by another oneslot: stop it, or use another data folder", ledger.ErrLocked, path)
		}
		return fault(path, "lock", err)
	}
	return nil
}

func (s *store) openFile(settings string) (*sql.DB, error) {
	name, err := source(s.path, settings)
	if err != nil {
		return nil, err
	}
	db, err := sql.Open("sqlite", name)
	if err != nil {
		return nil, fault(s.path, "open", err)
	}
	db.SetMaxOpenConns(1)
	return db, nil
}

func (s *store) openReader(ctx context.Context) error {
	db, err := s.openFile(readerSettings)
	if err != nil {
		return err
	}
	s.reader = db
	db.SetMaxOpenConns(2)
	db.SetConnMaxIdleTime(time.Minute)
	var rows int
	if err := db.QueryRowContext(ctx, "SELECT count(*) FROM (SELECT 1 FROM usage LIMIT 1)").Scan(&rows); err != nil {
		return fault(s.path, "read", err)
	}
	return nil
}

// recoverRows ends what a dead process left open, and returns it as it ended. What
// those that ran had produced by then nobody knows.
func recoverRows(ctx context.Context, db *sql.DB) (lost []ledger.Row, err error) {
	ended, err := db.QueryContext(ctx, `UPDATE usage SET
		reason = 'process_died',
		queue_wait_ms = CASE outcome WHEN 'queued' THEN -1 ELSE queue_wait_ms END,
		prefill_ms = CASE outcome WHEN 'running' THEN -1 ELSE prefill_ms END,
		thinking_ms = CASE outcome WHEN 'running' THEN -1 ELSE thinking_ms END,
		answer_ms = CASE outcome WHEN 'running' THEN -1 ELSE answer_ms END,
		slot_ms = CASE outcome WHEN 'running' THEN -1 ELSE slot_ms END,
		thinking = CASE outcome WHEN 'queued' THEN 0 ELSE thinking END,
		thinking_source = CASE outcome WHEN 'queued' THEN 'not_run' ELSE thinking_source END,
		answer = CASE outcome WHEN 'queued' THEN 0 ELSE answer END,
		answer_source = CASE outcome WHEN 'queued' THEN 'not_run' ELSE answer_source END,
		completion = CASE outcome WHEN 'queued' THEN 0 ELSE completion END,
		completion_source = CASE outcome WHEN 'queued' THEN 'not_run' ELSE completion_source END,
		outcome = CASE outcome WHEN 'running' THEN 'slot_lost' ELSE 'abandoned' END
		WHERE outcome IN ('queued', 'running') RETURNING `+columns)
	if err != nil {
		return nil, err
	}
	defer func() { _ = ended.Close() }()
	for ended.Next() {
		row, err := scan(ended.Scan)
		if err != nil {
			return nil, err
		}
		lost = append(lost, row)
	}
	return lost, ended.Err()
}

// closeWithin bounds the last checkpoint.
const closeWithin = 10 * time.Second

// Close folds the log into the file and closes both, the lock last. It is safe to
// call it again.
func (s *store) Close() (err error) {
	s.end.Do(func() { err = s.close() })
	return err
}

func (s *store) close() error {
	var err error
	if s.writer != nil {
		err = s.checkpoint()
	}
	for _, db := range []*sql.DB{s.reader, s.writer, s.lock} {
		if db != nil {
			err = errors.Join(err, db.Close())
		}
	}
	if err != nil {
		return fmt.Errorf("ledger: %s: close: %w", s.path, err)
	}
	return nil
}

func (s *store) checkpoint() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeWithin)
	defer cancel()
	_, err := s.writer.ExecContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)")
	if err == nil || errors.Is(err, context.DeadlineExceeded) || busy(err) {
		return nil // readers hold it open; the next Open takes it over
	}
	return fault(s.path, "checkpoint", err)
}
