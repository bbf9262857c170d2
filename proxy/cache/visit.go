package cache

import (
	"context"
	"errors"
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
	among  bool          // other answers ran when it began
	cancel context.CancelFunc
	text   string // what the engine wrote; set when a later run follows

	ready  chan struct{}
	ids    []uint32 // nil if nothing could tokenize
	ends   []int    // where each message ends among them; nil where they are of the engine's own template
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
	w := v.watch
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	r := &run{watch: w, turn: make(chan struct{}), cancel: cancel, ready: make(chan struct{}), ids: ids}
	w.mu.Lock()
	if n := len(v.runs); n > 0 {
		last := v.runs[n-1]
		last.text, r.before, r.among = text, last.turn, last.among
	} else {
		r.before, r.among = w.turn, w.open > 0
		w.open++
	}
	w.mu.Unlock()
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
	if info.Dialect == nil {
		return // it was never asked, so nothing runs there
	}
	if errors.Is(err, engine.ErrCannotCount) {
		// What runs from now on is not seen, so what was is of no use later.
		w.mute, w.model = silence{w.startOf(info), time.Now().Add(silent)}, nil
		return
	}
	w.follow(info)
	r.block = max(rule(info).Block, 1)
	if w.model != nil && r.ids != nil && !r.among { // else nobody knows how far those were
		r.cached = w.model.Predict(r.ids)
	}
}

// encode gets the token ids of the prompt.
func (r *run) encode(ctx context.Context, body []byte) error {
	ids, err := r.watch.engine.EncodePrompt(ctx, Members(body))
	if errors.Is(err, engine.ErrCannotCount) && r.watch.local != nil { // else two kinds of ids would meet in one model
		ids, err = r.encodeParts(ctx, body)
	}
	if err == nil {
		r.ids = ids
	}
	return err
}

// encodeParts does so with the tokenizer here.
func (r *run) encodeParts(ctx context.Context, body []byte) (all []uint32, err error) {
	for _, part := range parts(body) {
		ids, err := r.watch.local.Encode(ctx, part)
		if err != nil {
			return nil, err
		}
		all = append(all, ids...)
		r.ends = append(r.ends, len(all))
	}
	return all, nil
}

// whole adds to a number of tokens counted here what the engine's template puts
// around the messages among them: the same for each, by the engine's own total.
func (r *run) whole(n, total int) int {
	within := 0
	for _, end := range r.ends {
		if end <= n {
			within++
		}
	}
	n += (total - len(r.ids)) * within / (len(r.ends) + 1) // and one for what begins the answer
	return min(max(n, 0), max(total-1, 0)) / r.block * r.block
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

// parts are the texts of a request without the template that nobody here has:
// tools, then each message as its role and text, or the text to complete.
func parts(body []byte) (list []string) {
	if text := gjson.GetBytes(body, "prompt"); text.Type == gjson.String {
		return []string{text.Str}
	}
	if tools := gjson.GetBytes(body, "tools"); tools.Exists() {
		list = append(list, tools.Raw)
	}
	gjson.GetBytes(body, "messages").ForEach(func(_, m gjson.Result) bool {
		list = append(list, "\n"+m.Get("role").String()+"\n"+openai.TextOf(m.Get("content"))+m.Get("tool_calls").Raw)
		return true
	})
	return list
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
	case r.ends == nil:
		return usage.Count{N: n, Source: usage.Tokenizer}, r.cached
	case told.Known() && r.cached.Known():
		return told, usage.Count{N: r.whole(r.cached.N, told.N), Source: r.cached.Source}
	default:
		return usage.Count{N: n, Source: usage.Estimate}, usage.Count{}
	}
}

// Leave says that the answer is over: the engine's last run wrote text, and it
// told of cached tokens by itself, or not. It does not wait: what was written is
// tokenized and remembered after it, and what cannot be makes the model less sure.
func (v *Visit) Leave(text string, told bool) {
	if v.watch == nil {
		return
	}
	if n := len(v.runs); n > 0 {
		v.runs[n-1].text = text
	}
	v.watch.leave(v.runs, told)
}

var _ Encoder = (*engine.Engine)(nil)
