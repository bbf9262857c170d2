package codec

import (
	"fmt"
	"strconv"
	"strings"

	"oneslot/queue/line"
)

// Encode returns the script of a step and its own arguments.
func Encode(s line.Step) (script string, args []any) {
	switch s := s.(type) {
	case line.Join:
		return "line_join", []any{s.ID, uint8(s.Class), s.Key, s.Limit, s.Cost, s.User, s.Arrival, s.Of, uint64(s.Prefer)}
	case line.Rejoin:
		for _, t := range s.Tickets {
			args = append(args, t.ID, uint8(t.Class), t.Arrival, t.Cost, t.Key, t.User, uint64(t.Prefer))
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
	case line.Yield:
		return "slot_yield", []any{s.Slot, s.Fence}
	case line.Keep:
		return "slot_keep", []any{s.Slot, s.Fence}
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
	panic(fmt.Sprintf("codec: no script for %T", s))
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

func (d *decoder) standing() line.Standing {
	return line.Standing{Place: int(d.int()), Work: d.int()}
}

func (d *decoder) grant() line.Grant {
	g := line.Grant{Slot: d.text(), Fence: d.int(), State: line.State(d.int())}
	g.Owner, g.ID = d.text(), d.text()
	return g
}

// Decode reads what the script of a step has returned; lua/line.lua says what that
// is. False says that it is not as expected; the reply is of no use then.
func Decode(raw []any, s line.Step) (line.Reply, bool) {
	d := decoder{raw: raw}
	return d.reply(s), !d.bad
}

func (d *decoder) reply(s line.Step) line.Reply {
	r := line.Reply{
		Verdict: line.Verdict(d.int()), Epoch: d.int(), Version: d.int(), Waiting: int(d.int()),
		Arrival: d.int(), At: d.standing(), Known: d.int() == 1, Mine: int(d.int()),
		Gate: line.Gate(d.int()), Ill: line.State(d.int()),
	}
	for _, grants := range []*[]line.Grant{&r.Grants, &r.Holds, &r.Lost, &r.Asks} {
		d.each(func(d *decoder) { *grants = append(*grants, d.grant()) })
	}
	d.each(func(d *decoder) { r.Running = append(r.Running, line.Run{For: d.int(), Cost: d.int()}) })
	switch s.(type) {
	case line.Rank:
		d.each(func(d *decoder) { r.Ranks = append(r.Ranks, d.standing()) })
	case line.Renew:
		d.each(func(d *decoder) { r.Due = d.int() })
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
		arrival, rest, _ := strings.Cut(rest, " ")
		cost, rest, _ := strings.Cut(rest, " ")
		prefer, rest, _ := strings.Cut(rest, " ")
		user, key, whole := strings.Cut(rest, " ")
		numbers := decoder{raw: []any{class, arrival, cost, prefer}}
		t.Owner, t.Key, t.User, t.Class, t.Arrival, t.Cost = owner, key, user, line.Class(numbers.int()), numbers.int(), numbers.int()
		t.Prefer = line.Berths(numbers.int()) //nolint:gosec // as it was sent, never negative
		d.bad = d.bad || numbers.bad || !whole
		v.Tickets = append(v.Tickets, t)
	})
	d.each(func(d *decoder) {
		v.Slots = append(v.Slots, line.Berth{Grant: d.grant(), Clean: d.int() == 1, Since: d.int(), Purse: d.purse(), Came: d.int(), Cost: d.int(), Asked: line.Ask(d.int()), User: d.text()})
	})
	d.each(func(d *decoder) {
		v.Accounts = append(v.Accounts, line.Account{Purse: d.purse(), Used: d.int(), Last: d.int(), Came: d.int(), Apart: d.int() == 1})
	})
	d.each(func(d *decoder) {
		v.Users = append(v.Users, line.Account{Purse: d.purse(), User: d.text(), Used: d.int(), Last: d.int(), Came: d.int()})
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
