package cache

import (
	"hash/maphash"

	"oneslot/proxy/engine"
	"oneslot/usage/prefix"

	"github.com/tidwall/gjson"
)

// A Trace is a prompt's beginnings, the shortest first: a hash for each message that
// one may end with, and for each stride within a text.
type Trace []uint64

// stride is how far apart, in bytes, the ends of beginnings are within a text, and
// longest how many beginnings of a prompt count, so that neither what it costs to wait
// nor what is remembered of one hangs on how small its messages are.
const (
	stride  = 4 << 10
	longest = 1 << 12
)

// NewTrace makes the trace of a request. Only traces of the same seed can be compared.
func NewTrace(seed maphash.Seed, body []byte) Trace {
	var t Trace
	var h maphash.Hash
	h.SetSeed(seed)
	add := func(text string) {
		for len(text) > 0 && len(t) < longest {
			n := min(len(text), stride)
			_, _ = h.WriteString(text[:n]) // never fails
			t, text = append(t, h.Sum64()), text[n:]
		}
	}
	for _, v := range gjson.GetManyBytes(body, "tools", "chat_template_kwargs", "prompt") {
		add(v.Raw)
	}
	gjson.GetBytes(body, "messages").ForEach(func(_, message gjson.Result) bool {
		add(message.Raw)
		return len(t) < longest
	})
	return t
}

// mostMarks bounds what a trail remembers: the beginnings of 64 MiB of long texts, or
// of thousands of conversations.
const mostMarks = 1 << 14

// trail remembers the beginnings of what an engine has run since it was started. It
// knows no tokens: those are known only once a prompt has its slot.
type trail struct {
	start string
	marks map[uint64]struct{}
	order []uint64 // of marks, a ring
	next  int      // where in it the oldest is, once it is full
}

// caches reports whether an engine like that keeps prompts.
func caches(info engine.Info) bool {
	return info.Dialect != nil && !info.Cache.Off && rule(info).Kind != prefix.None
}

// Pass says that the engine has read a prompt.
func (w *Watch) Pass(info engine.Info, t Trace) {
	if len(t) == 0 || !caches(info) {
		return
	}
	start := w.startOf(info)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.trail.marks == nil || w.trail.start != start {
		w.trail = trail{start: start, marks: map[uint64]struct{}{}}
	}
	for _, mark := range t {
		w.trail.add(mark)
	}
}

// add takes a mark in, for the one that came first if there are too many, whether or not
// that was met again: a prompt that is sent again and again is soon marked anew.
func (t *trail) add(mark uint64) {
	if _, known := t.marks[mark]; known {
		return
	}
	t.marks[mark] = struct{}{}
	if len(t.order) < mostMarks {
		t.order = append(t.order, mark)
		return
	}
	delete(t.marks, t.order[t.next])
	t.order[t.next], t.next = mark, (t.next+1)%mostMarks
}

// Shares returns how many of a prompt's beginnings the engine is known to have read. What
// it has dropped since then nobody tells. It asks nobody.
func (w *Watch) Shares(t Trace) int {
	info, known := w.engine.Known()
	if !known || !caches(info) {
		return 0
	}
	start := w.startOf(info)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.trail.start != start {
		return 0
	}
	for n := len(t); n > 0; n-- {
		if _, known := w.trail.marks[t[n-1]]; known {
			return n
		}
	}
	return 0
}
