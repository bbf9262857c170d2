package queue

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"reflect"
	"strconv"
	"testing"
	"time"

	"oneslot/queue/line"
)

// TestTwoStores drives the pure policy and the scripts with the same random steps
// and demands the same replies: order, positions, grants, fences, outcomes.
// LINE_SCHEDULES sets how many schedules are run.
func TestTwoStores(t *testing.T) {
	t.Parallel()
	n := 100
	if text := os.Getenv("LINE_SCHEDULES"); text != "" {
		n, _ = strconv.Atoi(text)
	}
	client := startRedis(t).client(t)
	for seed := range n {
		cfg := randomConfig(seed)
		store, err := newRedisStore(client, cfg)
		if err != nil {
			t.Fatal(err)
		}
		if diff := diverge(store, cfg, seed); diff != "" {
			t.Fatalf("seed %d, %+v: %s", seed, cfg.rules(cfg.Lease), diff)
		}
	}
}

func randomConfig(seed int) Config {
	r := rand.New(rand.NewPCG(uint64(seed), 1))
	many := 1 + r.IntN(3)
	if seed%5 == 4 {
		many = 3
	}
	return Config{
		Name:             fmt.Sprintf("seed%d", seed),
		Slots:            []string{"a", "b c", "d"}[:many],
		MaxWaiting:       []int{2 + r.IntN(8), 40}[seed/2%2],
		MaxWaitingPerKey: []int{1 + r.IntN(4), 40}[seed/4%2],
		PoisonGrace:      3 * time.Second,
		StarvationAfter:  []time.Duration{10 * time.Minute, 5 * time.Second, 20 * time.Second}[r.IntN(3)],
		Poll:             time.Duration(1+seed%2*4) * time.Second,
		Lease:            []time.Duration{0, 0, 2 * time.Minute}[r.IntN(3)],
		crowd:            []int{32, 3}[seed/3%2],
	}.WithDefaults()
}

// diverge runs one schedule and describes the first difference.
func diverge(store *redisStore, cfg Config, seed int) string {
	s := &schedule{
		Rand:  rand.New(rand.NewPCG(uint64(seed), 2)),
		cfg:   cfg,
		now:   time.Unix(1_700_000_000, 0),
		epoch: map[string]int64{},
		ill:   seed%3 == 0,
		crowd: seed%4 == 2,
		apart: seed/2%3 > 0,
		press: seed%5 > 2,
		luck:  []int{40, 15}[seed%2],
	}
	store.clock = func() int64 { return s.now.UnixMicro() }
	policy := line.New(cfg.rules(cfg.Lease))
	for i := range 80 {
		s.by = []string{"x-1", "y-2", "z-3"}[s.IntN(3)]
		step := s.opening(i)
		if step == nil {
			s.advance()
			if s.IntN(s.luck) == 0 { // Redis loses its data
				if err := wipe(store); err != nil {
					return err.Error()
				}
				policy = line.New(cfg.rules(cfg.Lease))
			}
			step = s.step()
		}
		by := line.Caller{Owner: s.by, Epoch: s.epoch[s.by]}
		want, diff := both(policy, store, by, step)
		if diff != "" {
			return fmt.Sprintf("step %d: %s", i, diff)
		}
		s.learn(by, want)
	}
	return ""
}

// both has the policy and the scripts take a step, and describes how they differ.
func both(policy *line.Line, store *redisStore, by line.Caller, step line.Step) (want line.Reply, diff string) {
	want = policy.Apply(time.UnixMicro(store.clock()), by, step)
	got, err := store.apply(context.Background(), by, step)
	switch {
	case err != nil:
		diff = fmt.Sprintf("%s takes %T%+v: %v", by.Owner, step, step, err)
	case !reflect.DeepEqual(want, got):
		diff = fmt.Sprintf("%s takes %T%+v\n go  %+v %+v\n lua %+v %+v", by.Owner, step, step, want, want.View, got, got.View)
	}
	return want, diff
}

// TestSlotsOfWaiters: of several slots that are clean and free at one moment, both
// stores give each job in turn one that it prefers, else the first that is left.
func TestSlotsOfWaiters(t *testing.T) {
	t.Parallel()
	store, err := newRedisStore(startRedis(t).client(t), threeSlots("waiters"))
	if err != nil {
		t.Fatal(err)
	}
	if where, diff := lendTogether(store, threeSlots("waiters")); diff != "" || !reflect.DeepEqual(where, map[string]string{id(1): "d", id(2): "b c", id(3): "a"}) {
		t.Errorf("they are at %v %s", where, diff)
	}
}

