package queue

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"oneslot/queue/line"
)

// Store keeps the line, in this process (NewMemory) or in Redis (NewRedis). It
// carries out the steps of the policy one after the other, each whole or not at
// all, and is safe for concurrent use. Only this package implements it.
type Store interface {
	// apply carries out one step. An error means that its fate is unknown; every
	// step may be repeated. It returns within Config.CallTimeout.
	apply(ctx context.Context, by line.Caller, s line.Step) (line.Reply, error)
	// listen calls hear with what other processes have for owner, one at a time,
	// until ctx ends. Messages may be lost; after a gap it says so by Resync.
	listen(ctx context.Context, owner string, hear func(Note))
	// lease is how long a silent owner keeps its slots and places; 0 is for ever.
	lease() time.Duration
}

// NoteKind is what a Note is about.
type NoteKind uint8

// The kinds of notes.
const (
	Resync   NoteKind = iota // messages may have been lost
	Granted                  // Grant was made for the owner
	Asked                    // the job Grant.ID is to be cancelled
	Recalled                 // all jobs of Key are
	Vouched                  // the engine of the hold Grant is idle
)

// Note is a message from another process.
type Note struct {
	Kind  NoteKind
	Grant line.Grant
	Key   string
}

// memory is the store of one process. Its clock is the monotonic one.
type memory struct {
	began time.Time
	mu    sync.Mutex // guards line
	line  *line.Line
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

func (m *memory) listen(ctx context.Context, _ string, _ func(Note)) { <-ctx.Done() }

func (m *memory) lease() time.Duration { return 0 }

// place completes a place without I/O.
func (m *memory) place(id string, p *Place) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p.Position, p.Of, p.Gate, p.Ill = m.line.Position(id), m.line.Len(), m.line.Gate(), m.line.Ill()
}

// NewRedis returns a store that all processes with the same Redis and Config.Name
// share. The client needs ContextTimeoutEnabled, or its calls could not be
// bounded; address.Parse sees to it. The caller closes the client after the Queue.
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

func (r *redisStore) listen(ctx context.Context, owner string, hear func(Note)) {
	sub := r.client.Subscribe(ctx, r.keys.wake(owner))
	defer context.AfterFunc(ctx, func() { _ = sub.Close() })()
	for message := range sub.ChannelWithSubscriptions() {
		switch message := message.(type) {
		case *redis.Subscription: // the first, or one after a lost connection
			hear(Note{Kind: Resync})
		case *redis.Message:
			if n, ok := parseNote(message.Payload, owner); ok {
				hear(n)
			}
		}
	}
	_ = sub.Close()
}

// keys names every Redis key of one line. All share the hash tag {name}, so that
// a script's keys live in one slot of a cluster. Nothing else builds a key. What
// they hold is said at the top of lua/line.lua.
type keys struct{ name string }

func (k keys) of(part string) string { return "oneslot:{" + k.name + "}:" + part }

// all lists the keys as the scripts get them.
func (k keys) all() []string {
	return []string{
		k.of("tickets"),  // HASH those who wait
		k.of("queues"),   // ZSET the same, by class, key and arrival
		k.of("accounts"), // HASH the slot time of each key in each class
		k.of("books"),    // HASH slots, owners, counters and switches
	}
}

// wake is the pub/sub channel of an owner, or the beginning of all such names if
// owner is empty.
func (k keys) wake(owner string) string { return k.of("wake:" + owner) }

// load makes the scripts of their files, which read returns.
func (r *redisStore) load(read func(name string) (string, error)) error {
	var policy strings.Builder
	for _, name := range []string{"line", "order", "moves"} {
		text, err := read(name)
		if err != nil {
			return err
		}
		policy.WriteString(text)
	}
	for _, name := range []string{
		"line_join", "line_rejoin", "line_leave", "line_rank", "line_look", "line_switch",
		"slot_free", "slot_mark", "owner_renew", "owner_quit", "owner_call", "job_tell",
	} {
		text, err := read(name)
		if err != nil {
			return err
		}
		r.scripts[name] = redis.NewScript(policy.String() + text)
	}
	return nil
}
