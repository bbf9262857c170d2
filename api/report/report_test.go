package report_test

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"oneslot/api/report"
	"oneslot/internal/openai"
	"oneslot/internal/remote"
	"oneslot/ledger"
	"oneslot/ledger/live"
	"oneslot/ledger/sqlite"
	"oneslot/usage"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var start = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// filled is a ledger of n served rows, a second apart.
func filled(t *testing.T, n int) *ledger.Ledger {
	t.Helper()
	l, err := sqlite.Open(t.Context(), ledger.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	for i := range n {
		if err := l.Finish(ledger.Row{
			ID: fmt.Sprintf("%032x", i), Created: start.Add(time.Duration(i) * time.Second), Key: fmt.Sprintf("team-%d", i%2),
			Model: "ripple", Engine: "spark", Outcome: ledger.Served, Status: 200, Slot: time.Second, Tokens: usage.NotRun(),
		}); err != nil {
			t.Fatal(err)
		}
	}
	return l
}

// desk serves a ledger as the edge does.
func desk(l *ledger.Ledger) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ask, err := report.Read(r)
		d := report.Desk{Ledger: l, To: w, Page: func() { w.Header().Add("Trailer:Page", "+") }}
		if id, ok := strings.CutPrefix(r.URL.Path, "/v1/usage/"); ok && err == nil {
			var row ledger.Row
			if row, err = l.Get(r.Context(), id); err == nil {
				err = d.Row(row, ask.CSV)
			}
		} else if err == nil {
			err = d.Answer(r.Context(), ask)
		}
		var p *openai.Problem
		switch {
		case errors.As(err, &p):
			http.Error(w, `{"error":{"message":"`+p.Message+`"}}`, p.Status)
		case err != nil:
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	}
}

func ask(t *testing.T, h http.HandlerFunc, url, accept string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if accept != "" {
		r.Header.Set("Accept", accept)
	}
	w := httptest.NewRecorder()
	h(w, r)
	return w
}

// TestWhichFormat: format decides, else what the client names first.
func TestWhichFormat(t *testing.T) {
	h := desk(filled(t, 1))
	for _, tc := range []struct {
		url, accept string
		csv         bool
	}{
		{"/v1/usage", "", false},
		{"/v1/usage", "text/csv", true},
		{"/v1/usage", "text/csv; header=present, application/json", true},
		{"/v1/usage", "application/json, text/csv", false},
		{"/v1/usage", "*/*", false},
		{"/v1/usage?format=csv", "application/json", true},
		{"/v1/usage?format=json", "text/csv", false},
		{"/v1/usage?by=day", "text/csv", true},
		{"/v1/usage/" + strings.Repeat("0", 32), "text/csv", true},
		{"/v1/usage/" + strings.Repeat("0", 32), "", false},
	} {
		w := ask(t, h, tc.url, tc.accept)
		kind := w.Header().Get("Content-Type")
		if got := strings.HasPrefix(kind, "text/csv"); got != tc.csv || w.Code != 200 || !got && kind != "application/json" {
			t.Errorf("%s, Accept %q: %d %s", tc.url, tc.accept, w.Code, kind)
		}
		if _, err := csv.NewReader(w.Body).ReadAll(); tc.csv && err != nil {
			t.Errorf("%s: %v", tc.url, err)
		}
	}
}

// TestAllAsCSV: without a limit everything comes, in pages that each get their
// time; with one, a page and where the next begins.
func TestAllAsCSV(t *testing.T) {
	h := desk(filled(t, 2500))
	w := ask(t, h, "/v1/usage?format=csv", "")
	lines, err := csv.NewReader(w.Body).ReadAll()
	if err != nil || len(lines) != 2501 {
		t.Fatalf("%d lines: %v", len(lines), err)
	}
	if lines[1][0] != fmt.Sprintf("%032x", 2499) || lines[2500][0] != fmt.Sprintf("%032x", 0) {
		t.Error("they are not newest first")
	}
	if pages := len(w.Header().Values("Trailer:Page")); pages != 3 || w.Header().Get(report.NextAfter) != "" {
		t.Errorf("%d pages, and the next after %q", pages, w.Header().Get(report.NextAfter))
	}
	w = ask(t, h, "/v1/usage?format=csv&limit=2&since="+start.Format(time.RFC3339)+"&until=2026-11-30T12:00:03Z", "")
	lines, err = csv.NewReader(w.Body).ReadAll()
	if err != nil || len(lines) != 3 || w.Header().Get(report.NextAfter) != lines[2][0] {
		t.Errorf("a page: %v, %v, next %q", lines, err, w.Header().Get(report.NextAfter))
	}
	w = ask(t, h, "/v1/usage?format=csv&limit=2&until=2026-11-30T12:00:03Z&after=chatcmpl-"+lines[2][0], "")
	if lines, err = csv.NewReader(w.Body).ReadAll(); err != nil || len(lines) != 2 || w.Header().Get(report.NextAfter) != "" {
		t.Errorf("the last page: %v, %v", lines, err)
	}
}

