package stands_test

import (
	"fmt"
	"testing"
	"time"

	"oneslot/queue/line"
	"oneslot/queue/stands"
)

// crowd is a line with a slot that is taken, and a table of it.
type crowd struct {
	*testing.T
	line  *line.Line
	table stands.Table
	now   time.Time
	made  int // jobs
	looks int // at the whole line
}

// newCrowd has so many wait, each of a key of its own if there are as many.
func newCrowd(t *testing.T, jobs, keys int) *crowd {
	c := &crowd{T: t, now: time.Unix(1000, 0), line: line.New(line.Rules{
		Slots: []string{"one"}, MaxWaiting: 1e5, MaxWaitingPerKey: 1e5, StarvationAfter: time.Hour, Crowd: 8,
	})}
	for range jobs {
		c.join(keys)
	}
	return c
}

func (c *crowd) step(s line.Step) { c.line.Apply(c.now, line.Caller{Owner: "a"}, s) }

func (c *crowd) join(keys int) string {
	c.made++
	id := fmt.Sprint("job ", c.made)
	c.now = c.now.Add(time.Millisecond)
	c.step(line.Join{ID: id, Key: fmt.Sprint(c.made % keys), Class: line.Class(c.made % 3), Cost: int64(c.made)})
	return id
}

// at asks as a store does.
func (c *crowd) at(id string) line.Standing {
	at, view := c.table.Of(c.line, id, c.now)
	if view != nil {
		c.looks++
		if again, other := c.table.Of(c.line, id, c.now); other != nil || again.Place == 0 {
			c.Errorf("while the line is put in order: %+v, %v", again, other)
		}
		view.Arrange()
		c.table.Set(view, c.now)
		at, _ = c.table.Of(c.line, id, c.now)
	}
	return at
}

// TestTable: all are told where they stand, and the line is put in order once.
func TestTable(t *testing.T) {
	t.Parallel()
	c := newCrowd(t, 500, 100)
	for n := range c.made {
		id := fmt.Sprint("job ", n+1)
		if got, want := c.at(id), c.line.Stand(id); got != want {
			t.Errorf("%s stands at %+v, want %+v", id, got, want)
		}
	}
	if c.looks != 1 {
		t.Errorf("%d looks at the whole line", c.looks)
	}
}

// TestAge: places are as old as a line of that length may take, and then new.
func TestAge(t *testing.T) {
	t.Parallel()
	c := newCrowd(t, 500, 100)
	for n := range 100 {
		c.at(fmt.Sprint("job ", n+1))
	}
	last, first := "", ""
	for n := range c.made {
		switch id := fmt.Sprint("job ", n+1); c.line.Stand(id).Place {
		case 1:
			first = id
		case c.line.Len():
			last = id
		}
	}
	was := c.at(last)
	c.step(line.Leave{IDs: []string{first}})
	if got := c.at(first); got != (line.Standing{}) {
		t.Errorf("one that has left stands at %+v", got)
	}
	if got := c.at(last); got.Place != c.line.Len() || got.Work != was.Work {
		t.Errorf("%+v within moments, was %+v", got, was)
	}
	c.now = c.now.Add(101 * time.Millisecond)
	if got, want := c.at(last), c.line.Stand(last); got != want || got.Work >= was.Work || c.looks != 2 {
		t.Errorf("%+v after a while, want %+v, of %d looks", got, want, c.looks)
	}
}

// TestNewcomers are counted as they are; of many, the whole line is not looked at for
// each.
func TestNewcomers(t *testing.T) {
	t.Parallel()
	c := newCrowd(t, 50, 50)
	for range 500 {
		id := c.join(50)
		if got, want := c.at(id), c.line.Stand(id); got != want {
			t.Errorf("%s stands at %+v, want %+v", id, got, want)
		}
	}
	if c.looks < 10 || c.looks > 500/16 {
		t.Errorf("%d looks at the whole line", c.looks)
	}
}

// TestFewKeys are counted as they are.
func TestFewKeys(t *testing.T) {
	t.Parallel()
	c := newCrowd(t, 500, 2) // and three classes
	for range 100 {
		c.at("job 450")
	}
	for n := 400; n > 300; n-- {
		c.step(line.Leave{IDs: []string{fmt.Sprint("job ", n)}})
		if got, want := c.at("job 450"), c.line.Stand("job 450"); got != want {
			t.Errorf("stands at %+v, want %+v", got, want)
		}
	}
	if c.looks > 0 {
		t.Errorf("%d looks at the whole line", c.looks)
	}
}
