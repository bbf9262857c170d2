package ledger_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"oneslot/ledger"
	"oneslot/usage"
)

// filled is a ledger of twelve rows of two keys, two models and three days.
func filled(t *testing.T, p place) *ledger.Ledger {
	t.Helper()
	l := at(t, p, ledger.Config{})
	for n := range 12 {
		r := served(n)
		r.Created = start.Add(time.Duration(n) * 6 * time.Hour)
		r.Key = []string{"team-a", "team-b"}[n%2]
		r.Model = []string{"ripple", "ripple", "other"}[n%3]
		r.QueueWait, r.Slot = time.Duration(n)*time.Second, time.Duration(70+n)*time.Second
		if n%4 == 3 {
			r.Outcome, r.Tokens = ledger.Abandoned, usage.NotRun()
			r.Slot, r.Engine = 0, ""
		}
		must(t, l.Finish(r))
	}
	must(t, l.Begin(ledger.Row{ID: id(100), Created: start, Key: "team-c", Model: "ripple", QueueWait: time.Minute}))
	return l
}

func TestList(t *testing.T) { each(t, onList) }

func onList(t *testing.T, p place) {
	t.Helper()
	l := filled(t, p)
	day := 24 * time.Hour
	for _, tc := range []struct {
		name string
		q    ledger.Query
		want []int
	}{
		{"newest first", ledger.Query{Limit: 3}, []int{11, 10, 9}},
		{"by key", ledger.Query{Key: "team-b", Limit: 2}, []int{11, 9}},
		{"by model", ledger.Query{Model: "other"}, []int{11, 8, 5, 2}},
		{"by outcome", ledger.Query{Outcome: ledger.Abandoned}, []int{11, 7, 3}},
		{"open ones", ledger.Query{Outcome: ledger.Queued}, []int{100}},
		{"since is included", ledger.Query{Since: start.Add(66 * time.Hour)}, []int{11}},
		{"until is not", ledger.Query{Until: start.Add(6 * time.Hour)}, []int{100, 0}},
		{"a day", ledger.Query{Since: start.Add(day), Until: start.Add(2 * day)}, []int{7, 6, 5, 4}},
		{"all together", ledger.Query{Since: start.Add(day), Until: start.Add(2 * day), Key: "team-b", Model: "other", Outcome: ledger.Served}, []int{5}},
		{"none", ledger.Query{Key: "nobody"}, nil},
		{"after one", ledger.Query{After: id(2)}, []int{1, 100, 0}},
		{"after the last one", ledger.Query{After: id(0)}, nil},
		{"after one that is no more", ledger.Query{After: id(77)}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			rows, _, err := l.List(t.Context(), tc.q)
			must(t, err)
			var got []string
			for _, r := range rows {
				got = append(got, r.ID)
			}
			var want []string
			for _, n := range tc.want {
				want = append(want, id(n))
			}
			if strings.Join(got, " ") != strings.Join(want, " ") {
				t.Errorf("got  %v\nwant %v", got, want)
			}
		})
	}
}

// TestPages walks through all rows, whatever the size of a page.
func TestPages(t *testing.T) { each(t, onPages) }

func onPages(t *testing.T, p place) {
	t.Helper()
	l := filled(t, p)
	for _, limit := range []int{1, 2, 5, 12, 13, 14} {
		var q ledger.Query
		q.Limit = limit
		seen := map[string]bool{}
		for pages := 0; ; pages++ {
			rows, next, err := l.List(t.Context(), q)
			must(t, err)
			for _, r := range rows {
				if seen[r.ID] {
					t.Fatalf("limit %d: row %s came twice", limit, r.ID)
				}
				seen[r.ID] = true
			}
			if next == "" {
				break
			}
			if len(rows) != limit || next != rows[limit-1].ID {
				t.Fatalf("limit %d: %d rows, next %s", limit, len(rows), next)
			}
			q.After = next
		}
		if len(seen) != 13 {
			t.Errorf("limit %d: %d rows, want 13", limit, len(seen))
		}
	}
}

func TestSum(t *testing.T) { each(t, onSum) }

