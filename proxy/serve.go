package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"oneslot/internal/openai"
	"oneslot/proxy/engine"
	"oneslot/usage"
)

// serve sends the request and moves the answer.
func (p *pump) serve(body []byte) (Report, error) {
	resp, err := p.order.send(p.run.conn, body) //nolint:bodyclose // leaveOff closes it
	if err != nil {
		return p.unsent(err)
	}
	p.run.watch.Open()
	p.body = resp.Body
	defer p.leaveOff()
	if resp.StatusCode != http.StatusOK {
		return p.refused(resp)
	}
	if p.order.plan.reopened {
		p.order.stuck.Store(true) // only behind closed thinking it was refused
	}
	whole, err := p.move(resp.Body)
	if whole {
		p.run.forbidStop()
	}
	cause := p.run.reason()
	if errors.Is(cause, errBudget) {
		p.thinking.over = whole
		return Report{}, errBudget // the slot is kept for the rest of the answer
	}
	if whole {
		p.idle()
	}
	if cause != nil && !benign(cause) {
		err = cause
	} else if p.complete() {
		err = nil
	}
	if err != nil {
		return p.report(""), err
	}
	gone := p.client.Context().Err() != nil
	report := p.end()
	if gone || p.lost {
		err = ErrClient
	}
	return report, err
}

// tailTime is how long the end of a body may take to come after [DONE].
const tailTime = 50 * time.Millisecond

// leaveOff reads the end of a body that was read to [DONE], so that the next call
// finds the connection open, and closes it.
func (p *pump) leaveOff() {
	if p.body == nil {
		return
	}
	if p.run.reason() == nil {
		if !engine.Ends(p.body) {
			defer time.AfterFunc(tailTime, p.run.close).Stop()
		}
		_, _ = io.CopyN(io.Discard, p.body, 1<<10)
	}
	_ = p.body.Close() // what was only read cannot fail to be closed
	p.body = nil
}

// maxErrorBody bounds what is read of an engine's refusal, in bytes.
const maxErrorBody = 64 << 10

// refused tells the client what the engine said instead of an answer. Whoever
// refuses the request itself has nothing more to do with it; any other status
// leaves open what the engine is at.
func (p *pump) refused(resp *http.Response) (Report, error) {
	status := resp.StatusCode
	text, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
	if cause := p.run.reason(); cause != nil {
		return p.soFar(), cause
	}
	p.order.engine.Rest(resp)
	if status >= http.StatusBadRequest && status < http.StatusInternalServerError && status != http.StatusTooManyRequests {
		if report, err := p.refusedClosed(); err != nil || report.Runs > 0 {
			return report, err
		}
		p.idle()
	}
	return p.soFar(), openai.EngineProblem(status, string(text))
}

// soFar is the report of a run that brought nothing: what an earlier run of the
// same answer used, if there was one.
func (p *pump) soFar() Report {
	if p.order.plan.cut {
		return p.report("")
	}
	return NotRun()
}

// unsent explains a request that got no response.
func (p *pump) unsent(err error) (Report, error) {
	switch cause := p.run.reason(); {
	case cause != nil:
		return p.report(""), cause
	case errors.Is(err, engine.ErrUnreachable):
		// The slot is not called idle: who is next would meet the same, while the
		// line can wait until the engine is back.
		return p.soFar(), fmt.Errorf("%w: %w", ErrUnreachable, err)
	default:
		return p.report(""), fmt.Errorf("%w: %w", ErrCut, err)
	}
}

// end gives out the rest of a complete answer.
func (p *pump) end() Report {
	p.release()
	reason := p.reason
	if p.split.Stopped() {
		reason = "stop"
	}
	var report *Report
	counted := func() usage.Report {
		if report == nil {
			r := p.report(reason)
			report = &r
		}
		return report.Report
	}
	if !p.lost {
		if err := p.sink.Finish(reason, counted); err != nil {
			p.lose()
		}
	}
	counted()
	return *report
}

// pause is called before what may take a while when the stream is over: the client
// gets what there is, and the connection to the engine is free for questions.
func (p *pump) pause() {
	p.flush()
	p.leaveOff()
}

// patient is a Counter of which the client need not know how long it takes.
type patient struct {
	usage.Counter
	pause func()
}

// Count is of usage.Counter.
func (c patient) Count(ctx context.Context, text string) (int, error) {
	c.pause()
	return c.Counter.Count(ctx, text)
}

// goOn readies the pump for the run that gives the answer, once the engine is
// done with the one that was cut. It returns errAgain when that run is to be
// made, else the end.
func (p *pump) goOn(ctx context.Context) (Report, error) {
	plan := &p.order.plan
	plan.cut, plan.used = true, p.meter.Progress().Thinking.N
	err := p.quiet(ctx)
	switch {
	case err == nil && ctx.Err() != nil:
		p.call.Idle()
		err = context.Cause(ctx)
	case err == nil && (p.lost || p.client.Context().Err() != nil):
		p.call.Idle()
		err = ErrClient
	}
	if err != nil {
		if !errors.Is(err, ErrClient) {
			p.client.Fail(p.call.explained(err))
		}
		return p.report(""), err
	}
	if limit := p.call.Request.MaxTokens; limit > 0 && plan.used >= limit {
		p.call.Idle()
		p.reason = "length"
		return p.end(), nil
	}
	plan.closed, plan.split, plan.thinking = true, !p.split.Own(), p.thinking.text.String()
	p.restart(ctx)
	p.before = p.meter.Written()
	p.meter.NextRun()
	p.bounded = true
	return Report{}, errAgain
}

// quiet waits until the engine has been seen idle, unless it has ended the run
// by itself.
func (p *pump) quiet(ctx context.Context) error {
	if p.thinking.over {
		return nil
	}
	settled, cancel := context.WithTimeout(ctx, p.cfg.AbortBound)
	defer cancel()
	defer context.AfterFunc(p.client.Context(), cancel)()
	err := p.order.engine.Settle(settled, p.order.except(p.call.Slot))
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case p.client.Context().Err() != nil:
		return ErrClient
	default:
		return fmt.Errorf("%w: it could not be stopped at the thinking budget: %w", ErrEngine, err)
	}
}

// restart makes the pump ready for another run of the same answer.
func (p *pump) restart(ctx context.Context) {
	p.order.write(ctx)
	p.split = p.order.splitter()
	p.thinking, p.spoke, p.released = thinkingSoFar{}, false, false
	p.client.SetStatus(p.status)
}

// refusedClosed is what follows when an engine refuses a run behind closed
// thinking. Behind a cut the answer ends there; at the start the request is made
// as usual, and if that is taken, later ones know. Else it returns nothing, and
// the refusal is the client's.
func (p *pump) refusedClosed() (Report, error) {
	plan := &p.order.plan
	switch {
	case plan.cut:
		p.order.stuck.Store(true)
		plan.failed = true
		p.idle()
		p.reason = "length"
		return p.end(), nil
	case plan.closed:
		plan.closed, plan.able, plan.reopened = false, false, true
		p.restart(p.run.life)
		return Report{}, errAgain
	}
	return Report{}, nil
}
