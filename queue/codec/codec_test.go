package codec

import (
	"reflect"
	"testing"

	"oneslot/queue/line"
)

// TestDecode: a reply that is not as the scripts write it is found out. What they do
// write is held to the policy by the tests of package queue.
func TestDecode(t *testing.T) {
	none := []any{}
	whole := func() []any {
		return []any{
			int64(0), "7", int64(3), int64(2), int64(5), int64(1), int64(60), int64(1), int64(4), int64(1), int64(5), none, none, none, none,
			[]any{int64(9), int64(8)},
			[]any{int64(2), int64(30)},
		}
	}
	r, ok := Decode(whole(), line.Rank{})
	if !ok || r.Epoch != 7 || r.Waiting != 2 || r.At != (line.Standing{Place: 1, Work: 60}) || !r.Known || r.Mine != 4 || r.Gate != line.Paused || r.Ill != line.Down ||
		!reflect.DeepEqual(r.Running, []line.Run{{For: 9, Cost: 8}}) || !reflect.DeepEqual(r.Ranks, []line.Standing{{Place: 2, Work: 30}}) {
		t.Errorf("decoded %+v, %v", r, ok)
	}
	for at := range whole() {
		broken := whole()
		broken[at] = nil
		if _, ok := Decode(broken, line.Rank{}); ok {
			t.Errorf("took a reply whose part %d is missing", at)
		}
		if _, ok := Decode(whole()[:at], line.Rank{}); ok {
			t.Errorf("took a reply of %d parts", at)
		}
	}
	for _, bad := range []any{"x", []any{"1"}, []any{int64(2), "x"}} {
		broken := whole()
		broken[16] = bad
		if _, ok := Decode(broken, line.Rank{}); ok {
			t.Errorf("took %v as ranks", bad)
		}
	}
}

// TestEncode: each step has a script of its own.
func TestEncode(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range []line.Step{
		line.Join{},
		line.Rejoin{},
		line.Leave{},
		line.Rank{},
		line.Look{},
		line.Switch{},
		line.Call{},
		line.Free{},
		line.Mark{},
		line.Yield{},
		line.Keep{},
		line.Renew{},
		line.Quit{},
		line.Tell{},
	} {
		name, _ := Encode(s)
		if seen[name] {
			t.Errorf("%s is the script of two steps", name)
		}
		seen[name] = true
	}
	name, args := Encode(line.Free{Slot: "a", Fence: 5, Clean: true, Gone: []string{"x", "y"}})
	if name != "slot_free" || !reflect.DeepEqual(args, []any{"a", int64(5), true, "x", "y"}) {
		t.Errorf("%s %v", name, args)
	}
}
