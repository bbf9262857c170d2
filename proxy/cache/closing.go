package cache

import (
	"context"
	"time"
)

// closing is an answer that is over and has to be remembered.
type closing []*run

// maxClosing bounds the answers that wait to be remembered. Each is bounded in time
// by patience, so more than a few wait only where the tokenizing hangs.
const maxClosing = 8

// leave takes an answer's runs over.
func (w *Watch) leave(runs []*run, told bool) {
	w.mu.Lock()
	w.told, w.left = w.told || told, time.Now()
	if len(runs) > 0 {
		w.open--
	}
	switch {
	case len(runs) == 0:
	case len(w.over) == maxClosing || w.life.Err() != nil:
		defer forgo(runs) // once mu is free
	default:
		w.over, w.turn = append(w.over, runs), runs[len(runs)-1].turn
		if !w.busy {
			w.busy = true
			w.work.Go(w.remember)
		}
	}
	w.mu.Unlock()
}

// remember does the closing work until there is none.
func (w *Watch) remember() {
	for {
		w.mu.Lock()
		if len(w.over) == 0 {
			w.busy = false
			w.mu.Unlock()
			return
		}
		runs := w.over[0]
		w.over = w.over[1:]
		w.mu.Unlock()
		ctx, cancel := context.WithTimeout(w.life, patience)
		for _, r := range runs {
			r.end(ctx)
		}
		cancel()
	}
}

// forgo ends runs that are not to be remembered.
func forgo(runs []*run) {
	over, cancel := context.WithCancel(context.Background())
	cancel()
	for _, r := range runs {
		r.end(over)
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
		if r.ends != nil {
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
