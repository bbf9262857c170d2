package proxy

import (
	"errors"
	"fmt"
	"io"
	"time"

	"oneslot/internal/openai"
	"oneslot/proxy/cache"
	"oneslot/proxy/downstream"
	"oneslot/proxy/split"
	"oneslot/proxy/surface"
	"oneslot/reasoning"
	"oneslot/usage"
)

// A pump moves one answer: engine event, chunk, pieces, meter, client. It runs
// in the goroutine of whoever called Serve and nothing of it is shared.
type pump struct {
	order  *order
	call   *Call
	client *downstream.Client
	run    *run
	split  *split.Splitter
	meter  *usage.Meter
	sink   surface.Sink
	live   *live
	body   io.ReadCloser // of the engine's response; nil when it is closed
	cfg    *Config
	pool   *buffers

	began, first, turned time.Time // dispatch, first token, begin of the answer
	reason               string    // finish reason, once seen
	started              bool      // visible answer text or a tool call has come
	calling, bounded     bool      // the latest text was a tool call's; the meter knows the boundary
	lost                 bool      // nothing more can be told to the client
	begun, yielded       bool      // the answer is given out; it must not be, this time
	owed                 bool      // the engine is done, which is to be said when the run has ended
	left, released       bool      // the visit in the cache is over; the splitter holds nothing back

	thinking thinkingSoFar
	visit    cache.Visit // what the engine's prefix cache makes of the prompt
	before   string      // what the run before wrote
	spoke    bool        // this run has brought its first token
}

func (p *Proxy) newPump(o *order, client *downstream.Client) *pump {
	u := &pump{
		order: o, call: o.call, client: client, began: o.since(), live: newLive(o.call.Key), cfg: &p.cfg, pool: &p.buffers,
		split: o.splitter(), visit: o.watch.Visit(), thinking: thinkingSoFar{gauge: o.plan.gauge(o.counter)},
	}
	u.meter = o.meter(u.pause)
	u.sink = o.call.Talk.Sink(surface.Stage{
		Client: client, Field: o.call.Field, Open: first(o.format.Open), Close: first(o.format.Close), Sources: o.call.Sources, Prompt: u.meter.Told,
		Stop:    func() string { return u.split.Stop() },
		Aligned: func() bool { return u.split.Aligned() },
	})
	if o.plan.unsupported() {
		client.AddHeader("X-Oneslot-Budget", "unsupported")
	}
	client.SetStatus(u.status)
	return u
}

// move reads the engine's stream to its end. A nil error means that the answer
// is complete; whole reports whether the engine ended its stream by itself,
// which proves that its slot is free.
func (p *pump) move(body io.Reader) (whole bool, err error) {
	for data, fault := range events(flushing(timed{body, p.run}, p.flush), p.cfg.MaxEvent, p.pool) {
		if fault == nil {
			fault = p.take(data)
		}
		switch {
		case fault == nil:
		case p.complete() && errors.Is(fault, ErrCut):
			return false, nil
		default:
			p.drain(fault, body)
			return false, fault
		}
	}
	if !p.complete() && p.run.reason() == nil {
		p.drain(ErrTruncated, body)
		return false, ErrTruncated
	}
	return true, nil
}

// complete reports whether the client has all of its answer.
func (p *pump) complete() bool { return p.reason != "" || p.split.Stopped() }

// drain tells the client of a fault, has the engine stop, and reads on until
// it has: an abort only works while the stream is attached.
func (p *pump) drain(fault error, body io.Reader) {
	if !p.thinking.cut && !p.yielded { // else what is held back touches the end of thinking
		p.release()
	}
	p.run.stop(fault)
	_, _ = io.Copy(io.Discard, body)
}

func (p *pump) flush() {
	if p.lost {
		return
	}
	if err := p.client.Flush(); err != nil {
		p.lose()
	}
}

// lose notes that the client cannot be reached: it stopped reading or left.
func (p *pump) lose() {
	p.lost = true
	p.cfg.leave(p.run)
}

