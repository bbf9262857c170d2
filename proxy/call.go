package proxy

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"oneslot/internal/openai"
	"oneslot/proxy/budget"
	"oneslot/proxy/cache"
	"oneslot/proxy/engine"
	"oneslot/proxy/surface"
	"oneslot/reasoning"
	"oneslot/usage"
)

// A Call is one request to be served on a slot.
type Call struct {
	// ID is the request's, 32 hex digits.
	ID string
	// Key names whose request it is.
	Key string
	// Request is what the client asked for.
	Request *openai.Request
	// Talk is how the client is answered.
	Talk surface.Talk
	// Field is where thinking goes.
	Field openai.ReasoningField
	// Budget is how long the model may think.
	Budget budget.Ask
	// Sources is whether the usage object names where its figures come from.
	Sources bool
	// Slot names the engine; Idle is called once it has proved that it is done
	// with the request. From then on nothing is asked or told of this run there, since
	// the slot may be another's. Both come from the queue.
	Slot string
	Idle func()
	// Begin is called before the first of the answer is given out; false says that
	// it must not be, since the slot goes to a better call. Again is the cause with
	// which the hold ends then: the client is not told, since Serve will be called
	// once more. Zero means that the answer may always begin.
	Begin func() bool
	Again error
	// Explain says what an error means for the client, since whoever lent the slot
	// may know that it was lost. Nil means that it stands for itself.
	Explain func(error) error

	ahead *ahead      // nil unless Ahead counts its prompt
	ready *order      // nil unless Ahead made it
	trace cache.Trace // nil unless Near was asked
}

// yields reports whether nothing is to be given out, since the slot goes to a
// better call. That is decided once, when there is something to give.
func (p *pump) yields(gives bool) bool {
	if gives && !p.begun && !p.yielded {
		p.begun = p.call.Begin == nil || p.call.Begin()
		if p.yielded = !p.begun; p.yielded {
			p.run.stop(p.call.Again)
		}
	}
	return p.yielded
}

func (c *Call) explained(err error) error {
	if c.Explain == nil {
		return err
	}
	return c.Explain(err)
}

// A Report is what a request used, and when.
type Report struct {
	usage.Report
	// Prefill, Thinking and Answer are how long the run spent until its first
	// token, in thinking and in the answer.
	Prefill, Thinking, Answer time.Duration
	// Budget says what became of a thinking budget: "" if there was none,
	// "native" if the engine kept it, "kept" if it was not used up, "cut" if
	// thinking was closed at it, "off" if thinking was closed from the start,
	// "unsupported" if nothing could be done.
	Budget string
	// Stopped is whether the run was aborted since a stop string had ended the answer.
	Stopped bool
}

// countBound is how long counting may take at the end of an answer; heldBound the
// same while the slot waits for it.
const (
	countBound = 5 * time.Second
	heldBound  = time.Second
)

// counting returns a context to count with: neither the client's end nor that of
// the run may spoil it.
func (p *pump) counting() (context.Context, context.CancelFunc) {
	bound := countBound
	if !p.left {
		bound = heldBound
	}
	return context.WithTimeout(context.WithoutCancel(p.run.life), bound)
}

// idle says that the engine is done with the request. What is left is between here
// and the client. A run that was stopped may still be being aborted, which would hit
// the slot's next one: then it is said when that has ended.
func (p *pump) idle() {
	if !p.run.forbidStop() {
		p.owed = true
		return
	}
	p.release()
	p.live.next = time.Time{}
	p.live.update(p, time.Now()) // the last view of it
	p.leaveCache()               // before the next one comes
	if engine.Ends(p.body) {     // so that it finds the connection open
		p.leaveOff()
	}
	p.call.Idle()
}

// report is what the run used, with its times. reason is why the answer ended,
// empty if it was cut.
func (p *pump) report(reason string) Report {
	p.meter.Finish(reason)
	ctx, cancel := p.counting()
	defer cancel()
	p.expect(ctx)
	r := Report{Report: p.meter.Report(ctx), Budget: p.order.plan.outcome(), Stopped: errors.Is(p.run.reason(), errStopString)}
	end := time.Now()
	mark := func(t time.Time) time.Time {
		if t.IsZero() {
			return end
		}
		return t
	}
	first, turned := mark(p.first), mark(p.turned)
	r.Prefill, r.Thinking, r.Answer = first.Sub(p.began), turned.Sub(first), end.Sub(turned)
	return r
}

// NotRun is the report of a request that no engine has worked on.
func NotRun() Report { return Report{Report: usage.Report{Tokens: usage.NotRun()}} }

// A Phase is what the engine does for a request.
type Phase string

// The phases of a run, in their order.
const (
	PhasePrefill  Phase = "prefill"
	PhaseThinking Phase = "thinking"
	PhaseAnswer   Phase = "answer"
	PhaseTool     Phase = "tool"
)

// Live is how far a running request is.
type Live struct {
	// Key names whose request it is.
	Key string
	// Phase is what the engine does now.
	Phase Phase
	// Tokens are the figures so far; what nobody has told yet is unknown or an
	// estimate.
	Tokens usage.Progress
	// Prefill is how long the engine took for the first token.
	Prefill time.Duration
	// Speed is completion tokens a second since the first one; 0 is unknown.
	Speed float64
}

// live lets others look at a run while its pump goes on.
type live struct {
	now  atomic.Pointer[Live]
	next time.Time // the pump's: when the view is due again
}

// viewEvery is how old the live view may get; it is not made for every event.
const viewEvery = 250 * time.Millisecond

func newLive(key string) *live {
	l := &live{}
	l.now.Store(&Live{Key: key, Phase: PhasePrefill})
	return l
}

// update makes a new view when one is due or the phase has changed.
func (l *live) update(p *pump, now time.Time) {
	if p.first.IsZero() {
		return
	}
	phase := p.phase()
	if now.Before(l.next) && l.now.Load().Phase == phase {
		return
	}
	l.next = now.Add(viewEvery)
	v := &Live{Key: p.call.Key, Phase: phase, Prefill: p.first.Sub(p.began), Tokens: p.meter.Progress()}
	if was := l.now.Load().Tokens.Thinking; v.Tokens.Thinking.Known() && was.Known() && v.Tokens.Thinking.N < was.N {
		v.Tokens.Thinking.N = was.N // the end marker, or a better count of the same text
	}
	if d := now.Sub(p.first); d > 0 && v.Tokens.Thinking.Known() && v.Tokens.Answer.Known() {
		v.Speed = float64(v.Tokens.Thinking.N+v.Tokens.Answer.N) / d.Seconds()
	}
	l.now.Store(v)
}

// phase is what the engine is at, once it has begun to speak.
func (p *pump) phase() Phase {
	switch {
	case p.calling:
		return PhaseTool
	case p.started || p.split.Phase() == reasoning.Answer:
		return PhaseAnswer
	default:
		return PhaseThinking
	}
}

// status is what a heartbeat says while the engine is silent.
func (p *pump) status() string {
	return fmt.Sprintf("prefill %ds", int(time.Since(p.began).Seconds()))
}

// enter shows a run to Live; the result takes it off again.
func (p *Proxy) enter(id string, l *live) func() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.runs[id] = l
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.runs, id)
	}
}

// Live returns how far the request is that runs here under id.
func (p *Proxy) Live(id string) (Live, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if l, ok := p.runs[id]; ok {
		return *l.now.Load(), true
	}
	return Live{}, false
}
