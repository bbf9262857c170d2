package console

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"oneslot/api/board"
)

const first = `{"object":"queue","waiting":2,"running":1,"limit":64,"paused":false,"draining":false,
	"slots":[{"engine":"spark","state":"busy","request_id":"r1","phase":"thinking","since_ms":61500,"prompt_tokens":812,"thinking_tokens":640,"answer_tokens":0,"tokens_per_second":9.8},
	{"engine":"ember","state":"down","since_ms":3000,"prompt_tokens":null,"thinking_tokens":null,"answer_tokens":null,"tokens_per_second":null}],
	"waiters":[{"request_id":"w1","position":1,"priority":"default","key":"team-a","waited_ms":40210,"eta_seconds":{"p50":120,"p90":410}},{"position":2}],
	"recent":{"slot_seconds":null,"requests":0}}`

// rows are the lines of the table, with blanks made single.
func rows(t *testing.T, s *Screen) []string {
	t.Helper()
	var b strings.Builder
	if err := s.Table(&b, Window{}); err != nil {
		t.Fatal(err)
	}
	var out []string
	for line := range strings.Lines(b.String()) {
		if text := strings.Join(strings.Fields(line), " "); text != "" {
			out = append(out, text)
		}
	}
	return out
}

func same(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%s:\n%s\nwant\n%s", what, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

const (
	slotHead = "SLOT STATE FOR PHASE PROMPT THINKING ANSWER TOK/S REQUEST"
	lineHead = "PLACE REQUEST KEY CLASS WAITED STARTS IN"
)

func TestTable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var v board.View
		if err := json.Unmarshal([]byte(first), &v); err != nil {
			t.Fatal(err)
		}
		s := New(v)
		<-time.After(2 * time.Second) // times go on between two events
		same(t, "the view", rows(t, s), "2 of 64 waiting, 1 running", slotHead,
			"spark busy 1m3s thinking 812 640 0 9.8 r1", "ember down 5s", lineHead,
			"1 w1 team-a default 42s 2m0s - 6m50s", "2 (another's)")
	})
}

// TestFeed: every event changes the table as it should.
func TestFeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Screen{}
		same(t, "before the feed", rows(t, s), "Nothing is known of the line yet.")
		apply := func(name, data string) {
			t.Helper()
			if err := s.Apply(name, []byte(data)); err != nil {
				t.Error(err)
			}
		}
		apply("snapshot", first)
		<-time.After(10 * time.Second)
		apply("joined", `{"request_id":"w2","position":1,"priority":"interactive","key":"b","waited_ms":0,"eta_seconds":null}`)
		apply("moved", `{"request_id":"w1","position":2,"priority":"default","key":"team-a","waited_ms":50210,"eta_seconds":null}`)
		same(t, "the head, before its event", rows(t, s)[:1], "3 of 64 waiting, 1 running")
		apply("line", `{"waiting":3,"running":0,"paused":true,"draining":false}`)
		apply("slot", `{"engine":"spark","state":"idle","since_ms":0,"prompt_tokens":null,"thinking_tokens":null,"answer_tokens":null,"tokens_per_second":null}`)
		apply("something new", `?`)
		<-time.After(time.Second)
		same(t, "after them", rows(t, s), "3 of 64 waiting, 0 running, PAUSED", slotHead, "spark idle 1s", "ember down 14s", lineHead,
			"1 w2 b interactive 1s paused", "2 w1 team-a default 51s paused")
		apply("granted", `{"request_id":"w2","engine":"spark"}`)
		apply("left", `{"request_id":"w1"}`)
		same(t, "the head, when two are gone", rows(t, s)[:1], "1 of 64 waiting, 0 running, PAUSED")
		apply("line", `{"waiting":0,"running":1,"paused":false,"draining":true}`)
		apply("phase", `{"engine":"spark","state":"busy","request_id":"w2","phase":"prefill","since_ms":100,"prompt_tokens":5,"thinking_tokens":null,"answer_tokens":null,"tokens_per_second":null}`)
		same(t, "in the end", rows(t, s), "0 of 64 waiting, 1 running, DRAINING", slotHead, "spark busy 0s prefill 5 w2", "ember down 14s")
		apply("unavailable", `{"reason":"store_down"}`)
		same(t, "without a store", rows(t, s), "The line's store does not answer.")
		apply("snapshot", first)
		if got := rows(t, s); len(got) != 7 {
			t.Errorf("when it is back: %q", got)
		}
		for _, name := range []string{"snapshot", "joined", "left", "slot", "line"} {
			if err := s.Apply(name, []byte("[")); err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("broken data of %s: %v", name, err)
			}
		}
	})
}

