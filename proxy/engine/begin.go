package engine

import (
	"context"
	"errors"
	"net/http"

	"oneslot/proxy/engine/wire"
)

// Chat sends a chat request and returns the engine's response with whatever
// status it has. The caller closes the body. ctx is the run's, never a
// client's: when it ends the connection is closed.
func (e *Engine) Chat(ctx context.Context, body []byte) (*http.Response, error) {
	return e.run(ctx, e.post(ctx, chatPath, body))
}

// Complete is Chat for a request to complete raw text.
func (e *Engine) Complete(ctx context.Context, body []byte) (*http.Response, error) {
	return e.run(ctx, e.post(ctx, completePath, body))
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
}

// Begin sends a chat request, or one to complete raw text, without waiting, on a
// connection that is open. It returns nil where there is none. Without that the caller
// owes a call of Response or of Drop.
func (e *Engine) Begin(body []byte, raw bool) *Begun {
	path := chatPath
	if raw {
		path = completePath
	}
	b := &Begun{e, e.post(context.Background(), path, body)}
	if b.request.Last || !e.wire.Begin(b.request) {
		return nil
	}
	return b
}

// Response is what Chat or Complete would return.
func (b *Begun) Response(ctx context.Context) (*http.Response, error) {
	return b.engine.run(ctx, b.request)
}

// Drop closes the connection of a run that nobody will go on with. The engine may go on
// with it; see Settle.
func (b *Begun) Drop() { b.engine.wire.Drop(b.request) }

// Ends reports whether the end of a run's response is at hand, so that reading it does
// not wait.
func Ends(response any) bool {
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

func (e *Engine) run(ctx context.Context, r *wire.Request) (*http.Response, error) {
	resp, err := e.wire.Do(ctx, r)
	if err != nil && errors.Is(err, ErrUnreachable) {
		e.forget()
	}
	return resp, err
}
