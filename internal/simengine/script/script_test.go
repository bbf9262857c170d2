package script_test

import (
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"oneslot/internal/simengine/script"
)

const all = `Every step there is.
-- status 302 --
Location: http://example.invalid/
X-Two: a
X-Two: b: c

-- write --
data: a

-- write-cut --
data: b
-- hex --
64 61
ff 0A
-- repeat 90 1s --
data: c

-- sleep 1200ms --
-- thinking --
so
-- answer --
OK
YES
-- finish stop --
-- done --
-- hold --
-- await-leave --
-- end --
-- cut --
-- reset --
-- next --
-- done --
`

func TestParse(t *testing.T) {
	got, err := script.Parse(all)
	if err != nil {
		t.Fatal(err)
	}
	want := []script.Script{
		{
			script.Status(302, http.Header{"Location": {"http://example.invalid/"}, "X-Two": {"a", "b: c"}}),
			script.Write("data: a\n\n"),
			script.Write("data: b"),
			script.Write("da\xff\n"),
			script.Repeat("data: c\n\n", 90, time.Second),
			script.Sleep(1200 * time.Millisecond),
			script.Thinking("so"),
			script.Answer("OK\nYES"),
			script.Finish("stop"),
			script.Done(),
			script.Hold(),
			script.AwaitLeave(),
			script.End(),
			script.Cut(),
			script.Reset(),
		},
		{script.Done()},
	}
	if len(got) != len(want) {
		t.Fatalf("%d scripts, want %d", len(got), len(want))
	}
	for i := range want {
		for j := range want[i] {
			if j >= len(got[i]) || !reflect.DeepEqual(got[i][j], want[i][j]) {
				t.Errorf("script %d step %d:\n got %+v\nwant %+v", i, j, got[i][j:], want[i][j])
				break
			}
		}
		if len(got[i]) != len(want[i]) {
			t.Errorf("script %d has %d steps, want %d", i, len(got[i]), len(want[i]))
		}
	}
}

// TestEveryStepHasItsKind keeps the kinds apart: the interpreter switches on
// them.
func TestEveryStepHasItsKind(t *testing.T) {
	scripts, err := script.Parse(all)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[script.Kind]bool{}
	for _, step := range scripts[0] {
		seen[step.Kind] = true
	}
	for kind := script.KindStatus; kind <= script.KindReset; kind++ {
		if !seen[kind] {
			t.Errorf("kind %d is not in the test file", kind)
		}
	}
	if seen[0] {
		t.Error("a step has no kind")
	}
}

func TestParseFaults(t *testing.T) {
	for _, tc := range []struct{ name, text, want string }{
		{"empty", "", "no section"},
		{"only words", "once upon a time\n", "no section"},
		{"unknown", "-- dance --\n", `section 1, "dance": no such step`},
		{"sleep without time", "-- sleep --\n", "takes 1 arguments, has 0"},
		{"sleep nonsense", "-- sleep long --\n", "invalid duration"},
		{"status nonsense", "-- status ok --\n", `status "ok" is not a number`},
		{"status out of range", "-- status 100 --\n", `status "100"`},
		{"status alone", "-- status --\n", "takes 1 arguments"},
		{"header", "-- status 200 --\nno colon\n", `"no colon" has no colon`},
		{"hex", "-- hex --\nxy\n", "invalid byte"},
		{"repeat", "-- repeat x 1s --\n", `"x" is not a number of times`},
		{"repeat alone", "-- repeat 1 --\n", "takes 2 arguments"},
		{"negative repeat", "-- repeat -1 1s --\n", `"-1"`},
		{"done with body", "-- done --\nx\n", "no body"},
		{"cut with argument", "-- cut 1 --\n", "no argument"},
		{"write with argument", "-- write 1 --\n", "takes 0 arguments, has 1"},
		{"finish alone", "-- finish --\n", "takes 1 arguments"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := script.Parse(tc.text)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

func TestRepeatForEver(t *testing.T) {
	got, err := script.Parse("-- repeat 0 1s --\n:\n\n")
	if err != nil || len(got) != 1 || !reflect.DeepEqual(got[0], script.Script{script.Repeat(":\n\n", 0, time.Second)}) {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestAllFaultsAtOnce(t *testing.T) {
	_, err := script.Parse("-- one --\n-- done --\n-- two --\n")
	if err == nil || !strings.Contains(err.Error(), `section 1, "one"`) || !strings.Contains(err.Error(), `section 3, "two"`) {
		t.Errorf("got %v", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(all)
	f.Add("-- repeat 1 --\n-- \x00 --\n")
	f.Fuzz(func(t *testing.T, text string) {
		scripts, err := script.Parse(text)
		if err != nil {
			return
		}
		if len(scripts) == 0 {
			t.Errorf("%q: neither scripts nor an error", text)
		}
		for _, s := range scripts {
			for _, step := range s {
				if step.Kind < script.KindStatus || step.Kind > script.KindReset || step.Times < 0 {
					t.Errorf("%q: step %+v", text, step)
				}
			}
		}
	})
}
