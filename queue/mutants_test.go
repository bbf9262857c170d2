package queue

import (
	"os"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

// mutants are faults put into the scripts on purpose, one at a time. Each must
// make some schedule of TestTwoStores differ.
var mutants = []struct{ file, old, new string }{
	{"line", "s.fence == fence and s.owner == me", "s.owner == me"},
	{"line", "s.fence == fence and s.owner == me", "s.fence == fence"},
	{"line", "if s.state == BUSY and s.id == id", "if s.id == id"},
	{"line", "NOBODY, clean, now, true", "NOBODY, 1, now, true"},
	{"line", "NOBODY, clean, now, true", "NOBODY, clean, s.since, true"},
	{"line", "'', '', NOBODY, clean", "'', '', s.purse, clean"},
	{"line", "if ARGV[3] ~= '0' then books.quiet = now + ARGV[8] end", ""},
	{"line", "if ARGV[3] ~= '0' then", "if true then"},
	{"line", "books.typical = 60000000", "books.typical = 50000000"},
	{"order", "class == '1' and 0 or", ""},
	{"order", "or class == '2' and 2 or 1", "or 1"},
	{"order", "format('%s %d ', class, #key) .. key", "class .. key"},
	{"order", "if s.state ~= BUSY or s.purse ~= purse", "if s.state ~= BUSY"},
	{"order", "if s.state ~= BUSY or s.purse ~= purse", "if s.purse ~= purse"},
	{"order", "math.max(0, till - s.since)", "till - s.since"},
	{"order", "used = used + spent(s, a.purse, now)", ""},
	{"order", "return a.waiting > 0 or runs(a)", "return runs(a)"},
	{"order", "return a.waiting > 0 or runs(a)", "return a.waiting > 0"},
	{"order", "if s.state == BUSY and s.purse == a.purse then return true end", ""},
	{"order", "if a and active(a) then return a end", ""},
	{"order", "if other.class == a.class and active(other)", "if active(other)"},
	{"order", "if other.class == a.class and active(other)", "if other.class == a.class"},
	{"order", "math.min(least, level(other))", "math.min(least, other.used)"},
	{"order", "math.min(least, level(other))", "level(other)"},
	{"order", "if name ~= purse and other.class == a.class and", "if other.class ~= a.class and"},
	{"order", "other.used <= least and", "other.used < least and"},
	{"order", "other.used <= least and not active(other)", "other.used <= least"},
	{"order", "other.used <= least and not active(other)", "not active(other)"},
	{"order", "least == math.huge and 0 or", "least == math.huge and a.used or"},
	{"order", "math.max(a.used, least)", "a.used"},
	{"order", "math.max(a.used, least)", "least"},
	{"order", "if a and s.state == BUSY then a.used, a.last, a.changed = a.used + ran, math.max(a.last, till), true end", ""},
	{"order", "a.used + ran, math.max(a.last, till)", "a.used + ran, a.last"},
	{"order", "a.used + ran, math.max(a.last, till)", "a.used + ran, till"},
	{"order", "a.used + ran, math.max(a.last, till)", "a.used + ran, now"},
	{"order", "if a and s.state == BUSY then a.used", "if a then a.used"},
	{"order", "if s.state == BUSY then\n    books.typical", "if true then\n    books.typical"},
	{"order", "7 * books.typical", "6 * books.typical"},
	{"order", "if t.arrival ~= other.arrival then return t.arrival < other.arrival end", ""},
	{"order", "return t.id < other.id", "return false"},
	{"order", "return nth(a, 0).id < (b.id or nth(b, 0).id)", "return false"},
	{"order", "if a.urgency ~= b.urgency then return a.urgency < b.urgency end", ""},
	{"order", "if a.level ~= b.level then return a.level < b.level end", ""},
	{"order", "if a.level ~= b.level then return a.level < b.level end", "if a.level ~= b.level then return a.level > b.level end"},
	{"order", "if a.head ~= b.head then return a.head < b.head end", "if a.head ~= b.head then return a.head > b.head end"},
	{"order", "since <= cutoff and", "since < cutoff and"},
	{"order", "since <= cutoff and", "false and"},
	{"order", "math.max(a.head, a.last)", "a.head"},
	{"order", "and not runs(a) and since", "and since"},
	{"order", "if a.starving ~= b.starving then return a.starving < b.starving end", ""},
	{"order", "return a.starving ~= nil", "return true"},
	{"order", "if a.urgency < t.urgency then return a.waiting end", ""},
	{"order", "if t.starving or a.urgency", "if a.urgency"},
	{"order", "if t.starving or a.urgency > t.urgency or", "if t.starving or"},
	{"order", "if not sooner(a, t) then return 0 end", ""},
	{"order", "if t.index == 0 then t.starving = own.starving end", ""},
	{"order", "if t.index == 0 then t.starving = own.starving end", "t.starving = own.starving"},
	{"order", "'(' .. a.prefix) + i", "'(' .. a.prefix)"},
	{"order", "if turns >= a.waiting then return a.waiting end", ""},
	{"order", "if rest > 0 or before", "if before"},
	{"order", "if rest > 0 or before(", "if rest > 0 or not before("},
	{"order", "and {arrival = a.head} or nth(a, turns)", "and {arrival = a.head} or nth(a, 0)"},
	{"order", "if a == t.own then return t.index end", "if a == t.own then return 0 end"},
	{"order", "own.level + t.index * books.typical", "own.level"},
	{"moves", "local a = enter(t.purse)", "local a = accounts()[t.purse] or enter(t.purse)"},
	{"moves", "a.waiting > 0 and math.min(a.head, t.arrival) or t.arrival", "t.arrival"},
	{"moves", "if a.waiting > 0 then a.head = nth(a, 0).arrival end", ""},
	{"moves", "charge(s, math.min(now, o.till))", "charge(s, now)"},
	{"moves", "charge(s, math.min(now, o.till))", "bill(s)"},
	{"moves", "charge(s, math.min(now, o.till))", ""},
	{"moves", "if state == BUSY then s.purse", "if true then s.purse"},
	{"moves", "math.max(books.fence + 1, now)", "now"},
	{"moves", "math.max(books.fence + 1, now)", "books.fence + 1"},
	{"moves", "release(s, 0)", "release(s, 1)"},
	{"moves", "      release(s, 0)\n", ""},
	{"moves", "    withdraw(ids)\n  end", "  end"},
	{"moves", "books.gate == OPEN and now >= books.quiet", "now >= books.quiet"},
	{"moves", "books.gate == OPEN and now >= books.quiet", "books.gate == OPEN"},
	{"moves", "now >= books.quiet", "now > books.quiet"},
	{"moves", "if record and not seen[id]", "if record"},
	{"moves", "if s.clean == 1 then s.clean, s.changed = 0, true end", ""},
	{"moves", "s.state == IDLE and s.clean == 1 and books.waiting", "s.state == IDLE and books.waiting"},
	{"moves", "      call('HDEL', TICKETS, unpack(gone))\n", ""},
	{"moves", "      call('ZREM', QUEUES, unpack(members))\n", ""},
	{"moves", "count(t.owner, -1)", "count(me, -1)"},
	{"moves", "hand(s, t, '', ABORTING)", "hand(s, t, '', BUSY)"},
	{"moves", "if owners[i].till <= now", "if owners[i].till < now"},
	{"moves", "books.version + 1", "books.version"},
	{"moves", "to.owner, id, 0, now, true", "to.owner, id, s.clean, now, true"},
	{"moves", "if #owners == 0 then", "if #owners <= 1 then"},
	{"moves", "books.gate == OPEN and", "books.gate ~= DRAINING and"},
	{"moves", "if not sick(s.state) then return 0 end", ""},
	{"moves", "if s.state == POISONED then state = POISONED end", ""},
	{"line_join", "if books.gate == DRAINING then return CLOSED end", ""},
	{"line_join", "books.gate == DRAINING", "books.gate ~= OPEN"},
	{"line_switch", "books.version = books.version + 1", ""},
	{"line_join", "elseif s and s.owner == me then", "elseif s then"},
	{"line_join", "if t and t.owner == me then", "if t then"},
	{"line_join", "books.waiting >= tonumber", "books.waiting > tonumber"},
	{"line_join", ">= tonumber(limit)", "> tonumber(limit)"},
	{"line_join", "ARGV[own + 3] == '0' and ARGV[5] or ARGV[own + 3]", "ARGV[5]"},
	{"line_join", "if a.key == key then sum = sum + a.waiting end", "if a.key == key then sum = a.waiting end"},
	{"line_join", "now - s.since <= grace", "now - s.since < 0"},
	{"line_join", "if s.state == POISONED then illness = ALL_POISONED end", ""},
	{"line_join", "if illness ~= DONE then return illness end", ""},
	{"line_join", "math.max(books.arrival + 1, now)", "now"},
	{"line_join", "if books.waiting > 0 or not granting() then", "if books.waiting > 0 then"},
	{"line_join", "if books.waiting > 0 or not granting() then", "if not granting() then"},
	{"line_join", "if s.state == IDLE and s.clean == 1 then return s", "if s.state == IDLE then return s"},
	{"line_join", "books.version = books.version + 2", ""},
	{"line_join", "purse = enter(class .. ' ' .. key).purse", "purse = class .. ' ' .. key"},
	{"line_rejoin", "not lookup(id) and ", ""},
	{"line_rejoin", " and not running(id)", ""},
	{"line_rejoin", "math.max(books.arrival, t.arrival)", "books.arrival"},
	{"slot_free", "tonumber(ARGV[own + 2])", "1"},
	{"slot_free", "  bill(s)\n", ""},
	{"slot_free", "withdraw({unpack(ARGV, own + 3)})\nsettle()", "settle()\nwithdraw({unpack(ARGV, own + 3)})"},
	{"slot_free", "  verdict = STALE\n", ""},
	{"slot_mark", " and not (sick(s.state) and sick(state))", ""},
	{"slot_mark", "if s.state ~= state and not", "if not"},
	{"slot_mark", "  if state ~= BUSY then bill(s) end\n", ""},
	{"owner_renew", "owner().till, owners_changed = now + lease, true", "owner()"},
	{"owner_renew", "s and s.state == IDLE and", "s and"},
	{"owner_renew", "h.fence > s.fence", "h.fence >= s.fence"},
	{"owner_renew", "books.fence = math.max(books.fence, h.fence)", ""},
	{"owner_renew", "      if h.state == BUSY then enter(NOBODY) end\n", ""},
	{"owner_renew", "if h.state == BUSY then enter(NOBODY) end", "enter(NOBODY)"},
	{"owner_renew", "s.state == BUSY and s.asked == ASKED and", "s.state == BUSY and"},
	{"owner_renew", "s.state == BUSY and s.asked == ASKED and", "s.asked == ASKED and"},
	{"line", "  s.came, s.cost, s.asked = 0, 0, UNASKED\n", ""},
	{"moves", "to.purse, to.arrival, to.cost", "to.purse, now, to.cost"},
	{"moves", "string.sub(s.purse, 1, 1) == '2' and", ""},
	{"moves", "and s.asked == UNASKED and not", "and not"},
	{"moves", "not (best and s.fence < best.fence)", "not best"},
	{"moves", "math.max(s.came, accounts()[s.purse].last) > cutoff", "true"},
	{"moves", "math.max(s.came, accounts()[s.purse].last) > cutoff", "s.came > cutoff"},
	{"moves", "if a.class ~= '2' then short = short + a.waiting end", "short = short + a.waiting"},
	{"moves", "s.state == ABORTING or s.state == BUSY and s.asked == ASKED", "s.state == ABORTING"},
	{"moves", "s.state == ABORTING or s.state == BUSY and s.asked == ASKED", "s.state == BUSY and s.asked == ASKED"},
	{"moves", "books.waiting == 0 or not granting() or not youngest()", "books.waiting == 0 or not youngest()"},
	{"slot_yield", "not s or s.asked ~= ASKED", "not s"},
	{"slot_yield", "elseif s.state == BUSY then", "else"},
	{"slot_yield", "arrival = s.came, cost", "arrival = now, cost"},
	{"slot_yield", "ABORTING, '', NOBODY, now, 0, true", "ABORTING, s.id, NOBODY, now, 0, true"},
	{"slot_yield", "ABORTING, '', NOBODY, now, 0, true", "ABORTING, '', s.purse, now, 0, true"},
	{"slot_yield", "ABORTING, '', NOBODY, now, 0, true", "ABORTING, '', NOBODY, s.since, 0, true"},
	{"slot_keep", "if s and s.asked == ASKED then", "if s then"},
	{"slot_keep", "s.asked, s.changed = KEPT, true", ""},
	{"order", "if books.gate ~= OPEN then return end", ""},
	{"order", "if not sick(s.state) then", "if true then"},

	{"order", "n * math.floor(a.cost / a.waiting)", "n * a.cost"},
	{"moves", "if t.cost == 0 then t.cost = books.typical end", ""},
	{"moves", "a.cost + t.cost", "a.cost"},
	{"moves", "a.cost - t.cost", "a.cost"},
	{"moves", "to.purse, to.arrival, to.cost", "to.purse, to.arrival, 0"},
	{"line_join", "cost > 0 and cost or books.typical", "cost"},
	{"slot_yield", "cost = s.cost, key", "cost = 0, key"},
	{"owner_quit", "drop(owners[me])", "owners[me] = owners[me]"},
	{"job_tell", " or running(id)", ""},
	{"line_leave", "withdraw({unpack(ARGV, own)})", "withdraw({ARGV[own]})"},
}

// TestMutants breaks the scripts in each of these ways: the two stores must then
// be told apart. Only some are tried unless LINE_MUTANTS is "all".
func TestMutants(t *testing.T) {
	t.Parallel()
	client := startRedis(t).client(t)
	every := 8
	if os.Getenv("LINE_MUTANTS") == "all" {
		every = 1
	}
	for i, m := range mutants {
		if i%every == 0 && !dies(t, client, i) {
			t.Errorf("%s.lua lives on with %q for %q", m.file, m.new, m.old)
		}
	}
}

func dies(t *testing.T, client *redis.Client, mutant int) bool {
	t.Helper()
	for seed := range 900 {
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
	err := store.load(func(name string) (string, error) {
		text, err := sources.ReadFile("lua/" + name + ".lua")
		if name != m.file || err != nil {
			return string(text), err
		}
		changed := strings.Replace(string(text), m.old, m.new, 1)
		if changed == string(text) {
			t.Fatalf("mutant %d: %s.lua has no %q", mutant, name, m.old)
		}
		return changed, nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
