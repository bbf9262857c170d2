package export

import (
	"encoding/json"
	"fmt"
	"io"

	"oneslot/ledger"
)

// Format is how lines are written.
type Format string

// The formats.
const (
	Table Format = "table"
	JSON  Format = "json"
	CSV   Format = "csv"
)

// Valid reports whether f is one of the formats.
func (f Format) Valid() bool { return f == Table || f == JSON || f == CSV }

// A Printer writes in one of the formats. CSV and JSON are written as the pages
// come; a table is measured first, so End writes it.
type Printer struct {
	out    io.Writer
	format Format
	csv    *Rows
	rows   []ledger.Row // of the table
	begun  bool         // the JSON
}

// NewPrinter returns a Printer that has written nothing.
func NewPrinter(out io.Writer, format Format) *Printer {
	return &Printer{out: out, format: format, csv: NewRows(out)}
}

// Page takes the next rows of a list.
func (p *Printer) Page(rows []ledger.Row) error {
	switch p.format {
	case CSV:
		return p.csv.Write(rows)
	case Table:
		p.rows = append(p.rows, rows...)
		return nil
	case JSON:
	}
	for _, r := range rows {
		text, err := json.Marshal(r)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(p.out, "%s%s", p.before(), text); err != nil {
			return err
		}
	}
	return nil
}

// before is what stands before the next object of the list.
func (p *Printer) before() string {
	if p.begun {
		return ",\n"
	}
	p.begun = true
	return `{"object":"list","data":[` + "\n"
}

// End ends a list.
func (p *Printer) End() error {
	switch p.format {
	case CSV:
		return nil
	case Table:
		return rowTable(p.out, p.rows)
	case JSON:
	}
	end := "\n]}\n"
	if !p.begun {
		end = p.before() + "]}\n"
	}
	_, err := io.WriteString(p.out, end)
	return err
}

// Row writes one row: as JSON an object, not a list, and for a terminal all that is
// known of it, a line for each figure.
func (p *Printer) Row(row ledger.Row) error {
	switch p.format {
	case JSON:
		return p.object(row)
	case Table:
		return rowList(p.out, &row)
	case CSV:
	}
	return p.Page([]ledger.Row{row})
}

// Sums writes sums.
func (p *Printer) Sums(by ledger.By, sums []ledger.Sum) error {
	switch p.format {
	case CSV:
		return Sums(p.out, by, sums)
	case Table:
		return sumTable(p.out, by, sums)
	case JSON:
	}
	if sums == nil {
		sums = []ledger.Sum{}
	}
	return p.object(map[string]any{"object": "list", "data": sums})
}

func (p *Printer) object(v any) error {
	enc := json.NewEncoder(p.out)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}
