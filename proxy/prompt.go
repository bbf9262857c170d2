package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"oneslot/internal/openai"
	"oneslot/proxy/budget"
	"oneslot/proxy/cache"
	"oneslot/proxy/engine"
	"oneslot/usage"

	"github.com/tidwall/gjson"
)

// asks are the members that say what is to be gone on with.
func (o *order) asks() (set []openai.Member) {
	req := o.call.Request
	if req.Prompt != "" {
		set = append(set, openai.Member{Key: "prompt", Raw: req.Prompt})
		if req.Verbatim && len(req.Stop) > 0 {
			stop, _ := json.Marshal(req.Stop) // strings can be written
			set = append(set, openai.Member{Key: "stop", Raw: string(stop)})
		}
		return set
	}
	messages := o.messages()
	if o.plan.closed {
		messages, set = o.plan.behind(messages, o)
	}
	if messages != req.Messages {
		set = append(set, openai.Member{Key: "messages", Raw: messages})
	}
	return set
}

// messages are the client's as the engine reads them.
func (o *order) messages() string {
	return openai.ForwardMessages(o.call.Request.Messages, openai.Forwarding{
		History: history(o.format.History), ThinkingField: o.info.Dialect.ThinkingField, Split: o.divide, Prefill: o.call.Request.Continued,
	})
}

// countPrompt asks the engine how many tokens its prompt has.
func (o *order) countPrompt(ctx context.Context) (int, error) {
	ids, err := o.engine.EncodePrompt(ctx, o.promptMembers())
	if !o.plan.closed { // else the flags that close thinking are not among the members
		o.prompt, o.length = ids, len(ids)
	}
	return len(ids), err
}

// promptMembers are those of the request that make its prompt.
func (o *order) promptMembers() []openai.Member {
	members := cache.Members(o.call.Request.Body)
	if o.call.Request.Prompt == "" {
		members[0].Raw = o.messages()
		if o.plan.closed {
			members[0].Raw, _ = o.plan.behind(members[0].Raw, o)
		}
	}
	return members
}

// ahead is the count of a prompt that was begun before the slot was there.
type ahead struct {
	done   chan struct{} // closed when what follows is known
	engine *engine.Engine
	lost   int // what the engine had been found away until then
	closed bool
	length int
	ids    []uint32 // nil where nothing follows the engine's cache, so that those in line do not hold them
	err    error
}

// Ahead makes ready what can be of a call that is about to wait for one of the slots, of
// which there is at least one, so that the slot need not wait for that: the request to the
// engine of the first of them, if it is small and nobody has to be asked for it, and, where
// the limit will have to be cut to the engine's context, the count of its prompt. The
// caller owes a call of end after the last Serve.
func (p *Proxy) Ahead(ctx context.Context, call *Call, slots []string) (end func()) {
	end = func() {}
	t, err := p.target(slots[0])
	if err != nil {
		return end
	}
	info, known := t.engine.Known()
	if !known {
		return end
	}
	switch o := t.draft(call, info); {
	case !fits(info, call.Request.MaxTokens, call.Request):
		return o.countAhead(ctx)
	case !o.asking() && len(call.Request.Body) <= mostReady:
		o.write(ctx)
		call.ready = o
		return o.drop
	}
	return end
}

// mostReady is the longest body, in bytes, of which the engine's form is held while the
// request waits. With a longer one the engine is busy for so long that nobody notices.
const mostReady = 16 << 10

// countAhead begins to count the prompt of a call.
func (o *order) countAhead(ctx context.Context) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	a := &ahead{done: make(chan struct{}), engine: o.engine, lost: o.engine.Lost(), closed: o.plan.closed}
	o.call.ahead = a
	members := o.promptMembers() // here, where a panic is caught
	go func() {
		defer close(a.done)
		var ids []uint32
		ids, a.err = o.engine.EncodePrompt(ctx, members)
		if a.length = len(ids); o.watch.Follows(o.info) {
			a.ids = ids
		}
	}()
	return func() {
		cancel()
		<-a.done
	}
}

