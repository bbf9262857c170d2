package main

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestShortDay runs the program as a whole: every key has a row under every rule,
// the plot is well-formed, and the same flags give the same bytes.
func TestShortDay(t *testing.T) {
	play := func(name string) (table, plot string) {
		file := filepath.Join(t.TempDir(), name)
		var out strings.Builder
		if err := run([]string{"-day", "2h", "-svg", file}, &out); err != nil {
			t.Fatal(err)
		}
		svg, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return out.String(), string(svg)
	}
	text, svg := play("a.svg")
	for _, p := range policies() {
		if strings.Count(text, p.name+"  ") != len(crowd())+2 && (!p.classes || strings.Count(text, p.name+"  ") != len(crowd())+6) { // a row for each key, and two of predictions for each class
			t.Errorf("the table lacks rows of %q:\n%s", p.name, text)
		}
	}
	if strings.Contains(svg, "%!") {
		t.Errorf("the plot has a badly formatted number:\n%s", svg)
	}
	for d := xml.NewDecoder(strings.NewReader(svg)); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if again, same := play("b.svg"); again != text || same != svg {
		t.Error("the same day came out differently")
	}
}

func TestBadFlags(t *testing.T) {
	for _, args := range [][]string{{"-day", "soon"}, {"-nonsense"}, {"-day", "1m", "-svg", t.TempDir()}} {
		if run(args, io.Discard) == nil {
			t.Errorf("%v was taken", args)
		}
	}
}

// TestSlotIsShared: the slot is never idle while a key has endless work, the fair
// share lets people pass the batch, and first come does not.
func TestSlotIsShared(t *testing.T) {
	const length = 12 * time.Hour
	var median []time.Duration
	for _, p := range policies()[:2] {
		r := simulate(p, crowd(), length, 3)
		var slot time.Duration
		for _, u := range r.users {
			slot += u.slot
			if len(u.waits) == 0 {
				t.Errorf("%s: %s was never served", p.name, u.name)
			}
		}
		if slot < length-30*time.Second || slot > length+30*time.Minute {
			t.Errorf("%s: the slot was used for %v of %v", p.name, slot, length)
		}
		median = append(median, r.users[0].wait(0.5))
	}
	if median[1]*4 > median[0] {
		t.Errorf("a person's median wait is %v, first come %v", median[1], median[0])
	}
}

func TestQuantiles(t *testing.T) {
	u := tally{}
	if u.wait(0.5) != 0 {
		t.Error("no waits have a median")
	}
	for n := range 100 {
		u.waits = append(u.waits, time.Duration(n+1)*time.Second)
	}
	if u.wait(0.5) != 50*time.Second || u.wait(0.99) != 99*time.Second || u.wait(0) != time.Second {
		t.Errorf("quantiles %v %v %v", u.wait(0.5), u.wait(0.99), u.wait(0))
	}
	if level(0) != bottom || level(5*time.Hour) != top || level(time.Minute) <= level(time.Hour) {
		t.Error("the scale of the plot is off")
	}
}
