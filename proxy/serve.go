package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"oneslot/internal/openai"
	"oneslot/proxy/engine"

	"github.com/tidwall/gjson"
)

// serve sends the request and moves the answer.
func (p *pump) serve(ctx context.Context, body []byte, maxEvent int) (Report, error) {
	resp, err := p.engine.Chat(ctx, body)
	if err != nil {
		return p.unsent(ctx, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		p.call.Idle()
		text, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
		return notRun(), openai.EngineProblem(resp.StatusCode, string(text))
	}
	whole, err := p.move(resp, maxEvent)
	if whole {
		p.call.Idle()
	}
	if cause := p.run.reason(); cause != nil && !errors.Is(cause, errStopString) {
		err = cause
	} else if p.complete() {
		err = nil
	}
	if err != nil {
		p.meter.Finish("")
		return p.report(context.WithoutCancel(ctx)), err
	}
	return p.end(context.WithoutCancel(ctx)), nil
}

// maxErrorBody bounds what is read of an engine's refusal, in bytes.
const maxErrorBody = 64 << 10

// unsent explains a request that got no response.
func (p *pump) unsent(ctx context.Context, err error) (Report, error) {
	report := notRun()
	switch cause := p.run.reason(); {
	case cause != nil:
		return p.report(context.WithoutCancel(ctx)), cause
	case errors.Is(err, engine.ErrUnreachable):
		p.call.Idle()
		return report, fmt.Errorf("%w: %w", ErrUnreachable, err)
	case strings.Contains(err.Error(), "timeout awaiting response headers"):
		return p.report(context.WithoutCancel(ctx)), ErrNoAnswer
	default:
		return p.report(context.WithoutCancel(ctx)), fmt.Errorf("%w: %w", ErrCut, err)
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

// end tells the client that the answer is complete and returns the report.
func (p *pump) end(ctx context.Context) Report {
	reason := p.reason
	if p.split.Stopped() {
		reason = "stop"
	}
	p.meter.Finish(reason)
	p.release()
	var report Report
	done := false
	counted := func() Report {
		if !done {
			report, done = p.report(ctx), true
		}
		return report
	}
	if !p.lost {
		if err := p.sink.finish(reason, counted); err != nil {
			p.lose()
		}
	}
	return counted()
}

// report is what the run used so far, with its times.
func (p *pump) report(ctx context.Context) Report {
	ctx, cancel := context.WithTimeout(ctx, countBound)
	defer cancel()
	r := Report{Report: p.meter.Report(ctx)}
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

// countBound is how long counting may take at the end of an answer.
const countBound = 5 * time.Second
