package ledger_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"oneslot/ledger"
)

// BenchmarkMillion asks a ledger of a million rows, of ninety days, for the sums
// of one day and of all of them.
func BenchmarkMillion(b *testing.B) { many(b, folder{b.TempDir()}, 1_000_000) }

// BenchmarkHundredThousandInRedis is the same of what Redis keeps by default.
func BenchmarkHundredThousandInRedis(b *testing.B) { many(b, newServer(b), 100_000) }

func many(b *testing.B, p place, rows int) {
	b.Helper()
	const days = 90
	l := at(b, p, ledger.Config{Backlog: 2 * rows})
	for n := range rows {
		r := served(n)
		r.Created = start.Add(time.Duration(n) * (days * 24 * time.Hour / time.Duration(rows)))
		r.Key, r.Model = fmt.Sprintf("team-%02d", n*7%20), []string{"ripple", "other"}[n%2]
		r.QueueWait = time.Duration(n*7919%600_000) * time.Millisecond
		if n%10 == 9 {
			r.Outcome = ledger.ClientGone
		}
		must(b, l.Finish(r))
		if n%50_000 == 0 {
			must(b, l.Flush(context.Background()))
		}
	}
	must(b, l.Flush(context.Background()))
	day := ledger.Query{Since: start.Add(45 * 24 * time.Hour), Until: start.Add(46 * 24 * time.Hour)}
	mine := day
	mine.Key = "team-07"
	for _, c := range []struct {
		name string
		q    ledger.Query
		by   ledger.By
	}{{"a_day/key", day, ledger.ByKey}, {"a_day/model", day, ledger.ByModel}, {"a_day/day", day, ledger.ByDay}, {"a_day/one_key", mine, ledger.ByModel}, {"all/key", ledger.Query{}, ledger.ByKey}} {
		b.Run(c.name, func(b *testing.B) {
			b.Helper()
			for b.Loop() {
				if sums, err := l.Sum(b.Context(), c.q, c.by); err != nil || len(sums) == 0 {
					b.Fatal(sums, err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Milliseconds())/float64(b.N), "ms/op")
		})
	}
	b.Run("a_page", func(b *testing.B) {
		for b.Loop() {
			if rows, _, err := l.List(b.Context(), day); err != nil || len(rows) != 100 {
				b.Fatal(len(rows), err)
			}
		}
	})
}
