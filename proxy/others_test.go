package proxy

import (
	"testing"
	"time"

	"oneslot/proxy/watchdog"
)

// TestWitness: a run of another slot counts if it had begun to answer before the look
// and something of it came after; what had only waited in a buffer does not count.
func TestWitness(t *testing.T) {
	began := time.Now().Add(-time.Hour)
	spoke := func(r *run) { r.watch.Hear(time.Now()) }
	came := func(r *run) { r.fresh.Store(int64(time.Since(r.began))); spoke(r) }
	for name, c := range map[string]struct {
		slot                 string
		before, looks, after func(*run)
		want                 int
	}{
		"goes on":                  {"b", came, nil, came, 1},
		"silent since":             {"b", came, nil, nil, 0},
		"spoke while looked at":    {"b", came, came, nil, 0},
		"out of a buffer":          {"b", came, nil, spoke, 0},
		"had not begun":            {"b", nil, nil, came, 0},
		"on the slot in question":  {"a", came, nil, came, 0},
		"began while it was asked": {"b", nil, came, came, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var all others
			r := &run{began: began}
			r.watch.Start(began, watchdog.Config{Headers: 2 * time.Hour, First: 2 * time.Hour, Idle: 2 * time.Hour})
			defer r.watch.Stop()
			defer all.enter(c.slot, r)()
			do := func(f func(*run)) {
				if f != nil {
					f(r)
				}
			}
			w := all.except("a")
			do(c.before)
			w.Before()
			do(c.looks)
			w.After()
			do(c.after)
			if got := w.GoneOn(); got != c.want {
				t.Errorf("%d go on, want %d", got, c.want)
			}
		})
	}
	var all others
	all.enter("b", &run{began: began})()
	if len(all.runs) != 0 {
		t.Error("a run that has ended is known")
	}
}
