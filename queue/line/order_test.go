package line_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"oneslot/queue/line"
)

// fair starts a line with one clean slot and room for all, whose owners live on.
func fair(t *testing.T, starvation time.Duration) *play {
	p := &play{t: t, now: time.Unix(1000, 0), by: line.Caller{Owner: "a"}, line: line.New(line.Rules{
		Slots: []string{"one"}, MaxWaiting: 1000, MaxWaitingPerKey: 1000, PoisonGrace: time.Minute, StarvationAfter: starvation, Crowd: 32,
	})}
	return p.clean()
}

// script plays words, one after the other, and returns the ids in the order in
// which they got the slot:
//
//	A1      a job of key A joins, in the default class; !A1 interactive, .A1 batch;
//	        the key of 1 is ""
//	A:x1    the same of user x of key A
//	-A1     it leaves
//	5s      the time passes
//	free    the slot is freed and handed on
//	end     the same until nobody waits, each job running 10 s
func (p *play) script(words string) string {
	p.t.Helper()
	var served []string
	note := func(r line.Reply) line.Reply {
		for _, g := range r.Grants {
			served = append(served, g.ID)
		}
		return r
	}
	free := func() {
		s := p.do(line.Look{}).View.Slots[0]
		note(p.do(line.Free{Slot: s.Slot, Fence: s.Fence, Clean: true}))
	}
	for _, word := range strings.Fields(words) {
		d, err := time.ParseDuration(word)
		switch {
		case err == nil:
			p.after(d)
		case word == "free":
			free()
		case word == "end":
			for p.line.Len() > 0 {
				p.after(10 * time.Second)
				free()
			}
		case word[0] == '-':
			p.do(line.Leave{IDs: []string{word[1:]}})
		default:
			j := line.Join{ID: strings.TrimLeft(word, "!.")}
			j.Key, j.User, _ = strings.Cut(strings.TrimRight(j.ID, "0123456789"), ":")
			j.Class = map[byte]line.Class{'!': line.Interactive, '.': line.Batch}[word[0]]
			note(p.do(j))
		}
	}
	return strings.Join(served, " ")
}

func TestOrder(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ words, want string }{
		"without keys, first come":              {"1 2 3 5s 4 end", "1 2 3 4"},
		"a flood does not hold others up":       {"A1 A2 A3 A4 A5 5s B1 end", "A1 B1 A2 A3 A4 A5"},
		"two keys take turns":                   {"A1 A2 A3 A4 B1 B2 B3 end", "A1 B1 A2 B2 A3 B3 A4"},
		"three keys take turns":                 {"A1 A2 A3 B1 B2 B3 C1 C2 end", "A1 B1 C1 A2 B2 C2 A3 B3"},
		"what counts is time, not turns":        {"A1 A2 A3 B1 B2 B3 B4 B5 30s free end", "A1 B1 B2 B3 A2 B4 A3 B5"},
		"first come among equals":               {"X1 C1 A1 B1 end", "X1 C1 A1 B1"},
		"first come inside a key":               {"A1 A2 B1 -A2 A3 A4 end", "A1 B1 A3 A4"},
		"classes go before fairness":            {"A1 .B1 C1 !A2 !A3 end", "A1 A2 A3 C1 B1"},
		"a class is shared on its own":          {"!A1 20s A2 B1 free end", "A1 A2 B1"},
		"what runs counts already":              {"A1 100s B1 1us A2 B2 free end", "A1 B1 A2 B2"},
		"a newcomer starts at the least":        {"A1 A2 A3 B1 B2 B3 50s free 50s free C1 C2 C3 end", "A1 B1 A2 B2 C1 A3 B3 C2 C3"},
		"an idle key earns no credit":           {"A1 B1 10s free 10s free A2 A3 A4 A5 A6 500s free B2 B3 B4 B5 end", "A1 B1 A2 A3 B2 A4 B3 A5 B4 A6 B5"},
		"nor does one keep a debt for ever":     {"A1 500s free A2 B1 B2 end", "A1 A2 B1 B2"},
		"but while the others are busy it does": {"A1 B1 B2 B3 B4 500s free 10s free A2 free B5 end", "A1 B1 B2 B3 B4 B5 A2"},
		"who gives up his turn pays nothing":    {"X1 A1 A2 B1 -A1 -A2 A3 end", "X1 B1 A3"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := fair(t, time.Hour).script(c.words); got != c.want {
				t.Errorf("%s\nserved %s\nwant   %s", c.words, got, c.want)
			}
		})
	}
}

