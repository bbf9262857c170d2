package cache

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"oneslot/proxy/engine"
)

// hanging is a Watch of an engine whose connections are never made.
func hanging(t *testing.T) *Watch {
	t.Helper()
	e, err := engine.New(engine.Config{URL: "http://engine.test", Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return NewWatch(e, nil)
}

// answer is one of which the tokenizing hangs.
func answer(t *testing.T, w *Watch) Visit {
	t.Helper()
	v := w.Visit()
	v.Begin(t.Context(), []byte(`{"messages":[]}`), nil, "")
	v.Leave("text", false)
	return v
}

// TestHangingWorkIsBounded in number and in time, and nobody waits for it.
func TestHangingWorkIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, began := hanging(t), time.Now()
		var last Visit
		for range 3 * maxClosing {
			last = answer(t, w)
		}
		w.mu.Lock()
		n := len(w.over)
		w.mu.Unlock()
		if took := time.Since(began); n > maxClosing || took > 0 {
			t.Errorf("%d wait, and leaving took %v", n, took)
		}
		select {
		case <-last.runs[0].ready:
		default:
			t.Error("what is too much is not given up")
		}
		w.work.Wait()
		if took := time.Since(began); took > (maxClosing+1)*patience {
			t.Errorf("the work took %v", took)
		}
		w.Close()
	})
}

// TestCloseEndsTheWork at once, and what comes later.
func TestCloseEndsTheWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, began := hanging(t), time.Now()
		answer(t, w)
		answer(t, w)
		w.Close()
		answer(t, w)
		if took := time.Since(began); took > 0 {
			t.Errorf("closing took %v", took)
		}
		if !errors.Is(w.life.Err(), context.Canceled) || w.busy {
			t.Error("work goes on")
		}
		w.Close()
	})
}