func onSum(t *testing.T, p place) {
	t.Helper()
	l := filled(t, p)
	for _, tc := range []struct {
		by   ledger.By
		q    ledger.Query
		want []string
	}{
		{ledger.ByKey, ledger.Query{}, []string{
			`{"key":"team-a","requests":6,"outcomes":{"served":6},"tokens":{"prompt":4872,"cached_prompt":0,"thinking":3840,"answer":612,"completion":4452},"slot_ms":450000,"queue_wait_ms":{"p50":4000,"p90":10000,"p99":10000},"slot_hold_ms":{"p50":74000,"p90":80000,"p99":80000}}`,
			`{"key":"team-b","requests":6,"outcomes":{"abandoned":3,"served":3},"tokens":{"prompt":2436,"cached_prompt":0,"thinking":1920,"answer":306,"completion":2226},"slot_ms":225000,"queue_wait_ms":{"p50":5000,"p90":11000,"p99":11000},"slot_hold_ms":{"p50":75000,"p90":79000,"p99":79000}}`,
			`{"key":"team-c","requests":1,"outcomes":{"queued":1},"tokens":{"prompt":null,"cached_prompt":null,"thinking":null,"answer":null,"completion":null},"slot_ms":0,"queue_wait_ms":{"p50":0,"p90":0,"p99":0},"slot_hold_ms":{"p50":0,"p90":0,"p99":0}}`,
		}},
		{ledger.ByModel, ledger.Query{Outcome: ledger.Abandoned}, []string{
			`{"model":"other","requests":1,"outcomes":{"abandoned":1},"tokens":{"prompt":null,"cached_prompt":null,"thinking":0,"answer":0,"completion":0},"slot_ms":0,"queue_wait_ms":{"p50":11000,"p90":11000,"p99":11000},"slot_hold_ms":{"p50":0,"p90":0,"p99":0}}`,
			`{"model":"ripple","requests":2,"outcomes":{"abandoned":2},"tokens":{"prompt":null,"cached_prompt":null,"thinking":0,"answer":0,"completion":0},"slot_ms":0,"queue_wait_ms":{"p50":3000,"p90":7000,"p99":7000},"slot_hold_ms":{"p50":0,"p90":0,"p99":0}}`,
		}},
		{ledger.ByDay, ledger.Query{Key: "team-a"}, []string{
			`{"day":"2026-12-03",`, `{"day":"2026-12-02",`, `{"day":"2026-12-01",`, `{"day":"2026-11-30",`,
		}},
		{ledger.ByKey, ledger.Query{Key: "nobody"}, nil},
	} {
		t.Run(string(tc.by)+fmt.Sprint(len(tc.want)), func(t *testing.T) {
			got, err := l.Sum(t.Context(), tc.q, tc.by)
			must(t, err)
			if len(got) != len(tc.want) {
				t.Fatalf("%d groups, want %d: %+v", len(got), len(tc.want), got)
			}
			for i, s := range got {
				line, err := json.Marshal(s)
				must(t, err)
				if !strings.HasPrefix(string(line), tc.want[i]) {
					t.Errorf("got  %s\nwant %s", line, tc.want[i])
				}
			}
		})
	}
}

func TestRetention(t *testing.T) { each(t, onRetention) }

func onRetention(t *testing.T, p place) {
	t.Helper()
	now := start
	l := at(t, p, ledger.Config{Retention: time.Hour, Now: func() time.Time { return now }})
	must(t, l.Finish(served(0)))
	must(t, l.Begin(queued(1)))
	must(t, l.Flush(t.Context()))
	now = start.Add(2 * time.Hour)
	young := served(2)
	young.Created = now
	must(t, l.Finish(young))
	must(t, l.Flush(t.Context()))
	if got := left(t, l); got != "2 1" {
		t.Errorf("rows %s are left, want 2 and the open 1", got)
	}
	must(t, l.Finish(served(1)))
	must(t, l.Flush(t.Context()))
	if got := left(t, l); got != "2" {
		t.Errorf("rows %s are left, want 2", got)
	}
}

