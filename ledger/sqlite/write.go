package sqlite

import (
	"context"
	"database/sql"
	"fmt"

	"oneslot/ledger"
)

// Write keeps the rows and deletes what is too old or too many, in one
// transaction.
func (s *store) Write(ctx context.Context, rows []*ledger.Row, keep ledger.Keep) (more bool, err error) {
	more, err = s.transact(ctx, rows, keep)
	return more, fault(s.path, "write", err)
}

func (s *store) transact(ctx context.Context, rows []*ledger.Row, keep ledger.Keep) (more bool, err error) {
	tx, err := s.writer.BeginTx(ctx, nil)
	if err != nil {
		return false, err
	}
	defer func() { _ = tx.Rollback() }()
	if err := s.insert(ctx, tx, rows); err != nil {
		return false, err
	}
	if more, err = s.sweep(ctx, tx, keep); err != nil {
		return false, err
	}
	return more, tx.Commit()
}

// writing are the statements of Write. They are made once: SQLite would take longer to
// read them than to write a few rows.
type writing struct {
	put, byAge, byNumber *sql.Stmt
}

// prepare makes the statements.
func (s *store) prepare(ctx context.Context) (err error) {
	for _, one := range []struct {
		to   **sql.Stmt
		text string
	}{
		{&s.writing.put, upsert()},
		{&s.writing.byAge, remove("created < ?")},
		// Rows are numbered without gaps but for those deleted from the old end.
		{&s.writing.byNumber, remove("seq <= (SELECT max(seq) FROM usage) - ?")},
	} {
		if *one.to, err = s.writer.PrepareContext(ctx, one.text); err != nil {
			return fault(s.path, "prepare to write", err)
		}
	}
	return nil
}

func (s *store) insert(ctx context.Context, tx *sql.Tx, rows []*ledger.Row) error {
	if len(rows) == 0 {
		return nil
	}
	put := tx.StmtContext(ctx, s.writing.put)
	for _, r := range rows {
		if _, err := put.ExecContext(ctx, values(r)...); err != nil {
			return err
		}
	}
	return nil
}

// sweep deletes by age and by number.
func (s *store) sweep(ctx context.Context, tx *sql.Tx, keep ledger.Keep) (more bool, err error) {
	var byAge, byNumber int64
	if !keep.Since.IsZero() {
		if byAge, err = erase(ctx, tx.StmtContext(ctx, s.writing.byAge), keep.Since.UnixMilli()); err != nil {
			return false, err
		}
	}
	if keep.Most > 0 {
		if byNumber, err = erase(ctx, tx.StmtContext(ctx, s.writing.byNumber), int64(keep.Most)); err != nil {
			return false, err
		}
	}
	return byAge == ledger.MaxDelete || byNumber == ledger.MaxDelete, nil
}

// remove is the statement that deletes ended rows that meet a condition on a number.
func remove(condition string) string {
	return fmt.Sprintf("DELETE FROM usage WHERE seq IN (SELECT seq FROM usage WHERE %s AND outcome NOT IN ('queued','running') LIMIT %d)", condition, ledger.MaxDelete)
}

// erase runs a statement of remove and says how many rows it has deleted.
func erase(ctx context.Context, rows *sql.Stmt, limit int64) (int64, error) {
	done, err := rows.ExecContext(ctx, limit)
	if err != nil {
		return 0, err
	}
	return done.RowsAffected()
}
