package engine

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"oneslot/proxy/engine/wire"
)

// Chat sends a chat request and returns the engine's response with whatever
// status it has. The caller closes the body. ctx is the run's, never a
// client's: when it ends the connection is closed.
func (e *Engine) Chat(ctx context.Context, body []byte) (*http.Response, error) {
	return e.run(ctx, e.post(ctx, chatPath, body), time.Now())
}

// Complete is Chat for a request to complete raw text.
func (e *Engine) Complete(ctx context.Context, body []byte) (*http.Response, error) {
	return e.run(ctx, e.post(ctx, completePath, body), time.Now())
}

// Where runs are asked for.
const (
	chatPath     = "/v1/chat/completions"
	completePath = "/v1/completions"
)

// A Begun is a run that is on its way before anybody waits for its response.
type Begun struct {
	engine  *Engine
	request *wire.Request
	sent    time.Time
}

// Begin sends a chat request, or one to complete raw text, without waiting, on a
// connection that is open, and without the headers of WithHeader. It returns nil where
// there is none. Without that the caller owes a call of Response or of Drop.
func (e *Engine) Begin(body []byte, raw bool) *Begun {
	path := chatPath
	if raw {
		path = completePath
	}
	b := &Begun{e, e.post(context.Background(), path, body), time.Now()}
	if b.request.Last || !e.wire.Begin(b.request) {
		return nil
	}
	return b
}

// Response is what Chat or Complete would return.
func (b *Begun) Response(ctx context.Context) (*http.Response, error) {
	return b.engine.run(ctx, b.request, b.sent)
}

// Drop closes the connection of a run that nobody will go on with. The engine may go on
// with it; see Settle.
func (b *Begun) Drop() {
	b.engine.wire.Drop(b.request)
	b.engine.unseen(b.sent)
}

// Ends reports whether the end of a run's response is at hand, so that reading it does
// not wait.
func Ends(response io.Reader) bool {
	body, ok := response.(interface{ Ends() bool })
	return ok && body.Ends()
}

// post is the request of a run.
func (e *Engine) post(ctx context.Context, path string, body []byte) *wire.Request {
	info, known := e.Known()
	return &wire.Request{
		Method: http.MethodPost, Path: path, Header: withMore(ctx, e.headers.body), Body: body, Last: known && info.Dialect.HangsUp,
	}
}

func (e *Engine) run(ctx context.Context, r *wire.Request, sent time.Time) (*http.Response, error) {
	resp, err := e.wire.Do(ctx, r)
	switch {
	case err == nil:
	case errors.Is(err, ErrUnreachable):
		e.forget()
	default:
		e.unseen(sent)
	}
	return resp, err
}

// noticing is how long an engine may take until what it tells of its load counts a
// request that was sent to it.
const noticing = 250 * time.Millisecond

// unseen notes that a run was given up without a response. Settle does not take an engine
// for idle that may only not have read it yet.
func (e *Engine) unseen(sent time.Time) { e.leaveAlone(sent.Add(noticing)) }
