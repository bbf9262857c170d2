package bell_test

import (
	"testing"
	"testing/synctest"
	"time"

	"oneslot/queue/bell"
)

// rings reports whether a Bell has rung.
func rings(b *bell.Bell) bool {
	select {
	case <-b.Rung():
		return true
	default:
		return false
	}
}

// TestRing: who waits and who is to be told learn of it, before and after it, once.
func TestRing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		over, told := 0, 0
		b := bell.New()
		b.Limit(time.Hour, func() { over++ })
		woken := make(chan struct{})
		go func() { <-b.Rung(); close(woken) }()
		b.Tell(func() { told++ })
		synctest.Wait()
		if rings(b) || told != 0 {
			t.Error("it rang by itself")
		}
		b.Ring()
		<-woken
		if !rings(b) || told != 1 {
			t.Errorf("rung %v, told %d times", rings(b), told)
		}
		b.Tell(func() { told += 10 })
		if told != 11 {
			t.Errorf("told %d after it rang", told)
		}
		b.Limit(time.Hour, func() { over++ })
		<-time.After(2 * time.Hour)
		if over != 0 {
			t.Error("the limit of a wait that was over came")
		}
	})
}

// TestLimit comes in time, and does not ring by itself.
func TestLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		over := make(chan time.Duration, 1)
		b := bell.New()
		b.Limit(time.Hour, func() { over <- time.Since(began) })
		if after := <-over; after != time.Hour || rings(b) {
			t.Errorf("the limit came after %v, rung %v", after, rings(b))
		}
	})
}
