package ledger_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
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
