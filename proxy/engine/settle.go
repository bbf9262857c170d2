package engine

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"oneslot/internal/openai"

	"github.com/google/uuid"
)

// How often Settle asks. llama.cpp's server restarts its own one-second timer
// with every such call, so a tight loop would keep it from noticing that a
// client has gone: the first look is early, later ones at least 2 s apart.
const (
	firstLook = 100 * time.Millisecond
	nextLook  = 2 * time.Second
	// trialBound is how long a one-token trial may take on an idle engine.
	trialBound = 5 * time.Second
)

// NewRunID returns a fresh id for one run. SGLang matches abort ids by prefix,
// so it is always 32 hex digits of our own and never a client's.
func NewRunID() string {
	return strings.ReplaceAll(uuid.NewString(), "-", "")
}

// Abort asks the engine to stop the run with that id. It works only while the
// run's connection is open, and a nil error does not say that anything was
// stopped. The error is ErrCannotAbort where only closing the connection does.
func (e *Engine) Abort(ctx context.Context, rid string) error {
	return e.abort(ctx, `{"rid":`+openai.String(rid)+`}`)
}

// AbortAll asks the engine to stop whatever it runs. It does nothing unless
// oneslot is the engine's sole client and has one slot there.
func (e *Engine) AbortAll(ctx context.Context) error {
	if !e.cfg.SoleClient || e.cfg.Slots > 1 {
		return nil
	}
	return e.abort(ctx, `{"rid":"","abort_all":true}`)
}

func (e *Engine) abort(ctx context.Context, body string) error {
	info, err := e.Info(ctx)
	if err != nil {
		return err
	}
	if info.Dialect.AbortPath == "" {
		return ErrCannotAbort
	}
	_, err = e.call(ctx, http.MethodPost, info.Dialect.AbortPath, []byte(body))
	if refused(err) {
		return fmt.Errorf("%w: %w", ErrCannotAbort, err)
	}
	return err
}

// Others tells of the runs on the other slots of an engine. Before and After are
// called around a look at the engine; GoneOn, a while later, is how many of the runs
// that had begun to answer Before have said something since After.
type Others interface {
	Before()
	After()
	GoneOn() int
}

// Settle returns nil once the engine has been seen idle; if something runs on
// it and oneslot is its sole client, everything is aborted first. It blocks
// until then or until ctx ends, and then returns an error that wraps
// ErrUnreachable when nobody was ready there at the last look, else ErrBusy.
//
// Of an engine with several slots nothing is aborted, and it need not be idle: it is
// enough that all it ran at a look were runs of others that went on after it.
func (e *Engine) Settle(ctx context.Context, others Others) error {
	if rest := e.restWithin(ctx); rest > 0 {
		timer := time.NewTimer(rest)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return e.unsettled(nil)
		}
	}
	var last error
	for wait := firstLook; ; wait = nextLook {
		others.Before()
		ran, err := e.look(ctx)
		others.After()
		switch {
		case err == nil && ran == 0:
			return nil
		case err == nil:
			last = e.AbortAll(ctx)
		case ctx.Err() == nil:
			last = err
			e.forget()
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return e.unsettled(last)
		}
		if e.cfg.Slots > 1 && err == nil && others.GoneOn() >= ran {
			return nil
		}
	}
}

// Rest notes a response that refuses a request for want of room and says for how
// long (Retry-After). Settle leaves the engine alone for that time, so that whoever is
// next in line is not refused at once.
func (e *Engine) Rest(resp *http.Response) {
	full := resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode == http.StatusServiceUnavailable
	seconds, err := strconv.Atoi(resp.Header.Get("Retry-After"))
	if !full || err != nil || seconds < 0 {
		return
	}
	e.leaveAlone(time.Now().Add(min(time.Duration(seconds)*time.Second, longestRest)))
}

// leaveAlone has Settle not look at the engine before a time, if it was not told of a
// later one.
func (e *Engine) leaveAlone(until time.Time) {
	for {
		was := e.rest.Load()
		if until.UnixNano() <= was || e.rest.CompareAndSwap(was, until.UnixNano()) {
			return
		}
	}
}

// longestRest bounds what an engine may ask for.
const longestRest = 10 * time.Second

// restWithin is how much longer to leave the engine alone. The time that it asked for
// must not use up the caller's: an engine that nobody has looked at would be called
// busy. So a look's worth of it is kept, of little time half.
func (e *Engine) restWithin(ctx context.Context) time.Duration {
	rest := time.Until(time.Unix(0, e.rest.Load()))
	if end, ok := ctx.Deadline(); ok {
		left := time.Until(end)
		rest = min(rest, left-min(nextLook, left/2))
	}
	return rest
}

// unsettled says why the engine could not be seen idle; last is what went wrong
// at the last look, if anything did.
func (e *Engine) unsettled(last error) error {
	switch {
	case errors.Is(last, ErrUnreachable):
		return last
	case last == nil || errors.Is(last, ErrCannotAbort):
		return fmt.Errorf("engine %s: %w", e.label, ErrBusy)
	default:
		return fmt.Errorf("engine %s: %w: %w", e.label, ErrBusy, last)
	}
}

// look is how much the engine has to do: by its load, else by its metrics, else by
// a trial, which finds nothing or too much.
func (e *Engine) look(ctx context.Context) (int, error) {
	load, err := e.Load(ctx)
	if err != nil || load.From != "" {
		return load.Requests, err
	}
	info, err := e.Info(ctx)
	if err != nil {
		return 0, err
	}
	free, err := e.trial(ctx, info)
	if !free {
		return math.MaxInt, err
	}
	return 0, err
}

// trial asks for one token. An engine gives it only when it has a free slot; one that refuses the question at once has nothing
// to do either. What a trial leaves behind when it was not answered ends by
// itself: engines drop a waiting request whose client has gone.
func (e *Engine) trial(ctx context.Context, info Info) (bool, error) {
	if err := e.Ready(ctx); err != nil && !refused(err) {
		return false, err
	}
	short, cancel := context.WithTimeout(ctx, trialBound)
	defer cancel()
	body := fmt.Sprintf(`{"model":%s,"messages":[{"role":"user","content":"hi"}],%q:1,"stream":false}`, openai.String(e.UpstreamModel(info)), info.Dialect.LimitName)
	_, err := e.call(short, http.MethodPost, "/v1/chat/completions", []byte(body))
	if errors.Is(err, ErrUnreachable) {
		return false, err
	}
	return err == nil || refused(err), nil
}
