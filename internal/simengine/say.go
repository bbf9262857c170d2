package simengine

import (
	"net/http"
	"strconv"
	"time"

	"oneslot/internal/simengine/outbox"
	"oneslot/internal/simengine/wire"
)

// usage is what the engine would report now.
func (r *run) usage() wire.Usage {
	u := wire.Usage{
		Prompt: r.rec.PromptTokens, Completion: r.rec.CompletionTokens, Thinking: r.rec.ThinkingTokens, Cached: -1,
		Prefill: r.first.Sub(r.start), Decode: time.Since(r.first),
	}
	if r.e.cfg.CacheReport || r.e.cfg.Dialect == LlamaCPP { // whose server always tells
		u.Cached = r.rec.CachedTokens
	}
	return u
}

// totals returns the running totals of a stream that asked for them.
func (r *run) totals() *wire.Usage {
	if !r.req.ContinuousUsage {
		return nil
	}
	u := r.usage()
	return &u
}

// head returns the head of a stream, the first time it is called. It goes with
// the first event, as the engine waits for it.
func (r *run) head() []outbox.Item {
	if r.headed {
		return nil
	}
	r.headed = true
	kind := "text/event-stream; charset=utf-8"
	if r.e.cfg.Dialect == LlamaCPP {
		kind = "text/event-stream"
	}
	return []outbox.Item{outbox.Head(http.StatusOK, http.Header{"Content-Type": {kind}})}
}

// role sends the chunk that has the role, once; completions have none.
func (r *run) role() {
	if !r.roled && r.req.Chat {
		r.roled = true
		c := wire.Chunk{Role: true}
		if r.e.cfg.Dialect == VLLM {
			c.Usage = r.totals()
		}
		r.put(c)
	}
}

func (r *run) put(c wire.Chunk) {
	r.write(r.reply.Event(c, time.Now()))
}

func (r *run) write(data []byte) {
	r.out.Put(append(r.head(), outbox.Write(data))...)
}

// finish gives the slot back and then tells the client how its reply ended, so
// that whoever has read the end finds the engine idle.
func (r *run) finish(how Outcome, matched any) {
	usage := wire.Usage{Cached: -1}
	if !r.start.IsZero() {
		usage = r.usage()
	}
	r.e.end(r, how)
	defer r.out.Close()
	if !r.req.Stream {
		r.whole(wire.Whole{Finish: string(how), Matched: matched, Usage: usage})
		return
	}
	r.role()
	last := wire.Chunk{Thinking: r.tail.Thinking, Answer: r.tail.Answer, Finish: string(how), Matched: matched}
	switch {
	case r.e.cfg.Dialect == VLLM:
		last.Usage = r.totals()
	case r.e.cfg.Dialect == LlamaCPP && !r.req.Usage:
		last.Usage = &usage // for the timings
	}
	r.put(last)
	if r.req.Usage {
		r.write(r.reply.Totals(usage, time.Now()))
	}
	r.write([]byte(wire.Done))
}

// whole sends a reply that is not streamed: w and what was spoken.
func (r *run) whole(w wire.Whole) {
	if r.plan != nil {
		said := r.plan.Shown(0, r.rec.CompletionTokens)
		w.Thinking, w.Answer = said.Thinking, said.Answer
	}
	body := r.reply.Body(w, time.Now())
	r.out.Put(outbox.Head(http.StatusOK, http.Header{
		"Content-Type": {"application/json"}, "Content-Length": {strconv.Itoa(len(body))},
	}), outbox.Write(body))
}
