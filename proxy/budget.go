package proxy

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"oneslot/internal/openai"
	"oneslot/proxy/budget"
	"oneslot/proxy/engine"
	"oneslot/proxy/split"
	"oneslot/reasoning"
	"oneslot/usage"
)

// A plan is how the thinking budget of a request is kept.
type plan struct {
	ask  budget.Ask
	able bool // thinking can be closed from here
	asks bool // the engine is asked to keep it
	told int  // what it is asked to keep, in tokens
	used int  // completion tokens of the run that was cut

	closed   bool   // the run begins behind closed thinking
	thinking string // what was thought before
	split    bool   // the engine splits thinking by itself
	cut      bool   // thinking was closed at the budget
	failed   bool   // the engine does not go on behind closed thinking
	reopened bool   // it refused to begin there, and was asked to begin as usual
}

// newPlan decides how the request's budget is kept on this engine. An engine
// that has a working budget of its own keeps it; else thinking is closed from
// here, at once for a budget of nothing.
func (o *order) newPlan() plan {
	d := o.info.Dialect
	if o.call.Request.Prompt != "" {
		return plan{ask: o.call.Budget} // a template is needed to close thinking
	}
	p := plan{ask: o.call.Budget}
	p.able = d.Continue != engine.ContinueNone && o.format.OffPrefill != "" && !o.stuck.Load() && !o.continued()
	p.asks = d.BudgetField != "" && p.ask.Tokens != budget.NoLimit && !(p.able && o.deaf.Load())
	p.told = p.ask.Tokens
	p.closed = p.able && !p.asks && p.ask.Tokens == 0
	return p
}

// keepRoom lowers what the engine is asked to keep, so that its markers too leave
// room for the answer.
func (o *order) keepRoom(ctx context.Context) {
	if p := &o.plan; p.asks && p.ask.Room > 0 {
		p.told = min(p.told, max(p.ask.Room-o.markers(ctx), 0))
	}
}

// markersAtMost is what the markers are taken for where they cannot be counted, in
// tokens.
const markersAtMost = 16

// markers is how many tokens the markers take that the model writes itself. An
// engine's own budget does not count them.
func (o *order) markers(ctx context.Context) int {
	text := first(o.format.Close)
	if o.format.StartsIn != reasoning.StartThinking {
		text = first(o.format.Open) + text
	}
	n, err := o.counter.Count(ctx, text)
	if err != nil {
		return markersAtMost
	}
	return n
}

// slack is how far beyond its budget an engine that keeps it by itself may get
// before it is helped, in tokens.
func slack(tokens int) int { return tokens/4 + 32 }

// gauge returns what watches the budget, or nil when nothing is to be watched.
func (p *plan) gauge(counter usage.Counter) *budget.Gauge {
	switch {
	case p.ask.Tokens == budget.NoLimit || !p.able || p.closed:
		return nil
	default:
		return budget.NewGauge(p.most(), counter)
	}
}

// most is where thinking is closed from here, in tokens.
func (p *plan) most() int {
	switch n := p.ask.Tokens + slack(p.ask.Tokens); {
	case !p.asks:
		return p.ask.Tokens
	case p.ask.Room > 0:
		return min(n, p.ask.Room)
	default:
		return n
	}
}

// unsupported reports whether a budget was asked for that nobody can keep.
func (p *plan) unsupported() bool {
	return p.failed || p.ask.Tokens != budget.NoLimit && !p.asks && !p.able
}

// outcome is what the ledger says of the budget.
func (p *plan) outcome() string {
	switch {
	case p.unsupported():
		return "unsupported"
	case p.ask.Tokens == budget.NoLimit:
		return ""
	case p.cut:
		return "cut"
	case p.closed:
		return "off"
	case p.asks:
		return "native"
	default:
		return "kept"
	}
}

// drops reports whether a request field is one that the plan stands for. The
// word for an effort is left to engines whose templates read it, unless it
// would switch their parser while the model thinks on.
func (p *plan) drops(key string, d *engine.Dialect) bool {
	if key == "reasoning_effort" {
		return d.ParsesEffort || p.ask.Tokens == 0
	}
	return slices.Contains(budget.Fields(), key)
}