func TestLine(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, c := range []struct{ name, data, want string }{
		{"joined", `{"request_id":"w2","position":1,"priority":"batch","key":"","waited_ms":0,"eta_seconds":null}`, "03:04:05 joined request=w2 position=1 priority=batch"},
		{"line", `{"waiting":3,"running":0,"paused":true,"draining":false}`, "03:04:05 line waiting=3 running=0 paused=true draining=false"},
		{"slot", `{"engine":"spark","state":"idle","prompt_tokens":null}`, "03:04:05 slot engine=spark state=idle"},
		{"unavailable", `{"reason":"store_down"}`, "03:04:05 unavailable reason=store_down"},
		{"snapshot", first, ""},
		{"joined", `[`, ""},
	} {
		if got := Line(at, c.name, []byte(c.data)); got != c.want {
			t.Errorf("%s is %q, want %q", c.data, got, c.want)
		}
	}
}

// raw is the table as it is written.
func raw(t *testing.T, s *Screen, win Window) string {
	t.Helper()
	var b strings.Builder
	if err := s.Table(&b, win); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestColumns: another's rows keep the columns, and are said to be another's.
func TestColumns(t *testing.T) {
	v := board.View{Slots: []board.Slot{{Engine: "spark", State: "busy"}, {Engine: "ember", State: "busy", RequestID: "r"}, {Engine: "ash", State: "down"}}, Waiters: []board.Waiter{
		{Position: 1}, {Position: 2, RequestID: "mine", Key: "a-long-name", Priority: "default"}, {Position: 3}, {Position: 4, RequestID: "w", Key: "k", Priority: "batch"},
	}}
	lines := strings.Split(raw(t, New(v), Window{}), "\n")
	column := func(what string, line, head int) {
		t.Helper()
		if at := strings.Index(lines[head], what); at < 0 || len(lines[line]) <= at || lines[line][at] == ' ' || lines[line][at-1] != ' ' {
			t.Errorf("%q is out of line in %q under %q", what, lines[line], lines[head])
		}
	}
	for line := 3; line <= 4; line++ {
		column("REQUEST", line, 2)
	}
	if !strings.HasSuffix(lines[3], "  (another's)") || strings.Contains(lines[5], "another") || lines[10] != "3      (another's)" {
		t.Errorf("%q, %q, %q", lines[3], lines[5], lines[10])
	}
	for _, line := range []int{9, 11} {
		for _, what := range []string{"REQUEST", "KEY", "CLASS", "WAITED"} {
			column(what, line, 7)
		}
	}
}

// TestBand: one figure where both ends look the same.
func TestBand(t *testing.T) {
	for want, b := range map[string]board.Band{"~43s": {P50: 43.2, P90: 43.9}, "8s - 9s": {P50: 8, P90: 9}, "~0s": {}} {
		if got := band(&b); got != want {
			t.Errorf("%+v is %q, want %q", b, got, want)
		}
	}
}

// TestWindow: the table fits the window it is given.
func TestWindow(t *testing.T) {
	v := board.View{Waiting: 30, Limit: 64, Running: 1, Slots: []board.Slot{{Engine: "spark", State: "busy", RequestID: strings.Repeat("0", 24) + "ffffffff"}}}
	for i := range 30 {
		v.Waiters = append(v.Waiters, board.Waiter{Position: i + 1, RequestID: fmt.Sprintf("%08d%024d", i+1, 0), Key: "täam", Priority: "default", ETA: &board.Band{P50: 1, P90: 5}})
	}
	s := New(v)
	for _, c := range []struct {
		win   Window
		lines int
		last  string
	}{
		{Window{}, 36, "30 "},
		{Window{Rows: 36}, 36, "30 "},
		{Window{Rows: 35}, 35, "… and 2 more"},
		{Window{Rows: 19}, 19, "… and 18 more"},
		{Window{Rows: 7, Columns: 60}, 7, "… and 30 more"},
		{Window{Rows: 4}, 4, "…"},
		{Window{Rows: 1, Columns: 1}, 1, "…"},
		{Window{Columns: 20}, 36, "30 "},
	} {
		lines := strings.Split(strings.TrimSuffix(raw(t, s, c.win), "\n"), "\n")
		if len(lines) != c.lines || !strings.HasPrefix(lines[len(lines)-1], c.last) {
			t.Errorf("%+v: %d lines, want %d, the last is %q, want %q", c.win, len(lines), c.lines, lines[len(lines)-1], c.last)
		}
		for _, l := range lines {
			if n := utf8.RuneCountInString(l); c.win.Columns > 0 && n > c.win.Columns {
				t.Errorf("%+v: %d columns: %q", c.win, n, l)
			}
		}
	}
	narrow, wide := raw(t, s, Window{Columns: 75}), raw(t, s, Window{Columns: 120})
	if strings.Contains(narrow, "0ffffffff") || !strings.Contains(narrow, "…ffffffff") || !strings.Contains(narrow, "1s - 5s") {
		t.Errorf("in a narrow window:\n%s", narrow)
	}
	if !strings.Contains(wide, strings.Repeat("0", 24)+"ffffffff") || wide != raw(t, s, Window{}) {
		t.Errorf("in a wide one:\n%s", wide)
	}
}

// TestRefresh: a view is taken whole, but of one that may be older than the events
// only the times.
func TestRefresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Screen{}
		view := func() board.View {
			return board.View{Waiting: 2, Limit: 9, Slots: []board.Slot{{Engine: "a", State: "idle"}}, Waiters: []board.Waiter{
				{Position: 1}, {Position: 2, RequestID: "w1", Key: "k", Priority: "batch", ETA: &board.Band{P50: 40, P90: 50}},
			}}
		}
		s.Refresh(view(), time.Now())
		same(t, "before the feed", rows(t, s), "Nothing is known of the line yet.")
		if err := s.Apply("snapshot", []byte(`{"waiting":1,"limit":9,"slots":[{"engine":"a","state":"idle"}],"waiters":[{"request_id":"w1","position":1,"priority":"batch","key":"k","eta_seconds":null}]}`)); err != nil {
			t.Fatal(err)
		}
		s.Refresh(view(), time.Now())
		same(t, "whole", rows(t, s), "2 of 9 waiting, 0 running", slotHead, "a idle 0s", lineHead, "1 (another's)", "2 w1 k batch 0s 40s - 50s")
		at := time.Now()
		<-time.After(time.Second)
		if err := s.Apply("moved", []byte(`{"request_id":"w1","position":1,"priority":"batch","key":"k","waited_ms":1000,"eta_seconds":null}`)); err != nil {
			t.Fatal(err)
		}
		s.Refresh(view(), at)
		same(t, "its times alone", rows(t, s)[4:], "1 w1 k batch 1s 40s - 50s")
		s.Lose()
		<-time.After(time.Minute)
		s.Refresh(board.View{}, time.Now())
		same(t, "without a feed", rows(t, s), "2 of 9 waiting, 0 running - reconnecting…", slotHead, "a idle 1s", lineHead, "1 w1 k batch 1s 40s - 50s")
	})
}
