package line_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"oneslot/queue/line"
)

// play is a line, the time, and whoever acts.
type play struct {
	t    *testing.T
	line *line.Line
	now  time.Time
	by   line.Caller
}

func start(t *testing.T, slots ...string) *play {
	return &play{
		t: t,
		line: line.New(line.Rules{
			Slots: slots, MaxWaiting: 3, MaxWaitingPerKey: 2,
			Lease: 15 * time.Second, PoisonGrace: time.Minute, StarvationAfter: time.Hour, Quiet: 2 * time.Second, Crowd: 32,
		}),
		now: time.Unix(1000, 0),
		by:  line.Caller{Owner: "a"},
	}
}

func (p *play) as(owner string) *play { p.by = line.Caller{Owner: owner}; return p }

func (p *play) after(d time.Duration) *play { p.now = p.now.Add(d); return p }

func (p *play) do(s line.Step) line.Reply { return p.line.Apply(p.now, p.by, s) }

// clean proves every slot idle, as menders would.
func (p *play) clean() *play {
	p.do(line.Join{ID: "probe"})
	for _, s := range p.do(line.Look{}).View.Slots {
		p.do(line.Free{Slot: s.Slot, Fence: s.Fence, Clean: true})
	}
	for _, s := range p.do(line.Look{}).View.Slots {
		if s.ID == "probe" {
			p.do(line.Free{Slot: s.Slot, Fence: s.Fence, Clean: true})
		}
	}
	return p
}

// line draws what stands where: "a:x1 b:mend | y z".
func (p *play) draw() string {
	v := p.do(line.Look{}).View
	var out []string
	for _, s := range v.Slots {
		switch {
		case s.State == line.Idle && s.Clean:
			out = append(out, "-")
		case s.State == line.Idle:
			out = append(out, "?")
		case s.ID == "":
			out = append(out, s.Owner+"!"+s.State.String())
		default:
			out = append(out, s.Owner+":"+s.ID)
		}
	}
	out = append(out, "|")
	for _, t := range v.Tickets {
		out = append(out, t.ID)
	}
	return strings.Join(out, " ")
}

func (p *play) want(drawn string) {
	p.t.Helper()
	if got := p.draw(); got != drawn {
		p.t.Errorf("line is %q, want %q", got, drawn)
	}
}

func (p *play) verdict(s line.Step, want line.Verdict) line.Reply {
	p.t.Helper()
	r := p.do(s)
	if r.Verdict != want {
		p.t.Errorf("%T%+v: verdict %d, want %d", s, s, r.Verdict, want)
	}
	return r
}

func TestUncleanSlotIsMendedFirst(t *testing.T) {
	p := start(t, "one")
	p.want("? |")
	r := p.do(line.Join{ID: "x"})
	if r.At.Place != 1 || len(r.Grants) != 1 || r.Grants[0].ID != "" || r.Grants[0].State != line.Aborting {
		t.Errorf("reply %+v", r)
	}
	p.want("a!aborting | x")
	p.do(line.Free{Slot: "one", Fence: r.Grants[0].Fence, Clean: true})
	p.want("a:x |")
}

func TestMendedForNobodyStaysClean(t *testing.T) {
	p := start(t, "one")
	g := p.do(line.Join{ID: "x"}).Grants[0]
	p.do(line.Leave{IDs: []string{"x"}})
	p.want("a!aborting |")
	p.do(line.Free{Slot: "one", Fence: g.Fence, Clean: true})
	p.want("- |")
}

func TestFirstComeFirstServed(t *testing.T) {
	p := start(t, "one").clean()
	g := p.do(line.Join{ID: "x"}).Grants[0]
	for i, id := range []string{"y", "z"} {
		if r := p.do(line.Join{ID: id}); r.At.Place != i+1 || r.Waiting != i+1 {
			t.Errorf("%s: %+v", id, r)
		}
	}
	r := p.do(line.Free{Slot: g.Slot, Fence: g.Fence, Clean: true})
	if len(r.Grants) != 1 || r.Grants[0].ID != "y" || r.Grants[0].Fence <= g.Fence {
		t.Errorf("grants %+v", r.Grants)
	}
	p.want("a:y | z")
}

func TestIllSlotHoldsNobodyUp(t *testing.T) {
	p := start(t, "one", "two").clean()
	x := p.do(line.Join{ID: "x"}).Grants[0]
	y := p.do(line.Join{ID: "y"}).Grants[0]
	p.do(line.Join{ID: "z"})
	p.verdict(line.Free{Slot: x.Slot, Fence: x.Fence}, line.Done) // unclean
	p.want("a!aborting a:y | z")
	p.do(line.Free{Slot: y.Slot, Fence: y.Fence, Clean: true})
	p.want("a!aborting a:z |")
}

