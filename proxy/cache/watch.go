package cache

import (
	"context"
	"fmt"
	"sync"
	"time"

	"oneslot/proxy/engine"
	"oneslot/usage"
	"oneslot/usage/prefix"
)

// An Encoder tokenizes text with the model's tokenizer, special tokens read as
// such, without a begin token.
type Encoder interface {
	Encode(ctx context.Context, text string) ([]uint32, error)
}

// A Watch follows the prefix cache of one engine. It is safe for concurrent
// use. Close it when done with it.
type Watch struct {
	engine *engine.Engine
	local  Encoder
	life   context.Context // of the closing work
	stop   context.CancelFunc
	work   sync.WaitGroup // the goroutine that does the closing work, while there is some

	mu    sync.Mutex // guards what follows
	start string     // of the engine that model follows
	model prefix.Model
	told  bool // the engine tells by itself
	mute  silence
	turn  chan struct{} // closed once the latest visit that is over is remembered
	open  int           // visits that have begun and are not over
	over  []closing     // answers to be remembered, the oldest first
	busy  bool          // over is being worked on
	left  time.Time     // when the latest visit ended; the engine was there
	trail trail
}

// silence is that nothing can tokenize for an engine. It ends with that engine,
// and after a while: nobody may have called it while it was started anew.
type silence struct {
	start string
	until time.Time
}

// silent is how long a silence lasts at most. What it costs to be wrong is a call.
const silent = 10 * time.Minute

// NewWatch returns a Watch of e. local tokenizes where e cannot; nil means that
// nothing does.
func NewWatch(e *engine.Engine, local Encoder) *Watch {
	first := make(chan struct{})
	close(first)
	w := &Watch{engine: e, local: local, turn: first}
	w.life, w.stop = context.WithCancel(context.Background())
	return w
}

// Close ends the closing work; answers that have not been remembered are not.
func (w *Watch) Close() {
	w.mu.Lock()
	w.stop()
	w.mu.Unlock()
	w.work.Wait()
}

// Follows reports whether figures of an engine like that have to be predicted.
func (w *Watch) Follows(info engine.Info) bool {
	if info.Cache.Off || info.Cache.Told || rule(info).Kind == prefix.None {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.told && (w.mute.start != w.startOf(info) || time.Now().After(w.mute.until))
}

// usualBlock is vLLM's block size on GPUs, for one that does not tell.
const usualBlock = 16

// rule is how the engine's cache works.
func rule(info engine.Info) prefix.Rule {
	r := prefix.Rule{Block: info.Cache.Block, Capacity: info.Cache.Capacity}
	switch info.Dialect.Name {
	case engine.SGLang:
		r.Kind = prefix.Tree
	case engine.VLLM:
		r.Kind = prefix.Tree
		if r.Block == 0 {
			r.Block = usualBlock
		}
	case engine.LlamaCpp:
		r.Kind = prefix.Slot
	}
	return r
}

// restart is the least time in which an engine can be started anew: it has weights
// to load.
const restart = 2 * time.Second

// info is what the engine is now. It is asked only if it can have become another
// one since it was last seen.
func (w *Watch) info(ctx context.Context) engine.Info {
	w.mu.Lock()
	left := w.left
	w.mu.Unlock()
	if time.Since(left) > restart {
		if info, err := w.engine.Refresh(ctx); err == nil {
			return info
		}
	}
	info, _ := w.engine.Known()
	return info
}

// startOf names a start of the engine, as far as it can be told from the next one.
func (w *Watch) startOf(info engine.Info) string {
	return fmt.Sprintf("%s, lost %d times, not there %d times", info.Start, w.engine.Lost(), w.engine.Misses())
}

// follow makes a new model when the engine is not the one that it followed. Of
// an engine that says when it was started, a new start means an empty cache; else
// it may only have been out of reach. The caller holds mu.
func (w *Watch) follow(info engine.Info) {
	start := info.Start
	if start == "" {
		start = fmt.Sprintf("lost %d times", w.engine.Lost())
	}
	if w.model != nil && w.start == start {
		return
	}
	empty := w.model != nil && info.Start != "" && w.engine.Sole()
	w.start, w.model = start, prefix.New(rule(info), empty)
}

// Count counts the tokens of a request's prompt where no visit has done so. ids
// are its tokens where they are known already.
func (w *Watch) Count(ctx context.Context, body []byte, ids []uint32) usage.Count {
	r := run{watch: w, ids: ids}
	if ids == nil && r.encode(ctx, body) != nil && w.local != nil {
		r.ids, _ = r.encodeParts(ctx, body) // else nothing is counted
	}
	switch {
	case r.ids == nil:
		return usage.Count{}
	case r.ends != nil:
		return usage.Count{N: len(r.ids), Source: usage.Estimate}
	}
	return usage.Count{N: len(r.ids), Source: usage.Tokenizer}
}
