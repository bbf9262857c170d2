package queue

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"oneslot/queue/codec"
	"oneslot/queue/line"
	"oneslot/queue/stands"
)

// Store keeps the line, in this process (NewMemory) or in Redis (NewRedis). It
// carries out the steps of the policy one after the other, each whole or not at
// all, and is safe for concurrent use. Only this package implements it.
type Store interface {
	// apply carries out one step. An error means that its fate is unknown; every
	// step may be repeated. It returns within Config.CallTimeout.
	apply(ctx context.Context, by line.Caller, s line.Step) (line.Reply, error)
	// listen calls hear with what other processes have for owner, one at a time,
	// until ctx ends. Messages may be lost; after a gap it says so by codec.Resync.
	listen(ctx context.Context, owner string, hear func(codec.Note))
	// lease is how long a silent owner keeps its slots and places; 0 is for ever.
	lease() time.Duration
}

// storeDown gives an error of the store its cause.
func storeDown(err error) error { return fmt.Errorf("%w: %w", ErrStoreDown, err) }

// memory is the store of one process. Its clock is the monotonic one.
type memory struct {
	began time.Time
	mu    sync.Mutex // guards what follows
	line  *line.Line
	table stands.Table
}

// NewMemory returns a store that lives and dies with this process. It serves
// one Queue; there is no lease to lose.
func NewMemory(cfg Config) (Store, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &memory{began: time.Now(), line: line.New(cfg.WithDefaults().rules(0))}, nil
}

func (m *memory) apply(_ context.Context, by line.Caller, s line.Step) (line.Reply, error) {
	if _, looks := s.(line.Look); looks {
		s = line.Look{AsItIs: true}
	}
	m.mu.Lock()
	reply := m.line.Apply(m.began.Add(time.Since(m.began)), by, s)
	m.mu.Unlock()
	if reply.View != nil {
		reply.View.Arrange()
	}
	return reply, nil
}

func (m *memory) listen(ctx context.Context, _ string, _ func(codec.Note)) { <-ctx.Done() }

func (m *memory) lease() time.Duration { return 0 }

// stand is where a ticket stands, without I/O; what runs is as it was at the last step.
func (m *memory) stand(id string, now time.Time) told {
	m.mu.Lock()
	defer m.mu.Unlock()
	at, view := m.table.Of(m.line, id, now)
	if view != nil {
		m.mu.Unlock()
		view.Arrange()
		m.mu.Lock()
		m.table.Set(view, now)
		at, _ = m.table.Of(m.line, id, now)
	}
	return told{at: at, of: m.line.Len(), running: m.line.Runs(), when: now.Add(-m.began.Add(now.Sub(m.began)).Sub(m.line.Now()))}
}

// news is what the operator lets through, and whether all slots are out of order.
func (m *memory) news() (Gate, line.State) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.line.Gate(), m.line.Ill()
}

// sources are the scripts: the policy, and one file a step to be put behind it.
//
//go:embed lua/*.lua
var sources embed.FS

// scripter is what the store asks of a Redis client.
type scripter interface {
	redis.Scripter
	Subscribe(ctx context.Context, channels ...string) *redis.PubSub
}

// redisStore is the policy on Redis. All its fields are set once.
type redisStore struct {
	client  scripter
	cfg     Config
	keys    codec.Keys
	names   []string // of keys
	common  []any    // ARGV[4] to ARGV[12]
	scripts map[string]*redis.Script
	clock   func() int64 // the time in tests; nil: the clock of Redis
}

func newRedisStore(client scripter, cfg Config) (*redisStore, error) {
	cfg = cfg.WithDefaults()
	r := &redisStore{client: client, cfg: cfg, keys: codec.Keys{Name: cfg.Name}, scripts: map[string]*redis.Script{}}
	r.names = r.keys.All()
	rules := cfg.rules(cfg.Lease)
	r.common = []any{
		rules.MaxWaiting, rules.MaxWaitingPerKey,
		rules.Lease.Microseconds(), rules.PoisonGrace.Microseconds(), rules.Quiet.Microseconds(),
		r.keys.Wake(""), strings.Join(rules.Slots, "\n"), rules.StarvationAfter.Microseconds(), rules.Crowd,
	}
	err := r.load(func(name string) (string, error) {
		text, err := sources.ReadFile("lua/" + name + ".lua")
		return string(text), err
	})
	return r, err
}

