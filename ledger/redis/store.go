package redis

import (
	"context"
	"crypto/rand"
	"embed"
	"fmt"
	"time"

	"oneslot/ledger"

	goredis "github.com/redis/go-redis/v9"
)

//go:embed lua/*.lua
var sources embed.FS

// Config says how the rows are kept.
type Config struct {
	// Ledger is the part of every store. Its Dir and Tend are not used.
	Ledger ledger.Config
	// Lease is how long a process that says nothing is taken to live. Zero means
	// 15 s.
	Lease time.Duration
	// CallTimeout bounds one call to Redis. Zero means 5 s.
	CallTimeout time.Duration
}

func (c Config) withDefaults() Config {
	if c.Lease == 0 {
		c.Lease = 15 * time.Second
	}
	if c.CallTimeout == 0 {
		c.CallTimeout = 5 * time.Second
	}
	return c
}

// store is the rows in Redis. Its fields but late are set once.
type store struct {
	client  goredis.UniversalClient
	cfg     Config
	owner   string
	keys    []string
	scripts map[string]*goredis.Script
	late    time.Time // when the lease was last found run out; the writer's own
	looked  time.Time // when dead processes were last looked for; the writer's own
}

// Open opens the ledger in the client's Redis, which must answer now and stays the
// caller's to close after the ledger.
func Open(ctx context.Context, client goredis.UniversalClient, cfg Config) (*ledger.Ledger, error) {
	cfg = cfg.withDefaults()
	s := &store{client: client, cfg: cfg, owner: rand.Text(), scripts: map[string]*goredis.Script{}}
	// One hash tag, as the line's keys have theirs.
	for _, part := range []string{"rows", "times", "open", "lost", "owners"} {
		s.keys = append(s.keys, "oneslot:{ledger}:"+part)
	}
	for _, name := range []string{"write", "look", "lose"} {
		text, err := sources.ReadFile("lua/" + name + ".lua")
		if err != nil {
			return nil, err
		}
		s.scripts[name] = goredis.NewScript(string(text))
	}
	if _, err := s.Write(ctx, nil, ledger.Keep{}); err != nil {
		return nil, err
	}
	cfg.Ledger.Tend = cfg.Lease / 3
	return ledger.New(s, cfg.Ledger), nil
}

// The keys by their place.
const (
	rowsKey = iota
	timesKey
	_
	_
	ownersKey
)

// run runs a script on all keys.
func (s *store) run(ctx context.Context, name string, args ...any) *goredis.Cmd {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.CallTimeout)
	defer cancel()
	return s.scripts[name].Run(ctx, s.client, s.keys, args...)
}

// together is how many rows one script takes: others wait while it runs.
const together = 200

// Write keeps the rows, some at a time; as they are keyed by their ids, a part that
// was kept before a failure does no harm when it comes again. Now and then it also ends
// what dead processes have left open.
func (s *store) Write(ctx context.Context, rows []*ledger.Row, keep ledger.Keep) (more bool, err error) {
	idle := len(rows) == 0
	for first := true; first || len(rows) > 0; first = false {
		n := min(len(rows), together)
		if more, err = s.write(ctx, rows[:n], keep); err != nil {
			return false, fault("write", err)
		}
		rows = rows[n:]
	}
	if !idle && time.Since(s.looked) < s.cfg.Lease/3 { // a look costs Redis a call for each open row
		return more, nil
	}
	s.looked = time.Now()
	return more, fault("close the rows of dead processes", s.bury(ctx))
}

func (s *store) write(ctx context.Context, rows []*ledger.Row, keep ledger.Keep) (more bool, err error) {
	var since int64
	if !keep.Since.IsZero() {
		since = max(keep.Since.UnixMilli(), 1)
	}
	args := []any{s.owner, s.cfg.Lease.Milliseconds(), since, keep.Most, ledger.MaxDelete}
	for _, r := range rows {
		text, err := pack(r)
		if err != nil {
			return false, err
		}
		args = append(args, r.ID, r.Created.UnixMilli(), r.Outcome.Open(), text)
	}
	said, err := s.run(ctx, "write", args...).Int64Slice()
	if err != nil {
		return false, err
	}
	if said[1] == 1 {
		s.late = time.Now()
	}
	return said[0] == 1, nil
}

// bury ends open rows of dead owners. Whoever was late itself may have been cut off
// with all the others, and gives them the time to come back.
func (s *store) bury(ctx context.Context) error {
	if !s.late.IsZero() && time.Since(s.late) < s.cfg.Lease {
		return nil
	}
	found, err := s.run(ctx, "look", s.cfg.Lease.Milliseconds()).StringSlice()
	if err != nil || len(found) == 0 {
		return err
	}
	var args []any
	rows := map[string]ledger.Row{}
	for i := 0; i+2 < len(found); i += 3 {
		row, err := unpack(found[i+2])
		if err != nil {
			return err
		}
		row.Lose()
		text, err := pack(&row)
		if err != nil {
			return err
		}
		args = append(args, found[i], found[i+1], text)
		rows[found[i]] = row
	}
	ended, err := s.run(ctx, "lose", args...).StringSlice()
	var lost []ledger.Row // others may have ended some of them
	for _, id := range ended {
		lost = append(lost, rows[id])
	}
	s.cfg.Ledger.Tell(lost)
	return err
}

// Close gives the lease back, so that others need not wait for its end.
func (s *store) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), s.cfg.CallTimeout)
	defer cancel()
	return fault("close", s.client.ZRem(ctx, s.keys[ownersKey], s.owner).Err())
}

func fault(doing string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("ledger: Redis: %s: %w", doing, err)
}
