package simengine

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"net/http"
	"slices"
	"strings"
	"time"

	"oneslot/internal/simengine/ask"
	"oneslot/internal/simengine/facts"
	"oneslot/internal/simengine/outbox"
	"oneslot/internal/simengine/script"
	"oneslot/internal/simengine/wire"
)

// settings are a Config's, changed by what the request asked for.
type settings struct {
	decode, prefill  float64
	thinking, answer int
	perChunk         int
}

func (e *Engine) settings(req *ask.Request) settings {
	s := req.Shape
	set := settings{
		decode: e.cfg.TokensPerSecond, prefill: e.cfg.PrefillTokensPerSecond,
		thinking: e.cfg.Thinking, answer: e.cfg.Answer, perChunk: e.cfg.TokensPerChunk,
	}
	override(&set.decode, s.TokensPerSecond)
	override(&set.prefill, s.PrefillTokensPerSecond)
	override(&set.thinking, s.Thinking)
	override(&set.answer, s.Answer)
	override(&set.perChunk, s.TokensPerChunk)
	if most, ok := req.ThinkingBudget[e.cfg.Dialect]; ok {
		set.thinking = min(set.thinking, most)
	}
	set.perChunk = max(set.perChunk, 1)
	return set
}

func override[T any](field, value *T) {
	if value != nil {
		*field = *value
	}
}

// prepare makes a run of req that is not yet in line.
func (e *Engine) prepare(req *ask.Request) (*run, *wire.Problem) {
	if req.RID == "" {
		var id [16]byte
		_, _ = rand.Read(id[:]) // never fails
		req.RID = hex.EncodeToString(id[:])
	}
	job := &run{
		e: e, req: req, out: outbox.New(), granted: make(chan struct{}), gone: make(chan struct{}),
		set:   e.settings(req),
		reply: wire.Reply{Dialect: e.cfg.Dialect, ID: req.RID, Model: req.Model, Text: !req.Chat, Tools: req.Tools},
		rec:   &Run{RID: req.RID, Path: req.Path, Body: req.Body, Stream: req.Stream, Arrived: time.Now()},
	}
	if e.cfg.Dialect != SGLang {
		job.reply.ID, job.reply.Model = "chatcmpl-"+req.RID, e.cfg.Model
	}
	if req.Shape.Script != "" {
		scripts, err := script.Parse(req.Shape.Script)
		if err != nil {
			return nil, wire.Refused("%s", err.Error())
		}
		job.script = scripts[0]
	}
	for tok := range e.vocab.Split(req.Prompt) {
		job.rec.PromptTokens++
		if e.cfg.RadixCache {
			job.prompt = append(job.prompt, tok)
		}
	}
	budget, problem := e.budget(job.rec.PromptTokens, req)
	job.budget = budget
	return job, problem
}

// admit puts job in line and starts its goroutine, which ends with the run.
func (e *Engine) admit(job *run) *wire.Problem {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ctx.Err() != nil || e.faults.Dead {
		panic(http.ErrAbortHandler)
	}
	if e.cfg.MaxQueued > 0 && len(e.running) >= e.cfg.Slots && len(e.waiting) >= e.cfg.MaxQueued {
		return &wire.Problem{Status: http.StatusServiceUnavailable, Type: "503", Message: "The request queue is full."}
	}
	job.ctx, job.stop = context.WithCancelCause(e.ctx)
	if job.script == nil {
		job.script = e.nextScript()
	}
	job.noticed = job.rec.Arrived
	e.stats.Arrivals++
	e.remember(job.rec)
	e.waiting = append(e.waiting, job)
	e.grant()
	e.stats.MaxWaiting = max(e.stats.MaxWaiting, len(e.waiting))
	e.event()
	e.wg.Go(job.live)
	return nil
}

