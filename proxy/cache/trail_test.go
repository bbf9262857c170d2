package cache

import (
	"fmt"
	"hash/maphash"
	"strings"
	"testing"

	"oneslot/proxy/engine"
)

var sglang = engine.Info{Start: "1", Dialect: &engine.Dialect{Name: engine.SGLang}}

// TestTrace: traces of prompts are alike as far as the prompts are.
func TestTrace(t *testing.T) {
	seed := maphash.MakeSeed()
	long := strings.Repeat("a long text ", 3*stride/12)
	for name, c := range map[string]struct {
		a, b string
		want int
	}{
		"a conversation goes on":    {`{"messages":[{"content":"a"},{"content":"b"}]}`, `{"messages":[{"content":"a"},{"content":"b"},{"content":"c"}]}`, 2},
		"it takes another way":      {`{"messages":[{"content":"a"},{"content":"b"}]}`, `{"messages":[{"content":"a"},{"content":"x"}]}`, 1},
		"another conversation":      {`{"messages":[{"content":"a"},{"content":"b"}]}`, `{"messages":[{"content":"x"},{"content":"b"}]}`, 0},
		"tools come first":          {`{"messages":[{"content":"a"}],"tools":[1]}`, `{"tools":[1],"messages":[{"content":"b"}]}`, 1},
		"other tools":               {`{"messages":[{"content":"a"}],"tools":[1]}`, `{"messages":[{"content":"a"}]}`, 0},
		"long texts begin alike":    {`{"prompt":"` + long + `a"}`, `{"prompt":"` + long + `b"}`, 3},
		"what is no part of prompt": {`{"messages":[{"content":"a"}],"seed":1}`, `{"messages":[{"content":"a"}],"seed":2}`, 1},
		"nothing":                   {`{}`, `{}`, 0},
	} {
		a, b, n := NewTrace(seed, []byte(c.a)), NewTrace(seed, []byte(c.b)), 0
		for n < min(len(a), len(b)) && a[n] == b[n] {
			n++
		}
		if n != c.want {
			t.Errorf("%s: %d beginnings are common, want %d", name, n, c.want)
		}
	}
}

// TestTraceIsBounded, of small messages and of a long text.
func TestTraceIsBounded(t *testing.T) {
	for name, body := range map[string]string{
		"messages": `{"messages":[` + strings.Repeat(`{},`, 2*longest) + `{}]}`,
		"text":     `{"prompt":"` + strings.Repeat("a", (longest+1)*stride) + `"}`,
	} {
		if trace := NewTrace(maphash.MakeSeed(), []byte(body)); len(trace) != longest {
			t.Errorf("%s: %d beginnings", name, len(trace))
		}
	}
}

// TestPassIsForCachesOnly: nothing is remembered of engines that keep no prompts, or of
// whom nobody knows how they do.
func TestPassIsForCachesOnly(t *testing.T) {
	off, other := sglang, sglang
	off.Cache.Off = true
	other.Dialect = &engine.Dialect{}
	for _, info := range []engine.Info{{}, off, other} {
		w := hanging(t)
		if w.Pass(info, Trace{1, 2}); len(w.trail.marks) > 0 {
			t.Errorf("remembered of %+v", info)
		}
		if w.Shares(Trace{1, 2}) > 0 {
			t.Error("an engine that was never asked has a cache")
		}
		w.Close()
	}
}

// TestTrailEndsWithTheEngine that was started anew.
func TestTrailEndsWithTheEngine(t *testing.T) {
	w, later := hanging(t), sglang
	defer w.Close()
	w.Pass(sglang, Trace{1, 2})
	w.Pass(sglang, Trace{1, 3})
	if fmt.Sprint(w.trail.order) != "[1 2 3]" {
		t.Errorf("it remembers %v", w.trail.order)
	}
	later.Start = "2"
	w.Pass(later, Trace{4})
	if fmt.Sprint(w.trail.order) != "[4]" {
		t.Errorf("it remembers %v of the one before", w.trail.order)
	}
}

// TestTrailIsBounded: the oldest are forgotten.
func TestTrailIsBounded(t *testing.T) {
	w := hanging(t)
	defer w.Close()
	for mark := range uint64(2*mostMarks + 1) {
		w.Pass(sglang, Trace{mark})
	}
	_, oldest := w.trail.marks[mostMarks+1]
	if _, gone := w.trail.marks[mostMarks]; len(w.trail.marks) != mostMarks || len(w.trail.order) != mostMarks || !oldest || gone {
		t.Errorf("%d are remembered, in %d places", len(w.trail.marks), len(w.trail.order))
	}
}
