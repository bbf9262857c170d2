package prefix_test

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"oneslot/usage"
	"oneslot/usage/prefix"
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

func predicted(n int) usage.Count { return usage.Count{N: n, Source: usage.Predicted} }

// TestMeasured runs the prompts that were measured on real engines. Each is asked
// for, then run.
func TestMeasured(t *testing.T) {
	template := ids(900_000, 3) // what every prompt begins with
	reply := ids(70_000, 16)
	of := func(n int) []struct {
		name                string
		prompt              []uint32
		sglang, vllm, llama int
	} {
		full := join(template, ids(0, n-3))
		return []struct {
			name                string
			prompt              []uint32
			sglang, vllm, llama int
		}{
			{"cold", full, 3, 0, 3},
			{"same again", full, n - 1, 1280, n - 1},
			{"changed tail", join(full[:n-11], ids(80_000, 13)), n - 11, 1280, n - 11},
			{"first half", full[:n/2], n/2 - 1, 640, n/2 - 1},
			{"full again", full, n - 1, 1280, n / 2},
			{"first word changed", join(template, ids(50_000, n-3)), 3, 0, 3},
			{"first prompt again", full, n - 1, 1280, n - 1},
			{"own reply and a new question", join(full, reply, ids(60_000, 20)), n + 16, 1280, n + 16},
			{"a short unrelated one", join(template, ids(10_000, 30)), 3, 0, 3},
			// Of what llama.cpp put aside it takes the one of which most is kept.
			{"and after it", full[:n-3], n - 4, 1280, n - 11},
		}
	}
	for _, tc := range []struct {
		name string
		rule prefix.Rule
		n    int
		want int
	}{
		{"SGLang", prefix.Rule{Kind: prefix.Tree}, 1316, 0},
		{"vLLM", prefix.Rule{Kind: prefix.Tree, Block: 128}, 1316, 1},
		{"llama.cpp", prefix.Rule{Kind: prefix.Slot}, 887, 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := prefix.New(tc.rule, true)
			m.Remember(join(template, ids(40_000, 5))) // a greeting before the first one
			for _, p := range of(tc.n) {
				want := [...]int{p.sglang, p.vllm, p.llama}[tc.want]
				if got := m.Predict(p.prompt); got != predicted(want) {
					t.Errorf("%s: %+v, want %d", p.name, got, want)
				}
				m.Remember(join(p.prompt, reply))
			}
		})
	}
}

// TestUnsure: what was run before this model began is not 0.
func TestUnsure(t *testing.T) {
	for _, kind := range []prefix.Kind{prefix.Tree, prefix.Slot} {
		m := prefix.New(prefix.Rule{Kind: kind, Capacity: 100}, false)
		a, b := ids(0, 40), ids(1000, 40)
		if got := m.Predict(a); got.Known() {
			t.Errorf("an engine that may hold anything: %+v", got)
		}
		m.Remember(slices.Clone(a))
		if got := m.Predict(a); got != predicted(39) {
			t.Errorf("all that can be cached is: %+v", got)
		}
		if got := m.Predict(join(a, b)); got != predicted(40) {
			t.Errorf("the beginning is known: %+v", got)
		}
		if got := m.Predict(b); got.Known() {
			t.Errorf("the engine may have seen b before: %+v", got)
		}
		m = prefix.New(prefix.Rule{Kind: kind}, true)
		if got := m.Predict(b); got != predicted(0) {
			t.Errorf("an engine just started: %+v", got)
		}
		if got := m.Predict(nil); got != predicted(0) {
			t.Errorf("an empty prompt: %+v", got)
		}
		m.Doubt()
		if got := m.Predict(b); got.Known() {
			t.Errorf("an engine that ran something untold: %+v", got)
		}
	}
	m := prefix.New(prefix.Rule{Kind: prefix.Tree, Capacity: 100}, false)
	m.Remember(ids(0, 40))
	m.Remember(ids(2000, 60))
	if got := m.Predict(ids(1000, 40)); got != predicted(0) {
		t.Errorf("the cache was filled with other prompts: %+v", got)
	}
	if m := prefix.New(prefix.Rule{}, true); m != nil {
		t.Errorf("a cache of which nobody knows how it works has a model: %v", m)
	}
}

