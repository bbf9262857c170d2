package engine

import (
	"context"
	"fmt"
	"net/http"

	"oneslot/internal/openai"

	"github.com/tidwall/gjson"
)

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

// CountPrompt returns how many prompt tokens the engine makes of a chat request,
// its template, tools and generation prompt included. members are those of the
// request that count; others must not be among them.
func (e *Engine) CountPrompt(ctx context.Context, members []openai.Member) (int, error) {
	info, err := e.Info(ctx)
	if err != nil {
		return 0, err
	}
	t := info.Dialect.tokenize
	if t.promptPath == "" {
		return 0, ErrCannotCount
	}
	set := append([]openai.Member{{Key: "model", Raw: openai.String(e.UpstreamModel(info))}}, members...)
	return e.count(ctx, t.promptPath, t.promptCount, string(openai.Rewrite([]byte("{}"), set, nil)))
}

func (e *Engine) count(ctx context.Context, path, field, body string) (int, error) {
	reply, err := e.call(ctx, http.MethodPost, path, []byte(body))
	if refused(err) {
		return 0, fmt.Errorf("%w: %w", ErrCannotCount, err)
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
