package lines

import (
	"errors"
	"slices"
	"testing"
)

const file = `# a comment
listen: 127.0.0.1:8080

engines:
  - {name: a, url: "http://a",
     model: m}
  - name: b
    url: http://b
queue:
  lease: 15s
models: {gpt-4.1: m, "with space": m}
hosts: [a,
  b]
base: &base
  keep: 1
responses: *base
usage:
  <<: *base
  max_rows: 2
`

func TestNear(t *testing.T) {
	l := Of([]byte(file))
	for key, want := range map[string]int{
		"listen": 2, "engines": 4, "engines[0]": 5, "engines[0].name": 5, "engines[0].model": 6, "engines[1]": 7, "engines[1].name": 7, "engines[1].url": 8,
		"queue.lease": 10, "models.gpt-4.1": 11, "models.with space": 11, "hosts[0]": 12, "hosts[1]": 13,
		// What is not there is looked for where it would be.
		"engines[1].slots": 7, "engines[2].url": 4, "queue.leese": 9, "queue.lease.x": 10, "limits.body": 0, "": 0,
		// What an alias brings in stands where that does.
		"responses.keep": 16, "usage.keep": 17, "usage.max_rows": 19,
	} {
		if got := l.Near(key); got != want {
			t.Errorf("%s stands on line %d, want %d", key, got, want)
		}
	}
}

// TestNoYAML: what cannot be read, or is no group, has no lines, and does no harm.
func TestNoYAML(t *testing.T) {
	for _, text := range []string{"", "\n", "a: [", "text", "- a\n- b", "a: &a [*a]", "a: 1\na: 2", "\x00", "? {x: y}\n: z"} {
		if got := Of([]byte(text)).Near("x.y[0]"); got != 0 {
			t.Errorf("%q: line %d", text, got)
		}
	}
}

// TestFaults: what YAML says is taken apart, with the line that the fault is on.
func TestFaults(t *testing.T) {
	for text, want := range map[string][]Fault{
		"yaml: line 2: found unexpected end of stream":           {{2, "found unexpected end of stream"}},
		"yaml: line 2: did not find expected ',' or ']'":         {{3, "did not find expected ',' or ']'"}},
		"yaml: line 2: did not find expected key":                {{3, "did not find expected key"}},
		"yaml: line 2: did not find expected alphabetic":         {{2, "did not find expected alphabetic"}},
		"yaml: found character that cannot start any token":      {{1, "found character that cannot start any token"}},
		"yaml: unknown anchor 'a' referenced":                    {{0, "unknown anchor 'a' referenced"}},
		"yaml: unmarshal errors:\n  line 3: twice\n  line 5: no": {{3, "twice"}, {5, "no"}},
	} {
		if got := Faults(errors.New(text)); !slices.Equal(got, want) {
			t.Errorf("%q: %+v", text, got)
		}
	}
}
