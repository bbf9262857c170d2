package ledger_test

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"oneslot/ledger"
	"oneslot/usage"

	"github.com/redis/go-redis/v9"
)

// soon waits for what another process, or a lease, brings about.
func soon(t *testing.T, what string, is func() bool) {
	t.Helper()
	limit := time.After(30 * time.Second)
	for !is() {
		select {
		case <-time.After(5 * time.Millisecond):
		case <-limit:
			t.Fatalf("it never came to this: %s", what)
		}
	}
}

// TestCluster runs what takes more than one key on a cluster.
func TestCluster(t *testing.T) {
	s := newServer(t, "--cluster-enabled", "yes")
	for name, test := range map[string]func(*testing.T, place){"list": onList, "sum": onSum, "retention": onRetention} {
		t.Run(name, func(t *testing.T) {
			must(t, s.client.FlushDB(t.Context()).Err())
			test(t, s)
		})
	}
}

// TestOneTag: all keys live in one slot of a cluster, and none is named after
// anything a client said.
func TestOneTag(t *testing.T) {
	s := newServer(t)
	l := at(t, s, ledger.Config{})
	must(t, l.Begin(queued(1)))
	must(t, l.Finish(served(2)))
	must(t, l.Flush(t.Context()))
	keys, err := s.client.Keys(t.Context(), "*").Result()
	must(t, err)
	for _, key := range keys {
		if !strings.HasPrefix(key, "oneslot:{ledger}:") {
			t.Errorf("a key is named %s", key)
		}
	}
	if len(keys) != 4 { // none is lost
		t.Errorf("the keys are %v", keys)
	}
}

// TestDeadOwner: what a process leaves open is ended by another one.
func TestDeadOwner(t *testing.T) {
	s := newServer(t)
	s.lease = 300 * time.Millisecond
	dead := at(t, &server{client: s.client, lease: time.Hour}, ledger.Config{Every: time.Millisecond})
	running, waiting := dying(1, 2)
	must(t, dead.Begin(running))
	must(t, dead.Begin(waiting))
	must(t, dead.Finish(served(3)))
	must(t, dead.Flush(t.Context()))
	var mu sync.Mutex
	told := map[string]ledger.Outcome{}
	other := at(t, s, ledger.Config{Lost: func(r ledger.Row) {
		mu.Lock()
		defer mu.Unlock()
		told[r.ID] = r.Outcome
	}})
	must(t, other.Begin(queued(4)))
	must(t, other.Flush(t.Context()))
	if got := get(t, other, 1).Outcome; got != ledger.Running {
		t.Fatalf("while its owner lives it is %s", got)
	}
	// Its lease has run out.
	must(t, s.client.ZAdd(t.Context(), "oneslot:{ledger}:owners", redis.Z{Score: 1, Member: owner(t, s, 1)}).Err())
	soon(t, "the rows are closed", func() bool { return !get(t, other, 1).Outcome.Open() })
	soon(t, "the log is told", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(told) == 2 && told[id(1)] == ledger.SlotLost && told[id(2)] == ledger.Abandoned
	})
	lost(t, other, 1, 2)
	if left := get(t, other, 2); left.Tokens.Answer.Source != usage.DidNotRun {
		t.Errorf("%+v", left)
	}
	if got := get(t, other, 3).Outcome; got != ledger.Served {
		t.Errorf("an ended row is %s", got)
	}
	if got := get(t, other, 4).Outcome; got != ledger.Queued {
		t.Errorf("its own row is %s", got)
	}
	// The owner lived after all: what it says is the truth, but only what it says.
	must(t, dead.Finish(served(1)))
	must(t, dead.Flush(t.Context()))
	must(t, other.Finish(served(2)))
	must(t, other.Flush(t.Context()))
	if a, b := get(t, other, 1).Outcome, get(t, other, 2).Outcome; a != ledger.Served || b != ledger.Abandoned {
		t.Errorf("the owner's is %s, the other %s", a, b)
	}
	failed := served(1)
	failed.Outcome = ledger.EngineFailed
	must(t, dead.Finish(failed))
	must(t, dead.Flush(t.Context()))
	if got := get(t, other, 1).Outcome; got != ledger.Served {
		t.Errorf("after its true end it is %s", got)
	}
}

// owner is whose a row is.
func owner(t *testing.T, s *server, n int) string {
	t.Helper()
	name, err := s.client.HGet(t.Context(), "oneslot:{ledger}:open", id(n)).Result()
	must(t, err)
	return name
}

// TestClosedOwner: who ends in order is not waited for.
func TestClosedOwner(t *testing.T) {
	s := newServer(t)
	first, err := s.open(t.Context(), ledger.Config{})
	must(t, err)
	must(t, first.Begin(queued(1)))
	must(t, first.Close())
	other := at(t, s, ledger.Config{})
	must(t, other.Begin(queued(2)))
	must(t, other.Flush(t.Context()))
	if got := get(t, other, 1).Outcome; got != ledger.Abandoned {
		t.Errorf("it is %s", got)
	}
}