// counted is countPrompt, or what was counted ahead of the same prompt.
func (o *order) counted(ctx context.Context) (int, error) {
	a := o.call.ahead
	if a == nil || a.engine != o.engine || a.lost != o.engine.Lost() || a.closed != o.plan.closed || o.plan.cut {
		return o.countPrompt(ctx)
	}
	select {
	case <-a.done:
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	if !a.closed {
		o.prompt, o.length = a.ids, a.length
	}
	return a.length, a.err
}

// CountPrompt counts the tokens of a request's prompt without running it, and
// says how: by a tokenizer and the engine's own template, or, where that engine
// offers neither, by an estimate from its texts. The slots are asked in turn; the
// error is ErrUnreachable if none of their engines answers.
func (p *Proxy) CountPrompt(ctx context.Context, req *openai.Request, slots []string) (usage.Count, error) {
	var faults []error
	for _, name := range slots {
		t, err := p.target(name)
		if err != nil {
			return usage.Count{}, err
		}
		o, err := newOrder(ctx, t, &Call{Request: req, Budget: budget.Ask{Tokens: budget.NoLimit}})
		if err != nil {
			faults = append(faults, err)
			continue
		}
		switch n, err := o.countPrompt(ctx); {
		case err == nil:
			return usage.Count{N: n, Source: usage.Tokenizer}, nil
		case errors.Is(err, engine.ErrCannotCount) || errors.Is(err, engine.ErrUncounted):
			return o.estimate(ctx), nil
		default:
			faults = append(faults, err)
		}
	}
	return usage.Count{}, fmt.Errorf("%w: %w", ErrUnreachable, errors.Join(faults...))
}

// pacing is how many tokens tell how fast an engine is.
const pacing = 16

// Pace is how many bytes of body a second the engine reads and how many tokens a
// second it writes, by a run that goes on here; 0 for what is not known yet.
func (l Live) Pace(body int) (read, write float64) {
	if l.Tokens.Thinking.N+l.Tokens.Answer.N < pacing {
		return 0, 0
	}
	return float64(body) / max(l.Prefill.Seconds(), 1e-3), l.Speed
}

// Pace is as Live.Pace, by a run that has ended.
func (r *Report) Pace(body int) (read, write float64) {
	n := r.Tokens.Thinking.N + r.Tokens.Answer.N
	if r.Runs != 1 || n < pacing {
		return 0, 0
	}
	return float64(body) / max(r.Prefill.Seconds(), 1e-3), float64(n) / max((r.Thinking+r.Answer).Seconds(), 1e-3)
}

// What is taken for a token, and for what a template puts around a message, where
// nobody can count.
const (
	bytesPerToken = 4
	perMessage    = 4
)

// estimate takes the texts of a request for its prompt.
func (o *order) estimate(ctx context.Context) usage.Count {
	n, text := 0, gjson.GetBytes(o.body, "tools").Raw
	gjson.GetBytes(o.body, "messages").ForEach(func(_, m gjson.Result) bool {
		n += perMessage
		text += openai.TextOf(m.Get("content")) + m.Get("reasoning_content").Str + m.Get("tool_calls").Raw
		return true
	})
	words := len(text) / bytesPerToken
	if o.counter != nil {
		if counted, err := o.counter.Count(ctx, text); err == nil {
			words = counted
		}
	}
	return usage.Count{N: n + words, Source: usage.Estimate}
}

// expect gives the meter what is known of the prompt by own counts. They are
// taken beside the stream where the engine's cache has to be predicted, else only
// where the engine has not told the prompt.
func (p *pump) expect(ctx context.Context) {
	told, _ := p.meter.Told()
	if p.order.watch.Follows(p.order.info) || !told.Known() {
		p.pause()
	}
	prompt, cached := p.visit.Expect(ctx, told)
	switch {
	case told.Known() || prompt.Known():
	case p.order.prompt == nil && p.order.length > 0:
		prompt = usage.Count{N: p.order.length, Source: usage.Tokenizer}
	default:
		prompt = p.order.watch.Count(ctx, p.order.body, p.order.prompt)
	}
	p.meter.Expect(prompt, cached)
}