// TestFlood is the case that fairness is for: one key queues twenty jobs, then
// another one its only job.
func TestFlood(t *testing.T) {
	t.Parallel()
	p := fair(t, time.Hour)
	for n := range 20 {
		p.do(line.Join{ID: fmt.Sprint("A", n), Key: "A"})
	}
	if r := p.after(time.Second).do(line.Join{ID: "B", Key: "B"}); r.At.Place != 2 { // as if the first ended now
		t.Errorf("B stands at %d", r.At.Place)
	}
	if served := strings.Fields(p.script("end")); slices.Index(served, "B") != 0 {
		t.Errorf("after the first, served %v", served)
	}
}

func TestStarvation(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ words, want string }{
		"before classes and shares": {"A1 .B1 A2 9m59s C1 !C2 1001ms free end", "A1 B1 C2 C1 A2"},
		"not a moment sooner":       {"A1 .B1 600000001us C1 !C2 free", "A1 C2"}, // B1 came 2 µs after the start
		"not a moment later":        {"A1 .B1 600000002us C1 !C2 free", "A1 B1"},
		"oldest first":              {"A1 .A2 C1 !C2 B1 11m D1 !D2 end", "A1 A2 C1 C2 B1 D2 D1"},
		"one of each key":           {"A1 .B1 .B2 .B3 11m !C1 !C2 end", "A1 B1 C1 C2 B2 B3"},
		"from its last slot time":   {"A1 .B1 .B2 11m free !C1 1s free !C2 9m59s free !C3 1s free", "A1 B1 C1 C2 B2"},
		"not while it runs":         {".A1 .A2 11m !B1 free 11m .C1 free", "A1 B1 A2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := fair(t, 10*time.Minute).script(c.words); got != c.want {
				t.Errorf("%s\nserved %s\nwant   %s", c.words, got, c.want)
			}
		})
	}
}

// TestStarvationBound: whatever comes, a batch job is served within the bound and
// one slot time.
func TestStarvationBound(t *testing.T) {
	t.Parallel()
	p := fair(t, 10*time.Minute)
	p.script("!A1 !A2 .B1")
	for n := 3; ; n++ {
		waited := time.Duration(n-3) * 30 * time.Second
		if served := p.script(fmt.Sprintf("30s !A%d free", n)); served == "B1" {
			return
		} else if waited > 10*time.Minute+30*time.Second {
			t.Fatalf("after %v %s was served", waited, served)
		}
	}
}

// used shows the accounts.
func (p *play) used() string {
	var out []string
	for _, a := range p.do(line.Look{}).View.Accounts {
		out = append(out, fmt.Sprintf("%s%s=%v", map[line.Class]string{line.Interactive: "!", line.Batch: "."}[a.Class], a.Key, time.Duration(a.Used)*time.Microsecond))
	}
	return strings.Join(out, " ")
}

func TestAccounts(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ words, want string }{
		"nobody":                                {"", "=0s"}, // the job by which the slot was proved idle
		"what runs is not charged yet":          {"A1 7s", "A=0s"},
		"it is when it has run":                 {"A1 7s free 5s", "A=7s"},
		"by class":                              {"!A1 A2 .A3 3s free 4s free 5s free", "A=4s !A=3s .A=5s"},
		"an empty class starts anew":            {"A1 7s free B1", "B=0s"},
		"a newcomer starts at what is least":    {"A1 A2 B1 B2 7s free 2s free C1", "A=7s B=2s C=2s"},
		"in its own class only":                 {"A1 B1 B2 9s free !C1", "A=9s B=0s !C=0s"},
		"with what runs, but not elsewhere":     {"!A1 3s B1 2s C1", "B=0s C=0s !A=0s"},
		"with what waits in the class":          {"A1 .B1 5s C1", "A=0s C=5s .B=0s"},
		"with what runs":                        {"A1 3s B1", "A=0s B=3s"},
		"who left is remembered if he is above": {"A1 B1 B2 B3 9s free 1s free C1", "A=9s B=1s C=1s"},
		"and forgotten if he is not":            {"A1 B1 B2 B3 B4 3s free 2s free 2s free 3s C1", "B=4s C=7s"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := fair(t, time.Hour)
			p.script(c.words)
			if got := p.used(); got != c.want {
				t.Errorf("%s\nused %s\nwant %s", c.words, got, c.want)
			}
		})
	}
}

