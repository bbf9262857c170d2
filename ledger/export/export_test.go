package export_test

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"oneslot/ledger"
	"oneslot/ledger/export"
	"oneslot/usage"
)

// rows are one that was served and one that never ran, with words that a client
// chose.
func rows() []ledger.Row {
	at := time.Date(2026, 11, 30, 12, 0, 0, 250e6, time.UTC)
	served := ledger.Row{
		ID: "aa", Created: at, Key: "team-a", Model: "ripple", Engine: "spark", Class: "default", Route: "/v1/chat/completions", Stream: true,
		Outcome: ledger.Served, Status: 200, FinishReason: "stop", QueueWait: 40210 * time.Millisecond, Prefill: 1710 * time.Millisecond,
		Thinking: 65200 * time.Millisecond, Answer: 10100 * time.Millisecond, Slot: 77010 * time.Millisecond, AnswerStarted: true, Runs: 1,
		Tokens: usage.Tokens{
			Prompt: usage.Count{N: 812, Source: usage.Engine}, CachedPrompt: usage.Count{Source: usage.EngineSetup},
			Thinking: usage.Count{N: 640, Source: usage.Tokenizer}, Answer: usage.Count{N: 102, Source: usage.Tokenizer},
			Completion: usage.Count{N: 742, Source: usage.Engine}, DraftsAccepted: usage.Count{Source: usage.Unknown},
		},
		EnginePrompt: usage.Count{N: 812, Source: usage.Engine}, EngineCompletion: usage.Count{N: 742, Source: usage.Engine},
	}
	left := ledger.Row{
		ID: "bb", Created: at.Add(time.Second), Model: `=cmd("x"),` + "\x1b[2J", Outcome: ledger.Abandoned, Status: 499, Reason: "left",
		Tokens: usage.NotRun(), ClientRequestID: "-1+1",
	}
	return []ledger.Row{served, left}
}

func sums() []ledger.Sum {
	n := int64(812)
	return []ledger.Sum{{
		By: ledger.ByKey, Group: "@team", Requests: 3, Outcomes: map[ledger.Outcome]int{ledger.Served: 2, ledger.ClientGone: 1},
		Tokens: ledger.SumTokens{Prompt: &n}, SlotMS: 7_200_500,
		QueueWait: ledger.Percentiles{P50: 7, P90: 1700, P99: 125_000}, Slot: ledger.Percentiles{P50: 60_000, P90: 61_000, P99: 62_000},
	}}
}

// cells reads CSV back into the cells of each line, by column.
func cells(t *testing.T, text string) (lines []map[string]string) {
	t.Helper()
	all, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	for _, line := range all[1:] {
		m := map[string]string{}
		for i, name := range all[0] {
			m[name] = line[i]
		}
		lines = append(lines, m)
	}
	return lines
}

func expect(t *testing.T, got, want map[string]string) {
	t.Helper()
	for name, cell := range want {
		if v, ok := got[name]; !ok || v != cell {
			t.Errorf("%s: %q, want %q", name, v, cell)
		}
	}
}

func TestRowsAsCSV(t *testing.T) {
	var b bytes.Buffer
	c := export.NewRows(&b)
	for _, r := range rows() { // the head comes once
		if err := c.Write([]ledger.Row{r}); err != nil {
			t.Fatal(err)
		}
	}
	lines := cells(t, b.String())
	if len(lines) != 2 || len(lines[0]) != 37 {
		t.Fatalf("%d lines of %d cells:\n%s", len(lines), len(lines[0]), b.String())
	}
	expect(t, lines[0], map[string]string{
		"id": "aa", "created": "2026-11-30T12:00:00.25Z", "key": "team-a", "outcome": "served", "status": "200", "stream": "true", "finish_reason": "stop",
		"queue_wait_ms": "40210", "prefill_ms": "1710", "thinking_ms": "65200", "answer_ms": "10100", "slot_ms": "77010", "answer_started": "true",
		"prompt_tokens": "812", "prompt_tokens_source": "engine", "cached_prompt_tokens": "0", "cached_prompt_tokens_source": "engine_config",
		"thinking_tokens": "640", "answer_tokens": "102", "completion_tokens": "742", "drafts_accepted": "", "drafts_accepted_source": "unknown",
		"engine_prompt_tokens": "812", "engine_completion_tokens": "742", "runs": "1", "budget": "",
	})
	expect(t, lines[1], map[string]string{
		"model": `'=cmd("x"),` + "\x1b[2J", "client_request_id": "'-1+1", "prompt_tokens": "", "prompt_tokens_source": "unknown",
		"answer_tokens": "0", "answer_tokens_source": "not_run", "engine": "", "runs": "",
	})
}

func TestSumsAsCSV(t *testing.T) {
	var b bytes.Buffer
	if err := export.Sums(&b, ledger.ByKey, sums()); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(b.String(), "key,requests,served,") {
		t.Errorf("the head is %q", b.String())
	}
	expect(t, cells(t, b.String())[0], map[string]string{
		"key": "'@team", "requests": "3", "served": "2", "client_gone": "1", "running": "0", "prompt_tokens": "812", "answer_tokens": "",
		"slot_ms": "7200500", "queue_wait_ms_p50": "7", "queue_wait_ms_p99": "125000", "slot_hold_ms_p90": "61000",
	})
}