// TestPreference decides between free slots only: not who is next, and nobody waits for
// a slot that is lent or not clean.
func TestPreference(t *testing.T) {
	second, third := line.Berths(0).With(1), line.Berths(0).With(2)
	p := start(t, "one", "two", "three").clean()
	p.do(line.Join{ID: "x", Prefer: third})
	p.want("- - a:x |")
	y := p.do(line.Join{ID: "y", Prefer: third.With(1)}).Grants[0]
	p.want("- a:y a:x |")
	z := p.do(line.Join{ID: "z", Prefer: second}).Grants[0]
	p.want("a:z a:y a:x |")
	p.do(line.Join{ID: "p"})
	p.do(line.Join{ID: "q", Prefer: second})
	p.do(line.Free{Slot: y.Slot, Fence: y.Fence, Clean: true})
	p.want("a:z a:p a:x | q")
	p.do(line.Free{Slot: z.Slot, Fence: z.Fence, Clean: true})
	p.want("a:q a:p a:x |")
}

// TestPreferenceOfWaiters: when several slots become free at one moment, each job in
// turn is given one that it prefers.
func TestPreferenceOfWaiters(t *testing.T) {
	p := start(t, "one", "two", "three").clean()
	p.do(line.Switch{To: line.Paused})
	p.do(line.Join{ID: "x", Prefer: line.Berths(0).With(2).With(-1).With(64)})
	p.do(line.Rejoin{Tickets: []line.Ticket{{ID: "y", Arrival: p.now.UnixMicro() + 9, Prefer: line.Berths(0).With(2).With(1)}}})
	p.do(line.Switch{To: line.Open})
	p.want("- a:y a:x |")
}

// TestUncleanIsNotPreferred: the job is given another slot, and does not wait.
func TestUncleanIsNotPreferred(t *testing.T) {
	p := start(t, "one", "two").clean()
	x := p.do(line.Join{ID: "x", Prefer: line.Berths(0).With(1)}).Grants[0]
	p.do(line.Free{Slot: x.Slot, Fence: x.Fence})
	p.do(line.Join{ID: "y", Prefer: line.Berths(0).With(1)})
	p.want("a:y ? |")
}

// TestOwnLimit: a key's own limit holds in place of the common one, above and below it.
func TestOwnLimit(t *testing.T) {
	p := start(t, "one")
	p.verdict(line.Join{ID: "1", Key: "k", Limit: 1}, line.Done)
	p.verdict(line.Join{ID: "2", Key: "k", Limit: 1}, line.KeyLimit)
	p.verdict(line.Join{ID: "2", Key: "k", Limit: 3}, line.Done)
	p.verdict(line.Join{ID: "3", Key: "k", Limit: 2}, line.KeyLimit)
	p.verdict(line.Join{ID: "3", Key: "k", Limit: 3}, line.Done)
	p.verdict(line.Join{ID: "4", Key: "k", Limit: 9}, line.Full)
}

func TestLimits(t *testing.T) {
	p := start(t, "one")
	p.verdict(line.Join{ID: "1", Key: "k"}, line.Done)
	p.verdict(line.Join{ID: "2", Key: "k"}, line.Done)
	p.verdict(line.Join{ID: "3", Key: "k"}, line.KeyLimit)
	p.verdict(line.Join{ID: "3", Key: "other"}, line.Done)
	p.verdict(line.Join{ID: "4"}, line.Full)
	p.do(line.Leave{IDs: []string{"1", "1", "nobody"}})
	p.verdict(line.Join{ID: "5", Key: "k"}, line.Done)
	p.verdict(line.Join{ID: "6", Key: "k"}, line.Full)
}

func TestJoinTwice(t *testing.T) {
	p := start(t, "one").clean()
	first := p.do(line.Join{ID: "x"})
	again := p.verdict(line.Join{ID: "x"}, line.Done)
	if !reflect.DeepEqual(first.Grants, again.Grants) {
		t.Errorf("granted %+v, then %+v", first.Grants, again.Grants)
	}
	waits := p.do(line.Join{ID: "y"})
	if again := p.verdict(line.Join{ID: "y"}, line.Done); again.Arrival != waits.Arrival || again.Waiting != 1 {
		t.Errorf("waits %+v, then %+v", waits, again)
	}
	p.as("b").verdict(line.Join{ID: "x"}, line.Duplicate)
	p.verdict(line.Join{ID: "y"}, line.Duplicate)
}