// TestCrashIsCharged: a dead holder's job is charged to the end of its lease, not to
// the moment at which somebody finds out; so is one whose owner quits. Time in which
// an engine is being made idle is nobody's.
func TestCrashIsCharged(t *testing.T) {
	t.Parallel()
	p := start(t, "one").clean()
	p.do(line.Join{ID: "x", Key: "A"})
	p.as("b").do(line.Join{ID: "y", Key: "B"})
	p.after(10 * time.Second).do(line.Renew{})
	p.after(9 * time.Second).do(line.Renew{})
	if got := p.used(); got != "A=15s B=0s" {
		t.Errorf("used %s", got)
	}
	g := p.do(line.Look{}).View.Slots[0]
	p.after(5 * time.Second).do(line.Free{Slot: g.Slot, Fence: g.Fence, Clean: true})
	g = p.do(line.Look{}).View.Slots[0]
	p.do(line.Join{ID: "v", Key: "B"})
	p.after(2 * time.Second).do(line.Mark{Slot: g.Slot, Fence: g.Fence, State: line.Aborting})
	p.after(3 * time.Second).do(line.Mark{Slot: g.Slot, Fence: g.Fence, State: line.Poisoned})
	if got := p.used(); !strings.HasSuffix(got, "A=15s B=2s") {
		t.Errorf("after the abort: used %s", got)
	}
	p.after(time.Second).do(line.Join{ID: "w", Key: "C"})
	if got := p.used(); got != "A=15s B=2s C=2s" {
		t.Errorf("newcomers: used %s", got)
	}
	p.do(line.Leave{IDs: []string{"v", "w"}})
	p.do(line.Free{Slot: g.Slot, Fence: g.Fence, Clean: true})
	p.do(line.Join{ID: "z", Key: "B"})
	p.after(4 * time.Second).do(line.Quit{})
	if got := p.used(); got != "B=4s" {
		t.Errorf("after quitting: used %s", got)
	}
}

// TestRestoredHoldCounts for no key: whose it was is lost.
func TestRestoredHoldCounts(t *testing.T) {
	t.Parallel()
	p := start(t, "one")
	h := line.Grant{Slot: "one", ID: "x", Owner: "a", Fence: 5, State: line.Busy}
	p.do(line.Renew{Holds: []line.Grant{h}})
	p.after(7 * time.Second).do(line.Free{Slot: "one", Fence: 5, Clean: true})
	if got := p.used(); got != "=7s" {
		t.Errorf("used %s", got)
	}
	if s := p.do(line.Look{}).View.Slots[0]; s.Purse != (line.Purse{}) {
		t.Errorf("the idle slot is %+v's", s.Purse)
	}
	p.script("A1 A2 free")
	if s := p.do(line.Look{}).View.Slots[0]; s.Purse.Key != "A" {
		t.Errorf("the slot is %+v's", s.Purse)
	}
	p.do(line.Free{Slot: "one", Fence: p.do(line.Look{}).View.Slots[0].Fence, Clean: true})
	if s := p.do(line.Look{}).View.Slots[0]; s.Purse != (line.Purse{}) {
		t.Errorf("the slot, idle again, is %+v's", s.Purse)
	}
}

// TestTypicalTime: an eighth of each new slot time goes into the typical one; what
// takes hours is no measure, and making an engine idle is no job.
func TestTypicalTime(t *testing.T) {
	t.Parallel()
	p := fair(t, time.Hour)
	want := func(d time.Duration) {
		t.Helper()
		if got := time.Duration(p.do(line.Look{}).View.Typical) * time.Microsecond; got != d {
			t.Errorf("a slot time of %v is typical, want %v", got, d)
		}
	}
	typical := time.Minute * 7 / 8 // the job by which the slot was proved idle took no time
	want(typical)
	p.script("A1 8s free")
	typical = (7*typical + 8*time.Second) / 8
	want(typical)
	p.script("A2 5h free")
	typical = ((7*typical + time.Hour) / 8).Truncate(time.Microsecond)
	want(typical)
	s := p.do(line.Join{ID: "x"}).Grants[0]
	p.do(line.Mark{Slot: s.Slot, Fence: s.Fence, State: line.Aborting})
	typical = 7 * typical / 8
	p.after(time.Minute).do(line.Free{Slot: s.Slot, Fence: s.Fence, Clean: true})
	want(typical.Truncate(time.Microsecond))
}

