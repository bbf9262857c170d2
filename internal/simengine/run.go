package simengine

import (
	"context"
	"errors"
	"math"
	"time"

	"oneslot/internal/simengine/ask"
	"oneslot/internal/simengine/outbox"
	"oneslot/internal/simengine/plan"
	"oneslot/internal/simengine/script"
	"oneslot/internal/simengine/wire"
)

// run is one request on its way. Its goroutine, live, is started by admit and
// ends when ctx does or the reply is over; the engine waits for it.
type run struct {
	e      *Engine
	req    *ask.Request
	set    settings
	budget int
	script script.Script // nil for a generated reply
	reply  wire.Reply
	prompt []string // tokens, with a cache only
	out    *outbox.Box

	ctx     context.Context
	stop    context.CancelCauseFunc
	granted chan struct{} // closed by grant
	gone    chan struct{} // closed when the client has left

	plan   *plan.Plan // owned by live until the end
	headed bool       // the head was sent; as the next ones owned by live
	roled  bool       // the role was sent
	tail   plan.Piece // the last text, which vLLM sends with the finish reason
	start  time.Time  // got the slot; zero until then
	first  time.Time  // when the first token is due

	// Guarded by the engine's mu.
	rec       *Run
	streaming bool      // the client has had a part of its stream
	noticed   time.Time // when the engine last did something for this client
	look      *time.Timer
}

// live is the whole life of a run after it was put in line.
func (r *run) live() {
	defer r.stop(nil)
	if r.e.cfg.Dialect == VLLM && r.req.Stream && r.script == nil {
		r.out.Put(r.head()...)
	}
	select {
	case <-r.granted:
		r.start = r.rec.Started // written before granted was closed
		r.first = r.start
	case <-r.ctx.Done():
		r.broken(context.Cause(r.ctx))
		return
	}
	var err error
	if r.script != nil {
		err = r.play()
	} else {
		err = r.generate()
	}
	if err != nil {
		r.broken(err)
	}
}

// compose plans the reply.
func (r *run) compose() {
	cfg := &r.e.cfg
	r.plan = plan.New(r.req, plan.Options{
		Vocab: r.e.vocab, Format: cfg.Format, Seed: cfg.Seed, Budget: r.budget,
		Thinking: min(r.set.thinking, cfg.ContextLength), Answer: min(r.set.answer, cfg.ContextLength),
		Split: cfg.Output == Split, Counted: cfg.Output == Split,
		TextOnly: cfg.Dialect == VLLM, Trimmed: cfg.Dialect == LlamaCPP,
	})
}

// generate speaks the planned reply.
func (r *run) generate() error {
	r.compose()
	r.first = r.start.Add(pace(r.rec.PromptTokens-r.rec.CachedTokens, r.set.prefill))
	if err := r.prefill(); err != nil {
		return err
	}
	for at := 0; at < len(r.plan.Pieces); at += r.set.perChunk {
		if err := r.until(r.first.Add(pace(at, r.set.decode))); err != nil {
			return err
		}
		r.speak(at, min(at+r.set.perChunk, len(r.plan.Pieces)))
	}
	if err := r.until(r.first); err != nil {
		return err
	}
	r.finish(Outcome(r.plan.Finish), r.plan.Matched)
	return nil
}

// prefill sends what some engines send before the first token.
func (r *run) prefill() error {
	switch {
	case !r.req.Stream:
	case r.e.cfg.Dialect == VLLM:
		r.role()
	case r.e.cfg.Dialect == LlamaCPP:
		for at := r.start.Add(pingEvery); at.Before(r.first); at = at.Add(pingEvery) {
			if err := r.until(at); err != nil {
				return err
			}
			r.write([]byte(":\n\n"))
		}
	}
	return nil
}

// pingEvery is how often llama.cpp's server sends an empty comment while it
// reads a prompt.
const pingEvery = 30 * time.Second

// pace returns how long n tokens take.
func pace(n int, perSecond float64) time.Duration {
	if perSecond <= 0 || math.IsInf(perSecond, 1) {
		return 0
	}
	return time.Duration(float64(n) / perSecond * float64(time.Second))
}

// until waits for due, and for the end of a stall. It returns the cause when the
// run is to end.
func (r *run) until(due time.Time) error {
	if wait := time.Until(due); wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-r.ctx.Done():
		}
	}
	r.e.mu.Lock()
	thaw := r.e.thaw
	r.e.mu.Unlock()
	if thaw != nil {
		select {
		case <-thaw:
		case <-r.ctx.Done():
		}
	}
	if r.ctx.Err() != nil {
		return context.Cause(r.ctx)
	}
	return nil
}

// speak sends tokens from to to.
func (r *run) speak(from, to int) {
	said := r.plan.Shown(from, to)
	r.e.mu.Lock()
	r.rec.CompletionTokens, r.rec.ThinkingTokens = to, r.plan.Thought(to)
	r.noticed, r.streaming = r.touch(), r.req.Stream
	if from == 0 {
		r.rec.FirstToken = time.Now()
	}
	r.e.event()
	r.e.mu.Unlock()
	if !r.req.Stream {
		return
	}
	r.role()
	if r.e.cfg.Dialect == VLLM && to == len(r.plan.Pieces) && r.plan.Finish == plan.Length {
		r.tail = said
		return
	}
	usage := r.totals()
	if said.Thinking != "" {
		r.put(wire.Chunk{Thinking: said.Thinking, Usage: usage})
	}
	if said.Answer != "" {
		r.put(wire.Chunk{Answer: said.Answer, Usage: usage})
	}
}

// touch returns the new time of noticed: a token counts for a stream only, since
// nothing else wakes the client's side of the engine.
func (r *run) touch() time.Time {
	if r.req.Stream {
		return time.Now()
	}
	return r.noticed
}

// broken ends a run that was stopped from outside.
func (r *run) broken(cause error) {
	switch {
	case errors.Is(cause, errAborted):
		r.finish(Aborted, nil)
	case errors.Is(cause, errLeft):
		r.e.end(r, Left)
		r.out.Close()
	default:
		r.e.end(r, Died)
		r.out.Put(outbox.Cut())
		r.out.Close()
	}
}