func (r *redisStore) lease() time.Duration { return r.cfg.Lease }

func (r *redisStore) apply(ctx context.Context, by line.Caller, s line.Step) (line.Reply, error) {
	name, own := codec.Encode(s)
	ranks, many := s.(line.Rank)
	if many = many && len(ranks.IDs) > manyRanks; many {
		name, own, s = "line_look", nil, line.Look{}
	}
	raw, err := r.run(ctx, by, name, own...)
	if err != nil {
		return line.Reply{}, err
	}
	reply, ok := codec.Decode(raw, s)
	if !ok {
		return line.Reply{}, fmt.Errorf("%s: Redis answered %v", name, raw)
	}
	if many {
		at := reply.View.Stands()
		for _, id := range ranks.IDs {
			reply.Ranks = append(reply.Ranks, at[id])
		}
		reply.Running, reply.View = reply.View.Runs(), nil
	}
	return reply, nil
}

// run runs a script that stands behind the policy, with its own arguments.
func (r *redisStore) run(ctx context.Context, by line.Caller, name string, own ...any) ([]any, error) {
	ctx, cancel := context.WithTimeout(ctx, r.cfg.CallTimeout)
	defer cancel()
	var now int64
	if r.clock != nil {
		now = r.clock()
	}
	args := append([]any{now, by.Owner, by.Epoch}, r.common...)
	raw, err := r.scripts[name].Run(ctx, r.client, r.names, append(args, own...)...).Slice()
	if err != nil {
		if cluster, ok := r.client.(*redis.ClusterClient); ok {
			cluster.ReloadState(ctx) // the client would ask a dead master for a minute
		}
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return raw, nil
}

// manyRanks is for how many positions the whole line is read at once: each costs
// Redis a look at each key that waits.
const manyRanks = 16

// NewRedis returns a store that all processes with the same Redis and Config.Name
// share. The client needs ContextTimeoutEnabled, as from address.Parse. The caller
// closes it after the Queue.
func NewRedis(client redis.UniversalClient, cfg Config) (Store, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	bounded := true
	switch c := client.(type) {
	case *redis.Client:
		bounded = c.Options().ContextTimeoutEnabled
	case *redis.ClusterClient:
		bounded = c.Options().ContextTimeoutEnabled
	case *redis.Ring:
		return nil, errors.New("queue: a ring of Redis servers cannot hold one line; name one server, a cluster or sentinels")
	}
	if !bounded {
		return nil, errors.New("queue: the Redis client lacks ContextTimeoutEnabled; make its options by address.Parse")
	}
	return newRedisStore(client, cfg)
}

func (r *redisStore) listen(ctx context.Context, owner string, hear func(codec.Note)) {
	sub := r.client.Subscribe(ctx, r.keys.Wake(owner))
	defer context.AfterFunc(ctx, func() { _ = sub.Close() })()
	for message := range sub.ChannelWithSubscriptions() {
		switch message := message.(type) {
		case *redis.Subscription: // the first, or one after a lost connection
			hear(codec.Note{Kind: codec.Resync})
		case *redis.Message:
			if n, ok := codec.ParseNote(message.Payload, owner); ok {
				hear(n)
			}
		}
	}
	_ = sub.Close()
}

// load makes the scripts of their files, which read returns.
func (r *redisStore) load(read func(name string) (string, error)) error {
	var policy strings.Builder
	for _, part := range []struct{ before, name, behind string }{
		{"", "line", ""},
		{"function seldom()\n", "accounts", ""},
		{"", "places", "end\n"},
		{"local function order()\n", "order", "end\norder()\n"},
		{"local function moves()\n", "moves", "end\nmoves()\n"},
	} {
		text, err := read(part.name)
		if err != nil {
			return err
		}
		policy.WriteString(part.before + text + part.behind)
	}
	for _, name := range []string{
		"line_join", "line_rejoin", "line_leave", "line_rank", "line_look", "line_switch",
		"slot_free", "slot_mark", "slot_yield", "slot_keep", "owner_renew", "owner_quit", "owner_call", "job_tell", "claim_take", "claim_drop",
	} {
		text, err := read(name)
		if err != nil {
			return err
		}
		r.scripts[name] = redis.NewScript(policy.String() + text)
	}
	text, err := read("times")
	r.scripts["times"] = redis.NewScript(text)
	return err
}
