package ledger_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"oneslot/ledger"
	"oneslot/ledger/sqlite"
	"oneslot/usage"
)

// TestMain runs as the process that is killed when the environment asks for
// it, see TestKill.
func TestMain(m *testing.M) {
	if os.Getenv(childDir) != "" || os.Getenv(childRedis) != "" {
		child()
		return
	}
	goleak.VerifyTestMain(m)
}

// open opens a ledger in dir, closed with the test.
func open(t testing.TB, cfg ledger.Config) *ledger.Ledger {
	t.Helper()
	l, err := sqlite.Open(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return l
}

// start is when the requests of these tests are admitted.
var start = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func id(n int) string { return fmt.Sprintf("%032x", n) }

// queued is the n-th request, a second after the one before.
func queued(n int) ledger.Row {
	return ledger.Row{
		ID: id(n), Created: start.Add(time.Duration(n) * time.Second), Model: "ripple", Key: "team-a",
		Class: "default", Route: "/v1/chat/completions", Stream: true,
		Outcome: ledger.Queued, Tokens: usage.NotRun(),
	}
}

// lost checks what became of rows of a process that died, one that ran after a wait of
// 2 s and one that waited: what nobody knows is no zero, in the row, its JSON and sums.
func lost(t *testing.T, l *ledger.Ledger, ran, waited int) {
	t.Helper()
	for n, want := range map[int]string{
		ran:    `"outcome":"slot_lost","reason":"process_died","finish_reason":null,"queue_wait_ms":2000,"prefill_ms":null,"thinking_ms":null,"answer_ms":null,"slot_ms":null,`,
		waited: `"outcome":"abandoned","reason":"process_died","finish_reason":null,"queue_wait_ms":null,"prefill_ms":0,"thinking_ms":0,"answer_ms":0,"slot_ms":0,`,
	} {
		row := get(t, l, n)
		raw, err := json.Marshal(row)
		must(t, err)
		if !strings.Contains(string(raw), want) {
			t.Errorf("row %d: %s\nwant %s", n, raw, want)
		}
		var back ledger.Row
		must(t, json.Unmarshal(raw, &back))
		if back.QueueWait != row.QueueWait || back.Slot != row.Slot {
			t.Errorf("row %d came back as %+v", n, back)
		}
	}
	for key, want := range map[string]ledger.Sum{
		"dead-ran":    {QueueWait: ledger.Percentiles{P50: 2000, P90: 2000, P99: 2000}},
		"dead-waited": {},
	} {
		sums, err := l.Sum(t.Context(), ledger.Query{Key: key}, ledger.ByKey)
		must(t, err)
		if len(sums) != 1 || sums[0].SlotMS != 0 || sums[0].QueueWait != want.QueueWait || sums[0].Slot != want.Slot {
			t.Errorf("%s adds up to %+v", key, sums)
		}
	}
}

// dying are the rows of lost.
func dying(ran, waited int) (ledger.Row, ledger.Row) {
	a, b := queued(ran), queued(waited)
	a.Outcome, a.Engine, a.QueueWait, a.Key, b.Key = ledger.Running, "spark", 2*time.Second, "dead-ran", "dead-waited"
	return a, b
}

// served is the same request after it has been answered.
func served(n int) ledger.Row {
	r := queued(n)
	r.Outcome, r.Status, r.Engine, r.FinishReason, r.AnswerStarted = ledger.Served, 200, "spark", "stop", true
	r.QueueWait, r.Prefill, r.Thinking, r.Answer, r.Slot = 40210*time.Millisecond, 1710*time.Millisecond, 65200*time.Millisecond, 10100*time.Millisecond, 77010*time.Millisecond
	r.Tokens = usage.Tokens{
		Prompt: usage.Count{N: 812, Source: usage.Engine}, CachedPrompt: usage.Count{Source: usage.EngineSetup},
		Thinking: usage.Count{N: 640, Source: usage.Tokenizer}, Answer: usage.Count{N: 102, Source: usage.Tokenizer},
		Completion: usage.Count{N: 742, Source: usage.Engine}, DraftsAccepted: usage.Count{Source: usage.Unknown},
	}
	r.Runs = 1
	r.EnginePrompt, r.EngineCompletion = r.Tokens.Prompt, r.Tokens.Completion
	return r
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func get(t testing.TB, l *ledger.Ledger, n int) ledger.Row {
	t.Helper()
	r, err := l.Get(context.Background(), id(n))
	must(t, err)
	return r
}

// raw opens the file itself, to look behind the ledger's back.
func raw(t testing.TB, dir string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(dir, "ledger.db"))
	must(t, err)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// run changes the file itself.
func run(t testing.TB, db *sql.DB, statement string) {
	t.Helper()
	_, err := db.ExecContext(context.Background(), statement)
	must(t, err)
}

// gone is the context of a caller that has left.
func gone(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}
