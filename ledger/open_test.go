package ledger_test

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"oneslot/ledger"
	"oneslot/ledger/sqlite"
	"oneslot/usage"
)

func TestOpenFails(t *testing.T) {
	for _, tc := range []struct {
		name    string
		prepare func(t *testing.T, dir string) ledger.Config
		want    error
		says    string
	}{
		{"a file where the folder should be", func(t *testing.T, dir string) ledger.Config {
			path := filepath.Join(dir, "data")
			must(t, os.WriteFile(path, nil, 0o600))
			return ledger.Config{Dir: path}
		}, ledger.ErrFolder, "data"},
		{"a folder that cannot be made", func(t *testing.T, dir string) ledger.Config {
			path := filepath.Join(dir, "file")
			must(t, os.WriteFile(path, nil, 0o600))
			return ledger.Config{Dir: filepath.Join(path, "data")}
		}, ledger.ErrFolder, "file"},
		{"a lock that cannot be written", func(t *testing.T, dir string) ledger.Config {
			must(t, os.Mkdir(filepath.Join(dir, "ledger.lock"), 0o700))
			return ledger.Config{Dir: dir}
		}, ledger.ErrFolder, "ledger.lock"},
		{"a ledger that is a folder", func(t *testing.T, dir string) ledger.Config {
			must(t, os.Mkdir(filepath.Join(dir, "ledger.db"), 0o700))
			return ledger.Config{Dir: dir}
		}, ledger.ErrFolder, "ledger.db"},
		{"a ledger that is something else", func(t *testing.T, dir string) ledger.Config {
			must(t, os.WriteFile(filepath.Join(dir, "ledger.db"), []byte(strings.Repeat("not a database\n", 500)), 0o600))
			return ledger.Config{Dir: dir}
		}, ledger.ErrDamaged, "move it away"},
		{"a ledger of a newer program", func(t *testing.T, dir string) ledger.Config {
			run(t, raw(t, dir), "PRAGMA user_version = 99")
			return ledger.Config{Dir: dir}
		}, ledger.ErrNewer, "version 99"},
		{"a file with a table of that name", func(t *testing.T, dir string) ledger.Config {
			run(t, raw(t, dir), "CREATE TABLE usage (x)")
			return ledger.Config{Dir: dir}
		}, nil, "0001_usage.sql"},
		{"a file without a ledger, to read", func(t *testing.T, dir string) ledger.Config {
			run(t, raw(t, dir), "CREATE TABLE other (x)")
			return ledger.Config{Dir: dir, ReadOnly: true}
		}, nil, "no such table"},
		{"in use", func(t *testing.T, dir string) ledger.Config {
			open(t, ledger.Config{Dir: dir})
			return ledger.Config{Dir: dir}
		}, ledger.ErrLocked, "another oneslot"},
		{"nothing there to read", func(_ *testing.T, dir string) ledger.Config {
			return ledger.Config{Dir: dir, ReadOnly: true}
		}, ledger.ErrFolder, "ledger.db"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cfg := tc.prepare(t, t.TempDir())
			l, err := sqlite.Open(t.Context(), cfg)
			if err == nil || tc.want != nil && !errors.Is(err, tc.want) || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("open: %v\nwant %v that says %q", err, tc.want, tc.says)
			}
			if l != nil {
				t.Error("a ledger comes with the error")
				_ = l.Close()
			}
		})
	}
}

// TestOpenAfterFailure shows that a failed Open leaves nothing behind: the
// folder can be used once the cause is gone.
func TestOpenAfterFailure(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "ledger.db")
	must(t, os.WriteFile(path, []byte(strings.Repeat("not a database\n", 500)), 0o600))
	if _, err := sqlite.Open(t.Context(), ledger.Config{Dir: dir}); !errors.Is(err, ledger.ErrDamaged) {
		t.Fatal(err)
	}
	must(t, os.Remove(path))
	must(t, open(t, ledger.Config{Dir: dir}).Begin(queued(1)))
}

// TestHalfAMigration finds a migration that fails in its middle undone.
func TestHalfAMigration(t *testing.T) {
	dir := t.TempDir()
	db := raw(t, dir)
	run(t, db, "CREATE TABLE other (created)")
	run(t, db, "CREATE INDEX usage_created ON other (created)") // the name is wanted after the table
	if _, err := sqlite.Open(t.Context(), ledger.Config{Dir: dir}); err == nil {
		t.Fatal("a migration succeeds that cannot")
	}
	var version, tables int
	must(t, db.QueryRowContext(t.Context(), "PRAGMA user_version").Scan(&version))
	must(t, db.QueryRowContext(t.Context(), "SELECT count(*) FROM sqlite_master WHERE name = 'usage'").Scan(&tables))
	if version != 0 || tables != 0 {
		t.Errorf("version %d, %d tables are left", version, tables)
	}
	run(t, db, "DROP TABLE other")
	must(t, open(t, ledger.Config{Dir: dir}).Finish(served(1)))
}

