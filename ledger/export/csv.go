package export

import (
	"encoding/csv"
	"io"

	"oneslot/ledger"
)

// MediaType is that of what Rows and Sums write.
const MediaType = "text/csv; charset=utf-8; header=present"

// Rows writes rows as CSV, page after page.
type Rows struct {
	w       *csv.Writer
	columns []column[ledger.Row]
	begun   bool
}

// NewRows returns a Rows that has written nothing.
func NewRows(w io.Writer) *Rows {
	return &Rows{w: csv.NewWriter(w), columns: rowColumns()}
}

// Write writes a page, before the first one the names of the columns.
func (c *Rows) Write(rows []ledger.Row) error {
	if !c.begun {
		c.begun = true
		head(c.w, c.columns)
	}
	body(c.w, c.columns, rows)
	c.w.Flush()
	return c.w.Error()
}

// Sums writes sums as CSV.
func Sums(w io.Writer, by ledger.By, sums []ledger.Sum) error {
	c := csv.NewWriter(w)
	columns := sumColumns(by)
	head(c, columns)
	body(c, columns, sums)
	c.Flush()
	return c.Error()
}

// head writes names. The error of a csv.Writer stays until it is asked for.
func head[T any](w *csv.Writer, columns []column[T]) {
	line := make([]string, len(columns))
	for i, c := range columns {
		line[i] = c.name
	}
	_ = w.Write(line)
}

func body[T any](w *csv.Writer, columns []column[T], lines []T) {
	cells := make([]string, len(columns))
	for i := range lines {
		for j, c := range columns {
			cells[j] = inert(c.cell(&lines[i]))
		}
		_ = w.Write(cells)
	}
}
