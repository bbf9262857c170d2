package queue

import (
	"os"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

// mutants are faults put into the scripts on purpose, one at a time. Each must
// make some schedule of TestTwoStores differ, or what TestSlotsOfWaiters plays.
var mutants = []struct{ file, old, new string }{
	{"line", "s.fence == fence and s.owner == me", "s.owner == me"},
	{"line", "s.fence == fence and s.owner == me", "s.fence == fence"},
	{"line", "if s.state == BUSY and s.id == id", "if s.id == id"},
	{"line", "NOBODY, clean, now", "NOBODY, 1, now"},
	{"line", "NOBODY, clean, now", "NOBODY, clean, s.since"},
	{"line", "'', '', NOBODY, clean", "'', '', s.purse, clean"},
	{"line", "if ARGV[3] ~= '0' then books.quiet = now + ARGV[8] end", ""},
	{"line", "if ARGV[3] ~= '0' then", "if true then"},
	{"line", "typical = 60000000", "typical = 50000000"},
	{"order", "math.max(0, till - s.since)", "till - s.since"},
	{"order", "return a.waiting > 0 or line.runs(a)", "return line.runs(a)"},
	{"order", "return a.waiting > 0 or line.runs(a)", "return a.waiting > 0"},
	{"order", "if s.state == BUSY then\n    books.typical", "if true then\n    books.typical"},
	{"order", "7 * books.typical", "6 * books.typical"},
	{"places", "if a.urgency ~= b.urgency then return a.urgency < b.urgency end", ""},
	{"places", "if a.level ~= b.level then return a.level < b.level end", ""},
	{"places", "if a.level ~= b.level then return a.level < b.level end", "if a.level ~= b.level then return a.level > b.level end"},
	{"places", "since <= cutoff and", "since < cutoff and"},
	{"places", "since <= cutoff and", "false and"},
	{"places", "if a.starving ~= b.starving then return a.starving < b.starving end", ""},
	{"places", "return a.starving ~= nil", "return true"},
	{"places", "if a.urgency < t.urgency then return a.waiting end", ""},
	{"places", "if t.starving or a.urgency", "if a.urgency"},
	{"places", "if t.starving or a.urgency > t.urgency or", "if t.starving or"},
	{"places", "if not line.sooner(a, t) then return 0 end", ""},
	{"places", "if turns >= a.waiting then return a.waiting end", ""},
	{"accounts", "line.charge(s, math.min(now, o.till))", "line.charge(s, now)"},
	{"accounts", "line.charge(s, math.min(now, o.till))", "line.bill(s)"},
	{"accounts", "line.charge(s, math.min(now, o.till))", ""},
	{"moves", "if state == BUSY then s.purse", "if true then s.purse"},
	{"moves", "math.max(books.fence + 1, now)", "now"},
	{"moves", "math.max(books.fence + 1, now)", "books.fence + 1"},
	{"accounts", "line.release(s, 0)", "line.release(s, 1)"},
	{"accounts", "      line.release(s, 0)\n", ""},
	{"accounts", "    line.withdraw(ids)\n  end", "  end"},
	{"moves", "books.gate == OPEN and now >= books.quiet", "now >= books.quiet"},
	{"moves", "books.gate == OPEN and now >= books.quiet", "books.gate == OPEN"},
	{"moves", "now >= books.quiet", "now > books.quiet"},
	{"accounts", "if record and not seen[id]", "if record"},
	{"moves", "s.clean = 0", "s.clean = s.clean"},
	{"moves", "if s.state == IDLE and s.clean == 1 then\n", "if s.state == IDLE then\n"},
	{"moves", "% 2 == 1 then return s end", "% 2 == 1 then first = s end"},
	{"moves", "prefer / 2 ^ (i - 1)", "prefer / 2 ^ i"},
	{"moves", "prefer / 2 ^ (i - 1)) % 2 == 1", "prefer / 2 ^ (i - 1)) >= 1"},
	{"moves", "first = first or s", "first = s"},
	{"moves", "      first = first or s\n", ""},
	{"moves", "line.hand(line.ready(t.prefer), t, t.id, BUSY)", "line.hand(line.ready(0), t, t.id, BUSY)"},
	{"moves", "t.cost, t.prefer, t.user)", "t.cost, 0, t.user)"},
	{"order", "line.int(t.prefer) .. ' '", "'0 '"},
	{"order", "prefer = tonumber(prefer), key", "prefer = 0, key"},
	{"accounts", "prefer = tonumber(prefer), user", "prefer = 0, user"},
	{"moves", "while books.waiting > 0 and line.ready(0)", "while books.waiting > 1 and line.ready(0)"},
	{"line_join", "return line.ready(ticket.prefer)", "return line.ready(0)"},
	{"line_join", "prefer = tonumber(ARGV[own + 8])", "prefer = 0"},
	{"line_rejoin", "prefer = tonumber(ARGV[i + 6])", "prefer = 0"},
	{"slot_yield", "prefer = 0", "prefer = 1"},
	{"moves", "line.hand(s, t, '', ABORTING)", "line.hand(s, t, '', BUSY)"},
	{"moves", "if owners[i].till <= now", "if owners[i].till < now"},
	{"moves", "books.version + 1", "books.version"},
	{"moves", "to.owner, id, 0, now", "to.owner, id, s.clean, now"},
	{"moves", "if #owners == 0 then", "if #owners <= 1 then"},
	{"moves", "books.gate == OPEN and", "books.gate ~= DRAINING and"},
	{"moves", "if not line.sick(s.state) then return 0 end", ""},
	{"moves", "if s.state == POISONED then state = POISONED end", ""},
	{"line_join", "if books.gate == DRAINING then return CLOSED end", ""},
	{"line_join", "books.gate == DRAINING", "books.gate ~= OPEN"},
	{"line_switch", "books.version = books.version + 1", ""},
	{"line_join", "elseif s and s.owner == me then", "elseif s then"},
	{"line_join", "if t and t.owner == me then", "if t then"},
	{"line_join", "books.waiting >= tonumber", "books.waiting > tonumber"},
	{"line_join", ">= tonumber(limit)", "> tonumber(limit)"},
	{"line_join", "ARGV[own + 3] == '0' and ARGV[5] or ARGV[own + 3]", "ARGV[5]"},
	{"line_join", "now - s.since <= grace", "now - s.since < 0"},
	{"line_join", "if s.state == POISONED then illness = ALL_POISONED end", ""},
	{"line_join", "if illness ~= DONE then return illness end", ""},
	{"line_join", "math.max(books.arrival + 1, now)", "now"},
	{"line_join", "books.waiting == 0 and line.granting()", "books.waiting == 0"},
	{"line_join", "books.waiting == 0 and line.granting()", "line.granting()"},
	{"line_join", "books.version = books.version + 2", ""},
	{"line_rejoin", "not line.lookup(id) and ", ""},
	{"line_rejoin", " and not line.running(id)", ""},
	{"line_rejoin", "math.max(books.arrival, t.arrival)", "books.arrival"},
	{"slot_free", "tonumber(ARGV[own + 2])", "1"},
	{"slot_free", "  line.bill(s)\n", ""},
	{"slot_free", "if ARGV[own + 3] then line.withdraw({unpack(ARGV, own + 3)}) end\nline.settle()", "line.settle()\nif ARGV[own + 3] then line.withdraw({unpack(ARGV, own + 3)}) end"},
	{"slot_free", "  verdict = STALE\n", ""},
	{"slot_mark", " and not (line.sick(s.state) and line.sick(state))", ""},
	{"slot_mark", "if s.state ~= state and not", "if not"},
	{"slot_mark", "  if state ~= BUSY then line.bill(s) end\n", ""},
	{"owner_renew", "line.owner().till = now + lease", "line.owner()"},
	{"owner_renew", "s and s.state == IDLE and", "s and"},
	{"owner_renew", "h.fence > s.fence", "h.fence >= s.fence"},
	{"owner_renew", "books.fence = math.max(books.fence, h.fence)", ""},
	{"owner_renew", "s.state == BUSY and s.asked == ASKED and", "s.state == BUSY and"},
	{"owner_renew", "s.state == BUSY and s.asked == ASKED and", "s.asked == ASKED and"},
	{"moves", "string.sub(s.purse, 1, 1) == '2' and", ""},
	{"moves", "and s.asked == UNASKED and not", "and not"},
	{"moves", "not (best and s.fence < best.fence)", "not best"},
	{"moves", "s.state == ABORTING or s.state == BUSY and s.asked == ASKED", "s.state == ABORTING"},
	{"moves", "s.state == ABORTING or s.state == BUSY and s.asked == ASKED", "s.state == BUSY and s.asked == ASKED"},
	{"moves", "books.waiting == 0 or not line.granting() or not line.youngest()", "books.waiting == 0 or not line.youngest()"},
	{"slot_yield", "not s or s.asked ~= ASKED", "not s"},
	{"slot_yield", "elseif s.state == BUSY then", "else"},
	{"slot_yield", "arrival = s.came, cost", "arrival = now, cost"},
	{"slot_keep", "if s and s.asked == ASKED then", "if s then"},
	{"slot_keep", "s.asked = KEPT", ""},
	{"moves", "if books.gate ~= OPEN then return end", ""},
	{"moves", "if not line.sick(s.state) then", "if true then"},

	{"places", "n * math.floor(a.cost / a.waiting)", "n * a.cost"},
	{"moves", "if t.cost == 0 then t.cost = books.typical end", ""},
	{"slot_yield", "cost = s.cost, key", "cost = 0, key"},
	{"order", "['0'] = 1, ['1'] = 0, ['2'] = 2", "['0'] = 1, ['1'] = 1, ['2'] = 2"},
	{"order", "['0'] = 1, ['1'] = 0, ['2'] = 2", "['0'] = 1, ['1'] = 0, ['2'] = 1"},
	{"order", "s.purse == a.purse and (not a.within or s.user == a.user)", "(not a.within or s.user == a.user)"},
	{"order", "s.purse == a.purse and (not a.within or s.user == a.user)", "s.purse == a.purse"},
	{"order", "return s.state == BUSY and s.purse == a.purse", "return s.purse == a.purse"},
	{"order", "  if s.state ~= BUSY then return 0 end\n", ""},
	{"order", "if line.serves(s, a) then used = used + line.spent(s, now) end", ""},
	{"order", "if line.serves(s, a) then return true end", ""},
	{"order", "if a and line.active(a) then", "if false then"},
	{"order", "    a.came = math.min(a.came, arrival)\n", ""},
	{"accounts", "  a.came = arrival\n", ""},
	{"accounts", "if line.active(a) then low = math.min(low, line.level(a)) end", "low = math.min(low, line.level(a))"},
	{"accounts", "if line.active(a) then low = math.min(low, line.level(a)) end", "if line.active(a) then low = math.min(low, a.used) end"},
	{"accounts", "if line.active(a) then low = math.min(low, line.level(a)) end", ""},
	{"accounts", "if entry then low = math.min(low, ", "if entry then low = math.max(0, "},
	{"accounts", "if line.hidden(g.of and g) > 0 then", "if false then"},
	{"accounts", "if line.hidden(g.of and g) > 0 then", "if line.hidden(g) > 0 then"},
	{"accounts", "other ~= a and other.used <= low and", "other ~= a and other.used < low and"},
	{"accounts", "other ~= a and other.used <= low and not line.active(other)", "other ~= a and not line.active(other)"},
	{"accounts", "low == math.huge and ':' or line.digits(low + 1)", "line.digits(low)"},
	{"accounts", "low == math.huge and ':' or line.digits(low + 1)", "':'"},
	{"accounts", "if g.of or books.idle > 0 then", "if false then"},
	{"accounts", "if g.of or books.idle > 0 then", "if books.idle > 0 then"},
	{"accounts", "a.used = low == math.huge and 0 or math.max(a.used, low)", "a.used = math.max(a.used, low == math.huge and 0 or low)"},
	{"accounts", "math.max(a.used, low)", "a.used"},
	{"accounts", "math.max(a.used, low)", "low"},
	{"order", "  if a.waiting > 0 then return end\n  if user", "  if user"},
	{"order", "    line.disband(a)\n  elseif user", "  elseif user"},
	{"order", "    a.apart = true\n", ""},
	{"order", "return a.apart and line.enter(line.of_users(a), t.user, t.arrival) or a", "return a.apart and (line.get(line.of_users(a), t.user) or line.make(line.of_users(a), t.user)) or a"},
	{"order", "if a then a.used, a.last = a.used + ran, math.max(a.last, till) end", ""},
	{"order", "if a then a.used, a.last = a.used + ran, math.max(a.last, till) end", "if a then a.used = a.used + ran end"},
	{"order", "if a then a.used, a.last = a.used + ran, math.max(a.last, till) end", "if a then a.used, a.last = a.used + ran, now end"},
	{"order", "if user then user.used, user.last = user.used + ran, math.max(user.last, till) end", ""},
	{"order", "if user then user.used, user.last = user.used + ran, math.max(user.last, till) end", "if user then user.used = user.used + ran end"},
	{"accounts", "tonumber(string.sub(entry, #hungry + 1, #hungry + 16)) <= cutoff", "false"},
	{"accounts", "if name then line.get(group, name) end", ""},
	{"order", "if line.hidden(g) > 0 then line.load_first(g, cutoff) end", ""},
	{"order", "return math.max(a.came, a.last)", "return a.came"},
	{"order", "return math.max(a.came, a.last)", "return a.last"},
	{"places", "a.since <= cutoff and not line.runs(a) and a.since", "a.since <= cutoff and a.since"},
	{"places", "a.since <= cutoff and not line.runs(a)", "a.since < cutoff and not line.runs(a)"},
	{"places", "if index ~= b.index then return index < b.index end", ""},
	{"places", "if a.since ~= b.since then return a.since < b.since end", ""},
	{"places", "if a.since ~= b.since then return a.since < b.since end", "if a.since ~= b.since then return a.since > b.since end"},
	{"places", "  return line.less(a.name, b.name)\nend", "  return false\nend"},
	{"places", "return line.less(a.name, b.name)\n  elseif", "return false\n  elseif"},
	{"places", "if x ~= y then return x < y end", ""},
	{"order", "return a.apart and line.foremost(line.of_users(a)) or a", "return a.apart and line.of_users(a).list[1] or a"},
	{"places", "if rest > 0 or line.earlier(a, turns, t)", "if line.earlier(a, turns, t)"},
	{"places", "if rest > 0 or line.earlier(a, turns, t)", "if rest > 0"},
	{"places", "level = own.level + index * books.typical", "level = own.level"},
	{"places", "starving = index == 0 and own.starving or nil", "starving = own.starving"},
	{"places", "starving = index == 0 and own.starving or nil", "starving = nil"},
	{"places", "    index = line.before(a.group, a, index)\n", ""},
	{"order", "if a and a.apart and not line.active(a) then line.disband(a) end", ""},
	{"order", "  line.load_running(g)\n  if line.hidden(g) > 0 then", "  if line.hidden(g) > 0 then"},
	{"order", "  for from = 1, #unfiled, 1000", "  for from = 1, 0, 1000"},
	{"order", "  for from = 1, #gone, 1000", "  for from = 1, 0, 1000"},
	{"order", "books.idle = books.idle + (a.filed == 'i' and 1 or 0)", "books.idle = books.idle"},
	{"moves", "books.pressing + n", "books.pressing"},
	{"moves", "if t.class ~= '2' then books.pressing", "if true then books.pressing"},
	{"moves", "a.within.claimants + n", "a.within.claimants"},
	{"moves", "books.claimants = books.claimants + n", "books.claimants = books.claimants"},
	{"accounts", "call('HDEL', TICKETS, unpack(there))", ""},
	{"moves", "call('HDEL', TICKETS, t.id)", ""},
	{"moves", "call('ZREM', QUEUES, t.member)", ""},
	{"order", "if not several then line.weigh(best) end", ""},
	{"order", "        line.weigh(a)\n", ""},
	{"order", "a.filed ~= a.was_filed or a.filed", "a.filed"},
	{"order", "(a.used ~= a.was_used or line.since(a) ~= a.was_since)", "a.used ~= a.was_used"},
	{"line_join", "if books.claimants == 1 and not queue.within then", "if not queue.within then"},
	{"line_join", "if books.claimants == 1 and not queue.within then", "if books.claimants == 1 then"},
	{"line_join", "place, work = index + 1, index * math.floor(queue.cost / queue.waiting)", "place, work = index + 1, index * queue.cost"},
	{"accounts", "call('ZREM', QUEUES, unpack(members))", ""},
	{"moves", "a.cost + n * t.cost", "a.cost"},
	{"moves", "owners[t.owner].tickets + n", "owners[t.owner].tickets + 0"},
	{"moves", "to.purse, to.user, to.arrival, to.cost", "to.purse, to.user, now, to.cost"},
	{"moves", "to.purse, to.user, to.arrival, to.cost", "to.purse, to.user, to.arrival, 0"},
	{"moves", "to.purse, to.user, to.arrival, to.cost", "to.purse, '', to.arrival, to.cost"},
	{"moves", "line.since(line.account(s.purse)) > cutoff", "true"},
	{"moves", "line.since(line.account(s.purse)) > cutoff", "s.came > cutoff"},
	{"moves", "local a = line.open(t)", "local a = line.make(line.group_of(t.purse), t.purse)"},
	{"line", "s.came, s.cost, s.asked, s.user = 0, 0, UNASKED, ''", "s.user = ''"},
	{"line", "s.came, s.cost, s.asked, s.user = 0, 0, UNASKED, ''", "s.came, s.cost, s.asked = 0, 0, UNASKED"},
	{"line_join", "if a then sum = sum + a.waiting end", "if a then sum = a.waiting end"},
	{"line_join", "      line.open(ticket)\n", ""},
	{"line_join", "ticket.cost > 0 and ticket.cost or books.typical", "ticket.cost"},
	{"line_join", "books.claimants <= crowd and", ""},
	{"line_join", "books.claimants <= crowd and", "books.claimants < crowd and"},
	{"line_join", "and (not queue.within or queue.within.claimants <= crowd)", ""},
	{"line_join", "if grants[i] == id then queue = nil end", ""},
	{"owner_renew", "local a = line.enter(line.group_of(NOBODY), NOBODY, now)", "local a = line.account(NOBODY) or {}"},
	{"owner_renew", "      if h.state == BUSY then\n        local a", "      if true then\n        local a"},
	{"slot_yield", "ABORTING, '', '', NOBODY, now, 0", "ABORTING, s.id, '', NOBODY, now, 0"},
	{"slot_yield", "ABORTING, '', '', NOBODY, now, 0", "ABORTING, '', s.user, NOBODY, now, 0"},
	{"slot_yield", "ABORTING, '', '', NOBODY, now, 0", "ABORTING, '', '', s.purse, now, 0"},
	{"slot_yield", "ABORTING, '', '', NOBODY, now, 0", "ABORTING, '', '', NOBODY, s.since, 0"},
	{"slot_yield", "key = key, user = s.user,", "key = key, user = '',"},
	{"line_rejoin", "user = ARGV[i + 5]", "user = ''"},
	{"owner_quit", "line.drop(owners[me])", "owners[me] = owners[me]"},
	{"job_tell", " or line.running(id)", ""},
	{"line_leave", "line.withdraw({unpack(ARGV, own)})", "line.withdraw({ARGV[own]})"},
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
	broken := func(cfg Config) (*redisStore, Config) {
		cfg.Name = strings.Repeat("m", mutant+1) + cfg.Name
		store, err := newRedisStore(client, cfg)
		if err != nil {
			t.Fatal(err)
		}
		mutate(t, store, mutant)
		return store, cfg
	}
	if _, diff := lendTogether(broken(threeSlots("waiters"))); diff != "" {
		return true
	}
	for seed := range 3000 {
		store, cfg := broken(randomConfig(seed))
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
