package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"oneslot/ledger"
	"oneslot/ledger/export"
	"oneslot/ledger/live"
	"oneslot/ledger/sqlite"
	"oneslot/proxy/surface"

	"github.com/spf13/cobra"
)

// usageFlags are the flags of `oneslot usage`.
type usageFlags struct {
	remoteFlags
	data, since, until, by, format, name, model, outcome string
	limit                                                int
}

func usageCommand(w *world) *cobra.Command {
	var f usageFlags
	c := &cobra.Command{
		Use: "usage [ID]", Short: "Show the ledger: who used how much", Args: atMostOne,
		Long: "usage shows what one request used, or lists requests, newest first, or adds them\n" +
			"up. It asks a running proxy, or with --data reads the file of one that need not\n" +
			"run. A table shows the newest 50; csv and json are everything that was asked for.",
		Example: "  oneslot usage --by key --since 7d\n  oneslot usage --since 2026-11-01 --until 2026-12-01 --format csv >november.csv\n  oneslot usage --data ./data --by day",
		RunE:    func(c *cobra.Command, args []string) error { return f.run(c.Context(), w, args) },
	}
	s := c.Flags()
	f.add(s)
	s.StringVar(&f.data, "data", "", "data `folder` to read in place of asking a proxy")
	s.StringVar(&f.since, "since", "", "first `time`: 2026-11-30, 2026-11-30T15:00:00Z, seconds since 1970, or 24h or 7d ago")
	s.StringVar(&f.until, "until", "", "`time` before which requests came, as for --since")
	s.StringVar(&f.by, "by", "", "add up by key, model or day (in UTC)")
	s.StringVar(&f.format, "format", "table", "table, json or csv")
	s.StringVar(&f.name, "key-name", "", "only requests of the key of this name")
	s.StringVar(&f.model, "model", "", "only requests for this model")
	s.StringVar(&f.outcome, "outcome", "", "only requests that ended so, such as served or client_gone")
	s.IntVar(&f.limit, "limit", 0, "most requests to list (default 50 in a table, else all)")
	return c
}

// atMostOne refuses a second id.
func atMostOne(c *cobra.Command, args []string) error {
	if len(args) > 1 {
		return fmt.Errorf("%w: %s takes one id, got %q too", errUsage, c.CommandPath(), args[1])
	}
	return nil
}

// A book is where the rows are: a proxy or a file.
type book interface {
	Get(ctx context.Context, id string) (ledger.Row, error)
	List(ctx context.Context, q ledger.Query) (rows []ledger.Row, next string, err error)
	Sum(ctx context.Context, q ledger.Query, by ledger.By) ([]ledger.Sum, error)
}

func (f *usageFlags) run(ctx context.Context, w *world, args []string) error {
	q, err := f.query(time.Now())
	if err != nil {
		return err
	}
	b, done, err := f.open(ctx, w)
	if err != nil {
		return err
	}
	defer done()
	p := export.NewPrinter(w.out, export.Format(f.format))
	switch {
	case len(args) > 0:
		row, err := b.Get(ctx, surface.RequestID(args[0]))
		if err != nil {
			return err
		}
		return p.Row(row)
	case f.by != "":
		sums, err := b.Sum(ctx, q, ledger.By(f.by))
		if err != nil {
			return err
		}
		return p.Sums(ledger.By(f.by), sums)
	}
	return f.list(ctx, p, b, q)
}

// query turns the flags into a question. All faults are of the command line.
func (f *usageFlags) query(now time.Time) (q ledger.Query, err error) {
	q = ledger.Query{Key: f.name, Model: f.model, Outcome: ledger.Outcome(f.outcome)}
	if q.Since, err = ledger.ParseMoment(f.since, now); err != nil {
		return q, fmt.Errorf("%w: --since: %w", errUsage, err)
	}
	if q.Until, err = ledger.ParseMoment(f.until, now); err != nil {
		return q, fmt.Errorf("%w: --until: %w", errUsage, err)
	}
	switch {
	case f.by != "" && !ledger.By(f.by).Valid():
		return q, fmt.Errorf("%w: --by is %q; it must be key, model or day", errUsage, f.by)
	case f.outcome != "" && !q.Outcome.Valid():
		return q, fmt.Errorf("%w: --outcome is %q; it must be one of %s", errUsage, f.outcome, outcomes())
	case !export.Format(f.format).Valid():
		return q, fmt.Errorf("%w: --format is %q; it must be table, json or csv", errUsage, f.format)
	case f.limit < 0:
		return q, fmt.Errorf("%w: --limit must not be negative", errUsage)
	case f.limit == 0 && f.format == string(export.Table):
		f.limit = 50
	}
	return q, nil
}

func outcomes() string {
	var words []string
	for _, o := range ledger.Outcomes() {
		words = append(words, string(o))
	}
	return strings.Join(words, ", ")
}

// open finds the rows. The caller calls done.
func (f *usageFlags) open(ctx context.Context, w *world) (b book, done func(), err error) {
	if f.data == "" {
		client, err := f.client(w)
		if err != nil {
			return nil, nil, err
		}
		return live.New(client), client.Close, nil
	}
	l, err := sqlite.Open(ctx, ledger.Config{Dir: f.data, ReadOnly: true})
	if err != nil {
		return nil, nil, fmt.Errorf("--data: %w", err)
	}
	return l, func() { _ = l.Close() }, nil
}

// list writes pages as they come.
func (f *usageFlags) list(ctx context.Context, p *export.Printer, b book, q ledger.Query) error {
	for left := f.limit; ; {
		if q.Limit = 1000; left > 0 {
			q.Limit = min(left, q.Limit)
		}
		rows, next, err := b.List(ctx, q)
		if err != nil {
			return err
		}
		if err := p.Page(rows); err != nil {
			return err
		}
		if left -= len(rows); next == "" || f.limit > 0 && left <= 0 {
			return p.End()
		}
		q.After = next
	}
}