// TestRedisAway: rows wait while it is away, and are written when it is back.
func TestRedisAway(t *testing.T) {
	s := newServer(t)
	l := at(t, s, ledger.Config{})
	must(t, s.client.Do(t.Context(), "ACL", "SETUSER", "default", "-eval", "-evalsha").Err())
	must(t, l.Begin(queued(1)))
	soon(t, "it fails", func() bool { return l.Err() != nil })
	must(t, l.Finish(served(1)))
	if got := get(t, l, 1).Outcome; got != ledger.Served {
		t.Errorf("a waiting row is %s", got)
	}
	if _, _, err := l.List(t.Context(), ledger.Query{}); !errors.Is(err, ledger.ErrStore) {
		t.Errorf("a list: %v", err)
	}
	ctx, leave := context.WithCancel(t.Context())
	leave()
	if _, _, err := l.List(ctx, ledger.Query{}); errors.Is(err, ledger.ErrStore) || !errors.Is(err, context.Canceled) {
		t.Errorf("of a client that has left: %v", err)
	}
	must(t, s.client.Do(t.Context(), "ACL", "SETUSER", "default", "+@all").Err())
	soon(t, "it is written", func() bool { return l.Flush(t.Context()) == nil })
	rows, _, err := l.List(t.Context(), ledger.Query{})
	must(t, err)
	if len(rows) != 1 || rows[0].Outcome != ledger.Served {
		t.Errorf("%+v", rows)
	}
}

// TestManyInRedis reads more than one part at a time, with many of one moment.
func TestManyInRedis(t *testing.T) {
	s := newServer(t)
	l := at(t, s, ledger.Config{})
	const all = 5200
	for n := range all {
		r := served(n)
		r.Created = start.Add(time.Duration(n/2600) * time.Second)
		must(t, l.Finish(r))
	}
	sums, err := l.Sum(t.Context(), ledger.Query{}, ledger.ByKey)
	must(t, err)
	if len(sums) != 1 || sums[0].Requests != all || *sums[0].Tokens.Prompt != 812*all {
		t.Errorf("%+v", sums)
	}
	q, n := ledger.Query{Limit: 1000}, all
	for {
		rows, next, err := l.List(t.Context(), q)
		must(t, err)
		for _, r := range rows {
			if n--; r.ID != id(n) {
				t.Fatalf("row %s, want %s", r.ID, id(n))
			}
		}
		if q.After = next; next == "" {
			break
		}
	}
	if n != 0 {
		t.Errorf("%d rows are missing", n)
	}
	used, err := s.client.MemoryUsage(t.Context(), "oneslot:{ledger}:rows", 0).Result()
	must(t, err)
	times, err := s.client.MemoryUsage(t.Context(), "oneslot:{ledger}:times", 0).Result()
	must(t, err)
	if per := (used + times) / all; per > 700 {
		t.Errorf("a row takes %d bytes", per)
	} else {
		t.Logf("a row takes %d bytes", per)
	}
}

// childRedis makes the test binary a process that writes into a Redis.
const childRedis = "ONESLOT_LEDGER_TEST_REDIS"

// TestKillInRedis kills a process at many points of its work while another one
// goes on. Every row it had finished and seen written is still finished, and none is
// left open.
func TestKillInRedis(t *testing.T) {
	s := newServer(t)
	s.lease = 400 * time.Millisecond
	other := at(t, s, ledger.Config{})
	for _, after := range []int{1, 2, 5, 13} {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), childRedis+"="+s.address)
		out, err := cmd.StdoutPipe()
		must(t, err)
		must(t, cmd.Start())
		lines, last := bufio.NewScanner(out), -1
		for range after {
			if !lines.Scan() {
				t.Fatalf("the child has ended: %v", lines.Err())
			}
			if last, err = strconv.Atoi(lines.Text()); err != nil {
				t.Fatal(lines.Text())
			}
		}
		must(t, cmd.Process.Kill())
		for lines.Scan() {
			if n, err := strconv.Atoi(lines.Text()); err == nil {
				last = n
			}
		}
		_ = cmd.Wait()
		soon(t, "no row is open", func() bool {
			open := 0
			for _, o := range []ledger.Outcome{ledger.Queued, ledger.Running} {
				rows, _, err := other.List(t.Context(), ledger.Query{Outcome: o})
				must(t, err)
				open += len(rows)
			}
			return open == 0
		})
		for n := 2; n <= last; n += 3 {
			if got := get(t, other, n).Outcome; got != ledger.Served {
				t.Errorf("row %d of %d: %s, want served", n, last, got)
			}
		}
		if a, b := get(t, other, 0).Outcome, get(t, other, 1).Outcome; a != ledger.Abandoned || b != ledger.SlotLost {
			t.Errorf("%s and %s, want abandoned and slot_lost", a, b)
		}
		must(t, s.client.FlushDB(t.Context()).Err())
	}
}

// childOf opens the ledger that the environment names.
func childOf(environ func(string) string) (*ledger.Ledger, error) {
	if address := environ(childRedis); address != "" {
		s := &server{client: redis.NewClient(&redis.Options{Addr: address, ContextTimeoutEnabled: true}), lease: 400 * time.Millisecond}
		return s.open(context.Background(), ledger.Config{})
	}
	if dir := environ(childDir); dir != "" {
		return folder{dir}.open(context.Background(), ledger.Config{})
	}
	return nil, errors.New("no place is named")
}
