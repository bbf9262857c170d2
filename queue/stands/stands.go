package stands

import (
	"time"

	"oneslot/queue/line"
)

// Table is where the tickets of one line stood a moment ago. The zero Table knows
// nothing. It is guarded by what guards the line.
type Table struct {
	at      map[string]line.Standing
	made    time.Time
	counted int  // one by one, since then
	making  bool // somebody puts the line in order
}

const (
	agePerTicket  = 200 * time.Microsecond // how old places may be for each ticket
	countedAtMost = 16                     // so many are counted one by one for what the whole line costs
)

// Of is where a ticket stands, its place 0 if it is not in line. If view is not nil the
// table is too old, and at may be too: the caller puts the view in order, where it holds
// up nobody, hands it to Set, without fail, and asks again.
func (t *Table) Of(l *line.Line, id string, now time.Time) (at line.Standing, view *line.View) {
	at, known := t.at[id]
	switch {
	case !l.Crowded(id) || !l.Waits(id):
		return l.Stand(id), nil
	case known && (t.making || now.Sub(t.made) <= agePerTicket*time.Duration(l.Len())):
		at.Place = min(at.Place, l.Len()) // some of those before it have gone
		return at, nil
	case !known && (t.making || t.counted < countedAtMost):
		t.counted++
		return l.Stand(id), nil
	}
	t.making = true
	return at, l.View()
}

// Set takes in the view that Of returned at the time now, in order.
func (t *Table) Set(v *line.View, now time.Time) {
	*t = Table{at: v.Stands(), made: now}
}
