package sqlite

import (
	"context"
	"database/sql"

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
	if err := insert(ctx, tx, rows); err != nil {
		return false, err
	}
	if more, err = sweep(ctx, tx, keep); err != nil {
		return false, err
	}
	return more, tx.Commit()
}

func insert(ctx context.Context, tx *sql.Tx, rows []*ledger.Row) error {
	if len(rows) == 0 {
		return nil
	}
	put, err := tx.PrepareContext(ctx, upsert())
	if err != nil {
		return err
	}
	defer func() { _ = put.Close() }()
	for _, r := range rows {
		if _, err := put.ExecContext(ctx, values(r)...); err != nil {
			return err
		}
	}
	return nil
}

// sweep deletes by age and by number.
func sweep(ctx context.Context, tx *sql.Tx, keep ledger.Keep) (more bool, err error) {
	var byAge, byNumber int64
	if !keep.Since.IsZero() {
		byAge, err = remove(ctx, tx, "created < ?", keep.Since.UnixMilli())
		if err != nil {
			return false, err
		}
	}
	if keep.Most > 0 {
		// Rows are numbered without gaps but for those deleted from the old end.
		byNumber, err = remove(ctx, tx, "seq <= (SELECT max(seq) FROM usage) - ?", int64(keep.Most))
		if err != nil {
			return false, err
		}
	}
	return byAge == ledger.MaxDelete || byNumber == ledger.MaxDelete, nil
}

// remove deletes ended rows that meet the condition.
func remove(ctx context.Context, tx *sql.Tx, condition string, limit int64) (int64, error) {
	done, err := tx.ExecContext(ctx, "DELETE FROM usage WHERE seq IN (SELECT seq FROM usage WHERE "+condition+
		" AND outcome NOT IN ('queued','running') LIMIT ?)", limit, ledger.MaxDelete)
	if err != nil {
		return 0, err
	}
	return done.RowsAffected()
}
