package queue

import (
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

// mutants are faults put into the scripts on purpose, one at a time. Each must
// make some schedule of TestTwoStores differ.
var mutants = []struct{ file, old, new string }{
	{"line", "math.max(meta.fence + 1, now)", "now"},
	{"line", "math.max(meta.fence + 1, now)", "meta.fence + 1"},
	{"line", "s.fence == fence and s.owner == me", "s.owner == me"},
	{"line", "s.fence == fence and s.owner == me", "s.fence == fence"},
	{"line", "if s.state == BUSY and s.id == id", "if s.id == id"},
	{"line", "'', '', clean, now, true", "'', '', 1, now, true"},
	{"line", "'', '', clean, now, true", "'', '', clean, s.since, true"},
	{"line", "release(s, 0) end\n  end\n  redis.call('ZREM', OWNERS", "release(s, 1) end\n  end\n  redis.call('ZREM', OWNERS"},
	{"line", "if s.state ~= IDLE and s.owner == owner then release(s, 0) end", ""},
	{"line", "  withdraw(ids)\n  for", "  for"},
	{"line", "if survivor then meta.quiet = now + quiet_time end", ""},
	{"line", "if survivor then", "if true then"},
	{"line", "meta.paused == 1 or now < meta.quiet", "now < meta.quiet"},
	{"line", "meta.paused == 1 or now < meta.quiet", "meta.paused == 1"},
	{"line", "now < meta.quiet", "now <= meta.quiet"},
	{"line", "if t and not seen[id]", "if t"},
	{"line", "<= 0 then redis.call('HDEL', BYKEY", "<= 1 then redis.call('HDEL', BYKEY"},
	{"line", "if s.clean == 1 then s.clean, s.changed = 0, true end", ""},
	{"line", "if s.state == IDLE and s.clean == 1", "if s.state == IDLE"},
	{"line", "withdraw({id})\n", ""},
	{"line", "hand(s, lookup(id).owner, '', ABORTING)", "hand(s, lookup(id).owner, '', BUSY)"},
	{"line", "'-inf', int(now)", "'-inf', '(' .. int(now)"},
	{"line", "return t.arrival end", "return -t.arrival end"},
	{"line", "if redis.call('ZSCORE', OWNERS, me) then return true end", "redis.call('ZREM', OWNERS, me)"},
	{"line", "meta.version = meta.version + #gone", "meta.version = meta.version + 1"},
	{"line", "state, owner, id, 0, now, true\n  add", "state, owner, id, s.clean, now, true\n  add"},
	{"line_join", "if t.owner == me then out.arrival = t.arrival else out.verdict = DUPLICATE end", "out.arrival = t.arrival"},
	{"line_join", "if s.owner == me then add(out.grants, s) else out.verdict = DUPLICATE end", "add(out.grants, s)"},
	{"line_join", ">= max_waiting", "> max_waiting"},
	{"line_join", ">= max_per_key", "> max_per_key"},
	{"line_join", "now - s.since <= grace", "now - s.since < 0"},
	{"line_join", "if s.state == POISONED then verdict = ALL_POISONED end", ""},
	{"line_join", "if verdict ~= DONE then return verdict end", ""},
	{"line_join", "math.max(meta.arrival + 1, now)", "now"},
	{"line_rejoin", "not lookup(id) and ", ""},
	{"line_rejoin", " and not running(id)", ""},
	{"line_rejoin", "math.max(meta.arrival, t.arrival)", "meta.arrival"},
	{"slot_free", "tonumber(ARGV[own + 2])", "1"},
	{"slot_free", "else out.verdict = STALE", ""},
	{"slot_mark", " and not (sick(s.state) and sick(state))", ""},
	{"slot_mark", "if s.state ~= state and not", "if not"},
	{"owner_renew", "redis.call('ZADD', OWNERS, int(now + lease), me)", ""},
	{"owner_renew", "s and s.state == IDLE and", "s and"},
	{"owner_renew", "h.fence > s.fence", "h.fence >= s.fence"},
	{"owner_renew", "meta.fence = math.max(meta.fence, h.fence)", ""},
	{"owner_quit", "drop(me)", ""},
	{"job_tell", " or running(id)", ""},
	{"line_leave", "withdraw({unpack(ARGV, own)})", "withdraw({ARGV[own]})"},
}

func TestMutants(t *testing.T) {
	client := startRedis(t).client(t)
	for i, m := range mutants {
		if !dies(t, client, i) {
			t.Errorf("%s.lua lives on with %q for %q", m.file, m.new, m.old)
		}
	}
}

func dies(t *testing.T, client *redis.Client, mutant int) bool {
	t.Helper()
	for seed := range 300 {
		cfg := randomConfig(seed)
		cfg.Name = strings.Repeat("m", mutant+1) + cfg.Name
		store, err := newRedisStore(client, cfg)
		if err != nil {
			t.Fatal(err)
		}
		mutate(t, store, mutant)
		if diverge(store, cfg, seed) != "" {
			return true
		}
	}
	return false
}

func mutate(t *testing.T, store *redisStore, mutant int) {
	t.Helper()
	m := mutants[mutant]
	read := func(name string) string {
		text, err := sources.ReadFile("lua/" + name + ".lua")
		if err != nil {
			t.Fatal(err)
		}
		if name != m.file {
			return string(text)
		}
		changed := strings.Replace(string(text), m.old, m.new, 1)
		if changed == string(text) {
			t.Fatalf("mutant %d: %s.lua has no %q", mutant, name, m.old)
		}
		return changed
	}
	for name := range store.scripts {
		store.scripts[name] = redis.NewScript(read("line") + read(name))
	}
}