func TestFencing(t *testing.T) {
	p := start(t, "one").clean()
	old := p.do(line.Join{ID: "x"}).Grants[0]
	p.do(line.Free{Slot: "one", Fence: old.Fence, Clean: true})
	young := p.as("b").do(line.Join{ID: "y"}).Grants[0]
	p.as("a").verdict(line.Free{Slot: "one", Fence: old.Fence, Clean: true}, line.Stale)
	p.verdict(line.Free{Slot: "one", Fence: young.Fence, Clean: true}, line.Stale)
	p.verdict(line.Mark{Slot: "one", Fence: old.Fence, State: line.Poisoned}, line.Stale)
	p.verdict(line.Free{Slot: "nowhere", Fence: old.Fence}, line.Stale)
	if r := p.do(line.Renew{Holds: []line.Grant{old}}); len(r.Lost) != 1 || len(r.Holds) != 0 {
		t.Errorf("renewed %+v", r)
	}
	p.want("b:y |")
}

func TestDeadOwner(t *testing.T) {
	p := start(t, "one").clean()
	p.do(line.Join{ID: "x"})
	p.do(line.Join{ID: "w"})
	p.as("b").do(line.Join{ID: "y"})
	if r := p.after(14 * time.Second).do(line.Renew{}); r.Due != 1_000_000 {
		t.Errorf("the other's lease ends in %d µs", r.Due)
	}
	p.want("a:x | w y")
	p.after(time.Second).want("b!aborting | y") // to the microsecond
	if r := p.do(line.Renew{}); r.Due != 0 {
		t.Errorf("alone, and another's lease ends in %d µs", r.Due)
	}
	if r := p.as("a").do(line.Renew{}); r.Known || r.Mine != 0 {
		t.Errorf("the dead renewed: %+v", r)
	}
}

func TestRenewKeeps(t *testing.T) {
	p := start(t, "one").clean()
	x := p.do(line.Join{ID: "x"}).Grants[0]
	p.do(line.Join{ID: "w"})
	for range 10 {
		r := p.after(14 * time.Second).do(line.Renew{Holds: []line.Grant{x}})
		if !r.Known || r.Mine != 1 || len(r.Lost) != 0 || !reflect.DeepEqual(r.Holds, []line.Grant{x}) {
			t.Fatalf("renewed %+v", r)
		}
	}
}

func TestQuit(t *testing.T) {
	p := start(t, "one").clean()
	p.do(line.Join{ID: "x"})
	p.do(line.Join{ID: "w"})
	p.as("b").do(line.Join{ID: "y"})
	p.as("a").do(line.Quit{})
	p.want("b!aborting | y")
}

// TestNobodyWatched: after a time without any process, idle engines are to be
// proved again.
func TestNobodyWatched(t *testing.T) {
	p := start(t, "one").clean()
	p.do(line.Quit{})
	p.want("- |")
	p.as("b").do(line.Renew{})
	p.want("? |")
	p.as("c").do(line.Renew{}) // b is there already
	g := p.do(line.Join{ID: "x"}).Grants[0]
	p.do(line.Leave{IDs: []string{"x"}})
	p.do(line.Free{Slot: "one", Fence: g.Fence, Clean: true})
	p.as("d").do(line.Renew{})
	p.want("- |")
}

func TestIllness(t *testing.T) {
	p := start(t, "one", "two")
	p.do(line.Join{ID: "x"})
	slots := p.do(line.Look{}).View.Slots
	ill := func(i int, s line.State) {
		p.verdict(line.Mark{Slot: slots[i].Slot, Fence: slots[i].Fence, State: s}, line.Done)
	}
	renew := func(d time.Duration) {
		for range 10 {
			p.after(d / 10).do(line.Renew{})
		}
	}
	ill(0, line.Down)
	renew(time.Minute)
	ill(1, line.Down)
	renew(time.Minute)
	p.verdict(line.Join{ID: "y"}, line.Done) // within the grace of the second
	p.after(time.Microsecond).verdict(line.Join{ID: "z"}, line.AllDown)
	ill(0, line.Poisoned) // one illness, as old as it was
	p.verdict(line.Join{ID: "z"}, line.AllPoisoned)
	ill(0, line.Aborting)
	p.verdict(line.Join{ID: "z"}, line.Done)
}

func TestGate(t *testing.T) {
	p := start(t, "one").clean()
	p.do(line.Switch{To: line.Paused})
	p.do(line.Join{ID: "x"})
	p.want("- | x")
	p.do(line.Switch{To: line.Draining})
	p.want("- | x")
	p.verdict(line.Join{ID: "x"}, line.Done) // it is there already
	p.verdict(line.Join{ID: "y"}, line.Closed)
	if r := p.do(line.Look{}); r.Gate != line.Draining || r.View.Gate != line.Draining {
		t.Errorf("the gate is %v, in the view %v", r.Gate, r.View.Gate)
	}
	if r := p.do(line.Switch{}); len(r.Grants) != 1 {
		t.Errorf("resumed %+v", r)
	}
	p.want("a:x |")
}

