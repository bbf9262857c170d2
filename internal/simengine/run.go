package simengine

import (
	"context"
	"errors"
	"math"
	"net/http"
	"strconv"
	"time"

	"oneslot/internal/simengine/ask"
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
	out    *outbox

	ctx     context.Context
	stop    context.CancelCauseFunc
	granted chan struct{} // closed by grant
	gone    chan struct{} // closed when the client has left

	plan   *plan     // owned by live until the end
	headed bool      // the head was sent; as the next ones owned by live
	roled  bool      // the role was sent
	start  time.Time // got the slot; zero until then
	first  time.Time // when the first token is due

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
		r.head()
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

// generate speaks the planned reply.
func (r *run) generate() error {
	r.plan = r.e.plan(r.req, r.set, r.budget)
	r.first = r.start.Add(pace(r.rec.PromptTokens-r.rec.CachedTokens, r.set.prefill))
	if r.e.cfg.Dialect == VLLM && r.req.Stream {
		r.role()
	}
	for at := 0; at < len(r.plan.pieces); at += r.set.perChunk {
		if err := r.until(r.first.Add(pace(at, r.set.decode))); err != nil {
			return err
		}
		r.speak(at, min(at+r.set.perChunk, len(r.plan.pieces)))
	}
	if err := r.until(r.first); err != nil {
		return err
	}
	r.finish(r.plan.finish, r.plan.matched)
	return nil
}

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
	var said piece
	for _, p := range r.plan.pieces[from:to] {
		said.thinking += p.thinking
		said.answer += p.answer
	}
	r.e.mu.Lock()
	r.rec.CompletionTokens, r.rec.ThinkingTokens = to, r.plan.thoughtOf(to)
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
	var usage *wire.Usage
	if r.req.ContinuousUsage {
		u := r.usage()
		usage = &u
	}
	if said.thinking != "" {
		r.put(wire.Chunk{Thinking: said.thinking, Usage: usage})
	}
	if said.answer != "" {
		r.put(wire.Chunk{Answer: said.answer, Usage: usage})
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

// usage is what the engine would report now.
func (r *run) usage() wire.Usage {
	u := wire.Usage{
		Prompt: r.rec.PromptTokens, Completion: r.rec.CompletionTokens, Thinking: r.rec.ThinkingTokens, Cached: -1,
		Prefill: r.first.Sub(r.start), Decode: time.Since(r.first),
	}
	if r.e.cfg.CacheReport {
		u.Cached = r.rec.CachedTokens
	}
	return u
}

// head sends the head of a stream, once. It comes with the first event, as the
// engine waits for it.
func (r *run) head() {
	if !r.headed {
		r.headed = true
		r.out.put(item{act: actHead, status: http.StatusOK, header: http.Header{"Content-Type": {"text/event-stream; charset=utf-8"}}})
	}
}

// role sends the chunk that has the role, once; completions have none.
func (r *run) role() {
	if !r.roled && r.req.Chat {
		r.roled = true
		r.put(wire.Chunk{Role: true})
	}
}

func (r *run) put(c wire.Chunk) {
	r.write(r.reply.Event(c, time.Now()))
}

func (r *run) write(data []byte) {
	r.head()
	r.out.put(item{data: data})
}

// finish gives the slot back and then tells the client how its reply ended, so
// that whoever has read the end finds the engine idle.
func (r *run) finish(how Outcome, matched any) {
	usage := wire.Usage{Cached: -1}
	if !r.start.IsZero() {
		usage = r.usage()
	}
	r.e.end(r, how)
	defer r.out.close()
	if !r.req.Stream {
		thinking, answer := r.shown()
		body := r.reply.Body(wire.Whole{
			Thinking: thinking, Answer: answer, Finish: string(how), Matched: matched, Usage: usage,
		}, time.Now())
		r.out.put(item{act: actHead, status: http.StatusOK, header: http.Header{
			"Content-Type": {"application/json"}, "Content-Length": {strconv.Itoa(len(body))},
		}}, item{data: body})
		return
	}
	r.role()
	r.put(wire.Chunk{Finish: string(how), Matched: matched})
	if r.req.Usage {
		r.write(r.reply.Totals(usage, time.Now()))
	}
	r.write([]byte(wire.Done))
}

// broken ends a run that was stopped from outside.
func (r *run) broken(cause error) {
	switch {
	case errors.Is(cause, errAborted):
		r.finish(Aborted, nil)
	case errors.Is(cause, errLeft):
		r.e.end(r, Left)
		r.out.close()
	default:
		r.e.end(r, Died)
		r.out.put(item{act: actCut})
		r.out.close()
	}
}