// native are the request members with which the engine keeps the budget.
func (p *plan) native(d *engine.Dialect) []openai.Member {
	if !p.asks || p.closed {
		return nil
	}
	return []openai.Member{{Key: d.BudgetField, Raw: fmt.Sprint(p.told)}}
}

// left is the client's limit less what a cut run has used of it.
func (p *plan) left(limit int) int {
	if limit == 0 {
		return 0
	}
	return max(limit-p.used, 1)
}

// prefill is the text after which the model goes on with its answer.
func (p *plan) prefill(f *reasoning.Format) string {
	open := ""
	if f.StartsIn != reasoning.StartThinking {
		open = first(f.Open)
	}
	return open + p.thinking + f.OffPrefill
}

// apart reports whether thinking goes into a member of its own.
func (p *plan) apart(o *order) bool {
	return p.split && o.info.Dialect.Continue == engine.ContinueAlways
}

// behind appends a message of the assistant in which thinking is closed, and
// returns the flags that make the engine go on with it.
func (p *plan) behind(messages string, o *order) (string, []openai.Member) {
	yes, no := "true", "false"
	message := `{"role":"assistant","content":` + openai.String(p.prefill(o.format)) + `}`
	var flags []openai.Member
	switch o.info.Dialect.Continue {
	case engine.ContinueFlag:
		flags = []openai.Member{{Key: "continue_final_message", Raw: yes}}
	case engine.ContinueBoth:
		flags = []openai.Member{{Key: "continue_final_message", Raw: yes}, {Key: "add_generation_prompt", Raw: no}}
	case engine.ContinueAlways:
		if p.apart(o) {
			message = `{"role":"assistant","reasoning_content":` + openai.String(p.thinking) + `,"content":""}`
			flags = []openai.Member{{Key: "continue_final_message", Raw: `"content"`}, {Key: "add_generation_prompt", Raw: no}}
		}
	case engine.ContinueNone:
	}
	return strings.TrimSuffix(strings.TrimRight(messages, " \t\r\n"), "]") + "," + message + "]", flags
}

// echo is what an engine repeats before it goes on.
func (p *plan) echo(o *order) (content, thinking string) {
	if p.apart(o) {
		return "", p.thinking
	}
	return p.prefill(o.format), ""
}

// thinkingSoFar is what a pump keeps of thinking that may be cut.
type thinkingSoFar struct {
	gauge *budget.Gauge
	text  strings.Builder
	bytes int  // of the engine's text so far
	cut   bool // the budget is used up; what still comes is not the client's
	over  bool // the engine has ended the run that was cut
}

func (t *thinkingSoFar) keep(piece split.Piece) {
	if t.gauge != nil && piece.Kind == reasoning.Thinking {
		t.text.WriteString(piece.Text)
	}
}

// gauged cuts thinking when the budget is used up. A run that goes on behind
// closed thinking and thinks all the same cannot be helped: its answer ends.
func (p *pump) gauged(c *openai.Chunk) bool {
	t := &p.thinking
	switch {
	case p.order.plan.closed:
		if !p.started && c.Reasoning != "" && p.split.Phase() == reasoning.Thinking {
			p.order.stuck.Store(true)
			p.order.plan.failed = true
			p.reason = "length"
			p.run.stop(errStopString)
			return true
		}
		return false
	case t.gauge == nil || p.started || p.split.Phase() != reasoning.Thinking || c.Content == "" && c.Reasoning == "":
		return false
	}
	told := p.meter.Progress().Thinking
	reading := budget.Reading{Told: told.N, Known: told.Source == usage.Engine && told.N > 0, Bytes: t.text.Len(), Text: t.text.String}
	if t.cut = t.gauge.Over(p.run.life, reading); t.cut {
		p.meter.Boundary(t.bytes)
		p.bounded = true
		p.run.stop(errBudget)
		if plan := &p.order.plan; plan.asks && plan.most() > plan.told+slack(plan.told)/2 {
			p.order.deaf.Store(true)
		}
	}
	return t.cut
}
