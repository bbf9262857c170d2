package engine

import (
	"context"
	"errors"
	"net/http"

	"oneslot/internal/openai"

	"github.com/tidwall/gjson"
)

// ErrCannotCount is returned when the engine has no endpoint that tokenizes.
var ErrCannotCount = errors.New("engine: has no tokenize endpoint")

// Count returns how many tokens text has by the engine's own tokenizer, special
// tokens read as such, without a begin token. It takes milliseconds, also while
// the engine is busy (measured on the three dialects that can).
func (e *Engine) Count(ctx context.Context, text string) (int, error) {
	info, err := e.Info(ctx)
	if err != nil {
		return 0, err
	}
	t := info.Dialect.tokenize
	if t.path == "" {
		return 0, ErrCannotCount
	}
	body := `{"` + t.field + `":` + openai.String(text) + `,` + t.extra + `}`
	return e.count(ctx, t.path, t.count, body)
}

// CountMessages returns how many prompt tokens the engine makes of a chat
// request's messages (raw JSON), its template and generation prompt included.
func (e *Engine) CountMessages(ctx context.Context, messages string) (int, error) {
	info, err := e.Info(ctx)
	if err != nil {
		return 0, err
	}
	t := info.Dialect.tokenize
	if t.messagesPath == "" {
		return 0, ErrCannotCount
	}
	body := `{"model":` + openai.String(e.UpstreamModel(info)) + `,"messages":` + messages + `}`
	return e.count(ctx, t.messagesPath, t.messagesCount, body)
}

func (e *Engine) count(ctx context.Context, path, field, body string) (int, error) {
	reply, err := e.call(ctx, http.MethodPost, path, []byte(body))
	if missing(err) {
		return 0, ErrCannotCount
	}
	if err != nil {
		return 0, err
	}
	n := gjson.Get(reply, field)
	if n.Type != gjson.Number {
		return 0, ErrCannotCount
	}
	return int(n.Int()), nil
}