func threeSlots(name string) Config {
	return Config{Name: name, Slots: []string{"a", "b c", "d"}}.WithDefaults()
}

// lendTogether plays what random schedules hardly ever come to: jobs come while the line
// is paused and three slots are clean and free, and it is opened. It returns where each
// job is then, by the policy, and the first difference to that.
func lendTogether(store *redisStore, cfg Config) (where map[string]string, diff string) {
	now := time.Unix(1_700_000_000, 0).UnixMicro()
	store.clock = func() int64 { return now }
	policy, by := line.New(cfg.rules(cfg.Lease)), line.Caller{Owner: "x-1"}
	do := func(step line.Step) (r line.Reply) {
		if diff == "" {
			now++
			r, diff = both(policy, store, by, step)
			by.Epoch = r.Epoch
		}
		return r
	}
	given := do(line.Join{ID: id(0)}).Grants
	for len(given) > 0 { // first to be made idle, then to the job, which ends
		g := given[0]
		given = append(given[1:], do(line.Free{Slot: g.Slot, Fence: g.Fence, Clean: true}).Grants...)
	}
	second, third := line.Berths(0).With(1), line.Berths(0).With(2)
	do(line.Switch{To: line.Paused})
	do(line.Join{ID: id(1), Prefer: third.With(52)})
	do(line.Join{ID: id(2), Prefer: third | second})
	do(line.Rejoin{Tickets: []line.Ticket{{ID: id(3), Arrival: now + 9, Prefer: third}}})
	where = map[string]string{}
	for _, g := range do(line.Switch{To: line.Open}).Grants {
		where[g.ID] = g.Slot
	}
	return where, diff
}

func wipe(store *redisStore) error {
	for _, key := range store.names {
		if err := store.client.Eval(context.Background(), "return redis.call('DEL', KEYS[1])", []string{key}).Err(); err != nil {
			return err
		}
	}
	return nil
}

// schedule makes up steps from what earlier ones have shown.
type schedule struct {
	*rand.Rand
	cfg     Config
	now     time.Time
	last    time.Time // a moment at which a step was taken
	epoch   map[string]int64
	ill     bool   // engines are mostly out of order
	crowd   bool   // many wait
	apart   bool   // users are told apart
	press   bool   // batch jobs are asked for their slots
	luck    int    // one step in so many finds the data lost
	by      string // who takes the next step
	made    int
	tickets []line.Ticket
	grants  []line.Grant
	asks    []line.Grant
	oldest  int64 // since when the first in line goes without the slot, at the last look
	edge    bool  // it begins to starve right now
	due     bool  // the latest job ends right now
	typical int64 // slot time, at the last look
}

// advance moves the time, now and then to the very end of a lease, of a grace, of the
// quiet time or of a ticket's patience, and seldom back.
func (s *schedule) advance() {
	switch s.IntN(20) {
	case 0:
		s.now = s.now.Add(time.Duration(s.IntN(20_000)) * time.Millisecond)
	case 1, 2:
		rules := s.cfg.rules(s.cfg.Lease)
		end := s.last.Add([]time.Duration{rules.Lease, rules.PoisonGrace, rules.Quiet, rules.StarvationAfter}[s.IntN(4)])
		if end.After(s.now) {
			s.now = end
		}
	case 3:
		if end := time.UnixMicro(s.oldest).Add(s.cfg.StarvationAfter); end.After(s.now) {
			s.now, s.edge = end, true
		}
	case 4:
		if s.IntN(3) == 0 {
			s.now = s.now.Add(-time.Duration(s.IntN(20_000)) * time.Millisecond)
		}
	case 5:
		if n := len(s.grants); n > 0 && s.typical > 0 { // the latest job takes as long as is typical, so that counters tie
			if end := time.UnixMicro(s.grants[n-1].Fence + s.typical); end.After(s.now) {
				s.now, s.due = end, true
			}
		}
	case 6, 7:
	default:
		s.now = s.now.Add(time.Duration(s.IntN(2_000_000)) * time.Microsecond)
	}
	if s.IntN(3) == 0 {
		s.last = s.now
	}
}