func TestTables(t *testing.T) {
	var b bytes.Buffer
	p := export.NewPrinter(&b, export.Table)
	if err := errors.Join(p.Page(rows()[:1]), p.Page(rows()[1:]), p.End(), p.Sums(ledger.ByKey, sums())); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(b.String(), "\n")
	if strings.Contains(b.String(), "\x1b") {
		t.Errorf("a client steers the terminal: %q", b.String())
	}
	for i, want := range []string{
		"created (UTC) id key model outcome wait slot prompt thinking answer",
		"aa team-a ripple served 40.2s 1m17s 812 640 102",
		"bb - =cmd(\"x\"),\ufffd[2J abandoned (left) 0s 0s - 0 0",
		"key requests served prompt cached thinking answer slot wait p50 p90 p99 slot p50 p90 p99",
		"@team 3 2 812 - - - 2h0m1s 7ms 1.7s 2m5s 1m0s 1m1s 1m2s",
	} {
		if got := strings.Join(strings.Fields(lines[i]), " "); !strings.HasSuffix(got, want) {
			t.Errorf("line %d: %q, want %q", i, got, want)
		}
	}
}

// TestOpenRowsHaveNoTimes yet, in a table and in CSV; and no rows are told as such.
func TestOpenRowsHaveNoTimes(t *testing.T) {
	open := ledger.Row{ID: "cc", Key: "team-a", Model: "ripple", Outcome: ledger.Running, Created: rows()[0].Created.In(time.FixedZone("", 3600))}
	var table, list, none bytes.Buffer
	page := export.NewPrinter(&table, export.Table)
	if err := errors.Join(page.Page([]ledger.Row{open}), page.End(), export.NewRows(&list).Write([]ledger.Row{open}), export.NewPrinter(&none, export.Table).End()); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(strings.Fields(table.String()), " "); !strings.HasSuffix(got, "2026-11-30 12:00:00 cc team-a ripple running - - - - -") {
		t.Errorf("the table is %q", got)
	}
	expect(t, cells(t, list.String())[0], map[string]string{"queue_wait_ms": "", "prefill_ms": "", "thinking_ms": "", "answer_ms": "", "slot_ms": ""})
	if none.String() != "No requests.\n" {
		t.Errorf("without rows: %q", none.String())
	}
}

// TestOneRow: in a terminal it is shown in full, and safely.
func TestOneRow(t *testing.T) {
	for i, wants := range [][]string{
		{"field value", "id aa", "finish_reason stop", "prefill_ms 1710", "thinking_ms 65200", "answer_ms 10100", "slot_ms 77010", "thinking_tokens 640", "thinking_tokens_source tokenizer", "drafts_accepted -", "budget -"},
		{"id bb", "model =cmd(\"x\"),\ufffd[2J", "reason left", "prompt_tokens -", "prompt_tokens_source unknown"},
	} {
		var b bytes.Buffer
		if err := export.NewPrinter(&b, export.Table).Row(rows()[i]); err != nil {
			t.Fatal(err)
		}
		got := map[string]bool{}
		for line := range strings.Lines(b.String()) {
			got[strings.Join(strings.Fields(line), " ")] = true
		}
		for _, want := range wants {
			if !got[want] {
				t.Errorf("%q is missing:\n%s", want, b.String())
			}
		}
	}
}

// TestJSON: whatever the pages, it is one object; and one row is not a list.
func TestJSON(t *testing.T) {
	for _, cut := range [][]ledger.Row{nil, rows()[:1], rows()} {
		var b bytes.Buffer
		p := export.NewPrinter(&b, export.JSON)
		for _, r := range cut {
			if err := p.Page([]ledger.Row{r}); err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(p.Page(nil), p.End()); err != nil {
			t.Fatal(err)
		}
		var list struct{ Data []ledger.Row }
		if err := json.Unmarshal(b.Bytes(), &list); err != nil || len(list.Data) != len(cut) {
			t.Errorf("%d of %d rows: %v\n%s", len(list.Data), len(cut), err, b.String())
		}
	}
	var b bytes.Buffer
	p := export.NewPrinter(&b, export.JSON)
	if err := p.Row(rows()[0]); err != nil || !strings.Contains(b.String(), `"object": "usage.record"`) {
		t.Errorf("%v: %s", err, b.String())
	}
	b.Reset()
	if err := p.Sums(ledger.ByKey, nil); err != nil || !strings.Contains(b.String(), `"data": []`) {
		t.Errorf("%v: %s", err, b.String())
	}
}

// broken is a pipe whose reader has left.
type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

func TestNobodyReads(t *testing.T) {
	for _, f := range []export.Format{export.CSV, export.JSON, export.Table} {
		p := export.NewPrinter(broken{}, f)
		if err := errors.Join(p.Page(rows()), p.End()); err == nil {
			t.Errorf("%s: rows are written to nobody without an error", f)
		}
		if err := p.Sums(ledger.ByKey, sums()); err == nil {
			t.Errorf("%s: sums are written to nobody without an error", f)
		}
	}
}

func TestFormats(t *testing.T) {
	if export.Format("xml").Valid() || !export.CSV.Valid() {
		t.Error("a format is not what it says")
	}
}

// TestUnknownTimesAreEmpty: of a request whose process died.
func TestUnknownTimesAreEmpty(t *testing.T) {
	dead := ledger.Row{ID: "dd", Key: "team-a", Model: "ripple", Outcome: ledger.Running, Created: rows()[0].Created, QueueWait: 2 * time.Second}
	dead.Lose()
	var table, list bytes.Buffer
	printer := export.NewPrinter(&table, export.Table)
	if err := errors.Join(printer.Page([]ledger.Row{dead}), printer.End(), export.NewRows(&list).Write([]ledger.Row{dead})); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(strings.Fields(table.String()), " "); !strings.HasSuffix(got, "slot_lost (process_died) 2s - - - -") {
		t.Errorf("the table is %q", got)
	}
	expect(t, cells(t, list.String())[0], map[string]string{"reason": "process_died", "queue_wait_ms": "2000", "prefill_ms": "", "thinking_ms": "", "answer_ms": "", "slot_ms": ""})
}