// TestAccountsAreFew: keys that come and go are forgotten.
func TestAccountsAreFew(t *testing.T) {
	t.Parallel()
	p := fair(t, time.Hour)
	p.script("A0")
	for n := range 500 {
		p.script(fmt.Sprintf("%c%c1 A%d 1s free 1s free", 'B'+n%20, 'B'+n/20, n+1))
		if many := len(p.do(line.Look{}).View.Accounts); many > 5 {
			t.Fatalf("after %d keys %d are remembered", n, many)
		}
	}
}

// TestClockStepsBack: nobody is paid for having run.
func TestClockStepsBack(t *testing.T) {
	t.Parallel()
	p := fair(t, time.Hour)
	p.script("A1 A2 5s free -3s B1 free")
	if got := p.used(); got != "A=5s B=5s" {
		t.Errorf("used %s", got)
	}
}

// TestPositions: in a random line each ticket's position is its place in the view,
// and if each job takes the typical time, that is how they are served.
func TestPositions(t *testing.T) {
	t.Parallel()
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 0))
		p := fair(t, []time.Duration{time.Hour, time.Minute}[seed%2])
		for n := range 60 {
			p.script(fmt.Sprintf("%s%s%d", []string{"", "!", "."}[r.IntN(3)*r.IntN(2)], []string{"A", "B", "C", "D", ""}[r.IntN(5)*r.IntN(2)], n))
			switch r.IntN(4) {
			case 0:
				p.script("free")
			case 1:
				p.script(fmt.Sprintf("%dms", r.IntN(20_000)))
			}
			view := p.do(line.Look{}).View
			for i, ticket := range view.Tickets {
				if at := p.line.Position(ticket.ID); at != i+1 {
					t.Fatalf("seed %d: %s stands at %d of the view and at %d of the line", seed, ticket.ID, i+1, at)
				}
			}
		}
		if seed%2 == 0 {
			p.servedAsSeen(seed)
		}
	}
}

func (p *play) servedAsSeen(seed uint64) {
	p.t.Helper()
	p.do(line.Switch{To: line.Paused})
	p.script("free")
	view := p.do(line.Look{}).View
	var want, got []string
	for _, ticket := range view.Tickets {
		want = append(want, ticket.ID)
	}
	grants := p.do(line.Switch{}).Grants
	for len(grants) > 0 {
		got = append(got, grants[0].ID)
		grants = p.after(time.Duration(view.Typical) * time.Microsecond).do(line.Free{Slot: "one", Fence: grants[0].Fence, Clean: true}).Grants
	}
	if !reflect.DeepEqual(want, got) {
		p.t.Errorf("seed %d: seen %v\nserved %v", seed, want, got)
	}
}

// BenchmarkSteps times steps with 10,000 waiting, of few keys and of many.
func BenchmarkSteps(b *testing.B) {
	for _, keys := range []int{1, 10, 1000} {
		const waiting = 10_000
		l := line.New(line.Rules{Slots: []string{"one"}, MaxWaiting: 1 << 30, MaxWaitingPerKey: 1 << 30, StarvationAfter: time.Hour})
		now, by, made := time.Unix(1000, 0), line.Caller{Owner: "a"}, 0
		join := func() line.Reply {
			made++
			return l.Apply(now, by, line.Join{ID: fmt.Sprintf("%032x", made), Key: fmt.Sprint("k", made%keys)})
		}
		g := join().Grants[0]
		for range waiting {
			join()
		}
		b.Run(fmt.Sprintf("free+join/%d", keys), func(b *testing.B) {
			b.ReportAllocs()
			for range b.N {
				now = now.Add(time.Millisecond)
				g = l.Apply(now, by, line.Free{Slot: g.Slot, Fence: g.Fence, Clean: true}).Grants[0]
				join()
			}
		})
		b.Run(fmt.Sprintf("rank/%d", keys), func(b *testing.B) {
			b.ReportAllocs()
			for i := range b.N {
				l.Apply(now, by, line.Rank{IDs: []string{fmt.Sprintf("%032x", made-i%waiting)}})
			}
		})
	}
}
