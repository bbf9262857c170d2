package line_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"oneslot/queue/line"
)

// lent starts a line whose slots run batch jobs: B1 on the first, and so on.
func lent(t *testing.T, slots ...string) *play {
	p := start(t, slots...)
	p.line = line.New(line.Rules{Slots: slots, MaxWaiting: 100, MaxWaitingPerKey: 100, Lease: time.Hour, PoisonGrace: time.Minute, StarvationAfter: 10 * time.Minute})
	p.clean()
	for n := range slots {
		p.after(time.Millisecond).do(line.Join{ID: fmt.Sprint("B", n+1), Key: "B", Class: line.Batch})
	}
	return p
}

// asked lists the jobs whose slots a step has asked for.
func asked(r line.Reply) string {
	var ids []string
	for _, g := range r.Asks {
		ids = append(ids, g.ID)
	}
	return strings.Join(ids, " ")
}

func (p *play) hold(id string) line.Grant {
	p.t.Helper()
	for _, s := range p.do(line.Look{}).View.Slots {
		if s.ID == id {
			return s.Grant
		}
	}
	p.t.Fatalf("%s has no slot", id)
	return line.Grant{}
}

func TestAsk(t *testing.T) {
	t.Parallel()
	join := func(id string, c line.Class) line.Join { return line.Join{ID: id, Key: id, Class: c} }
	for name, c := range map[string]struct {
		slots int
		play  func(p *play) line.Reply
		want  string
	}{
		"for an interactive job": {1, func(p *play) line.Reply { return p.do(join("x", line.Interactive)) }, "B1"},
		"for a default one":      {1, func(p *play) line.Reply { return p.do(join("x", line.Default)) }, "B1"},
		"not for another batch":  {1, func(p *play) line.Reply { return p.do(join("x", line.Batch)) }, ""},
		"the latest":             {3, func(p *play) line.Reply { return p.do(join("x", line.Default)) }, "B3"},
		"one for each":           {3, func(p *play) line.Reply { p.do(join("x", line.Default)); return p.do(join("y", line.Default)) }, "B2"},
		"once": {1, func(p *play) line.Reply {
			p.do(join("x", line.Default))
			return p.after(time.Second).do(join("y", line.Default))
		}, ""},
		"not again when it goes on": {1, func(p *play) line.Reply {
			g := p.do(join("x", line.Default)).Asks[0]
			p.verdict(line.Keep{Slot: g.Slot, Fence: g.Fence}, line.Done)
			return p.do(join("y", line.Default))
		}, ""},
		"another when one goes on": {2, func(p *play) line.Reply {
			g := p.do(join("x", line.Default)).Asks[0]
			return p.verdict(line.Keep{Slot: g.Slot, Fence: g.Fence}, line.Done)
		}, "B1"},
		"not while another slot comes free": {2, func(p *play) line.Reply {
			g := p.hold("B1")
			p.do(line.Mark{Slot: g.Slot, Fence: g.Fence, State: line.Aborting})
			return p.do(join("x", line.Default))
		}, ""},
		"but when that turns out ill": {2, func(p *play) line.Reply {
			g := p.hold("B1")
			p.do(line.Mark{Slot: g.Slot, Fence: g.Fence, State: line.Aborting})
			p.do(join("x", line.Default))
			return p.do(line.Mark{Slot: g.Slot, Fence: g.Fence, State: line.Poisoned})
		}, "B2"},
		"not while paused": {1, func(p *play) line.Reply {
			p.do(line.Switch{To: line.Paused})
			return p.do(join("x", line.Default))
		}, ""},
		"when resumed": {1, func(p *play) line.Reply {
			p.do(line.Switch{To: line.Paused})
			p.do(join("x", line.Default))
			return p.do(line.Switch{})
		}, "B1"},
		"not one that would starve in line": {1, func(p *play) line.Reply {
			return p.after(10 * time.Minute).do(join("x", line.Default))
		}, ""},
		"not if one that starves is next": {1, func(p *play) line.Reply {
			p.do(join("s", line.Batch))
			p.after(9*time.Minute + 59*time.Second)
			g := p.hold("B1")
			p.do(join("b", line.Batch))
			p.do(line.Free{Slot: g.Slot, Fence: g.Fence, Clean: true}) // s runs
			p.after(10 * time.Minute)
			g = p.hold("s")
			p.do(join("c", line.Batch))
			p.do(line.Free{Slot: g.Slot, Fence: g.Fence, Clean: true}) // b runs, c waits
			return p.after(10 * time.Minute).do(join("x", line.Default))
		}, ""},
		"told again by a renewal": {1, func(p *play) line.Reply {
			p.do(join("x", line.Default))
			return p.do(line.Renew{})
		}, "B1"},
		"to its owner only": {1, func(p *play) line.Reply {
			p.do(join("x", line.Default))
			return p.as("b").do(line.Renew{})
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := lent(t, []string{"one", "two", "three"}[:c.slots]...)
			if got := asked(c.play(p)); got != c.want {
				t.Errorf("asked %q, want %q", got, c.want)
			}
		})
	}
}

