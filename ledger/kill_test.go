package ledger_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"oneslot/ledger"
	"oneslot/ledger/sqlite"
)

// childDir names the environment variable that makes the test binary the
// process to be killed.
const childDir = "ONESLOT_LEDGER_TEST_DIR"

// child begins, runs and ends rows for ever, and says which ones are sure to
// be on disk.
func child() {
	fail := func(err error) {
		if err != nil {
			fmt.Println("error:", err)
			os.Exit(1)
		}
	}
	l, err := childOf(os.Getenv)
	fail(err)
	for n := 0; ; n += 3 {
		running := queued(n + 1)
		running.Outcome = ledger.Running
		fail(errors.Join(l.Begin(queued(n)), l.Begin(queued(n+1)), l.Update(running), l.Begin(queued(n+2))))
		if n%2 == 0 {
			fail(l.Flush(context.Background()))
		}
		fail(l.Finish(served(n + 2)))
		if n%5 == 0 {
			fail(l.Flush(context.Background()))
			fmt.Println(n + 2)
		}
	}
}

// TestKill kills a process at many points of its work, others each time. Every row it had
// finished and seen on disk is still finished, and none is left open.
func TestKill(t *testing.T) {
	dir := t.TempDir()
	for round := range 12 {
		after := 1 + rand.IntN(5*round+1)
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), childDir+"="+dir)
		out, err := cmd.StdoutPipe()
		must(t, err)
		must(t, cmd.Start())
		lines := bufio.NewScanner(out)
		last := -1
		for range after {
			if !lines.Scan() {
				t.Fatalf("the child has ended: %v", lines.Err())
			}
			if last, err = strconv.Atoi(lines.Text()); err != nil {
				t.Fatal(lines.Text())
			}
		}
		if _, err := sqlite.Open(t.Context(), ledger.Config{Dir: dir}); !errors.Is(err, ledger.ErrLocked) {
			t.Errorf("beside a living process: %v, want ErrLocked", err)
		}
		must(t, cmd.Process.Kill())
		for lines.Scan() { // what it said before it died holds too
			if n, err := strconv.Atoi(lines.Text()); err == nil {
				last = n
			}
		}
		_ = cmd.Wait()
		inspect(t, dir, last)
		if t.Failed() {
			t.Fatalf("round %d, killed after row %d", round, last)
		}
	}
}

// inspect opens the ledger of the dead process and empties it for the next.
func inspect(t *testing.T, dir string, last int) {
	t.Helper()
	l, err := sqlite.Open(t.Context(), ledger.Config{Dir: dir})
	must(t, err)
	defer func() { must(t, l.Close()) }()
	for n := 2; n <= last; n += 3 {
		if got := get(t, l, n).Outcome; got != ledger.Served {
			t.Errorf("row %d of %d: %s, want served", n, last, got)
		}
	}
	for _, left := range []ledger.Outcome{ledger.Queued, ledger.Running} {
		rows, _, err := l.List(t.Context(), ledger.Query{Outcome: left})
		must(t, err)
		if len(rows) > 0 {
			t.Errorf("%d rows still %s", len(rows), left)
		}
	}
	for n, want := range map[int]ledger.Outcome{0: ledger.Abandoned, 1: ledger.SlotLost} {
		if got := get(t, l, n).Outcome; got != want {
			t.Errorf("row %d: %s, want %s", n, got, want)
		}
	}
	db := raw(t, dir)
	var sound string
	must(t, db.QueryRowContext(t.Context(), "PRAGMA integrity_check").Scan(&sound))
	if !strings.EqualFold(sound, "ok") {
		t.Errorf("integrity: %s", sound)
	}
	run(t, db, "DELETE FROM usage")
}