func (s *schedule) learn(by line.Caller, r line.Reply) {
	s.epoch[by.Owner] = r.Epoch
	if r.Arrival != 0 {
		s.tickets[len(s.tickets)-1].Arrival = r.Arrival
	}
	s.grants = append(s.grants, r.Grants...)
	s.asks = append(s.asks, r.Asks...)
	if r.View != nil {
		s.typical = r.View.Typical
	}
	if r.View != nil && len(r.View.Tickets) > 0 {
		since := map[line.Purse]int64{}
		for _, a := range r.View.Accounts {
			since[a.Purse] = max(a.Last, a.Came)
		}
		s.oldest = math.MaxInt64
		for _, t := range r.View.Tickets {
			s.oldest = min(s.oldest, since[line.Purse{Class: t.Class, Key: t.Key}])
		}
	}
}

func (s *schedule) key() string {
	return []string{"", "k", "key with\nall sorts: -{}", "k 1", "K\x00\xff:"}[s.IntN(1+s.IntN(5))]
}

// user is mostly one of a few, where users are told apart at all.
func (s *schedule) user() string {
	if !s.apart || s.IntN(10) == 0 {
		return ""
	}
	return []string{"1f", "a", "0\xff:"}[s.IntN(3)]
}

// prefer is some of the slots, now and then one that there is not. It takes no luck, so
// that what else happens does not hang on it.
func (s *schedule) prefer() line.Berths { return line.Berths(uint64(s.made) * 0x9e3779b9 >> 7 & 0xf) }

func (s *schedule) id() string {
	if len(s.tickets) == 0 || s.IntN(10) == 0 {
		return id(s.IntN(100))
	}
	return s.ticket().ID
}

// ticket is one of the latest.
func (s *schedule) ticket() line.Ticket {
	if len(s.tickets) == 0 {
		return line.Ticket{}
	}
	return s.tickets[max(0, len(s.tickets)-1-s.IntN(12))]
}

func (s *schedule) ids() []string {
	ids := make([]string, 1+s.IntN(4))
	for i := range ids {
		ids[i] = s.id()
	}
	return ids
}

// grant is one that was made, mostly a late one and mostly the caller's, sometimes
// one never made.
func (s *schedule) grant() line.Grant {
	if len(s.grants) == 0 {
		return line.Grant{Slot: s.cfg.Slots[0], Fence: 7, State: line.Busy, ID: id(1)}
	}
	g := s.grants[max(0, len(s.grants)-1-s.IntN(4))]
	if s.IntN(4) > 0 {
		s.by = g.Owner
	}
	switch s.IntN(12) {
	case 0:
		g.Fence++
	case 2:
		g.Fence += int64(time.Hour / time.Microsecond) // of a store whose clock was ahead
	case 1:
		g.Slot = "nowhere"
	}
	return g
}

// ask is mostly one that was made.
func (s *schedule) ask() line.Grant {
	if len(s.asks) == 0 || s.IntN(8) == 0 {
		return s.grant()
	}
	g := s.asks[max(0, len(s.asks)-1-s.IntN(3))]
	if s.IntN(8) > 0 {
		s.by = g.Owner
	}
	return g
}

// opening is how some schedules begin: in the quiet time of an empty store a slot is
// taken back and freed, so that it is clean and idle while somebody waits.
func (s *schedule) opening(i int) line.Step {
	if s.press {
		return s.lent(i)
	}
	if s.luck > 20 || i > 3 {
		return nil
	}
	s.by = "x-1"
	s.epoch[s.by] = 1
	hold := line.Grant{Slot: "a", Fence: s.now.UnixMicro(), State: line.Busy, ID: id(99)}
	switch i {
	case 0:
		s.made++
		s.tickets = append(s.tickets, line.Ticket{ID: id(0)})
		return line.Join{ID: id(0)}
	case 1:
		return line.Renew{Holds: []line.Grant{hold}}
	case 2:
		return line.Free{Slot: hold.Slot, Fence: hold.Fence, Clean: true}
	}
	s.now = s.now.Add(s.cfg.rules(s.cfg.Lease).Quiet)
	s.made++
	s.tickets = append(s.tickets, line.Ticket{ID: id(1)})
	return line.Join{ID: id(1)}
}

// lent is another way to begin: all slots are lent to batch jobs, and a better one
// or two come.
func (s *schedule) lent(i int) line.Step {
	many := len(s.cfg.Slots)
	j := line.Join{ID: id(s.made), Class: Batch}
	switch {
	case i == 0, i > many && i < 2*many:
	case i <= many && i <= len(s.grants):
		s.by = s.grants[i-1].Owner
		return line.Free{Slot: s.grants[i-1].Slot, Fence: s.grants[i-1].Fence, Clean: true}
	case i >= 2*many && i < 2*many+1+s.IntN(2):
		s.now = s.now.Add(time.Duration(1+s.IntN(3000)) * time.Millisecond)
		j.Class = Interactive
	default:
		return nil
	}
	s.made++
	s.tickets = append(s.tickets, line.Ticket{ID: j.ID, Class: j.Class})
	return j
}

