package simengine

import (
	"encoding/json"
	"io"
	"net/http"
	"time"

	"oneslot/internal/simengine/facts"
	"oneslot/internal/simengine/wire"
)

// routes are the endpoints of the engine.
func (e *Engine) routes() *http.ServeMux {
	mux := http.NewServeMux()
	if e.cfg.Admin {
		e.admin(mux)
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		e.refuse(w, &wire.Problem{Status: http.StatusNotFound, Message: "Not Found", Detail: true})
	})
	e.handle(mux, http.MethodPost, e.text, "/v1/chat/completions", "/v1/completions")
	e.handle(mux, http.MethodPost, e.tokenize, "/tokenize", "/v1/tokenize")
	e.handle(mux, http.MethodPost, e.detokenize, "/detokenize", "/v1/detokenize")
	e.handle(mux, http.MethodGet, e.health, "/health")
	e.handle(mux, http.MethodGet, e.tell(facts.Models), "/v1/models")
	if e.cfg.Metrics {
		e.handle(mux, http.MethodGet, e.metrics, "/metrics")
	}
	switch e.cfg.Dialect {
	case VLLM:
		e.handle(mux, http.MethodGet, e.tell(facts.Version), "/version")
		e.handle(mux, http.MethodGet, e.tell(facts.ServerLoad), "/load")
	case LlamaCPP:
		e.handle(mux, http.MethodGet, e.tell(facts.Props), "/props")
		e.handle(mux, http.MethodGet, e.tell(facts.Slots), "/slots")
		e.handle(mux, http.MethodPost, e.render, "/apply-template", "/v1/chat/completions/input_tokens")
	case SGLang:
		e.sglangRoutes(mux)
	}
	return mux
}

func (e *Engine) sglangRoutes(mux *http.ServeMux) {
	e.handle(mux, http.MethodPost, e.abortRequest, "/abort_request")
	e.handle(mux, http.MethodPost, e.flushCache, "/flush_cache")
	e.handle(mux, http.MethodGet, e.health, "/health_generate")
	e.handle(mux, http.MethodGet, e.tell(facts.ModelInfo), "/model_info", "/get_model_info")
	e.handle(mux, http.MethodGet, e.tell(facts.ServerInfo), "/server_info", "/get_server_info")
	e.handle(mux, http.MethodGet, e.tell(facts.Load), "/get_load")
	e.handle(mux, http.MethodGet, e.tell(facts.Loads), "/v1/loads")
}

// handle registers h; another method is answered as the web framework does.
func (e *Engine) handle(mux *http.ServeMux, method string, h http.HandlerFunc, paths ...string) {
	for _, path := range paths {
		mux.HandleFunc(method+" "+path, h)
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Allow", method)
			e.refuse(w, &wire.Problem{Status: http.StatusMethodNotAllowed, Message: "Method Not Allowed", Detail: true})
		})
	}
}

// state is what the facts are told from.
func (e *Engine) state() facts.State {
	e.mu.Lock()
	defer e.mu.Unlock()
	return facts.State{
		Dialect: e.cfg.Dialect, Model: e.cfg.Model, Version: e.cfg.Version, Format: e.cfg.Format,
		Context: e.cfg.ContextLength, Slots: e.cfg.Slots, Split: e.cfg.Output == Split,
		Cache: e.cfg.RadixCache, CacheReport: e.cfg.CacheReport, Metrics: e.cfg.Metrics,
		Running: len(e.running), Waiting: len(e.waiting), Aborted: e.stats.AbortsEffective, Seed: e.seed, Now: time.Now(),
	}
}

// tell returns a handler that answers with fact.
func (e *Engine) tell(fact func(facts.State) any) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { answer(w, fact(e.state())) }
}

func answer(w http.ResponseWriter, v any) {
	send(w, http.StatusOK, "application/json", wire.JSON(v))
}

