package probe

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"oneslot/internal/openai"
	"oneslot/proxy/engine"

	"github.com/tmaxmax/go-sse"
)

const (
	chatPath        = "/v1/chat/completions"
	completionsPath = "/v1/completions"
	// haltTime is how long an abort may take when the probe has to end early.
	haltTime = 5 * time.Second
	maxEvent = 1 << 20 // bytes
)

// A question is one test request.
type question struct {
	path  string
	limit int // tokens
	// members are those of the request beside what all have.
	members []openai.Member
	// heard is told of each event that brought text. Nil means nobody is.
	heard func(ctx context.Context, rid string)
}

// may reports whether a test request may be sent now. If not, the report says
// why, and none is sent from then on.
func (p *prober) may(ctx context.Context) bool {
	for try := 0; p.report.ReadOnly == "" && ctx.Err() == nil && !p.cfg.BusyOK; try++ {
		load, err := p.engine.Load(ctx)
		switch {
		case ctx.Err() != nil:
		case err != nil:
			p.report.ReadOnly = "the engine does not tell its load any more: " + cause(err)
		case load.From == "":
			p.report.ReadOnly = "nobody can tell whether the engine is busy"
		case load.Requests == 0:
			return true
		case !p.asked || try == settleTries:
			p.report.ReadOnly = fmt.Sprintf("the engine is busy: %d request(s) run or wait on it", load.Requests)
		default: // perhaps the engine has not yet put away the last test request
			pause(ctx, settlePause)
		}
	}
	if ctx.Err() != nil && p.report.ReadOnly == "" {
		p.report.ReadOnly = "the time was up"
	}
	return p.report.ReadOnly == ""
}

const (
	settleTries = 2
	settlePause = 2 * time.Second // llama.cpp's server is not to be asked more often
)

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// ask sends a test request and reads the reply to its end; it returns nil if
// none may be sent. When ctx ends the engine is told first, while the stream is
// attached: a run whose connection is just closed may go on.
func (p *prober) ask(ctx context.Context, q question) *reply {
	if !p.may(ctx) {
		return nil
	}
	p.asked = true
	if p.cfg.Tell != nil {
		p.cfg.Tell(q.label())
	}
	life, drop := context.WithCancel(context.WithoutCancel(ctx))
	defer drop()
	rid, halted := engine.NewRunID(), make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(halted)
		p.halt(life, rid)
		drop()
	})
	r := p.converse(life, q, rid)
	if !stop() {
		drop()
		<-halted
	}
	return r
}

// halt stops a run and waits until its stream has ended, within haltTime.
func (p *prober) halt(life context.Context, rid string) {
	if p.info.Dialect.AbortPath == "" {
		return // closing the connection is what stops it
	}
	ctx, cancel := context.WithTimeout(life, haltTime)
	defer cancel()
	// Whether it helped the end of the stream tells.
	_ = p.engine.Abort(ctx, rid)
	<-ctx.Done()
}

// body is the request that asks q.
func (p *prober) body(q question, rid string) string {
	d := p.info.Dialect
	options := `{"include_usage":true}`
	if d.ContinuousUsage {
		options = `{"include_usage":true,"continuous_usage_stats":true}`
	}
	set := []openai.Member{
		{Key: "model", Raw: openai.String(p.model)}, {Key: "stream", Raw: "true"}, {Key: "stream_options", Raw: options}, {Key: "temperature", Raw: "0"},
	}
	limit := d.LimitName
	if q.path == completionsPath {
		limit = "max_tokens"
	}
	set = append(set, openai.Member{Key: limit, Raw: strconv.Itoa(q.limit)})
	if d.RequestID {
		set = append(set, openai.Member{Key: "rid", Raw: openai.String(rid)})
	}
	if d.Running != "" {
		set = append(set, openai.Member{Key: d.Running, Raw: "true"})
	}
	return string(openai.Rewrite([]byte("{}"), append(set, q.members...), nil))
}

// label names a question by what is particular to it.
func (q question) label() string {
	parts := []string{"POST " + q.path, "for " + strconv.Itoa(q.limit) + " tokens"}
	for _, m := range q.members {
		if m.Key != "messages" && m.Key != "prompt" && m.Key != "tools" {
			parts = append(parts, m.Key+": "+m.Raw)
		}
	}
	return strings.Join(parts, ", ")
}

func (p *prober) converse(ctx context.Context, q question, rid string) *reply {
	r := &reply{call: q.label(), prompt: -1, completion: -1, cached: -1}
	resp, err := p.calls.send(ctx, q.path, p.body(q, rid))
	if err != nil {
		r.fault = "no answer: " + cause(err)
		return r
	}
	defer resp.Body.Close()
	r.status = resp.StatusCode
	if r.status != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, maxEvent)) // what there is of it
		r.fault = fmt.Sprintf("%d %s", r.status, text)
		return r
	}
	for event, err := range sse.Read(resp.Body, &sse.ReadConfig{MaxEventSize: maxEvent}) {
		if err != nil {
			r.fault = "the stream broke: " + cause(err)
			return r
		}
		if r.event(event.Data) && q.heard != nil {
			q.heard(ctx, rid)
		}
	}
	if !r.done() && r.fault == "" {
		r.fault = "the stream ended without a finish reason"
	}
	return r
}
