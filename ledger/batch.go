package ledger

// batch holds the newest form of each row, in the order of their first form.
type batch struct {
	rows  map[string]*Row
	order []string
}

// put takes the newest form of a row. What has ended stays as it is.
func (b *batch) put(r *Row) {
	if b.rows == nil {
		b.rows = make(map[string]*Row)
	}
	switch old, ok := b.rows[r.ID]; {
	case !ok:
		own := *r
		b.rows[r.ID] = &own
		b.order = append(b.order, r.ID)
	case old.Outcome.Open():
		*old = *r
	}
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

// list is the rows in their order.
func (b *batch) list() []*Row {
	rows := make([]*Row, 0, len(b.order))
	for _, id := range b.order {
		rows = append(rows, b.rows[id])
	}
	return rows
}
