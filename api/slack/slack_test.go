package slack_test

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"oneslot/api/slack"
)

const mib = 1 << 20

// pass lets time go by.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// TestGauge: memory is given back two seconds after a crowd has left, not for a few, not
// for as many as before, and not more often than every ten seconds.
func TestGauge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var given atomic.Int32
		g := slack.New(func() { given.Add(1) })
		want := func(what string, n int32) {
			t.Helper()
			if got := given.Load(); got != n {
				t.Errorf("%s: given back %d times, want %d", what, got, n)
			}
		}
		for range 100 {
			g.Add(mib)
			g.Add(-mib)
		}
		pass(time.Minute)
		want("one at a time", 0)
		g.Add(20 * mib)
		g.Add(-15 * mib)
		pass(time.Minute)
		want("some left", 0)
		g.Add(-2 * mib)
		pass(2*time.Second - time.Millisecond)
		want("too early", 0)
		pass(time.Millisecond)
		want("many left", 1)
		g.Add(17 * mib)
		g.Add(-17 * mib)
		pass(10*time.Second - time.Millisecond)
		want("soon after", 1)
		pass(time.Millisecond)
		want("later", 2)
		pass(time.Hour)
		want("at rest", 2)
		g.Add(100 * mib)
		g.Add(-50 * mib)
		g.Add(-20 * mib)
		pass(2 * time.Second)
		want("two waves", 3)
		g.Add(-33 * mib)
		pass(10 * time.Second)
		want("the rest", 4)
	})
}

// TestMany at a time lose nothing.
func TestMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var given atomic.Int32
		g := slack.New(func() { given.Add(1) })
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() {
				g.Add(mib)
				<-time.After(time.Second)
				g.Add(-mib)
			})
		}
		all.Wait()
		pass(3 * time.Second)
		if n := given.Load(); n != 1 {
			t.Errorf("given back %d times", n)
		}
	})
}

// TestRuntime is what memory is given back by unless told otherwise.
func TestRuntime(t *testing.T) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	synctest.Test(t, func(*testing.T) {
		g := slack.New(nil)
		g.Add(20 * mib)
		g.Add(-20 * mib)
		pass(3 * time.Second)
	})
	if runtime.ReadMemStats(&after); after.NumForcedGC == before.NumForcedGC {
		t.Error("no collection has run")
	}
}
