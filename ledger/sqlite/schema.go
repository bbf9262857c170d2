package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"io/fs"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	_ "modernc.org/sqlite" // registers the driver "sqlite"

	"oneslot/ledger"
	"oneslot/usage"
)

// schema holds the migrations, in the order of their names. The number of
// those applied is the file's user_version.
//
//go:embed schema/*.sql
var schema embed.FS

// source names a database file for the driver; settings are its query.
func source(path, settings string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("ledger: %s: %w", path, err)
	}
	abs = filepath.ToSlash(abs)
	if !strings.HasPrefix(abs, "/") {
		abs = "/" + abs
	}
	name := url.URL{Scheme: "file", Path: abs, RawQuery: settings}
	return name.String(), nil
}

// The settings of a connection. In WAL mode a reader never waits for the
// writer. A commit is safe from the death of the process without a sync.
const (
	writerSettings = "_pragma=busy_timeout(5000)&_pragma=journal_mode(wal)&_pragma=synchronous(normal)&_pragma=cache_size(-2000)&_txlock=immediate"
	readerSettings = "mode=ro&_pragma=busy_timeout(5000)&_pragma=cache_size(-2000)&_pragma=query_only(true)"
)

// migrate brings the file to the newest schema, or says that it is newer.
func migrate(ctx context.Context, db *sql.DB, path string) error {
	files, err := fs.Glob(schema, "schema/*.sql")
	if err != nil {
		return fmt.Errorf("ledger: schema: %w", err)
	}
	var version int
	if err := db.QueryRowContext(ctx, "PRAGMA user_version").Scan(&version); err != nil {
		return fault(path, "read its version", err)
	}
	if version > len(files) {
		return fmt.Errorf("%w: %s has version %d, this program knows %d: use a newer program", ledger.ErrNewer, path, version, len(files))
	}
	for ; version < len(files); version++ {
		if err := apply(ctx, db, files[version], version+1); err != nil {
			return fault(path, "apply "+files[version], err)
		}
	}
	return nil
}

// apply runs one migration and counts it, both or neither.
func apply(ctx context.Context, db *sql.DB, file string, version int) error {
	script, err := schema.ReadFile(file)
	if err != nil {
		return err
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := tx.ExecContext(ctx, string(script)); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, fmt.Sprintf("PRAGMA user_version = %d", version)); err != nil {
		return err
	}
	return tx.Commit()
}

// columns are those of a row, in the order of values and scan. The first one
// identifies it and is the only one that an update leaves alone.
const columns = "id, created, model, engine, key, class, client_request_id, route, stream, " +
	"outcome, status, reason, finish_reason, " +
	"queue_wait_ms, prefill_ms, thinking_ms, answer_ms, slot_ms, answer_started, runs, budget, " +
	"prompt, prompt_source, cached, cached_source, thinking, thinking_source, " +
	"answer, answer_source, completion, completion_source, drafts, drafts_source, " +
	"engine_prompt, engine_prompt_source, engine_completion, engine_completion_source"

// upsert is the statement that writes a row, unless it has ended already.
func upsert() string {
	names := strings.Split(columns, ", ")
	set := make([]string, 0, len(names)-1)
	for _, name := range names[1:] {
		set = append(set, name+"=excluded."+name)
	}
	return "INSERT INTO usage(" + columns + ") VALUES(?" + strings.Repeat(",?", len(names)-1) + ")" +
		" ON CONFLICT(id) DO UPDATE SET " + strings.Join(set, ",") + " WHERE outcome IN ('queued','running')"
}

// values are the columns of r for upsert.
func values(r *ledger.Row) []any {
	v := make([]any, 0, 40)
	v = append(v, r.ID, r.Created.UnixMilli(), r.Model, r.Engine, r.Key, r.Class, r.ClientRequestID, r.Route, r.Stream,
		string(r.Outcome), r.Status, r.Reason, r.FinishReason,
		r.QueueWait.Milliseconds(), r.Prefill.Milliseconds(), r.Thinking.Milliseconds(), r.Answer.Milliseconds(),
		r.Slot.Milliseconds(), r.AnswerStarted, r.Runs, r.Budget)
	for _, c := range r.Counts() {
		if c.Known() {
			v = append(v, c.N, sourceValue(c.Source))
		} else {
			v = append(v, nil, string(usage.Unknown))
		}
	}
	return v
}

// sourceValue is s as a value. Those that most rows have take no memory.
func sourceValue(s usage.Source) any {
	if s == usage.Engine {
		return string(usage.Engine)
	}
	if s == usage.EngineSetup {
		return string(usage.EngineSetup)
	}
	return string(s)
}

// scan reads the columns of a row.
func scan(scan func(...any) error) (ledger.Row, error) {
	var (
		r       ledger.Row
		created int64
		waits   [5]int64
		figures [8]struct {
			n      sql.NullInt64
			source string
		}
	)
	to := []any{
		&r.ID, &created, &r.Model, &r.Engine, &r.Key, &r.Class, &r.ClientRequestID, &r.Route, &r.Stream,
		&r.Outcome, &r.Status, &r.Reason, &r.FinishReason,
		&waits[0], &waits[1], &waits[2], &waits[3], &waits[4], &r.AnswerStarted, &r.Runs, &r.Budget,
	}
	for i := range figures {
		to = append(to, &figures[i].n, &figures[i].source)
	}
	if err := scan(to...); err != nil {
		return ledger.Row{}, err
	}
	r.Created = time.UnixMilli(created)
	r.QueueWait, r.Prefill, r.Thinking, r.Answer, r.Slot = ms(waits[0]), ms(waits[1]), ms(waits[2]), ms(waits[3]), ms(waits[4])
	for i, c := range r.Counts() {
		*c = usage.Count{N: int(figures[i].n.Int64), Source: usage.Source(figures[i].source)}
	}
	return r, nil
}

func ms(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