// nextScript returns the script for the next reply, nil for a generated one.
// The caller holds mu.
func (e *Engine) nextScript() script.Script {
	if len(e.scripts) > 0 {
		next := e.scripts[0]
		e.scripts = e.scripts[1:]
		return next
	}
	if len(e.cfg.Scripts) == 0 {
		return nil
	}
	next := e.cfg.Scripts[min(e.played, len(e.cfg.Scripts)-1)]
	e.played++
	return next
}

// grant gives free slots to those in line. The caller holds mu.
func (e *Engine) grant() {
	for len(e.running) < e.cfg.Slots && len(e.waiting) > 0 {
		job := e.waiting[0]
		e.waiting = slices.Delete(e.waiting, 0, 1)
		e.running[job] = struct{}{}
		job.rec.Started = time.Now()
		if e.cfg.RadixCache {
			n := max(min(e.cache.Longest(job.prompt), len(job.prompt)-1), 0)
			if e.cfg.Dialect == VLLM {
				n = n / facts.Block * facts.Block
			}
			job.rec.CachedTokens = n
		}
		e.stats.Started = append(e.stats.Started, job.req.RID)
		e.stats.MaxRunning = max(e.stats.MaxRunning, len(e.running))
		close(job.granted)
	}
}

// end takes job out of its slot or the line, for good.
func (e *Engine) end(job *run, how Outcome) {
	e.mu.Lock()
	defer e.mu.Unlock()
	job.rec.Outcome, job.rec.Ended = how, time.Now()
	if job.plan != nil {
		job.rec.Thinking, job.rec.Answer = job.plan.Spoken(job.rec.CompletionTokens)
	}
	e.kept += len(job.rec.Thinking) + len(job.rec.Answer)
	if e.cfg.RadixCache && job.plan != nil {
		e.cache.Add(append(job.prompt, job.plan.Tokens[:job.rec.CompletionTokens]...))
	}
	if job.look != nil {
		job.look.Stop()
	}
	delete(e.running, job)
	e.waiting = slices.DeleteFunc(e.waiting, func(r *run) bool { return r == job })
	e.grant()
	e.event()
}

// left is told that the client of job has gone. A run that has ended does not
// care.
func (e *Engine) left(job *run) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if job.rec.Outcome != "" {
		return
	}
	job.rec.Left = time.Now()
	e.stats.Disconnects++
	e.event()
	if e.faults.Ghost {
		e.lookAt(job)
	} else {
		job.stop(errLeft)
	}
	close(job.gone) // last, so that a script that waits for it finds the run stopped
}

// lookAt makes the engine notice, at its next look, that the client of job is
// gone. It looks when nothing has happened on a request for the time of
// LeaveCheck, so it never notices it on a stream with tokens. The caller holds
// mu.
func (e *Engine) lookAt(job *run) {
	every := e.cfg.LeaveCheck
	since := time.Since(job.noticed)
	seen := job.noticed
	job.look = time.AfterFunc(every-since%every, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		switch {
		case job.rec.Outcome != "":
		case job.noticed.Equal(seen):
			job.stop(errLeft)
		default:
			e.lookAt(job)
		}
	})
}

// abort ends the runs that rid names, or all. By rid it works only as long as
// the engine still knows that rid, which for a stream is as long as its client
// is there; then it ends every run whose rid begins with it.
func (e *Engine) abort(rid string, all bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.stats.Aborts++
	defer e.event()
	if e.faults.Deaf || e.faults.Lossy && e.stats.Aborts%3 != 0 {
		return
	}
	jobs := slices.Clone(e.waiting)
	for job := range e.running {
		jobs = append(jobs, job)
	}
	known := slices.ContainsFunc(jobs, func(r *run) bool {
		return r.req.RID == rid && (r.rec.Left.IsZero() || !r.streaming)
	})
	hit := false
	for _, job := range jobs {
		if all || known && strings.HasPrefix(job.req.RID, rid) {
			hit = true
			job.rec.Aborted = time.Now()
			job.stop(errAborted)
		}
	}
	if hit {
		e.stats.AbortsEffective++
	}
}
