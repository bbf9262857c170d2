package report

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"oneslot/internal/openai"
	"oneslot/ledger"
	"oneslot/ledger/export"
)

// A Desk answers one request.
type Desk struct {
	// Ledger has the rows.
	Ledger *ledger.Ledger
	// To is where the answer goes.
	To http.ResponseWriter
	// Page is called before each page is written, to give it its time.
	Page func()
}

// NextAfter is the header that names the After of the next page of CSV.
const NextAfter = "X-Oneslot-Next-After"

// Answer writes what was asked for. After an error nothing has been written,
// unless the answer was more than a page of CSV: then it has broken off.
func (d *Desk) Answer(ctx context.Context, a Ask) error {
	switch {
	case a.By != "":
		return d.sums(ctx, a)
	case a.CSV:
		return d.csv(ctx, a)
	}
	rows, next, err := d.Ledger.List(ctx, a.Query)
	if err != nil {
		return refusal(err)
	}
	return d.list(rows, next)
}

// Row writes one row.
func (d *Desk) Row(row ledger.Row, csv bool) error {
	if !csv {
		return d.json(row)
	}
	d.head("")
	return export.NewRows(d.To).Write([]ledger.Row{row})
}

func (d *Desk) sums(ctx context.Context, a Ask) error {
	sums, err := d.Ledger.Sum(ctx, a.Query, a.By)
	switch {
	case err != nil:
		return refusal(err)
	case a.CSV:
		d.head("")
		return export.Sums(d.To, a.By, sums)
	}
	if sums == nil {
		sums = []ledger.Sum{}
	}
	return d.list(sums, "")
}

// csv writes one page if a limit is named, else all of them.
func (d *Desk) csv(ctx context.Context, a Ask) error {
	all := a.Query.Limit == 0
	if all {
		a.Query.Limit = 1000
	}
	out := export.NewRows(d.To)
	for begun := false; ; begun = true {
		rows, next, err := d.Ledger.List(ctx, a.Query)
		switch {
		case err != nil && begun:
			panic(http.ErrAbortHandler) // so that nobody takes the part for the whole
		case err != nil:
			return refusal(err)
		case !begun && all:
			d.head("")
		case !begun:
			d.head(next)
		}
		d.Page()
		if err := out.Write(rows); err != nil || !all || next == "" {
			return err
		}
		a.Query.After = next
	}
}

func (d *Desk) head(next string) {
	h := d.To.Header()
	h.Set("Content-Type", export.MediaType)
	h.Set("Content-Disposition", `attachment; filename="usage.csv"`)
	if next != "" {
		h.Set(NextAfter, next)
	}
}

// list writes a page as JSON.
func (d *Desk) list(data any, next string) error {
	if rows, ok := data.([]ledger.Row); ok && rows == nil {
		data = []ledger.Row{}
	}
	var after *string
	if next != "" {
		after = &next
	}
	return d.json(map[string]any{"object": "list", "data": data, "has_more": next != "", "next_after": after})
}

func (d *Desk) json(v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	d.To.Header().Set("Content-Type", "application/json")
	_, err = d.To.Write(append(text, '\n'))
	return err
}

// refusal is an error in the client's words, if the fault is the client's.
func refusal(err error) error {
	if errors.Is(err, ledger.ErrInvalid) {
		return openai.Invalid("", "invalid_value", "%s.", strings.TrimPrefix(err.Error(), ledger.ErrInvalid.Error()+": "))
	}
	return err
}