func TestMaxRows(t *testing.T) { each(t, onMaxRows) }

func onMaxRows(t *testing.T, p place) {
	t.Helper()
	l := at(t, p, ledger.Config{MaxRows: 5})
	must(t, l.Begin(queued(0)))
	for n := 1; n <= 20; n++ {
		must(t, l.Finish(served(n)))
		must(t, l.Flush(t.Context()))
	}
	if got := left(t, l); got != "20 19 18 17 16 0" {
		t.Errorf("rows %s are left, want the last five and the open one", got)
	}
}

// TestMaxRowsLowered deletes many at the first write, a part at a time.
func TestMaxRowsLowered(t *testing.T) { each(t, onMaxRowsLowered) }

func onMaxRowsLowered(t *testing.T, p place) {
	t.Helper()
	l, err := p.open(t.Context(), ledger.Config{})
	must(t, err)
	for n := range 2500 {
		must(t, l.Finish(served(n)))
	}
	must(t, l.Close())
	l = at(t, p, ledger.Config{MaxRows: 3})
	must(t, l.Finish(served(2500)))
	must(t, l.Close())
	l = at(t, p, ledger.Config{})
	if got := left(t, l); got != "2500 2499 2498" {
		t.Errorf("rows %s are left", got)
	}
}

// left lists the numbers of the rows, newest first.
func left(t *testing.T, l *ledger.Ledger) string {
	t.Helper()
	rows, _, err := l.List(context.Background(), ledger.Query{})
	must(t, err)
	var list []string
	for _, r := range rows {
		list = append(list, strings.TrimLeft(r.ID, "0"))
		if list[len(list)-1] == "" {
			list[len(list)-1] = "0"
		}
	}
	for i, hex := range list {
		var n int
		_, err := fmt.Sscanf(hex, "%x", &n)
		must(t, err)
		list[i] = fmt.Sprint(n)
	}
	return strings.Join(list, " ")
}

// TestMoments: the program and the API read the same times.
func TestMoments(t *testing.T) {
	now := time.Date(2026, 11, 30, 15, 0, 0, 0, time.UTC)
	for text, want := range map[string]string{
		"": "0001-01-01T00:00:00Z", "7d": "2026-11-23T15:00:00Z", "0d": "2026-11-30T15:00:00Z", "24h": "2026-11-29T15:00:00Z", "90m": "2026-11-30T13:30:00Z",
		"2026-11-01": "2026-11-01T00:00:00Z", "2026-11-01T10:00:00+01:00": "2026-11-01T09:00:00Z",
		"1796050800": "2026-11-30T15:00:00Z", "-1h": "2026-11-30T14:00:00Z",
	} {
		got, err := ledger.ParseMoment(text, now)
		if err != nil || got.UTC().Format(time.RFC3339) != want {
			t.Errorf("%q: %v, %v, want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"soon", "-3d", "d", "7 d", "2026-13-01", "2026-11-30 15:00", "1e9"} {
		if got, err := ledger.ParseMoment(text, now); err == nil || !strings.Contains(err.Error(), "7d") {
			t.Errorf("%q is %v, %v", text, got, err)
		}
	}
}

// TestOpenRowsAreInNoPercentile: their times are not known yet.
func TestOpenRowsAreInNoPercentile(t *testing.T) { each(t, onOpenRows) }

func onOpenRows(t *testing.T, p place) {
	t.Helper()
	l := at(t, p, ledger.Config{})
	must(t, l.Finish(served(1)))
	for n := range 2 {
		r := queued(2 + n)
		must(t, l.Begin(r))
		r.Outcome, r.Engine = []ledger.Outcome{ledger.Queued, ledger.Running}[n], []string{"", "spark"}[n]
		must(t, l.Update(r))
	}
	sums, err := l.Sum(t.Context(), ledger.Query{}, ledger.ByKey)
	must(t, err)
	if len(sums) != 1 || sums[0].Requests != 3 || sums[0].QueueWait.P50 != 40210 || sums[0].Slot.P50 != 77010 {
		t.Errorf("got %+v", sums)
	}
}
