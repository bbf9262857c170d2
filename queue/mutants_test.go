package queue

import (
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

// mutants are faults put into the scripts on purpose, one at a time. Each must
// make some schedule of TestTwoStores differ.
var mutants = []struct{ file, old, new string }{
	{"line", "math.max(books.fence + 1, now)", "now"},
	{"line", "math.max(books.fence + 1, now)", "books.fence + 1"},
	{"line", "s.fence == fence and s.owner == me", "s.owner == me"},
	{"line", "s.fence == fence and s.owner == me", "s.fence == fence"},
	{"line", "if s.state == BUSY and s.id == id", "if s.id == id"},
	{"line", "'', '', clean, now, true", "'', '', 1, now, true"},
	{"line", "'', '', clean, now, true", "'', '', clean, s.since, true"},
	{"line", "s.owner == o.name then release(s, 0)", "s.owner == o.name then release(s, 1)"},
	{"line", "if s.state ~= IDLE and s.owner == o.name then release(s, 0) end", ""},
	{"line", "    withdraw(ids)\n  end", "  end"},
	{"line", "if ARGV[3] ~= '0' then books.quiet = now + ARGV[8] end", ""},
	{"line", "if ARGV[3] ~= '0' then", "if true then"},
	{"line", "books.paused == 0 and now >= books.quiet", "now >= books.quiet"},
	{"line", "books.paused == 0 and now >= books.quiet", "books.paused == 0"},
	{"line", "now >= books.quiet", "now > books.quiet"},
	{"line", "if record and not seen[id]", "if record"},
	{"line", "n) <= 0 then call('HDEL', BYKEY", "n) <= 1 then call('HDEL', BYKEY"},
	{"line", "if s.clean == 1 then s.clean, s.changed = 0, true end", ""},
	{"line", "s.state == IDLE and s.clean == 1 and books.waiting", "s.state == IDLE and books.waiting"},
	{"line", "      call('HDEL', TICKETS, id)\n", ""},
	{"line", "count(t.owner, t.key, -1)", "count(me, t.key, -1)"},
	{"line", "count(t.owner, t.key, -1)", "count(t.owner, '', -1)"},
	{"line", ".owner, '', ABORTING)", ".owner, '', BUSY)"},
	{"line", "if owners[i].till <= now", "if owners[i].till < now"},
	{"line", "return t.arrival end", "return -t.arrival end"},
	{"line", "math.abs(n)", "1"},
	{"line", "to, id, 0, now, true", "to, id, s.clean, now, true"},
	{"line", "if #owners == 0 then", "if #owners <= 1 then"},
	{"line_join", "elseif s and s.owner == me then", "elseif s then"},
	{"line_join", "if t and t.owner == me then", "if t then"},
	{"line_join", "books.waiting >= tonumber", "books.waiting > tonumber"},
	{"line_join", ">= tonumber(ARGV[5])", "> tonumber(ARGV[5])"},
	{"line_join", "now - s.since <= grace", "now - s.since < 0"},
	{"line_join", "if s.state == POISONED then illness = ALL_POISONED end", ""},
	{"line_join", "if illness ~= DONE then return illness end", ""},
	{"line_join", "math.max(books.arrival + 1, now)", "now"},
	{"line_join", "if books.waiting > 0 or not granting() then", "if books.waiting > 0 then"},
	{"line_join", "if books.waiting > 0 or not granting() then", "if not granting() then"},
	{"line_join", "if s.state == IDLE and s.clean == 1 then return s", "if s.state == IDLE then return s"},
	{"line_join", "books.version = books.version + 2", ""},
	{"line_rejoin", "not lookup(id) and ", ""},
	{"line_rejoin", " and not running(id)", ""},
	{"line_rejoin", "math.max(books.arrival, t.arrival)", "books.arrival"},
	{"slot_free", "tonumber(ARGV[own + 2])", "1"},
	{"slot_free", "withdraw({unpack(ARGV, own + 3)})\nsettle()", "settle()\nwithdraw({unpack(ARGV, own + 3)})"},
	{"slot_free", "else verdict = STALE", ""},
	{"slot_mark", " and not (sick(s.state) and sick(state))", ""},
	{"slot_mark", "if s.state ~= state and not", "if not"},
	{"owner_renew", "owner().till, owners_changed = now + lease, true", "owner()"},
	{"owner_renew", "s and s.state == IDLE and", "s and"},
	{"owner_renew", "h.fence > s.fence", "h.fence >= s.fence"},
	{"owner_renew", "books.fence = math.max(books.fence, h.fence)", ""},
	{"owner_quit", "drop(owners[me])", "owners[me] = owners[me]"},
	{"job_tell", " or running(id)", ""},
	{"line_leave", "withdraw({unpack(ARGV, own)})", "withdraw({ARGV[own]})"},
}

func TestMutants(t *testing.T) {
	t.Parallel()
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
