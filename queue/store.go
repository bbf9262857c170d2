package queue

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

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
	Resync  NoteKind = iota // messages may have been lost
	Granted                 // Grant was made for the owner
	Asked                   // the job Grant.ID is to be cancelled
)

// Note is a message from another process.
type Note struct {
	Kind  NoteKind
	Grant line.Grant
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
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.line.Apply(m.began.Add(time.Since(m.began)), by, s), nil
}

func (m *memory) listen(ctx context.Context, _ string, _ func(Note)) { <-ctx.Done() }

func (m *memory) lease() time.Duration { return 0 }

// place is the position of a ticket without I/O: 1 is next.
func (m *memory) place(id string) (position, of int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.line.Position(id), m.line.Len()
}

// NewRedis returns a store that all processes with the same Redis and Config.Name
// share. The client needs ContextTimeoutEnabled, or its calls could not be
// bounded; ParseRedis sees to it. The caller closes the client after the Queue.
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
		return nil, errors.New("queue: the Redis client lacks ContextTimeoutEnabled; make its options by ParseRedis")
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

// parseNote reads what the scripts publish: "granted fence state id slot" or
// "cancel id".
func parseNote(text, owner string) (Note, bool) {
	kind, rest, _ := strings.Cut(text, " ")
	switch f := strings.SplitN(rest, " ", 4); {
	case kind == "cancel":
		return Note{Kind: Asked, Grant: line.Grant{ID: rest}}, true
	case kind == "granted" && len(f) == 4:
		d := decoder{raw: []any{f[0], f[1]}}
		g := line.Grant{Fence: d.int(), State: line.State(d.int()), ID: f[2], Slot: f[3], Owner: owner}
		return Note{Kind: Granted, Grant: g}, !d.bad
	}
	return Note{}, false
}

// ParseRedis makes the options of a Redis client from addresses as they stand in
// the configuration: redis://user:password@host:port/db or rediss:// for TLS.
// Several, as a list or separated by commas, are the nodes of a cluster, or with
// the query parameter sentinel=NAME the sentinels that watch the master NAME;
// cluster=true makes a cluster of one address. User, password, database, TLS and
// other parameters are those of the first address. Errors do not show the
// addresses, which may hold a password.
func ParseRedis(addresses ...string) (*redis.UniversalOptions, error) {
	all := &redis.UniversalOptions{}
	for i, address := range strings.Split(strings.Join(addresses, ","), ",") {
		u, err := url.Parse(strings.TrimSpace(address))
		if err != nil || u.Host == "" || (u.Scheme != "redis" && u.Scheme != "rediss") {
			return nil, fmt.Errorf("queue: Redis address %d is not of the form redis://[user:password@]host[:port][/db] or rediss://…", i+1)
		}
		query := u.Query()
		master, cluster := query.Get("sentinel"), query.Get("cluster")
		query.Del("sentinel")
		query.Del("cluster")
		u.RawQuery = query.Encode()
		one, err := redis.ParseURL(u.String())
		if err != nil {
			return nil, fmt.Errorf("queue: Redis address %d: %w", i+1, err)
		}
		if i == 0 {
			all = first(one, master)
			all.IsClusterMode, _ = strconv.ParseBool(cluster)
		}
		all.Addrs = append(all.Addrs, one.Addr)
	}
	return all, nil
}

// first is the options of all addresses, taken from the first one. Calls are
// short and repeated by the queue itself, so the client is to fail soon.
func first(one *redis.Options, master string) *redis.UniversalOptions {
	all := &redis.UniversalOptions{
		MasterName: master,
		Username:   one.Username, Password: one.Password, DB: one.DB, TLSConfig: one.TLSConfig,
		Protocol: one.Protocol, ClientName: one.ClientName,
		PoolSize: one.PoolSize, MinIdleConns: one.MinIdleConns, MaxActiveConns: one.MaxActiveConns,
		PoolTimeout: one.PoolTimeout, ConnMaxIdleTime: one.ConnMaxIdleTime, ConnMaxLifetime: one.ConnMaxLifetime,
		DialTimeout: one.DialTimeout, ReadTimeout: one.ReadTimeout, WriteTimeout: one.WriteTimeout,
		MaxRetries:               one.MaxRetries,
		ContextTimeoutEnabled:    true,
		DialerRetries:            1,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
	set(&all.DialTimeout, time.Second)
	set(&all.ReadTimeout, 2*time.Second)
	set(&all.WriteTimeout, 2*time.Second)
	set(&all.MaxRetries, 1)
	return all
}

// Exposed lists the servers that other machines can reach although o has no
// password: all but loopback addresses. With them, anybody near may cancel jobs.
func Exposed(o *redis.UniversalOptions) []string {
	if o.Password != "" || o.CredentialsProvider != nil {
		return nil
	}
	var open []string
	for _, address := range o.Addrs {
		host, _, err := net.SplitHostPort(address)
		ip := net.ParseIP(host)
		local := strings.EqualFold(strings.TrimSuffix(host, "."), "localhost") || ip != nil && ip.IsLoopback()
		if err != nil || !local {
			open = append(open, address)
		}
	}
	return open
}