// take handles one event.
func (p *pump) take(data string) error {
	c, err := openai.ParseChunk(data)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrEngine, err)
	}
	if c.Error != "" {
		return fmt.Errorf("%w: %w", ErrInStream, streamProblem(c.Error))
	}
	now := time.Now()
	speaks := c.Content != "" || c.Reasoning != "" || c.ToolCalls != "" || c.FunctionCall != "" || c.Refusal != ""
	if speaks && !p.spoke {
		p.speak(now)
	}
	// Only what says something counts as life, and nothing does after the end.
	if p.reason == "" && !p.first.IsZero() && (speaks || c.Usage != "" || c.Timings != "") {
		p.run.watch.Hear(now)
	}
	pieces := p.split.Add(&c)
	p.count(&c)
	if p.thinking.cut || p.yields(speaks || c.Extra != "") {
		return nil // what comes now is not the client's
	}
	p.put(pieces)
	p.putRaw(&c)
	if p.gauged(&c) {
		return nil
	}
	if p.split.Stopped() {
		p.run.stop(errStopString)
	}
	if p.turned.IsZero() && p.started {
		p.turned = now
	}
	p.live.update(p, now)
	return p.finishSeen(&c)
}

// count gives the meter what the event brought.
func (p *pump) count(c *openai.Chunk) {
	piece := usage.Piece{Tool: c.ToolCalls != "" || c.FunctionCall != "", EndToken: c.EndToken}
	piece.Thinking, piece.Answer = p.split.Text()
	if p.split.Own() {
		piece.Raw, piece.Answer = piece.Answer, ""
	}
	if totals, ok := totalsOf(c); ok {
		piece.Totals = &totals
	}
	p.meter.Add(piece)
	p.thinking.bytes += len(piece.Raw) + len(piece.Thinking)
	if !p.bounded {
		if n, ok := p.split.Boundary(); ok {
			p.bounded = true
			p.meter.Boundary(n)
		}
	}
}

// totalsOf reads the engine's running totals, from `usage` or, with llama.cpp,
// from `timings`.
func totalsOf(c *openai.Chunk) (usage.Totals, bool) {
	if c.Usage != "" {
		return usage.ParseTotals(c.Usage)
	}
	return usage.ParseTimings(c.Timings)
}

func (p *pump) put(pieces []split.Piece) {
	for _, piece := range pieces {
		p.started = p.started || piece.Kind == reasoning.Answer
		p.thinking.keep(piece)
		p.calling = false
		if p.lost {
			continue
		}
		if err := p.sink.Piece(piece); err != nil {
			p.lose()
		}
	}
}

// putRaw passes on what is not text of the two channels.
func (p *pump) putRaw(c *openai.Chunk) {
	members := c.Extra
	if c.Refusal != "" {
		members = openai.Join(members, `"refusal":`+openai.String(c.Refusal))
	}
	if c.FunctionCall != "" {
		members = openai.Join(members, `"function_call":`+openai.DropNulls(c.FunctionCall))
	}
	if members == "" && c.ToolCalls == "" || p.split.Stopped() {
		return
	}
	if c.ToolCalls != "" || c.FunctionCall != "" {
		p.calling, p.started = true, true
	}
	if p.lost {
		return
	}
	if err := p.sink.Raw(members, c.ToolCalls); err != nil {
		p.lose()
	}
}

// release gives out what the splitter holds back, once.
func (p *pump) release() {
	if p.released {
		return
	}
	p.released = true
	pieces := p.split.Close()
	p.count(&openai.Chunk{}) // the meter has not seen what looked like an echo
	p.put(pieces)
}

// finishSeen notes the finish reason. An abort that nobody here asked for is a
// failure; one that was asked for ends the run. OpenRouter and others end a
// broken answer with the reason "error".
func (p *pump) finishSeen(c *openai.Chunk) error {
	switch c.FinishReason {
	case "":
	case "error":
		return ErrInStream
	case "abort":
		if p.run.reason() == nil {
			return ErrAborted
		}
	default:
		p.reason = finishWord(c.FinishReason)
		p.run.watch.Finish(time.Now())
	}
	return nil
}
