package proxy

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"oneslot/proxy/cache"
	"oneslot/proxy/downstream"
	"oneslot/proxy/engine"
	"oneslot/proxy/watchdog"
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

// leave is what happens to a run whose client is gone.
func (c *Config) leave(r *run) {
	if !c.Drain {
		r.stop(ErrClient)
	}
}

// A Target is one engine and how its output is read.
type Target struct {
	// Engine is where the slots are.
	Engine *engine.Engine
	// Format tells thinking from answer.
	Format reasoning.Format
	// Else is used in its place when the name of the engine's model does not hold
	// the format's. Zero means that Format always is.
	Else *reasoning.Format
	// Counter counts with the model's tokenizer. Zero means the engine's own
	// tokenize endpoint. One that also has Encode, as tokenizer.Tokenizer has, helps
	// to predict the engine's prefix cache.
	Counter usage.Counter
}

type target struct {
	engine  *engine.Engine
	format  reasoning.Format
	other   *reasoning.Format
	counter usage.Counter
	watch   *cache.Watch
	others  // the runs on it
	// stuck is set once a run with closed thinking was seen to think on.
	stuck atomic.Bool
	// deaf is set once the engine's own budget was seen to do nothing.
	deaf atomic.Bool
}

// A Proxy runs requests on engines. Create it with New; it is safe for
// concurrent use. Close it when done with it.
type Proxy struct {
	cfg     Config
	targets map[string]*target // by slot name
	seed    maphash.Seed       // of traces
	buffers buffers

	mu   sync.Mutex // guards runs
	runs map[string]*live
}

// New returns a Proxy for the targets, whose slots are named by their engines.
func New(targets []Target, cfg Config) *Proxy {
	p := &Proxy{cfg: cfg.withDefaults(), targets: map[string]*target{}, runs: map[string]*live{}, seed: maphash.MakeSeed()}
	for _, t := range targets {
		counter := t.Counter
		local, _ := counter.(cache.Encoder)
		if counter == nil {
			counter = t.Engine
		}
		one := &target{engine: t.Engine, format: t.Format, other: t.Else, counter: counter, watch: cache.NewWatch(t.Engine, local)}
		for _, slot := range t.Engine.Slots() {
			p.targets[slot] = one
		}
	}
	return p
}

// Close ends what goes on behind answers that are over. Call it when no Serve runs.
func (p *Proxy) Close() {
	for _, t := range p.targets {
		t.watch.Close()
	}
}

// Settle waits until the slot of an engine has been proved free; see engine.Settle. It
// does not wait for one that is not there, so that this can be told at once.
func (p *Proxy) Settle(ctx context.Context, slot string) error {
	t, err := p.target(slot)
	if err != nil {
		return err
	}
	if err := t.engine.Ready(ctx); errors.Is(err, engine.ErrUnreachable) {
		return err
	}
	return t.engine.Settle(ctx, t.except(slot))
}

func (p *Proxy) target(slot string) (*target, error) {
	if t, ok := p.targets[slot]; ok {
		return t, nil
	}
	return nil, fmt.Errorf("%w: no engine is named %q", ErrEngine, slot)
}

// read is the format of what the engine writes.
func (t *target) read(info engine.Info) *reasoning.Format {
	if t.other != nil && !strings.Contains(strings.ToLower(t.engine.UpstreamModel(info)), strings.ToLower(t.format.Name)) {
		return t.other
	}
	return &t.format
}

// Serve runs the call on its slot and writes the answer to the client. ctx is
// the hold on the slot: when it ends the run is stopped for its cause. The
// client's own end stops the run as well, after the engine has been told. What
// had been used when it ended is in the report in every case. The error is
// nil for a complete answer; else it is ErrClient, an *openai.Problem for the
// engine's refusal, one of the ErrEngine family, or the cause of ctx.
// When that is call.Again nothing of an answer has reached the client, and Serve may
// be called again.
func (p *Proxy) Serve(ctx context.Context, call *Call, client *downstream.Client) (Report, error) {
	t, err := p.target(call.Slot)
	if err != nil {
		return NotRun(), err
	}
	o, err := p.prepare(ctx, t, call, client)
	if err != nil {
		if !errors.Is(err, ErrUnreachable) {
			call.Idle() // nothing of the request has reached the engine
		}
		return NotRun(), err
	}
	defer o.drop()
	u := p.newPump(o, client)
	defer u.leaveCache()
	defer p.enter(call.ID, u.live)()
	for {
		report, err := p.attempt(ctx, u)
		if u.owed {
			u.owed = false
			call.Idle()
		}
		if errors.Is(err, errBudget) {
			report, err = u.goOn(ctx)
		}
		if !errors.Is(err, errAgain) {
			return report, err
		}
	}
}

// Unsupported reports whether it is known that no engine of the given slots can
// keep the call's thinking budget.
func (p *Proxy) Unsupported(call *Call, slots []string) bool {
	for _, name := range slots {
		t, err := p.target(name)
		if err != nil {
			return false
		}
		info, known := t.engine.Known()
		if !known || !t.draft(call, info).plan.unsupported() {
			return false
		}
	}
	return true
}

// attempt is one run on the engine, of the few that make an answer.
func (p *Proxy) attempt(ctx context.Context, u *pump) (Report, error) {
	r := newRun(ctx, u.order, p.cfg.AbortBound, func(cause error) {
		if !errors.Is(cause, ErrClient) && !errors.Is(cause, errBudget) && !errors.Is(cause, u.call.Again) && !benign(cause) {
			u.client.Fail(u.call.explained(cause))
		}
	})
	defer r.end()
	defer u.order.enter(u.call.Slot, r)()
	u.run = r
	defer context.AfterFunc(ctx, func() { r.stop(context.Cause(ctx)) })()
	defer context.AfterFunc(u.client.Context(), func() { p.cfg.leave(r) })()
	r.guard(watchdog.Config{Headers: u.order.engine.Headers(), First: p.cfg.FirstToken, Idle: p.cfg.Idle})
	return u.serve(u.order.body)
}

// prepare makes the engine's request, as long as anybody wants it.
func (p *Proxy) prepare(ctx context.Context, t *target, call *Call, client *downstream.Client) (*order, error) {
	if o := call.made(t); o != nil {
		return o, nil
	}
	wanted := ctx
	if info, known := t.engine.Known(); !known || t.draft(call, info).asking() {
		var cancel context.CancelFunc
		wanted, cancel = context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(client.Context(), cancel)()
	}
	o, err := newOrder(wanted, t, call)
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case client.Context().Err() != nil:
		return nil, ErrClient
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	return o, nil
}
