package downstream_test

import (
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"oneslot/proxy/downstream"
)

// many lets test have clients that came at different moments and beat together.
func many(t *testing.T, n int, test func(t *testing.T, all []*downstream.Client, to []*writer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		cfg := usual(true)
		cfg.Rounds = &downstream.Rounds{}
		var all []*downstream.Client
		var to []*writer
		for range n {
			w := newWriter()
			c, err := downstream.New(&echoes{ResponseWriter: w}, request(t), cfg)
			if err != nil {
				t.Fatal(err)
			}
			all, to = append(all, c), append(to, w)
			pass(7 * time.Millisecond)
		}
		test(t, all, to)
		for _, c := range all {
			c.Release()
		}
		pass(time.Minute)
	})
}

// beats is how often somebody was told something, and when last.
func beats(w *writer) (n int, last time.Time) {
	s := w.sentAt()
	if len(s) == 0 {
		return 0, last
	}
	return len(s), w.began.Add(s[len(s)-1].at)
}

// TestRounds: all beat at the same moments, as long as they are there.
func TestRounds(t *testing.T) {
	many(t, 30, func(t *testing.T, all []*downstream.Client, to []*writer) {
		pass(26 * time.Second)
		moments := map[string]int{}
		for i, w := range to {
			n, last := beats(w)
			if n != 3 {
				t.Errorf("client %d was told %d times", i, n)
			}
			moments[last.String()]++
		}
		if len(moments) > 2 {
			t.Errorf("the last beats came at %v", moments)
		}
		for _, c := range all[:20] {
			c.Release()
		}
		pass(20 * time.Second)
		for i, w := range to {
			want := 5
			if i < 20 {
				want = 3
			}
			if n, _ := beats(w); n != want {
				t.Errorf("client %d was told %d times, want %d", i, n, want)
			}
		}
	})
}

// TestRoundsGoOn: who does not read holds up nobody, however many they are.
func TestRoundsGoOn(t *testing.T) {
	for _, dead := range []int{1, 5, 20} {
		t.Run(fmt.Sprint(dead), func(t *testing.T) {
			many(t, 20, func(t *testing.T, _ []*downstream.Client, to []*writer) {
				pass(5 * time.Second)
				for _, w := range to[:dead] {
					w.mu.Lock()
					w.stuck = make(chan struct{})
					w.mu.Unlock()
				}
				pass(8 * time.Second)
				for i, w := range to[dead:] {
					n, last := beats(w)
					if silent := last.Sub(w.began) - 500*time.Millisecond; n != 2 || silent > 12*time.Second {
						t.Errorf("client %d was told %d times, last after %v", dead+i, n, silent)
					}
				}
				pass(time.Minute) // the writes fail
			})
		})
	}
}

// TestRoundsLetGo: nothing of a client is kept once it is released, nor after its last
// round, or thousands who have left would go on to take memory.
func TestRoundsLetGo(t *testing.T) {
	for name, wait := range map[string]time.Duration{"before its round": 5 * time.Second, "after a round": 11 * time.Second} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := usual(true)
				cfg.Rounds = &downstream.Rounds{}
				kept := func() weak.Pointer[downstream.Client] {
					c, err := downstream.New(&echoes{ResponseWriter: newWriter()}, request(t), cfg)
					if err != nil {
						t.Fatal(err)
					}
					pass(wait)
					c.Release()
					return weak.Make(c)
				}()
				runtime.GC()
				if kept.Value() != nil {
					t.Error("the client is still there")
				}
				runtime.KeepAlive(cfg.Rounds)
			})
		})
	}
}
