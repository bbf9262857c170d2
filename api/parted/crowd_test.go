package parted_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"oneslot/api/parted"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// conn is a connection that may be closed.
type conn struct{ closed int }

func (c *conn) Close() error { c.closed++; return nil }

// TestWaitForAll: it is over when the last one has left, also one that has no connection
// yet.
func TestWaitForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var crowd parted.Crowd
		if err := crowd.Wait(t.Context()); err != nil {
			t.Error("an empty one:", err)
		}
		with, without := crowd.Join(), crowd.Join()
		var own conn
		with.Has(&own)
		waited := make(chan error, 2)
		for range 2 {
			go func() { waited <- crowd.Wait(t.Context()) }()
		}
		for _, m := range []*parted.Member{with, without} {
			synctest.Wait()
			if len(waited) > 0 {
				t.Fatal("it did not wait")
			}
			m.Leave()
		}
		if err := errors.Join(<-waited, <-waited); err != nil || own.closed > 0 {
			t.Errorf("got %v, closed %d times", err, own.closed)
		}
	})
}

// TestEndOfWaiting: when the time is over the connections are closed of those who are
// there, and of whoever was on its way.
func TestEndOfWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var crowd parted.Crowd
		var first, second, third conn
		there, left, coming := crowd.Join(), crowd.Join(), crowd.Join()
		there.Has(&first)
		left.Has(&third)
		left.Leave()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := crowd.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		coming.Has(&second)
		if first.closed != 1 || second.closed != 1 || third.closed != 0 {
			t.Errorf("closed %d, %d, %d times", first.closed, second.closed, third.closed)
		}
		there.Leave()
		coming.Leave()
		if err := crowd.Wait(ctx); err != nil {
			t.Error("nobody is there:", err)
		}
	})
}
