package ledger

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"
)

// Times of the writer.
const (
	retryFirst  = 100 * time.Millisecond // after a failed write, doubled up to
	retryMost   = 5 * time.Second
	maxBatch    = 1000 // rows a transaction, written or deleted
	closeWithin = 10 * time.Second
)

// writer gathers rows and writes them, many in one transaction.
//
// Its goroutine is started by start and ended by stop, which waits for it.
type writer struct {
	store Store
	cfg   Config

	wake chan struct{} // holds one wake-up, so that nobody waits to give it
	quit chan struct{} // closed by stop
	done chan struct{} // closed when the goroutine has ended

	mu      sync.Mutex // guards what follows
	waiting batch      // rows not yet taken by the goroutine
	writing batch      // rows of the transaction under way
	hurry   bool       // somebody waits for the disk
	swept   bool       // there may be more to delete
	turn    chan struct{}
	err     error // of the last write; nil after a good one
	closed  bool
}

func newWriter(store Store, cfg Config) *writer {
	return &writer{
		store: store, cfg: cfg,
		wake: make(chan struct{}, 1),
		quit: make(chan struct{}),
		turn: make(chan struct{}),
	}
}

func (w *writer) start() {
	w.done = make(chan struct{})
	go w.loop()
}

// put takes a row over; it belongs to the writer from then on.
func (w *writer) put(r Row, refusable bool) error {
	r.clip()
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.closed:
		return ErrClosed
	case refusable && len(w.waiting.order)+len(w.writing.order) >= w.cfg.Backlog:
		return fmt.Errorf("%w: %d; the last write failed with: %w", ErrBacklog, w.cfg.Backlog, w.err)
	}
	first := len(w.waiting.order) == 0
	w.waiting.put(&r)
	if first || len(w.waiting.order) == maxBatch {
		w.rouse()
	}
	return nil
}

// rouse makes the goroutine look again.
func (w *writer) rouse() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// find returns the row with the id if it is not on disk in its newest form.
func (w *writer) find(id string) (Row, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r, ok := w.writing.rows[id]
	if newer, waits := w.waiting.rows[id]; waits && (!ok || r.Outcome.Open()) {
		r, ok = newer, true
	}
	if !ok {
		return Row{}, false
	}
	return *r, true
}

// flush waits until everything put before is on disk, or a write has failed.
func (w *writer) flush(ctx context.Context) error {
	for {
		w.mu.Lock()
		if w.closed {
			w.mu.Unlock()
			return ErrClosed
		}
		if len(w.waiting.order)+len(w.writing.order) == 0 {
			w.mu.Unlock()
			return nil
		}
		w.hurry = true
		turn := w.turn
		w.rouse()
		w.mu.Unlock()
		select {
		case <-turn:
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := cmp.Or(ctx.Err(), w.lastError()); err != nil {
			return err
		}
	}
}

func (w *writer) lastError() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// loop writes what has gathered, cfg.Every after the first row came, until
// stop; then it writes what is left.
func (w *writer) loop() {
	defer close(w.done)
	tend := time.NewTicker(w.cfg.Tend)
	defer tend.Stop()
	retry := time.Duration(0)
	for {
		select {
		case <-w.wake:
			if w.idle() {
				continue // what it was about is written already
			}
			w.gather(max(w.cfg.Every, retry))
		case <-tend.C:
		case <-w.quit:
			return
		}
		if retry = w.write(retry); retry > 0 {
			w.rouse()
		}
	}
}

// idle reports whether there is nothing to write or delete.
func (w *writer) idle() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.waiting.order) == 0 && w.err == nil && !w.swept
}

// gather lets more rows come, unless somebody waits for them or there are
// enough.
func (w *writer) gather(wait time.Duration) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		w.mu.Lock()
		enough := w.hurry || w.err == nil && len(w.waiting.order) >= maxBatch
		w.mu.Unlock()
		if enough {
			return
		}
		select {
		case <-timer.C:
			return
		case <-w.wake:
		case <-w.quit:
			return
		}
	}
}

// write writes a batch. What is left then, rows that have come meanwhile or more to
// delete, waits like the first row did. After a failure it returns how long to wait
// before the next try.
func (w *writer) write(waited time.Duration) (retry time.Duration) {
	more, err := w.writeBatch(context.Background())
	if err != nil {
		return min(max(2*waited, retryFirst), retryMost)
	}
	if more {
		w.rouse()
	}
	return 0
}

// writeBatch writes the rows that have gathered, at most maxBatch, and reports
// whether there is more to do. Rows that could not be written wait again.
func (w *writer) writeBatch(ctx context.Context) (more bool, err error) {
	w.mu.Lock()
	w.writing, w.waiting = w.waiting.cut(maxBatch)
	rows := w.writing
	w.mu.Unlock()

	swept, err := w.store.Write(ctx, rows.list(), w.keep())

	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		w.waiting = merge(w.writing, w.waiting)
	}
	w.err, w.writing, w.swept = err, batch{}, swept
	more = err == nil && (swept || len(w.waiting.order) > 0)
	if !more {
		w.hurry = false
	}
	close(w.turn)
	w.turn = make(chan struct{})
	return more, err
}

// stop writes what is left and waits for the goroutine to end.
func (w *writer) stop() error {
	w.mu.Lock()
	again := w.closed
	w.closed = true
	w.mu.Unlock()
	if again || w.done == nil {
		return nil
	}
	close(w.quit)
	<-w.done
	ctx, cancel := context.WithTimeout(context.Background(), closeWithin)
	defer cancel()
	for more := true; more; {
		var err error
		if more, err = w.writeBatch(ctx); err != nil {
			return fmt.Errorf("%d rows are lost: %w", len(w.waiting.order), err)
		}
	}
	return nil
}

// keep is what stays, at this moment.
func (w *writer) keep() Keep {
	keep := Keep{Most: w.cfg.MaxRows}
	if w.cfg.Retention > 0 {
		keep.Since = w.cfg.Now().Add(-w.cfg.Retention)
	}
	return keep
}
