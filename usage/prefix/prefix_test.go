package usage_test

import (
	"slices"
	"testing"

	"oneslot/usage"
)

// ids returns n tokens that begin with from and count up, so that two of them
// with the same from share a prefix.
func ids(from uint32, n int) []uint32 {
	list := make([]uint32, n)
	for i := range list {
		list[i] = from + uint32(i)
	}
	return list
}

func join(parts ...[]uint32) []uint32 { return slices.Concat(parts...) }

// TestPrefixModel runs the prompts that were measured on real engines. Each is
// asked for, then run.
func TestPrefixModel(t *testing.T) {
	const n = 1316
	template := ids(900_000, 3) // what every prompt begins with
	full := join(template, ids(0, n-3))
	reply := ids(70_000, 16)
	prompts := []struct {
		name         string
		prompt       []uint32
		sglang, vllm int
	}{
		{"cold", full, 3, 0},
		{"same again", full, 1315, 1280},
		{"changed tail", join(full[:1305], ids(80_000, 13)), 1305, 1280},
		{"first half", full[:655], 654, 640},
		{"full again", full, 1315, 1280},
		{"first word changed", join(template, ids(50_000, n-3)), 3, 0},
		{"first prompt again", full, 1315, 1280},
		{"own reply and a new question", join(full, reply, ids(60_000, 20)), n + 16, 1280},
	}
	for name, tc := range map[string]struct {
		rule usage.PrefixRule
		want func(i int) int
	}{
		"SGLang": {usage.PrefixRule{Empty: true}, func(i int) int { return prompts[i].sglang }},
		"vLLM":   {usage.PrefixRule{Empty: true, Block: 128}, func(i int) int { return prompts[i].vllm }},
	} {
		t.Run(name, func(t *testing.T) {
			m := usage.NewPrefixModel(tc.rule)
			m.Remember(join(template, ids(40_000, 5))) // a greeting before the first one
			for i, p := range prompts {
				if got := m.Predict(p.prompt); got != num(tc.want(i), usage.Predicted) {
					t.Errorf("%s: %+v, want %d", p.name, got, tc.want(i))
				}
				m.Remember(join(p.prompt, reply))
			}
		})
	}
}

func TestPrefixModelUnsure(t *testing.T) {
	m := usage.NewPrefixModel(usage.PrefixRule{Capacity: 100})
	a, b := ids(0, 40), ids(1000, 40)
	if got := m.Predict(a); got.Known() {
		t.Errorf("an engine that may hold anything: %+v", got)
	}
	m.Remember(a)
	if got := m.Predict(a); got != num(39, usage.Predicted) {
		t.Errorf("all that can be cached is: %+v", got)
	}
	if got := m.Predict(b); got.Known() {
		t.Errorf("the engine may have seen b before: %+v", got)
	}
	m.Remember(ids(2000, 60))
	if got := m.Predict(b); got != num(0, usage.Predicted) {
		t.Errorf("the cache was filled with other prompts: %+v", got)
	}
	m = usage.NewPrefixModel(usage.PrefixRule{})
	m.Restarted()
	if got := m.Predict(b); got != num(0, usage.Predicted) {
		t.Errorf("an engine just started: %+v", got)
	}
	if got := m.Predict(nil); got != num(0, usage.Predicted) {
		t.Errorf("an empty prompt: %+v", got)
	}
}

// TestPrefixModelForgets drops the prompt used longest ago when the cache is full.
func TestPrefixModelForgets(t *testing.T) {
	m := usage.NewPrefixModel(usage.PrefixRule{Empty: true, Capacity: 100})
	a, b, c := ids(0, 40), ids(1000, 40), ids(2000, 40)
	m.Remember(a)
	m.Remember(b)
	m.Remember(join(a, ids(500, 5))) // used again, and a turn longer
	m.Remember(c)
	for _, tc := range []struct {
		name   string
		prompt []uint32
		want   int
	}{{"a", a, 39}, {"b", b, 0}, {"c", c, 39}} {
		if got := m.Predict(tc.prompt); got.N != tc.want {
			t.Errorf("%s: %+v, want %d", tc.name, got, tc.want)
		}
	}
}

func BenchmarkPredict(b *testing.B) {
	m := usage.NewPrefixModel(usage.PrefixRule{Empty: true, Capacity: 1 << 20})
	for i := range uint32(8) {
		m.Remember(ids(i*200_000, 131_072))
	}
	prompt := ids(3*200_000, 131_000)
	for b.Loop() {
		m.Predict(prompt)
	}
}
