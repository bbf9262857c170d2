package ledger

import (
	"context"
	"database/sql"
)

// batch holds the newest form of each row, in the order of their first form.
type batch struct {
	rows  map[string]*Row
	order []string
}

func (b *batch) put(r *Row) {
	if b.rows == nil {
		b.rows = make(map[string]*Row)
	}
	if old, ok := b.rows[r.ID]; !ok {
		b.order = append(b.order, r.ID)
	} else if !old.Outcome.Open() {
		return
	}
	b.rows[r.ID] = r
}

// cut divides b after n rows.
func (b batch) cut(n int) (head, tail batch) {
	if len(b.order) <= n {
		return b, batch{}
	}
	for i, id := range b.order {
		if i < n {
			head.put(b.rows[id])
		} else {
			tail.put(b.rows[id])
		}
	}
	return head, tail
}

// merge puts the rows of older before those of newer.
func merge(older, newer batch) batch {
	for _, id := range newer.order {
		older.put(newer.rows[id])
	}
	return older
}

// transact writes rows and deletes what is too old or too many, in one
// transaction. It reports whether there may be more to delete.
func (w *writer) transact(ctx context.Context, rows batch) (more bool, err error) {
	tx, err := w.db.BeginTx(ctx, nil)
	if err != nil {
		return false, err
	}
	defer func() { _ = tx.Rollback() }()
	if err := insert(ctx, tx, rows); err != nil {
		return false, err
	}
	if more, err = w.sweep(ctx, tx); err != nil {
		return false, err
	}
	return more, tx.Commit()
}

func insert(ctx context.Context, tx *sql.Tx, rows batch) error {
	if len(rows.order) == 0 {
		return nil
	}
	put, err := tx.PrepareContext(ctx, upsert())
	if err != nil {
		return err
	}
	defer func() { _ = put.Close() }()
	for _, id := range rows.order {
		if _, err := put.ExecContext(ctx, rows.rows[id].values()...); err != nil {
			return err
		}
	}
	return nil
}

// sweep deletes at most maxBatch rows by age and as many by number.
func (w *writer) sweep(ctx context.Context, tx *sql.Tx) (more bool, err error) {
	var byAge, byNumber int64
	if w.cfg.Retention > 0 {
		oldest := w.cfg.Now().Add(-w.cfg.Retention).UnixMilli()
		byAge, err = remove(ctx, tx, "created < ?", oldest)
		if err != nil {
			return false, err
		}
	}
	if w.cfg.MaxRows > 0 {
		// Rows are numbered without gaps but for those deleted from the old end.
		byNumber, err = remove(ctx, tx, "seq <= (SELECT max(seq) FROM usage) - ?", int64(w.cfg.MaxRows))
		if err != nil {
			return false, err
		}
	}
	return byAge == maxBatch || byNumber == maxBatch, nil
}

// remove deletes ended rows that meet the condition, at most maxBatch.
func remove(ctx context.Context, tx *sql.Tx, condition string, limit int64) (int64, error) {
	done, err := tx.ExecContext(ctx, "DELETE FROM usage WHERE seq IN (SELECT seq FROM usage WHERE "+condition+
		" AND outcome NOT IN ('queued','running') LIMIT ?)", limit, maxBatch)
	if err != nil {
		return 0, err
	}
	return done.RowsAffected()
}