func (e *Engine) metrics(w http.ResponseWriter, _ *http.Request) {
	send(w, http.StatusOK, "text/plain; version=0.0.4; charset=utf-8", []byte(facts.Metrics(e.state())))
}

// body decodes the body of r into v, or refuses the request.
func (e *Engine) body(w http.ResponseWriter, r *http.Request, v any) bool {
	if err := json.NewDecoder(r.Body).Decode(v); err != nil {
		e.refuse(w, wire.Invalid(r.URL.Path, "'type': 'json_invalid', 'loc': ('body', 0), 'msg': 'JSON decode error'"))
		return false
	}
	return true
}

func (e *Engine) abortRequest(w http.ResponseWriter, r *http.Request) {
	var req struct {
		RID      string `json:"rid"`
		AbortAll bool   `json:"abort_all"`
	}
	if e.body(w, r, &req) {
		e.abort(req.RID, req.AbortAll)
		w.WriteHeader(http.StatusOK)
	}
}

// health takes its time at SGLang, idle or busy, since it really generates a
// token for it.
func (e *Engine) health(w http.ResponseWriter, r *http.Request) {
	switch e.cfg.Dialect {
	case LlamaCPP:
		answer(w, map[string]string{"status": "ok"})
		return
	case SGLang:
		timer := time.NewTimer(e.cfg.HealthDelay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-r.Context().Done():
		case <-e.ctx.Done():
			panic(http.ErrAbortHandler)
		}
	case VLLM:
	}
	w.WriteHeader(http.StatusOK)
}

func (e *Engine) flushCache(w http.ResponseWriter, _ *http.Request) {
	e.mu.Lock()
	e.cache.Forget()
	e.mu.Unlock()
	send(w, http.StatusOK, "text/plain; charset=utf-8", []byte("Cache flushed.\n"))
}

// tokenize takes a text or messages. llama.cpp's server has another name for the
// text, and gives no tokens for the usual one.
func (e *Engine) tokenize(w http.ResponseWriter, r *http.Request) {
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	var req struct {
		Prompt   *string         `json:"prompt"`
		Content  string          `json:"content"`
		Messages json.RawMessage `json:"messages"`
	}
	_ = json.Unmarshal(raw, &req) // a fault is told by Render below
	var text string
	switch {
	case e.cfg.Dialect == LlamaCPP:
		answer(w, map[string]any{"tokens": e.vocab.IDs(req.Content)})
		return
	case req.Prompt != nil && req.Messages == nil:
		text = *req.Prompt
	default:
		rendered, problem := e.reader.Render(r.URL.Path, raw)
		if problem != nil {
			e.refuse(w, problem)
			return
		}
		text = rendered
	}
	ids := e.vocab.IDs(text)
	answer(w, map[string]any{"tokens": ids, "count": len(ids), "max_model_len": e.cfg.ContextLength})
}

// detokenize names the text as each engine does.
func (e *Engine) detokenize(w http.ResponseWriter, r *http.Request) {
	var req struct {
		Tokens []int `json:"tokens"`
	}
	if !e.body(w, r, &req) {
		return
	}
	text, ok := e.vocab.Text(req.Tokens)
	if !ok {
		e.refuse(w, wire.Refused("The tokens are not all in the vocabulary."))
		return
	}
	name := map[Dialect]string{SGLang: "text", VLLM: "prompt", LlamaCPP: "content"}[e.cfg.Dialect]
	answer(w, map[string]any{name: text})
}

// render answers what llama.cpp's server makes of messages.
func (e *Engine) render(w http.ResponseWriter, r *http.Request) {
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	prompt, problem := e.reader.Render(r.URL.Path, raw)
	switch {
	case problem != nil:
		e.refuse(w, problem)
	case r.URL.Path == "/apply-template":
		answer(w, map[string]string{"prompt": prompt})
	default:
		answer(w, map[string]int{"input_tokens": e.vocab.Count(prompt)})
	}
}
