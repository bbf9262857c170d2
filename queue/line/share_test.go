package line_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"oneslot/queue/line"
)

func TestUsersOfAKey(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ words, want string }{
		"share it":                          {"A:x1 A:x2 A:x3 A:x4 A:y1 end", "A:x1 A:y1 A:x2 A:x3 A:x4"},
		"take turns":                        {"A:x1 A:x2 A:x3 A:y1 A:y2 A:z1 end", "A:x1 A:y1 A:z1 A:x2 A:y2 A:x3"},
		"without keys too":                  {":x1 :x2 :x3 :y1 end", ":x1 :y1 :x2 :x3"},
		"get no more than their key's part": {"A:x1 A:x2 A:y1 A:z1 B1 B2 B3 end", "A:x1 B1 A:y1 B2 A:z1 B3 A:x2"},
		"are first come among themselves":   {"B1 A:y1 A:x1 A:x2 A:y2 end", "B1 A:y1 A:x1 A:y2 A:x2"},
		"what counts is time":               {"A:x1 A:x2 A:x3 A:y1 A:y2 A:y3 30s free 20s free end", "A:x1 A:y1 A:y2 A:x2 A:y3 A:x3"},
		"a newcomer starts at the least":    {"A:x1 A:x2 A:x3 A:y1 A:y2 30s free 30s free A:z1 A:z2 end", "A:x1 A:y1 A:x2 A:y2 A:z1 A:x3 A:z2"},
		"an idle one earns no credit":       {"A:x1 A:y1 A:y2 A:y3 A:y4 10s free 10s free 100s free A:x2 A:x3 end", "A:x1 A:y1 A:y2 A:y3 A:x2 A:y4 A:x3"},
		"by class":                          {"!A:x1 A:x2 A:x3 A:y1 90s free end", "A:x1 A:x2 A:y1 A:x3"},
		"who gives no name is one of them":  {"A:x1 A:x2 A:x3 A1 A2 end", "A:x1 A1 A:x2 A2 A:x3"},
		"names count from an empty line on": {"A1 A2 A:x1 A3 A:y1 end", "A1 A2 A:x1 A3 A:y1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := fair(t, time.Hour).script(c.words); got != c.want {
				t.Errorf("%s\nserved %s\nwant   %s", c.words, got, c.want)
			}
		})
	}
}

// TestStarvingUser: under its key a user who has gone without goes first; between keys
// it is the key that has to starve, whatever users it invents.
func TestStarvingUser(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ words, want string }{
		"goes first under its key":    {"A:x1 A:x2 A:y1 500s free 200s free A:z1 A:z2 A:z3 300s free 300s free 300s free", "A:x1 A:y1 A:x2 A:z1 A:z2 A:z3"},
		"does not go first elsewhere": {"A:x1 .A:y1 .A:z1 9m free !B1 !B2 2m free 1s free", "A:x1 A:y1 B1 B2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := fair(t, 10*time.Minute)
			if got := p.script(c.words); !strings.HasPrefix(got, c.want) {
				t.Errorf("%s\nserved %s\nwant   %s", c.words, got, c.want)
			}
		})
	}
}

// TestUserIsServedWithinTheBound: however many names are made up under a key, its
// user of old is served.
func TestUserIsServedWithinTheBound(t *testing.T) {
	t.Parallel()
	p := fair(t, 10*time.Minute)
	p.script("A:a1 1000s A:b1 free A:a2")
	for n := range 60 {
		p.script(fmt.Sprintf("A:n%c%c1 30s", 'a'+n/26, 'a'+n%26))
		if served := p.script("free"); served == "A:a2" {
			return
		}
	}
	t.Error("half an hour has gone by")
}

// TestUsersAreFew: users that come and go are forgotten; all are when their key has
// neither a job in line nor one that runs.
func TestUsersAreFew(t *testing.T) {
	t.Parallel()
	p := fair(t, time.Hour)
	p.script("A:z0")
	for n := range 500 {
		p.script(fmt.Sprintf("A:%c%c1 A:z%d 1s free 1s free", 'a'+n%20, 'a'+n/20, n+1))
		if many := len(p.do(line.Look{}).View.Users); many == 0 || many > 5 {
			t.Fatalf("after %d users %d are remembered", n, many)
		}
	}
	for p.do(line.Look{}).View.Slots[0].State == line.Busy {
		p.script("1s free")
	}
	if v := p.do(line.Look{}).View; len(v.Users) > 0 || v.Accounts[0].Apart {
		t.Errorf("of an idle key %+v are remembered", v.Users)
	}
}

// TestLimitIsTheKeys: its users have no limit of their own.
func TestLimitIsTheKeys(t *testing.T) {
	t.Parallel()
	p := start(t, "one")
	p.verdict(line.Join{ID: "1", Key: "k", User: "x"}, line.Done)
	p.verdict(line.Join{ID: "2", Key: "k", User: "y"}, line.Done)
	p.verdict(line.Join{ID: "3", Key: "k", User: "z"}, line.KeyLimit)
}

// TestCrowd: with more than so many keys, or users of its key, in line, a join is told
// no place; it is there for whoever asks.
func TestCrowd(t *testing.T) {
	t.Parallel()
	for name, word := range map[string]string{"keys": "%c0", "users": "A:%c0"} {
		p := &play{t: t, now: time.Unix(1000, 0), by: line.Caller{Owner: "a"}, line: line.New(line.Rules{
			Slots: []string{"one"}, MaxWaiting: 1000, MaxWaitingPerKey: 1000, StarvationAfter: time.Hour, Crowd: 3,
		})}
		p.clean().script(fmt.Sprintf(word, 'Z'))
		for n := range 5 {
			id := fmt.Sprintf(word, 'B'+n)
			key, user, _ := strings.Cut(strings.TrimRight(id, "0"), ":")
			r := p.do(line.Join{ID: id, Key: key, User: user})
			if want := []int{1, 2, 3, 0, 0}[n]; r.At.Place != want {
				t.Errorf("%s: the %d. is told %d, want %d", name, n, r.At.Place, want)
			}
			if at := p.do(line.Rank{IDs: []string{id}}).Ranks[0].Place; at != n+1 {
				t.Errorf("%s: the %d. stands at %d", name, n, at)
			}
		}
	}
}
