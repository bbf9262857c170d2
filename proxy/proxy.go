package proxy

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"oneslot/internal/openai"
	"oneslot/proxy/downstream"
	"oneslot/proxy/engine"
	"oneslot/proxy/split"
	"oneslot/reasoning"
	"oneslot/usage"
)

// Config bounds what an engine may do.
type Config struct {
	// MaxEvent is the largest event in bytes. Zero means 16 MiB.
	MaxEvent int
	// FirstToken bounds the wait for the first token of an answer, queueing
	// inside the engine and prefill included. Zero means 30 minutes.
	FirstToken time.Duration
	// Idle bounds the silence between two events. Zero means 15 minutes.
	Idle time.Duration
	// AbortBound is how long stopping a run may take before its connection is
	// closed. Zero means 15 s.
	AbortBound time.Duration
	// Drain reads a run on to its end when its client has left, for engines that
	// an abort harms. Zero means that it is aborted.
	Drain bool
}

func (c Config) withDefaults() Config {
	if c.MaxEvent == 0 {
		c.MaxEvent = 16 << 20
	}
	if c.FirstToken == 0 {
		c.FirstToken = 30 * time.Minute
	}
	if c.Idle == 0 {
		c.Idle = 15 * time.Minute
	}
	if c.AbortBound == 0 {
		c.AbortBound = 15 * time.Second
	}
	return c
}

// A Target is one engine slot and how its output is read.
type Target struct {
	// Engine is where the slot is.
	Engine *engine.Engine
	// Format tells thinking from answer.
	Format reasoning.Format
	// Counter counts with the model's tokenizer. Zero means the engine's own
	// tokenize endpoint.
	Counter usage.Counter
}

type target struct {
	engine  *engine.Engine
	format  reasoning.Format
	counter usage.Counter
}

// A Proxy runs requests on engines. Create it with New; it is safe for
// concurrent use.
type Proxy struct {
	cfg     Config
	targets map[string]*target // by slot name

	mu   sync.Mutex // guards runs
	runs map[string]*live
}

// New returns a Proxy for the targets, which are named by their engines.
func New(targets []Target, cfg Config) *Proxy {
	p := &Proxy{cfg: cfg.withDefaults(), targets: map[string]*target{}, runs: map[string]*live{}}
	for _, t := range targets {
		counter := t.Counter
		if counter == nil {
			counter = t.Engine
		}
		p.targets[t.Engine.Name()] = &target{engine: t.Engine, format: t.Format, counter: counter}
	}
	return p
}

// A Call is one request to be served on a slot.
type Call struct {
	// ID is the request's, 32 hex digits; ResponseID is what the client sees.
	ID, ResponseID string
	// Key names whose request it is.
	Key string
	// Request is what the client asked for.
	Request *openai.Request
	// Created is when it arrived.
	Created time.Time
	// Field is where thinking goes.
	Field openai.ReasoningField
	// Sources is whether the usage object names where its figures come from.
	Sources bool
	// Slot names the engine; Idle is called once it has proved that it is done
	// with the request. Both come from the queue.
	Slot string
	Idle func()

	drain bool
}

// A Report is what a request used, and when.
type Report struct {
	usage.Report
	// Prefill, Thinking and Answer are how long the run spent until its first
	// token, in thinking and in the answer.
	Prefill, Thinking, Answer time.Duration
}

// notRun is the report of a request that no engine has worked on.
func notRun() Report { return Report{Report: usage.Report{Tokens: usage.NotRun()}} }

// leave is what happens to a run whose client is gone.
func (c *Call) leave(r *run) {
	if !c.drain {
		r.stop(ErrClient)
	}
}

// Settle waits until the engine of a slot has been seen idle; see engine.Settle.
func (p *Proxy) Settle(ctx context.Context, slot string) error {
	t, err := p.target(slot)
	if err != nil {
		return err
	}
	return t.engine.Settle(ctx)
}

func (p *Proxy) target(slot string) (*target, error) {
	if t, ok := p.targets[slot]; ok {
		return t, nil
	}
	return nil, fmt.Errorf("%w: no engine is named %q", ErrEngine, slot)
}

// Serve runs the call on its slot and writes the answer to the client. ctx is
// the hold on the slot: when it ends the run is stopped for its cause. The
// client's own end stops the run as well, after the engine has been told. What
// had been used when it ended is in the report in every case. The error is
// nil for a complete answer; else it is ErrClient, an *openai.Problem for the
// engine's refusal, one of the ErrEngine family, or the cause of ctx.
func (p *Proxy) Serve(ctx context.Context, call *Call, client *downstream.Client) (Report, error) {
	none := notRun()
	t, err := p.target(call.Slot)
	if err != nil {
		return none, err
	}
	call.drain = p.cfg.Drain
	id := engine.NewRunID()
	body, err := p.body(ctx, t, call, id)
	if err != nil {
		call.Idle()
		return none, fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	info, _ := t.engine.Known()
	life, over := context.WithCancel(context.WithoutCancel(ctx))
	upstream, cancel := context.WithCancel(life)
	r := &run{
		engine: t.engine, dialect: info.Dialect, id: id, close: cancel, bound: p.cfg.AbortBound, life: life, over: over,
		stopped: func(cause error) {
			if !errors.Is(cause, ErrClient) && !errors.Is(cause, errStopString) {
				client.Fail(cause)
			}
		},
	}
	defer r.end()
	defer context.AfterFunc(ctx, func() { r.stop(context.Cause(ctx)) })()
	defer context.AfterFunc(client.Context(), func() { call.leave(r) })()
	r.guard(p.cfg.FirstToken, p.cfg.Idle)
	u := p.newPump(t, call, client, r)
	defer p.enter(call.ID, u.live)()
	return u.serve(upstream, body, p.cfg.MaxEvent)
}

func (p *Proxy) newPump(t *target, call *Call, client *downstream.Client, r *run) *pump {
	f := &t.format
	start := f.StartsIn
	switch {
	case call.Request.Constrained:
		if start = f.ConstrainedStartsIn; start == 0 {
			start = reasoning.StartAnswer
		}
	case call.Request.Continued:
		start = reasoning.StartAfter(f, call.Request.Prefill, f.StartsIn)
	}
	u := &pump{
		call: call, client: client, run: r, began: time.Now(), live: newLive(call.Key), engine: t.engine,
		split: split.New(split.Config{Format: f, Start: start, Echo: call.Request.Prefill, Stop: call.Request.Stop, Logprobs: call.Request.Logprobs}),
		meter: usage.NewMeter(p.meterConfig(t, start)),
	}
	s := shape{field: call.Field, open: first(f.Open), close: first(f.Close)}
	if call.Request.Stream {
		u.sink = newStreamSink(client, call, s)
	} else {
		u.sink = &wholeSink{client: client, call: call, shape: s}
	}
	client.SetStatus(u.status)
	return u
}

func (p *Proxy) meterConfig(t *target, start reasoning.State) usage.Config {
	info, _ := t.engine.Known()
	return usage.Config{
		Counter: t.counter, Open: first(t.format.Open), Close: first(t.format.Close),
		OpenerGenerated: start != reasoning.StartThinking, CacheOff: info.CacheOff,
	}
}

func first(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return list[0]
}