// TestForgets drops what was used longest ago, from its end, when the cache is
// full.
func TestForgets(t *testing.T) {
	m := prefix.New(prefix.Rule{Kind: prefix.Tree, Capacity: 100}, true)
	a, b, c := ids(0, 40), ids(1000, 40), ids(2000, 40)
	m.Remember(a)
	m.Remember(b)
	m.Remember(join(a, ids(500, 5))) // used again, and a turn longer
	m.Remember(c)
	for _, tc := range []struct {
		name   string
		prompt []uint32
		want   int
	}{{"a", a, 39}, {"b", b, 15}, {"c", c, 39}} {
		if got := m.Predict(tc.prompt); got.N != tc.want {
			t.Errorf("%s: %+v, want %d", tc.name, got, tc.want)
		}
	}
	m.Remember(ids(3000, 200)) // more than there is room for
	if got := m.Predict(ids(3000, 200)); got.N != 100 {
		t.Errorf("of a prompt larger than the cache %+v is found", got)
	}
	if got := m.Predict(c); got.N != 0 {
		t.Errorf("of what was before it %+v is found", got)
	}
}

// TestSlotForgets drops the oldest that was put aside.
func TestSlotForgets(t *testing.T) {
	m := prefix.New(prefix.Rule{Kind: prefix.Slot, Capacity: 100}, true)
	for i := range uint32(4) {
		m.Remember(ids(i*1000, 40))
	}
	for i, want := range []int{0, 0, 39, 39} {
		if got := m.Predict(ids(uint32(i)*1000, 40)); got.N != want { //nolint:gosec // four
			t.Errorf("prompt %d: %+v, want %d", i, got, want)
		}
	}
}

// TestTreeAgainstList holds the tree to the definition: the longest beginning
// that any remembered sequence has in common.
func TestTreeAgainstList(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	m := prefix.New(prefix.Rule{Kind: prefix.Tree}, true)
	var all [][]uint32
	for range 2000 {
		var next []uint32
		if len(all) > 0 && random.IntN(3) > 0 {
			from := all[random.IntN(len(all))]
			next = append(next, from[:random.IntN(len(from)+1)]...)
		}
		for range random.IntN(12) {
			next = append(next, random.Uint32N(3))
		}
		want := 0
		for _, s := range all {
			n := 0
			for n < len(s) && n < len(next) && s[n] == next[n] {
				n++
			}
			want = max(want, n)
		}
		want = max(min(want, len(next)-1), 0)
		if got := m.Predict(next); got != predicted(want) {
			t.Fatalf("%v: %+v, want %d", next, got, want)
		}
		m.Remember(slices.Clone(next))
		all = append(all, next)
	}
}

// TestMemoryIsBounded asks a thousand questions behind one long beginning, which
// is kept once.
func TestMemoryIsBounded(t *testing.T) {
	before := live()
	m := prefix.New(prefix.Rule{Kind: prefix.Tree, Capacity: 200_000}, true)
	for i := range uint32(1000) {
		m.Remember(join(ids(0, 100_000), ids(i*200_000, 500)))
	}
	if grown := live() - before; grown > 4<<20 {
		t.Errorf("200,000 tokens take %d bytes", grown)
	}
	if got := m.Predict(ids(0, 100_000)); got.N != 99_999 {
		t.Errorf("the beginning was lost: %+v", got)
	}
}

func live() int {
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return int(s.HeapAlloc) //nolint:gosec // below 2^63
}

func BenchmarkPredict(b *testing.B) {
	m := prefix.New(prefix.Rule{Kind: prefix.Tree}, true)
	for i := range uint32(8) {
		m.Remember(ids(i*200_000, 131_072))
	}
	prompt := ids(3*200_000, 131_000)
	for b.Loop() {
		m.Predict(prompt)
	}
}
