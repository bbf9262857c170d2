package engine

import (
	"context"
	"errors"
	"fmt"
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
// stopped. Dialects that stop a run when its connection closes return nil.
func (e *Engine) Abort(ctx context.Context, rid string) error {
	return e.abort(ctx, `{"rid":`+openai.String(rid)+`}`)
}

// AbortAll asks the engine to stop whatever it runs. It does nothing unless
// oneslot is the engine's sole client.
func (e *Engine) AbortAll(ctx context.Context) error {
	if !e.cfg.SoleClient {
		return nil
	}
	return e.abort(ctx, `{"rid":"","abort_all":true}`)
}

func (e *Engine) abort(ctx context.Context, body string) error {
	info, err := e.Info(ctx)
	if err != nil || info.Dialect.AbortPath == "" {
		return err
	}
	_, err = e.call(ctx, http.MethodPost, info.Dialect.AbortPath, []byte(body))
	if missing(err) {
		return nil
	}
	return err
}

// Settle returns nil once the engine has been seen idle; if something runs on
// it and oneslot is its sole client, everything is aborted first. It blocks
// until then or until ctx ends, and then returns an error that wraps ErrBusy
// or, when nobody listens there, ErrUnreachable.
func (e *Engine) Settle(ctx context.Context) error {
	var last error
	for wait := firstLook; ; wait = nextLook {
		idle, err := e.look(ctx)
		if idle {
			return nil
		}
		if err != nil {
			last = err
			e.forget()
		} else {
			last = e.AbortAll(ctx)
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			if last == nil || errors.Is(last, context.DeadlineExceeded) {
				last = ErrBusy
			}
			return fmt.Errorf("engine %s: %w: %w", e.base, ErrBusy, last)
		}
	}
}

// look reports whether the engine is idle: by its load, else by its metrics,
// else by a trial.
func (e *Engine) look(ctx context.Context) (bool, error) {
	info, err := e.Info(ctx)
	if err != nil {
		return false, err
	}
	for _, l := range info.Dialect.loads {
		body, err := e.call(ctx, http.MethodGet, l.path, nil)
		if errors.Is(err, ErrUnreachable) {
			return false, err
		}
		if n, ok := l.running(body); err == nil && ok {
			return n == 0, nil
		}
	}
	if err := e.Ready(ctx); err != nil {
		return false, err
	}
	return e.trial(ctx, info), nil
}

// trial asks for one token. An engine that runs one request at a time gives it
// only when nothing else runs. What a trial leaves behind when it was not
// answered ends by itself: engines drop a waiting request whose client has gone.
func (e *Engine) trial(ctx context.Context, info Info) bool {
	ctx, cancel := context.WithTimeout(ctx, trialBound)
	defer cancel()
	body := fmt.Sprintf(`{"model":%s,"messages":[{"role":"user","content":"hi"}],"max_tokens":1,"stream":false}`, openai.String(e.UpstreamModel(info)))
	_, err := e.call(ctx, http.MethodPost, "/v1/chat/completions", []byte(body))
	var s statusError
	return err == nil || errors.As(err, &s) && s.status < http.StatusInternalServerError
}

// metric returns a reader of Prometheus text that adds up the named gauges.
func metric(names ...string) func(string) (int, bool) {
	return func(body string) (n int, ok bool) {
		for line := range strings.Lines(body) {
			name, value, found := strings.Cut(strings.TrimSpace(line), " ")
			if at := strings.IndexByte(name, '{'); at >= 0 {
				name = name[:at]
				value = line[strings.LastIndexByte(line, '}')+1:]
			}
			for _, want := range names {
				if found && name == want {
					v, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
					if err == nil {
						n, ok = n+int(v), true
					}
				}
			}
		}
		return n, ok
	}
}