// TestOpenAgain keeps the schema and the rows.
func TestOpenAgain(t *testing.T) {
	dir := t.TempDir()
	for n := range 3 {
		l, err := sqlite.Open(t.Context(), ledger.Config{Dir: dir})
		must(t, err)
		must(t, l.Finish(served(n)))
		must(t, l.Close())
	}
	rows, _, err := open(t, ledger.Config{Dir: dir}).List(t.Context(), ledger.Query{})
	must(t, err)
	if len(rows) != 3 {
		t.Errorf("%d rows, want 3", len(rows))
	}
}

func TestReadOnly(t *testing.T) {
	dir := t.TempDir()
	owner := open(t, ledger.Config{Dir: dir})
	must(t, owner.Finish(served(1)))
	must(t, owner.Flush(t.Context()))
	l := open(t, ledger.Config{Dir: dir, ReadOnly: true})
	if got := get(t, l, 1); got.Outcome != ledger.Served {
		t.Errorf("%+v", got)
	}
	if err := l.Begin(queued(2)); !errors.Is(err, ledger.ErrReadOnly) {
		t.Errorf("begin: %v", err)
	}
	must(t, owner.Begin(queued(3)))
	must(t, owner.Flush(t.Context()))
	rows, _, err := l.List(t.Context(), ledger.Query{})
	must(t, err)
	if len(rows) != 2 || rows[0].Outcome != ledger.Queued {
		t.Errorf("a reader sees %+v", rows)
	}
	if err := l.Err(); err != nil {
		t.Errorf("Err() of a reader: %v", err)
	}
}

// TestOpenRowsAreEnded is what the next process makes of rows left open.
func TestOpenRowsAreEnded(t *testing.T) {
	dir := t.TempDir()
	l, err := sqlite.Open(t.Context(), ledger.Config{Dir: dir})
	must(t, err)
	running := queued(2)
	running.Outcome, running.Tokens = ledger.Running, usage.Tokens{Prompt: usage.Count{N: 9, Source: usage.Tokenizer}}
	bare := ledger.Row{ID: id(4), Created: start}
	for _, r := range []ledger.Row{queued(1), running, bare} {
		must(t, l.Begin(ledger.Row{ID: r.ID, Created: r.Created}))
		must(t, l.Update(withOutcome(r)))
	}
	must(t, l.Finish(served(3)))
	ran, waited := dying(5, 6)
	must(t, l.Begin(ran))
	must(t, l.Begin(waited))
	must(t, l.Close())

	told := map[string]ledger.Row{}
	l = open(t, ledger.Config{Dir: dir, Lost: func(r ledger.Row) { told[r.ID] = r }})
	if len(told) != 5 || told[id(3)].ID != "" {
		t.Errorf("told of %v", told)
	}
	for n, want := range map[int]struct {
		outcome  ledger.Outcome
		reason   string
		thinking usage.Count
	}{
		1: {ledger.Abandoned, ledger.ProcessDied, usage.Count{Source: usage.DidNotRun}},
		2: {ledger.SlotLost, ledger.ProcessDied, usage.Count{Source: usage.Unknown}},
		3: {ledger.Served, "", usage.Count{N: 640, Source: usage.Tokenizer}},
		4: {ledger.Abandoned, ledger.ProcessDied, usage.Count{Source: usage.DidNotRun}},
	} {
		got := get(t, l, n)
		if got.Outcome != want.outcome || got.Reason != want.reason || got.Tokens.Thinking != want.thinking {
			t.Errorf("row %d: %s, reason %q, thinking %+v; want %+v", n, got.Outcome, got.Reason, got.Tokens.Thinking, want)
		}
		if one, ok := told[id(n)]; ok && !reflect.DeepEqual(one, got) {
			t.Errorf("row %d: told of %+v, there is %+v", n, one, got)
		}
	}
	lost(t, l, 5, 6)
	if got := get(t, l, 2).Tokens.Prompt; got.N != 9 {
		t.Errorf("the prompt of a lost run: %+v", got)
	}
}

func withOutcome(r ledger.Row) ledger.Row {
	if r.Outcome == "" {
		r.Outcome = ledger.Queued
	}
	return r
}

// TestUsable: what Open could not make is told before, and nothing is left behind.
func TestUsable(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, good := range []string{dir, filepath.Join(dir, "a"), filepath.Join(dir, "a", "b")} {
		if err := sqlite.Usable(good); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for _, bad := range []string{file, filepath.Join(file, "a"), filepath.Join(file, "a", "b")} {
		if err := sqlite.Usable(bad); !errors.Is(err, ledger.ErrFolder) || !strings.Contains(err.Error(), file) {
			t.Errorf("%s: %v", bad, err)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("there is %v, %v", left, err)
	}
}
