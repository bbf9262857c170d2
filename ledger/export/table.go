package export

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"oneslot/ledger"
)

// rowTable writes rows as a table of what a person looks for first.
func rowTable(w io.Writer, rows []ledger.Row) error {
	return table(w, "created (UTC)\tid\tkey\tmodel\toutcome\twait\tslot\tprompt\tthinking\tanswer", len(rows), func(i int) []string {
		r := &rows[i]
		outcome := string(r.Outcome)
		if r.Reason != "" && r.Reason != outcome {
			outcome += " (" + r.Reason + ")"
		}
		return []string{
			r.Created.UTC().Format(time.DateTime), r.ID, r.Key, r.Model, outcome, ended(r, r.QueueWait, span), ended(r, r.Slot, span),
			figure(&r.Tokens.Prompt), figure(&r.Tokens.Thinking), figure(&r.Tokens.Answer),
		}
	})
}

// rowList writes all that is known of a row, under the names that CSV gives it.
func rowList(w io.Writer, r *ledger.Row) error {
	columns := rowColumns()
	return table(w, "field\tvalue", len(columns), func(i int) []string {
		return []string{columns[i].name, columns[i].cell(r)}
	})
}

// sumTable writes sums as a table; the percentiles are those of the wait and of
// the time in the slot.
func sumTable(w io.Writer, by ledger.By, sums []ledger.Sum) error {
	head := string(by) + "\trequests\tserved\tprompt\tcached\tthinking\tanswer\tslot\twait p50\tp90\tp99\tslot p50\tp90\tp99"
	return table(w, head, len(sums), func(i int) []string {
		s := &sums[i]
		line := []string{
			s.Group, strconv.Itoa(s.Requests), strconv.Itoa(s.Outcomes[ledger.Served]),
			known(s.Tokens.Prompt), known(s.Tokens.CachedPrompt), known(s.Tokens.Thinking), known(s.Tokens.Answer), long(s.SlotMS),
		}
		for _, p := range []ledger.Percentiles{s.QueueWait, s.Slot} {
			line = append(line, long(p.P50), long(p.P90), long(p.P99))
		}
		return line
	})
}

// table aligns lines of cells, and says so if there are none.
func table(w io.Writer, head string, n int, line func(i int) []string) error {
	if n == 0 {
		_, err := fmt.Fprintln(w, "No requests.")
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, head)
	for i := range n {
		cells := line(i)
		for j, cell := range cells {
			if cells[j] = plain(cell); cell == "" {
				cells[j] = "-"
			}
		}
		fmt.Fprintln(t, strings.Join(cells, "\t"))
	}
	return t.Flush()
}

func long(ms int64) string { return span(time.Duration(ms) * time.Millisecond) }

// span is a duration as a person says it: 1.7s, 2m5s, 3h12m0s.
func span(d time.Duration) string {
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	default:
		return d.Round(time.Second).String()
	}
}
