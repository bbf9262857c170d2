package cache

import (
	"context"
	"errors"
	"strings"
	"time"

	"oneslot/internal/openai"
	"oneslot/proxy/engine"
	"oneslot/usage"

	"github.com/tidwall/gjson"
)

// A Visit is one answer on a slot, made of one engine run or a few. It belongs to
// the goroutine of the request. The zero Visit predicts nothing.
type Visit struct {
	watch *Watch
	runs  []*run
}

// run is one engine run. Its goroutine writes ids, scaled and cached, then closes
// ready.
type run struct {
	watch  *Watch
	before <-chan struct{}
	turn   chan struct{} // closed by end
	cancel context.CancelFunc
	text   string // what the engine wrote; set when a later run follows

	ready  chan struct{}
	ids    []uint32 // nil if nothing could tokenize
	scaled bool     // they are not of the engine's own template
	block  int      // tokens that the engine caches together
	cached usage.Count
}

// Visit begins an answer on the slot of w.
func (w *Watch) Visit() Visit { return Visit{watch: w} }

// Begin says that a run has brought its first token. body is the request that the
// engine got, ids the tokens of its prompt where they are known already. text is
// what the run before wrote, if there was one.
func (v *Visit) Begin(ctx context.Context, body []byte, ids []uint32, text string) {
	if v.watch == nil {
		return
	}
	if n := len(v.runs); n > 0 {
		v.runs[n-1].text = text
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	r := &run{watch: v.watch, turn: make(chan struct{}), cancel: cancel, ready: make(chan struct{}), ids: ids}
	v.watch.mu.Lock()
	r.before, v.watch.turn = v.watch.turn, r.turn
	v.watch.mu.Unlock()
	v.runs = append(v.runs, r)
	go r.look(ctx, body)
}

// look tokenizes the prompt and looks it up.
func (r *run) look(ctx context.Context, body []byte) {
	defer close(r.ready)
	w := r.watch
	info := w.info(ctx)
	var err error
	if r.ids == nil {
		err = r.encode(ctx, body)
	}
	select {
	case <-r.before:
	case <-ctx.Done():
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mute = errors.Is(err, engine.ErrCannotCount)
	if info.Dialect == nil {
		return // it was never asked, so nothing runs there
	}
	w.follow(info)
	r.block = max(rule(info).Block, 1)
	if w.model != nil && r.ids != nil {
		r.cached = w.model.Predict(r.ids)
	}
}

// encode gets the token ids of the prompt.
func (r *run) encode(ctx context.Context, body []byte) error {
	ids, err := r.watch.engine.EncodePrompt(ctx, Members(body))
	if err != nil && r.watch.local != nil {
		r.scaled = true
		ids, err = r.watch.local.Encode(ctx, render(body))
	}
	if err == nil {
		r.ids = ids
	}
	return err
}

// counted are the fields of which an engine makes its prompt.
var counted = [...]string{"messages", "tools", "chat_template_kwargs", "continue_final_message", "add_generation_prompt", "prompt"}

// Members are the members of a request of which an engine makes its prompt.
func Members(body []byte) []openai.Member {
	list := make([]openai.Member, len(counted))
	for i, v := range gjson.GetManyBytes(body, counted[:]...) {
		list[i] = openai.Member{Key: counted[i], Raw: v.Raw}
	}
	return list
}

// render is the text of a request without the template that nobody here has:
// tools, then each message as its role and text, or the text to complete.
func render(body []byte) string {
	var b strings.Builder
	if text := gjson.GetBytes(body, "prompt"); text.Type == gjson.String {
		return text.Str
	}
	b.WriteString(gjson.GetBytes(body, "tools").Raw)
	gjson.GetBytes(body, "messages").ForEach(func(_, m gjson.Result) bool {
		b.WriteString("\n" + m.Get("role").String() + "\n")
		content := m.Get("content")
		if content.IsArray() {
			content.ForEach(func(_, part gjson.Result) bool {
				b.WriteString(part.Get("text").String())
				return true
			})
		} else {
			b.WriteString(content.String())
		}
		b.WriteString(m.Get("tool_calls").Raw)
		return true
	})
	return b.String()
}

// patience is how long the end of an answer waits for tokenizing that has not
// ended by then. It began with the first token, and takes milliseconds.
const patience = time.Second

// Expect returns how many tokens the answer's prompt has, by the tokens counted
// here, and how many of them the engine must have had in its cache. told is the
// engine's own prompt total. It waits for the tokenizing until ctx ends; what is
// not there then is unknown.
func (v *Visit) Expect(ctx context.Context, told usage.Count) (prompt, cached usage.Count) {
	if len(v.runs) == 0 {
		return usage.Count{}, usage.Count{}
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	r := v.runs[0]
	select {
	case <-r.ready:
	case <-ctx.Done():
		return usage.Count{}, usage.Count{}
	}
	switch n := len(r.ids); {
	case n == 0:
		return usage.Count{}, usage.Count{}
	case !r.scaled:
		return usage.Count{N: n, Source: usage.Tokenizer}, r.cached
	case told.Known():
		expected := min(r.cached.N*told.N/n, max(told.N-1, 0))
		return told, usage.Count{N: expected / r.block * r.block, Source: r.cached.Source}
	default:
		return usage.Count{N: n, Source: usage.Estimate}, r.cached
	}
}

// Leave says that the answer is over: the engine's last run wrote text, and it
// told of cached tokens by itself, or not. ctx bounds the tokenizing; what cannot
// be tokenized makes the model less sure.
func (v *Visit) Leave(ctx context.Context, text string, told bool) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for i, r := range v.runs {
		if i == len(v.runs)-1 {
			r.text = text
		}
		r.end(ctx)
	}
	if v.watch != nil {
		v.watch.mu.Lock()
		v.watch.told, v.watch.left = v.watch.told || told, time.Now()
		v.watch.mu.Unlock()
	}
}

// end remembers a run and lets the next one look up its prompt.
func (r *run) end(ctx context.Context) {
	defer close(r.turn)
	stop := context.AfterFunc(ctx, r.cancel)
	<-r.ready
	stop()
	r.cancel()
	w := r.watch
	var output []uint32
	if r.ids != nil && r.text != "" {
		var encoder Encoder = w.engine
		if r.scaled {
			encoder = w.local
		}
		output, _ = encoder.Encode(ctx, r.text) // without it, the prompt alone is remembered
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.model == nil:
	case r.ids == nil:
		w.model.Doubt()
	default:
		w.model.Remember(append(r.ids, output...))
	}
}

var _ Encoder = (*engine.Engine)(nil)
