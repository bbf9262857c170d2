package watchdog_test

import (
	"testing"
	"testing/synctest"
	"time"

	"oneslot/proxy/watchdog"
)

// TestSilence: each stage has its limit, from what was heard last.
func TestSilence(t *testing.T) {
	limits := watchdog.Config{Headers: 10 * time.Second, First: 30 * time.Second, Idle: 20 * time.Second}
	type act struct {
		at time.Duration
		do func(*watchdog.Watch)
	}
	open := func(w *watchdog.Watch) { w.Open() }
	hear := func(w *watchdog.Watch) { w.Hear(time.Now()) }
	finish := func(w *watchdog.Watch) { w.Finish(time.Now()) }
	stop := func(w *watchdog.Watch) { w.Stop() }
	for name, x := range map[string]struct {
		acts []act
		want watchdog.Silence
		at   time.Duration
	}{
		"no headers":       {nil, watchdog.NoAnswer, 10 * time.Second},
		"no token":         {[]act{{9 * time.Second, open}}, watchdog.NoAnswer, 30 * time.Second},
		"stalled":          {[]act{{5 * time.Second, open}, {25 * time.Second, hear}}, watchdog.Stalled, 45 * time.Second},
		"stalled later":    {[]act{{5 * time.Second, hear}, {15 * time.Second, hear}, {34 * time.Second, hear}}, watchdog.Stalled, 54 * time.Second},
		"no end":           {[]act{{5 * time.Second, hear}, {24 * time.Second, finish}}, watchdog.NoEnd, 34 * time.Second},
		"ended":            {[]act{{5 * time.Second, hear}, {24 * time.Second, finish}, {33 * time.Second, stop}}, 0, 0},
		"ended at the end": {[]act{{10*time.Second - 1, stop}}, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began, got, at := time.Now(), watchdog.Silence(0), time.Duration(0)
				limits := limits
				limits.Silent = func(s watchdog.Silence) {
					if got != 0 {
						t.Error("it was told twice")
					}
					got, at = s, time.Since(began)
				}
				var w watchdog.Watch
				w.Start(began, limits)
				for _, a := range x.acts {
					<-time.After(a.at - time.Since(began))
					a.do(&w)
				}
				<-time.After(5 * time.Minute)
				synctest.Wait()
				if got != x.want || at != x.at {
					t.Errorf("silence %d after %v, want %d after %v", got, at, x.want, x.at)
				}
				w.Stop()
			})
		})
	}
}

// TestHeard tells whether anything came, and a watch that never began can be stopped.
func TestHeard(t *testing.T) {
	var w watchdog.Watch
	w.Stop()
	synctest.Test(t, func(t *testing.T) {
		var w watchdog.Watch
		w.Start(time.Now(), watchdog.Config{Headers: time.Hour, First: time.Hour, Idle: time.Hour, Silent: func(watchdog.Silence) { t.Error("silent") }})
		defer w.Stop()
		if w.Heard() {
			t.Error("nothing was said")
		}
		if w.Hear(time.Now()); !w.Heard() {
			t.Error("something was said")
		}
	})
}
