package engine

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"oneslot/internal/openai"

	"github.com/tidwall/gjson"
)

// Count returns how many tokens text has by the engine's own tokenizer, special
// tokens read as such, without a begin token. It takes milliseconds, also while
// the engine is busy (measured on the three dialects that can).
func (e *Engine) Count(ctx context.Context, text string) (int, error) {
	t, err := e.tokenize(ctx)
	if err != nil {
		return 0, err
	}
	reply, err := e.call(ctx, http.MethodPost, t.path, []byte(`{"`+t.field+`":`+openai.String(text)+`,`+t.extra+`}`))
	if err != nil {
		return 0, uncounted(err)
	}
	n := gjson.Get(reply, t.count)
	if n.Type != gjson.Number {
		return 0, ErrCannotCount
	}
	return int(n.Int()), nil
}

// tokenize is how the engine counts text, if it can.
func (e *Engine) tokenize(ctx context.Context) (tokenize, error) {
	info, err := e.Info(ctx)
	if err != nil {
		return tokenize{}, err
	}
	if info.Dialect.tokenize.path == "" {
		return tokenize{}, ErrCannotCount
	}
	return info.Dialect.tokenize, nil
}

// Encode returns the token ids of text, which is not empty, as Count counts them.
func (e *Engine) Encode(ctx context.Context, text string) ([]uint32, error) {
	t, err := e.tokenize(ctx)
	if err != nil {
		return nil, err
	}
	return e.encode(ctx, t.path, `{"`+t.field+`":`+openai.String(text)+`,`+t.extra+`}`)
}

// EncodePrompt returns the ids of the prompt tokens that the engine makes of a
// chat request, its template, tools and generation prompt included. members are
// those of the request that count; others must not be among them.
func (e *Engine) EncodePrompt(ctx context.Context, members []openai.Member) ([]uint32, error) {
	info, err := e.Info(ctx)
	if err != nil {
		return nil, err
	}
	t := info.Dialect.tokenize
	if t.prompt == "" {
		return nil, ErrCannotCount
	}
	for _, m := range members {
		if m.Key == "prompt" && m.Raw != "" {
			return e.encodeText(ctx, t, gjson.Parse(m.Raw))
		}
	}
	set := append([]openai.Member{{Key: "model", Raw: openai.String(e.UpstreamModel(info))}}, members...)
	body := string(openai.Rewrite([]byte("{}"), set, nil))
	if t.rendered == "" {
		return e.encode(ctx, t.prompt, body)
	}
	reply, err := e.call(ctx, http.MethodPost, t.prompt, []byte(body))
	if err != nil {
		return nil, uncounted(err)
	}
	return e.encodeText(ctx, t, gjson.Get(reply, t.rendered))
}

// encodeText encodes a whole prompt, which may be a list of ids already. Neither a
// template nor a client writes the begin token that the engine puts before it.
func (e *Engine) encodeText(ctx context.Context, t tokenize, prompt gjson.Result) ([]uint32, error) {
	switch {
	case prompt.IsArray():
		return idsOf(prompt), nil
	case prompt.Type != gjson.String || prompt.Str == "":
		return nil, fmt.Errorf("%w: the prompt has none", ErrUncounted)
	}
	return e.encode(ctx, t.path, `{"`+t.field+`":`+openai.String(prompt.Str)+`,`+t.begun+`}`)
}

// encode reads the ids out of a reply, which has hundreds of thousands at most.
func (e *Engine) encode(ctx context.Context, path, body string) ([]uint32, error) {
	reply, err := e.call(ctx, http.MethodPost, path, []byte(body))
	if err != nil {
		return nil, uncounted(err)
	}
	ids := idsOf(gjson.Get(reply, "tokens"))
	if len(ids) == 0 { // llama.cpp's server answers so where it reads another field
		return nil, ErrCannotCount
	}
	return ids, nil
}

func idsOf(list gjson.Result) []uint32 {
	ids := make([]uint32, 0, len(list.Raw)/6)
	list.ForEach(func(_, id gjson.Result) bool {
		ids = append(ids, uint32(id.Uint()))
		return true
	})
	return ids
}

// uncounted tells an engine that has no such endpoint from one that refused a
// text: another one may be taken.
func uncounted(err error) error {
	var s statusError
	switch {
	case !errors.As(err, &s) || !refused(err):
		return err
	case s.status == http.StatusNotFound || s.status == http.StatusMethodNotAllowed || s.status == http.StatusNotImplemented:
		return fmt.Errorf("%w: %w", ErrCannotCount, err)
	default:
		return fmt.Errorf("%w: %w", ErrUncounted, err)
	}
}
