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

	"github.com/tidwall/gjson"
)

// serve sends the request and moves the answer.
func (p *pump) serve(body []byte) (Report, error) {
	resp, err := p.order.engine.Chat(p.run.conn, body)
	if err != nil {
		return p.unsent(err)
	}
	p.run.open()
	p.body = resp.Body
	defer p.leaveOff()
	if resp.StatusCode != http.StatusOK {
		return p.refused(resp)
	}
	whole, err := p.move(resp.Body)
	cause := p.run.reason()
	if errors.Is(cause, errBudget) {
		return Report{}, errBudget // the slot is kept for the rest of the answer
	}
	if whole {
		p.call.Idle()
	}
	if cause != nil && !errors.Is(cause, errStopString) {
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
		late := time.AfterFunc(tailTime, p.run.close)
		_, _ = io.CopyN(io.Discard, p.body, 1<<10)
		late.Stop()
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
		return notRun(), cause
	}
	if status >= http.StatusBadRequest && status < http.StatusInternalServerError && status != http.StatusTooManyRequests {
		p.call.Idle()
	}
	return notRun(), openai.EngineProblem(status, string(text))
}

// unsent explains a request that got no response.
func (p *pump) unsent(err error) (Report, error) {
	switch cause := p.run.reason(); {
	case cause != nil:
		return p.report(""), cause
	case errors.Is(err, engine.ErrUnreachable):
		p.call.Idle()
		return notRun(), fmt.Errorf("%w: %w", ErrUnreachable, err)
	default:
		return p.report(""), fmt.Errorf("%w: %w", ErrCut, err)
	}
}

// streamProblem reads the error member of an event.
func streamProblem(raw string) *openai.Problem {
	status := int(gjson.Get(raw, "code").Int())
	if status < http.StatusBadRequest || status > 599 {
		status = http.StatusInternalServerError
	}
	return openai.EngineProblem(status, `{"error":`+raw+`}`)
}

// end gives out the rest of a complete answer.
func (p *pump) end() Report {
	p.release()
	reason := p.reason
	if p.split.Stopped() {
		reason = "stop"
	}
	var report *Report
	counted := func() Report {
		if report == nil {
			p.leaveOff() // counting may take a call to the engine
			r := p.report(reason)
			report = &r
		}
		return *report
	}
	if !p.lost {
		if err := p.sink.finish(reason, counted); err != nil {
			p.lose()
		}
	}
	return counted()
}

// countBound is how long counting may take at the end of an answer.
const countBound = 5 * time.Second

// report is what the run used, with its times. reason is why the answer ended,
// empty if it was cut.
func (p *pump) report(reason string) Report {
	p.meter.Finish(reason)
	// Neither the client's end nor that of the run may spoil the count.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(p.run.life), countBound)
	defer cancel()
	r := Report{Report: p.meter.Report(ctx), Budget: p.order.plan.outcome()}
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
