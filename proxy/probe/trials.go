package probe

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"oneslot/internal/openai"
	"oneslot/proxy/engine"
	"oneslot/reasoning"
)

const (
	toolTokens  = 128
	abortTokens = 200
	abortAgain  = 2 * time.Second // an abort between two batches may get lost
	// abortSlack is how long after an abort tokens may still come.
	abortSlack = time.Second
)

const toolList = `[{"type":"function","function":{"name":"get_time","description":"Tells the time of day in a city.","parameters":{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}}}]`

// tools looks whether a tool call begins before thinking is closed. It is
// reported only if it was seen: that it was not proves nothing.
func (p *prober) tools(ctx context.Context) {
	v := &p.verdict
	if !v.Known {
		return
	}
	set, _ := rawMembers(p.info.Dialect.Name)
	set = append([]openai.Member{messages(user("What time is it in Kyoto? Use the tool at once.")), {Key: "tools", Raw: toolList}}, set...)
	r := p.ask(ctx, question{path: chatPath, limit: toolTokens, members: set})
	if r == nil || !r.done() || r.field != "" {
		return
	}
	text := r.content
	if r.toolCall {
		text = r.untilCall
	}
	thinking, _, closed := strings.Cut(text, v.Row.Close[0])
	inside := v.Row.StartsIn == reasoning.StartThinking || v.Open != "" && strings.HasPrefix(strings.TrimSpace(text), v.Open)
	if !inside {
		return
	}
	const detail = "a tool call began before thinking was closed, and ends it"
	for _, row := range p.cfg.Rows {
		for _, opener := range row.ToolOpen {
			if strings.Contains(thinking, opener) {
				v.Row.ToolOpen = []string{opener}
				p.add(Tools, found(opener, detail), r.evidence())
				return
			}
		}
	}
	if r.toolCall && !closed {
		p.add(Tools, found("yes", detail+"; the engine's parser does not show how it is written"), r.evidence())
	}
}

// abort starts a run that would be long and aborts it while its stream is
// attached.
func (p *prober) abort(ctx context.Context) {
	if p.info.Dialect.AbortPath == "" {
		p.add(Abort, absent("there is no abort endpoint: closing the connection is what stops a run"))
		return
	}
	if !p.may(ctx) {
		p.add(Abort, skipped(p.report.ReadOnly))
		return
	}
	if load, err := p.engine.Load(ctx); err != nil || load.Requests > 0 {
		p.add(Abort, skipped("the engine is busy, and this run is long"))
		return
	}
	var first, last time.Time // calls of the abort
	var fault error
	q := question{path: chatPath, limit: abortTokens, members: []openai.Member{messages(user("Count from one to one thousand, in words.")), {Key: "ignore_eos", Raw: "true"}}}
	q.heard = func(ctx context.Context, rid string) {
		if now := time.Now(); first.IsZero() || now.Sub(last) > abortAgain && !errors.Is(fault, engine.ErrCannotAbort) {
			fault = p.engine.Abort(ctx, rid)
			last = time.Now()
			if first.IsZero() {
				first = last
			}
		}
	}
	r := p.ask(ctx, q)
	ended := time.Now()
	switch {
	case r == nil:
		p.add(Abort, skipped(p.report.ReadOnly))
	case errors.Is(fault, engine.ErrCannotAbort):
		p.add(Abort, absent("the endpoint is not there: a run that has begun goes on to its end"), Evidence{"POST " + p.info.Dialect.AbortPath, cause(fault)}, r.evidence())
	case r.finish == "abort":
		p.add(Abort, found("yes", "by the run's own id, while its stream is attached"), r.evidence())
	case !r.done():
		p.add(Abort, unknown("the test run failed"), r.evidence())
	case first.IsZero() || ended.Sub(first) < abortSlack:
		p.add(Abort, unknown("the run was over before an abort could show"), r.evidence())
	default:
		p.add(Abort, absent(fmt.Sprintf("the run went on to its end, %s after the abort: only its connection's end, or everything's, could stop it", ended.Sub(first).Round(time.Second))), r.evidence())
	}
}