// TestIll: the line is ill while no slot is well.
func TestIll(t *testing.T) {
	p := start(t, "one", "two").clean()
	one, two := p.do(line.Join{ID: "x"}).Grants[0], p.do(line.Join{ID: "y"}).Grants[0]
	for i, c := range []struct {
		slot  line.Grant
		state line.State
		want  line.State
	}{
		{one, line.Poisoned, 0}, {two, line.Down, line.Poisoned}, {one, line.Down, line.Down}, {two, line.Aborting, 0},
	} {
		if r := p.do(line.Mark{Slot: c.slot.Slot, Fence: c.slot.Fence, State: c.state}); r.Ill != c.want {
			t.Errorf("%d: ill is %v, want %v", i, r.Ill, c.want)
		}
	}
}

// TestLostData: survivors bring their tickets and holds to an empty store.
func TestLostData(t *testing.T) {
	old := start(t, "one").clean()
	x := old.do(line.Join{ID: "x"}).Grants[0]
	w := old.do(line.Join{ID: "w"})
	p := start(t, "one").after(5 * time.Second)
	p.by.Epoch = w.Epoch
	r := p.do(line.Join{ID: "new"})
	if r.Epoch == w.Epoch || len(r.Grants) != 0 {
		t.Errorf("the empty store answered %+v", r)
	}
	p.do(line.Rejoin{Tickets: []line.Ticket{{ID: "w", Arrival: w.Arrival}}})
	if r := p.do(line.Renew{Holds: []line.Grant{x}}); len(r.Lost) != 0 || !reflect.DeepEqual(r.Holds, []line.Grant{x}) {
		t.Errorf("renewed %+v", r)
	}
	p.want("a:x | w new")
	next := p.after(2 * time.Second).do(line.Free{Slot: "one", Fence: x.Fence, Clean: true})
	if len(next.Grants) != 1 || next.Grants[0].ID != "w" || next.Grants[0].Fence <= x.Fence {
		t.Errorf("grants %+v", next.Grants)
	}
}

// TestQuiet: after data were lost nothing is handed out until survivors can have
// told what they hold; a first start does not wait.
func TestQuiet(t *testing.T) {
	p := start(t, "one")
	p.by.Epoch = 1
	p.do(line.Join{ID: "x"})
	p.after(2*time.Second - time.Microsecond).want("? | x")
	p.after(time.Microsecond).want("a!aborting | x")
}

func TestTellAndRank(t *testing.T) {
	p := start(t, "one").clean()
	p.do(line.Join{ID: "x"})
	p.do(line.Join{ID: "y"})
	p.verdict(line.Tell{ID: "x"}, line.Done)
	p.verdict(line.Tell{ID: "y"}, line.Done)
	p.verdict(line.Tell{ID: "z"}, line.Stale)
	if r := p.do(line.Rank{IDs: []string{"y", "x", "z"}}); !reflect.DeepEqual(r.Ranks, []line.Standing{{Place: 1}, {}, {}}) {
		t.Errorf("ranks %v", r.Ranks)
	}
}

func TestNames(t *testing.T) {
	for _, c := range []line.Class{line.Default, line.Interactive, line.Batch} {
		if got, err := line.ParseClass(c.String()); err != nil || got != c {
			t.Errorf("%v is parsed as %v, %v", c, got, err)
		}
	}
	if got, err := line.ParseClass(""); err != nil || got != line.Default {
		t.Errorf("nothing is parsed as %v, %v", got, err)
	}
	if _, err := line.ParseClass("vip"); err == nil {
		t.Error("vip was parsed")
	}
	text := fmt.Sprint(line.Idle, line.Busy, line.Aborting, line.Poisoned, line.Down, line.State(0), line.State(9), line.Class(9))
	if text != "idle busy aborting poisoned down unknown unknown Class(9)" {
		t.Error(text)
	}
}

func BenchmarkFreeAndGrant(b *testing.B) {
	for _, waiting := range []int{10, 10_000} {
		b.Run(fmt.Sprint(waiting), func(b *testing.B) {
			l := line.New(line.Rules{Slots: []string{"one"}, MaxWaiting: 1 << 30, MaxWaitingPerKey: 1 << 30})
			now, by := time.Unix(1000, 0), line.Caller{Owner: "a"}
			ids := make([]string, b.N+waiting)
			for i := range ids {
				ids[i] = fmt.Sprintf("%032x", i)
			}
			g := l.Apply(now, by, line.Join{ID: ids[0], Key: "k"}).Grants[0]
			for _, id := range ids[1:waiting] {
				l.Apply(now, by, line.Join{ID: id, Key: "k"})
			}
			b.ReportAllocs()
			b.ResetTimer()
			for i := range b.N {
				l.Apply(now, by, line.Join{ID: ids[waiting+i], Key: "k"})
				g = l.Apply(now, by, line.Free{Slot: g.Slot, Fence: g.Fence, Clean: true}).Grants[0]
			}
		})
	}
}
