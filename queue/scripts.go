package queue

import (
	"context"
	"embed"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"oneslot/queue/line"
)

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
	keys    keys
	names   []string // of keys
	common  []any    // ARGV[4] to ARGV[11]
	scripts map[string]*redis.Script
	clock   func() int64 // the time in tests; nil: the clock of Redis
}

func newRedisStore(client scripter, cfg Config) (*redisStore, error) {
	cfg = cfg.WithDefaults()
	r := &redisStore{client: client, cfg: cfg, keys: keys{cfg.Name}, scripts: map[string]*redis.Script{}}
	r.names = r.keys.all()
	rules := cfg.rules(cfg.Lease)
	r.common = []any{
		rules.MaxWaiting, rules.MaxWaitingPerKey,
		rules.Lease.Microseconds(), rules.PoisonGrace.Microseconds(), rules.Quiet.Microseconds(),
		r.keys.wake(""), strings.Join(rules.Slots, "\n"), rules.StarvationAfter.Microseconds(),
	}
	err := r.load(func(name string) (string, error) {
		text, err := sources.ReadFile("lua/" + name + ".lua")
		return string(text), err
	})
	return r, err
}

func (r *redisStore) lease() time.Duration { return r.cfg.Lease }

func (r *redisStore) apply(ctx context.Context, by line.Caller, s line.Step) (line.Reply, error) {
	ctx, cancel := context.WithTimeout(ctx, r.cfg.CallTimeout)
	defer cancel()
	name, own := encode(s)
	ranks, many := s.(line.Rank)
	if many = many && len(ranks.IDs) > manyRanks; many {
		name, own, s = "line_look", nil, line.Look{}
	}
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
		return line.Reply{}, fmt.Errorf("%s: %w", name, err)
	}
	d := decoder{raw: raw}
	reply := d.reply(s)
	if d.bad {
		return line.Reply{}, fmt.Errorf("%s: Redis answered %v", name, raw)
	}
	if many {
		reply.Ranks, reply.View = reply.View.Ranks(ranks.IDs), nil
	}
	return reply, nil
}

// manyRanks is for how many positions the whole line is read at once and put in
// order here: a position costs Redis a look at each key that waits.
const manyRanks = 16

// encode returns the script of a step and its own arguments.
func encode(s line.Step) (script string, args []any) {
	switch s := s.(type) {
	case line.Join:
		return "line_join", []any{s.ID, uint8(s.Class), s.Key, s.Limit}
	case line.Rejoin:
		for _, t := range s.Tickets {
			args = append(args, t.ID, uint8(t.Class), t.Arrival, t.Key)
		}
		return "line_rejoin", args
	case line.Leave:
		return "line_leave", list(s.IDs)
	case line.Rank:
		return "line_rank", list(s.IDs)
	case line.Look:
		return "line_look", nil
	case line.Switch:
		return "line_switch", []any{uint8(s.To)}
	case line.Call:
		return "owner_call", []any{s.To, s.Text}
	case line.Free:
		return "slot_free", append([]any{s.Slot, s.Fence, s.Clean}, list(s.Gone)...)
	case line.Mark:
		return "slot_mark", []any{s.Slot, s.Fence, uint8(s.State)}
	case line.Renew:
		for _, h := range s.Holds {
			args = append(args, h.Slot, h.Fence, uint8(h.State), h.ID)
		}
		return "owner_renew", args
	case line.Quit:
		return "owner_quit", nil
	case line.Tell:
		return "job_tell", []any{s.ID}
	}
	panic(fmt.Sprintf("queue: no script for %T", s))
}

func list(ids []string) []any {
	args := make([]any, len(ids))
	for i, id := range ids {
		args[i] = id
	}
	return args
}

// decoder reads a reply from front to back. bad says that it was not as expected;
// the values are of no use then.
type decoder struct {
	raw []any
	bad bool
}

func (d *decoder) next() any {
	if len(d.raw) == 0 {
		d.bad = true
		return nil
	}
	v := d.raw[0]
	d.raw = d.raw[1:]
	return v
}

func (d *decoder) text() string {
	s, ok := d.next().(string)
	d.bad = d.bad || !ok
	return s
}

func (d *decoder) int() int64 {
	switch v := d.next().(type) {
	case int64:
		return v
	case string:
		n, err := strconv.ParseInt(v, 10, 64)
		d.bad = d.bad || err != nil
		return n
	}
	d.bad = true
	return 0
}

// inner returns a decoder for a list in the reply. Its faults are taken over by
// the call of each.
func (d *decoder) each(read func(*decoder)) {
	items, ok := d.next().([]any)
	d.bad = d.bad || !ok
	in := decoder{raw: items}
	for len(in.raw) > 0 && !in.bad {
		read(&in)
	}
	d.bad = d.bad || in.bad
}

func (d *decoder) grant() line.Grant {
	g := line.Grant{Slot: d.text(), Fence: d.int(), State: line.State(d.int())}
	g.Owner, g.ID = d.text(), d.text()
	return g
}

// reply reads what the scripts return; lua/line.lua says what that is.
func (d *decoder) reply(s line.Step) line.Reply {
	r := line.Reply{
		Verdict: line.Verdict(d.int()), Epoch: d.int(), Version: d.int(), Waiting: int(d.int()),
		Arrival: d.int(), Position: int(d.int()), Known: d.int() == 1, Mine: int(d.int()),
		Gate: line.Gate(d.int()), Ill: line.State(d.int()),
	}
	for _, grants := range []*[]line.Grant{&r.Grants, &r.Holds, &r.Lost} {
		d.each(func(d *decoder) { *grants = append(*grants, d.grant()) })
	}
	switch s.(type) {
	case line.Rank:
		d.each(func(d *decoder) { r.Ranks = append(r.Ranks, int(d.int())) })
	case line.Look:
		d.raw, _ = d.next().([]any)
		r.View = d.view()
	}
	return r
}

func (d *decoder) view() *line.View {
	v := &line.View{Now: d.int(), Gate: line.Gate(d.int()), Cutoff: d.int(), Typical: d.int()}
	d.each(func(d *decoder) {
		t := line.Ticket{ID: d.text()}
		owner, rest, _ := strings.Cut(d.text(), " ")
		class, rest, _ := strings.Cut(rest, " ")
		arrival, key, whole := strings.Cut(rest, " ")
		numbers := decoder{raw: []any{class, arrival}}
		t.Owner, t.Key, t.Class, t.Arrival = owner, key, line.Class(numbers.int()), numbers.int()
		d.bad = d.bad || numbers.bad || !whole
		v.Tickets = append(v.Tickets, t)
	})
	d.each(func(d *decoder) {
		v.Slots = append(v.Slots, line.Berth{Grant: d.grant(), Clean: d.int() == 1, Since: d.int(), Purse: d.purse()})
	})
	d.each(func(d *decoder) {
		v.Accounts = append(v.Accounts, line.Account{Purse: d.purse(), Used: d.int(), Last: d.int()})
	})
	v.Arrange()
	return v
}

func (d *decoder) purse() line.Purse {
	class, key, whole := strings.Cut(d.text(), " ")
	number := decoder{raw: []any{class}}
	p := line.Purse{Class: line.Class(number.int()), Key: key}
	d.bad = d.bad || number.bad || !whole
	return p
}
