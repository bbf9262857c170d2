package simengine

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"oneslot/internal/simengine/ask"
	"oneslot/internal/simengine/script"
	"oneslot/internal/simengine/wire"
	"oneslot/internal/simengine/words"
)

// ErrClosed is the cause with which Close ends runs.
var ErrClosed = errors.New("simengine: engine was closed")

// Why a run ends before its reply does.
var (
	errAborted = errors.New("simengine: run was aborted")
	errLeft    = errors.New("simengine: client has left")
	errDied    = errors.New("simengine: engine died")
)

// Engine is a simulated engine and its HTTP face. New makes one; Close ends it.
type Engine struct {
	cfg    Config
	vocab  *words.Vocab
	reader ask.Reader
	mux    *http.ServeMux

	ctx  context.Context // ends with Close; the parent of every run
	stop context.CancelCauseFunc
	wg   sync.WaitGroup // the goroutines of the runs

	mu      sync.Mutex // guards the rest
	waiting []*run     // first come, first served
	running map[*run]struct{}
	faults  Faults
	thaw    chan struct{} // closed when a stall ends; nil while there is none
	cache   words.Prefixes
	seed    uint32          // drawn at each start, as by an engine whose user chose none
	scripts []script.Script // for the next requests, before those of the Config
	played  int             // how many scripts of the Config were played
	records []*Run          // of the stats
	kept    int             // bytes in records
	stats   Stats           // the counters that are not derived
	changed chan struct{}   // closed at the next event; nil while nobody waits
}

// New returns an engine, or all faults of cfg.
func New(cfg Config) (*Engine, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	e := &Engine{
		cfg:     cfg,
		vocab:   words.New(cfg.Format.Marks()...),
		running: map[*run]struct{}{},
		faults:  Faults{Ghost: cfg.Ghost, Deaf: cfg.Deaf, Lossy: cfg.Lossy},
		stats:   Stats{Calls: map[string]int{}},
		seed:    rand.Uint32(), //nolint:gosec // nothing secret
	}
	e.reader = ask.Reader{Format: cfg.Format, Text: e.vocab.Text}
	e.ctx, e.stop = context.WithCancelCause(context.Background())
	e.mux = e.routes()
	return e, nil
}

// Close ends all runs and waits for their goroutines. Handlers return soon
// after. Close it before the http.Server it is served by, which waits for the
// handlers.
func (e *Engine) Close() {
	e.mu.Lock() // no run may start once the waiting has begun
	e.stop(ErrClosed)
	e.mu.Unlock()
	e.wg.Wait()
}

// Play queues scripts for the next requests for text, one each, before those of
// the Config.
func (e *Engine) Play(scripts ...script.Script) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.scripts = append(e.scripts, scripts...)
}

// ServeHTTP answers as the engine would. It ends the connection without a reply
// when the engine is dead or closed.
func (e *Engine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	e.stats.Calls[r.URL.Path]++
	e.event()
	thaw, dead := e.thaw, e.faults.Dead || e.ctx.Err() != nil
	e.mu.Unlock()
	if e.cfg.Dialect == LlamaCPP {
		w.Header().Set("Server", "llama.cpp")
	} else {
		w.Header().Set("Server", "uvicorn")
	}
	if e.cfg.Admin && strings.HasPrefix(r.URL.Path, "/sim/") {
		e.mux.ServeHTTP(w, r)
		return
	}
	if dead {
		panic(http.ErrAbortHandler)
	}
	if thaw != nil {
		select {
		case <-thaw:
		case <-r.Context().Done():
			return
		case <-e.ctx.Done():
			panic(http.ErrAbortHandler)
		}
	}
	e.mux.ServeHTTP(w, r)
}

// text answers a request for text.
func (e *Engine) text(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler) // the client broke off its own request
	}
	job, problem := e.accept(r, body)
	if problem != nil {
		e.mu.Lock()
		e.stats.Refused++
		e.event()
		e.mu.Unlock()
		e.refuse(w, problem)
		return
	}
	if !job.out.Deliver(w, r) {
		e.left(job)
	}
}

// accept checks a request and puts it in line.
func (e *Engine) accept(r *http.Request, body []byte) (*run, *wire.Problem) {
	kind, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	if e.cfg.Dialect != LlamaCPP && strings.TrimSpace(kind) != "application/json" {
		return nil, &wire.Problem{
			Status: http.StatusBadRequest, Type: "Bad Request",
			Message: "1 validation error:\n  {'loc': ['header', 'content-type'], 'msg': \"Unsupported Media Type: Only 'application/json' is allowed\", 'type': 'value_error'}",
		}
	}
	req, problem := e.reader.Read(r.URL.Path, body)
	if problem != nil {
		return nil, problem
	}
	if e.cfg.Dialect == VLLM && req.Model != e.cfg.Model {
		return nil, &wire.Problem{
			Status: http.StatusNotFound, Type: "NotFoundError",
			Message: "The model `" + req.Model + "` does not exist.",
		}
	}
	e.disguise(req)
	job, problem := e.prepare(req)
	if problem != nil {
		return nil, problem
	}
	job.rec.Header = r.Header
	return job, e.admit(job)
}

// disguise makes req what another engine than SGLang would make of it.
func (e *Engine) disguise(req *ask.Request) {
	switch e.cfg.Dialect {
	case VLLM:
		req.Separate, req.StreamThinking = true, true
		// Not streamed, a continued answer is taken for thinking.
		req.Unmarked = req.Unmarked || req.Prefilled && !req.Stream
	case LlamaCPP:
		req.Separate, req.StreamThinking = !req.Unparsed, true
	case SGLang:
	}
}

// budget returns how many tokens a reply to a prompt of n tokens may have.
func (e *Engine) budget(n int, req *ask.Request) (int, *wire.Problem) {
	length := e.cfg.ContextLength
	switch {
	case n >= length:
		return 0, wire.Refused("The input (%d tokens) is longer than the model's context length (%d tokens).", n, length)
	case req.GaveMax && req.MaxTokens < 0:
		return 0, wire.Refused("max_new_tokens must be at least 0, got %d.", req.MaxTokens)
	case !req.GaveMax && e.cfg.Dialect == SGLang:
		return max(length-n-2, 0), nil
	case !req.GaveMax:
		return length - n, nil
	case e.cfg.Dialect != SGLang:
		return min(req.MaxTokens, length-n), nil
	case req.MaxTokens > length:
		return 0, wire.Refused("max_completion_tokens is too large: %d.This model supports at most %d completion tokens.", req.MaxTokens, length)
	case n+req.MaxTokens > length:
		return 0, wire.Refused("Requested token count exceeds the model's maximum context length of %d tokens. You requested a total of %d tokens: %d tokens from the input messages and %d tokens for the completion. Please reduce the number of tokens in the input messages or the completion to fit within the limit.",
			length, n+req.MaxTokens, n, req.MaxTokens)
	}
	return req.MaxTokens, nil
}

// refuse writes p.
func (e *Engine) refuse(w http.ResponseWriter, p *wire.Problem) {
	body, contentType := p.Body(e.cfg.Dialect)
	send(w, p.Status, contentType, body)
}

// send writes a whole reply. A client that has left does not matter here.
func send(w http.ResponseWriter, status int, contentType string, body []byte) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body)
}