func (s *schedule) step() line.Step {
	kind := s.IntN(28)
	if s.crowd && s.IntN(2) == 0 {
		kind = []int{0, 9, 20, 23, 24, 25}[s.IntN(6)]
	}
	if s.edge && s.IntN(4) > 0 {
		kind = 9
	}
	if s.press && s.IntN(3) > 0 {
		kind = []int{0, 9, 16, 23, 25, 27, 28, 28}[s.IntN(8)]
	}
	if s.due {
		kind = 28
	}
	s.edge, s.due = false, false
	switch kind {
	case 0, 1, 2, 3, 4, 5, 6:
		j := line.Join{ID: id(s.made), Key: s.key(), User: s.user(), Class: Class(s.IntN(3)), Cost: int64(s.IntN(3) * s.IntN(90_000_000))}
		if s.press && s.IntN(2) == 0 {
			j.Class = Batch
		}
		s.made++
		if s.made%8 == 0 {
			j.Limit = 1 + s.made%5
		}
		if s.IntN(12) == 0 {
			j.ID = s.id()
		}
		if t := s.ticket(); s.IntN(8) == 0 && t.Arrival != 0 {
			j.Of, j.Arrival = t.ID, t.Arrival
		}
		j.Prefer = s.prefer()
		s.tickets = append(s.tickets, line.Ticket{ID: j.ID, Key: j.Key, User: j.User, Class: j.Class, Prefer: j.Prefer})
		return j
	case 7, 8:
		return line.Leave{IDs: s.ids()}
	case 9, 10, 11, 12, 13:
		g := s.grant()
		if s.ill && s.IntN(4) > 0 {
			return line.Mark{Slot: g.Slot, Fence: g.Fence, State: line.Poisoned + line.State(s.IntN(2))}
		}
		f := line.Free{Slot: g.Slot, Fence: g.Fence, Clean: s.IntN(4) > 0}
		if s.IntN(4) == 0 {
			f.Gone = s.ids()
		}
		return f
	case 14, 15:
		g := s.grant()
		return line.Mark{Slot: g.Slot, Fence: g.Fence, State: line.Aborting + line.State(s.IntN(3))}
	case 16, 17, 18:
		var r line.Renew
		for range s.IntN(3) {
			r.Holds = append(r.Holds, s.grant())
		}
		return r
	case 19:
		return s.rejoin()
	case 20:
		r := line.Rank{IDs: s.ids()}
		for s.crowd && len(r.IDs) < 30 && s.IntN(8) > 0 {
			r.IDs = append(r.IDs, s.id())
		}
		return r
	case 21:
		if s.IntN(4) == 0 {
			return line.Call{To: s.by, Text: "look"}
		}
		return line.Tell{ID: s.id()}
	case 22:
		if s.IntN(3) > 0 {
			return line.Switch{To: line.Gate(max(0, s.IntN(6)-3))}
		}
		return line.Quit{}
	case 24:
		return s.twins()
	case 25, 26:
		g := s.ask()
		return line.Yield{Slot: g.Slot, Fence: g.Fence}
	case 27:
		g := s.ask()
		return line.Keep{Slot: g.Slot, Fence: g.Fence}
	case 28:
		if len(s.grants) > 0 { // the slot is clean, so that a job gets it
			g := s.grants[len(s.grants)-1]
			s.by = g.Owner
			return line.Free{Slot: g.Slot, Fence: g.Fence, Clean: true}
		}
	}
	return line.Look{}
}

// twins are new tickets that two stores have given the same arrival.
func (s *schedule) twins() line.Step {
	var r line.Rejoin
	for range 2 + s.IntN(2) {
		t := line.Ticket{ID: id(1000 - s.made), Key: s.key(), User: s.user(), Class: Class(s.IntN(3) / 2), Arrival: s.now.UnixMicro() - 7, Prefer: s.prefer()}
		s.made++
		r.Tickets, s.tickets = append(r.Tickets, t), append(s.tickets, t)
	}
	return r
}

func (s *schedule) rejoin() line.Step {
	var r line.Rejoin
	for _, t := range s.tickets {
		if t.Arrival != 0 && s.IntN(3) > 0 {
			if s.IntN(20) == 0 {
				t.Arrival += int64(time.Hour / time.Microsecond)
			}
			r.Tickets = append(r.Tickets, t)
		}
	}
	return r
}
