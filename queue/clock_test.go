package queue

import (
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"testing"
	"time"

	"oneslot/queue/line"
)

// TestClockSkew: the clocks of the proxies are an hour from that of Redis, to either
// side, and so may be two hours from each other: nobody notices. What a dead process
// leaves behind is free within its lease all the same.
func TestClockSkew(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Log("the clock of a program can be moved here on Linux only")
		return
	}
	compiler, err := exec.LookPath("cc")
	if err != nil {
		t.Fatal("a C compiler is missing")
	}
	library := filepath.Join(t.TempDir(), "skew.so")
	if out, err := exec.CommandContext(t.Context(), compiler, "-shared", "-fPIC", "-o", library, "testdata/skew.c", "-ldl").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for skew, by := range map[string]time.Duration{"3600": time.Hour, "-3600": -time.Hour} {
		t.Run(by.String(), func(t *testing.T) {
			t.Parallel()
			if by < 0 && !thorough(t) {
				return
			}
			server := &redisServer{env: []string{"LD_PRELOAD=" + library, "SKEW=" + skew}}
			server.launch(t)
			there, err := server.client(t).Time(t.Context()).Result()
			if off := time.Until(there); err != nil || (off-by).Abs() > time.Minute {
				t.Fatalf("the clock of Redis is off by %v, want %v; %v", off, by, err)
			}
			newCrew(t, steady(), "redis://"+server.addr).finish()
			e := newEngine(t)
			b := server.bundle(t, e, brisk("spark"))
			process, _ := server.startVictim(t, b)
			next := b.job(1)
			soon(t, "in line", func() bool { return len(b.snapshot().Waiting) == 10 })
			for _, w := range b.snapshot().Waiting {
				if w.Waited < 0 || w.Waited > time.Minute {
					t.Errorf("one has waited %v", w.Waited)
				}
			}
			killed, err := server.client(t).Time(t.Context()).Result()
			if err != nil {
				t.Fatal(err)
			}
			if err := process.Process.Signal(os.Kill); err != nil {
				t.Fatal(err)
			}
			next.begun(t)
			after := time.UnixMicro(next.hold.Fence).Sub(killed)
			if after > brisk().Lease+time.Second {
				t.Errorf("free %v after the kill", after)
			}
			t.Logf("Redis' clock off by %v: the slot of a killed proxy was free after %v, its lease being %v", by, after, brisk().Lease)
			next.end(nil)
			want(t, next.result())
			b.close()
		})
	}
}

// TestNoClockOfOurs: nothing that a proxy tells the line is a time by its own clock,
// so none can be wrong: a ticket's arrival is the store's own word, said back.
func TestNoClockOfOurs(t *testing.T) {
	for _, step := range []line.Step{
		line.Join{}, line.Rejoin{}, line.Leave{}, line.Free{}, line.Mark{}, line.Renew{}, line.Quit{}, line.Switch{}, line.Call{}, line.Tell{}, line.Rank{}, line.Look{},
	} {
		for i := range reflect.TypeOf(step).NumField() {
			if f := reflect.TypeOf(step).Field(i); f.Type == reflect.TypeFor[time.Time]() || f.Type == reflect.TypeFor[time.Duration]() {
				t.Errorf("%T.%s is a time", step, f.Name)
			}
		}
	}
	store, err := newRedisStore(nil, brisk("spark"))
	if err != nil {
		t.Fatal(err)
	}
	if store.clock != nil {
		t.Error("a store has a clock of its own")
	}
}