// TestYield: the job stands where it stood, nothing is charged, the slot is made idle
// and goes to the better job.
func TestYield(t *testing.T) {
	t.Parallel()
	p := lent(t, "one")
	p.do(line.Join{ID: "B2", Key: "B", Class: line.Batch})
	p.do(line.Join{ID: "C1", Key: "C", Class: line.Batch})
	p.after(5 * time.Second)
	g := p.do(line.Join{ID: "x"}).Asks[0]
	p.verdict(line.Yield{Slot: "one", Fence: g.Fence + 1}, line.Stale)
	p.as("b").verdict(line.Yield{Slot: "one", Fence: g.Fence}, line.Stale)
	r := p.as("a").verdict(line.Yield{Slot: "one", Fence: g.Fence}, line.Done)
	if r.Waiting != 4 || r.Arrival == 0 {
		t.Errorf("the reply is %+v", r)
	}
	p.want("a!aborting | x B1 C1 B2")
	if again := p.verdict(line.Yield{Slot: "one", Fence: g.Fence}, line.Done); again.Waiting != 4 {
		t.Errorf("yielding again makes %d wait", again.Waiting)
	}
	if got := p.used(); !strings.Contains(got, ".B=0s") {
		t.Errorf("used %s", got)
	}
	free := p.do(line.Free{Slot: "one", Fence: g.Fence, Clean: true})
	if len(free.Grants) != 1 || free.Grants[0].ID != "x" {
		t.Errorf("granted %+v", free.Grants)
	}
	p.after(time.Second).do(line.Free{Slot: "one", Fence: free.Grants[0].Fence, Clean: true})
	p.want("a:B1 | B2 C1") // B has been charged nothing
	if b := p.do(line.Look{}).View.Slots[0]; b.Came != r.Arrival || b.Asked != line.Unasked {
		t.Errorf("the slot is %+v", b)
	}
	p.verdict(line.Yield{Slot: "one", Fence: p.hold("B1").Fence}, line.Stale) // nobody has asked
	p.verdict(line.Keep{Slot: "one", Fence: p.hold("B1").Fence}, line.Stale)
}

// TestRuns: what a slot is doing is told with the places, for predictions.
func TestRuns(t *testing.T) {
	t.Parallel()
	p := start(t, "one", "two", "three").clean()
	p.do(line.Join{ID: "x", Cost: 7})
	p.after(3 * time.Second).do(line.Join{ID: "y"})
	p.do(line.Join{ID: "z", Cost: 9})
	g := p.hold("z")
	p.do(line.Mark{Slot: g.Slot, Fence: g.Fence, State: line.Down})
	typical := p.do(line.Look{}).View.Typical
	r := p.after(2 * time.Second).do(line.Join{ID: "w", Cost: 5})
	want := []line.Run{{For: 5_000_000, Cost: 7}, {For: 2_000_000, Cost: typicalBefore(typical)}}
	if !reflect.DeepEqual(r.Running, want) {
		t.Errorf("runs %+v, want %+v", r.Running, want)
	}
	at := p.do(line.Join{ID: "v", Key: "V", Cost: 100}).At
	if at != (line.Standing{Place: 2, Work: 5}) {
		t.Errorf("v stands at %+v", at)
	}
	p.do(line.Switch{To: line.Paused})
	if r := p.do(line.Rank{IDs: []string{"v"}}); r.Running != nil {
		t.Errorf("a paused line runs %+v", r.Running)
	}
}

// typicalBefore undoes the bill of the job that was marked.
func typicalBefore(typical int64) int64 { return (typical*8 + 6) / 7 }