func TestWrongQuestions(t *testing.T) {
	h := desk(filled(t, 1))
	for query, says := range map[string]string{
		"limit=0": "limit", "limit=1001": "limit", "limit=x": "limit", "by=colour": "key, model or day", "since=soon": "since", "until=2026-13-01": "until",
		"outcome=bliss": "no such outcome", "format=xml": "json or csv", "by=key&outcome=bliss": "no such outcome", "format=csv&outcome=bliss": "no such outcome",
	} {
		if w := ask(t, h, "/v1/usage?"+query, ""); w.Code != 400 || !strings.Contains(w.Body.String(), says) {
			t.Errorf("%s: %d %s", query, w.Code, w.Body)
		}
	}
}

// slow is a client that leaves after the first page.
type slow struct {
	*httptest.ResponseRecorder
	leave context.CancelFunc
}

func (s slow) Write(b []byte) (int, error) {
	s.leave()
	return s.ResponseRecorder.Write(b)
}

// TestBrokenOff: an export that cannot go on is cut, so that nobody takes a part
// for the whole.
func TestBrokenOff(t *testing.T) {
	h := desk(filled(t, 1500))
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	defer func() {
		if err, _ := recover().(error); !errors.Is(err, http.ErrAbortHandler) {
			t.Errorf("it ended with %v", err)
		}
	}()
	h(slow{httptest.NewRecorder(), leave}, httptest.NewRequestWithContext(ctx, http.MethodGet, "/v1/usage?format=csv", nil))
}

// TestLive: what a command reads over HTTP is what the ledger has.
func TestLive(t *testing.T) {
	l := filled(t, 7)
	s := httptest.NewServer(desk(l))
	defer s.Close()
	client, err := remote.New(remote.Config{URL: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	book := live.New(client)
	for _, q := range []ledger.Query{
		{},
		{Limit: 3},
		{Limit: 3, After: fmt.Sprintf("%032x", 4)},
		{Key: "team-1"},
		{Model: "other"},
		{Outcome: ledger.Cancelled},
		{Since: start.Add(2 * time.Second)},
		{Until: start.Add(1500 * time.Millisecond)},
	} {
		want, wantNext, err := l.List(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		rows, next, err := book.List(t.Context(), q)
		if err != nil || next != wantNext || len(rows) != len(want) {
			t.Fatalf("%+v: %d rows, next %q, %v; want %d, %q", q, len(rows), next, err, len(want), wantNext)
		}
		for i := range rows {
			if rows[i] != want[i] {
				t.Errorf("%+v\nwant %+v", rows[i], want[i])
			}
		}
		for _, by := range []ledger.By{ledger.ByKey, ledger.ByModel, ledger.ByDay} {
			want, _ := l.Sum(t.Context(), q, by)
			sums, err := book.Sum(t.Context(), q, by)
			if err != nil || fmt.Sprint(texts(t, sums)) != fmt.Sprint(texts(t, want)) {
				t.Errorf("by %s: %v %v\nwant %v", by, texts(t, sums), err, texts(t, want))
			}
		}
	}
	if row, err := book.Get(t.Context(), fmt.Sprintf("%032x", 4)); err != nil || row.Key != "team-0" {
		t.Errorf("%+v, %v", row, err)
	}
	if _, err := book.Get(t.Context(), "nothing"); err == nil {
		t.Error("a row comes that is not there")
	}
}

func texts(t *testing.T, sums []ledger.Sum) (out []string) {
	t.Helper()
	for _, s := range sums {
		text, err := s.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, string(text))
	}
	return out
}
