package simengine

import (
	"encoding/json"
	"io"
	"net/http"
	"time"

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
	e.post(mux, "/v1/chat/completions", e.text)
	e.post(mux, "/v1/completions", e.text)
	e.post(mux, "/abort_request", e.abortRequest)
	e.post(mux, "/tokenize", e.tokenize)
	e.post(mux, "/v1/tokenize", e.tokenize)
	e.post(mux, "/detokenize", e.detokenize)
	e.post(mux, "/v1/detokenize", e.detokenize)
	e.post(mux, "/flush_cache", e.flushCache)
	mux.HandleFunc("GET /flush_cache", e.flushCache)
	mux.HandleFunc("GET /health", e.health)
	mux.HandleFunc("GET /health_generate", e.health)
	mux.HandleFunc("GET /v1/models", e.models)
	mux.HandleFunc("GET /get_model_info", e.modelInfo)
	mux.HandleFunc("GET /model_info", e.modelInfo)
	mux.HandleFunc("GET /server_info", e.serverInfo)
	mux.HandleFunc("GET /get_server_info", e.serverInfo)
	mux.HandleFunc("GET /get_load", e.load)
	mux.HandleFunc("GET /v1/loads", e.loads)
	return mux
}

// post registers a route that answers other methods as the web framework does.
func (e *Engine) post(mux *http.ServeMux, path string, h http.HandlerFunc) {
	mux.HandleFunc("POST "+path, h)
	mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Allow", http.MethodPost)
		e.refuse(w, &wire.Problem{Status: http.StatusMethodNotAllowed, Message: "Method Not Allowed", Detail: true})
	})
}

func reply(w http.ResponseWriter, v any) {
	send(w, http.StatusOK, "application/json", wire.JSON(v))
}

func (e *Engine) abortRequest(w http.ResponseWriter, r *http.Request) {
	var req struct {
		RID      string `json:"rid"`
		AbortAll bool   `json:"abort_all"`
	}
	if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
		e.refuse(w, wire.Invalid(r.URL.Path, "'type': 'json_invalid', 'loc': ('body', 0), 'msg': 'JSON decode error'"))
		return
	}
	e.abort(req.RID, req.AbortAll)
	w.WriteHeader(http.StatusOK)
}

// health takes its time, idle or busy, since the engine really generates a
// token for it.
func (e *Engine) health(w http.ResponseWriter, r *http.Request) {
	e.pause(r, e.cfg.HealthDelay)
	w.WriteHeader(http.StatusOK)
}

// pause waits for d. It ends the handler when the engine is closed.
func (e *Engine) pause(r *http.Request, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.Context().Done():
	case <-e.ctx.Done():
		panic(http.ErrAbortHandler)
	}
}

func (e *Engine) models(w http.ResponseWriter, _ *http.Request) {
	reply(w, map[string]any{"object": "list", "data": []any{map[string]any{
		"id": e.cfg.Model, "object": "model", "created": time.Now().Unix(), "owned_by": "sglang",
		"root": e.cfg.Model, "parent": nil, "max_model_len": e.cfg.ContextLength,
	}}})
}

func (e *Engine) modelInfo(w http.ResponseWriter, _ *http.Request) {
	reply(w, map[string]any{
		"model_path": e.cfg.Model, "tokenizer_path": e.cfg.Model, "is_generation": true,
		"preferred_sampling_params": nil, "weight_version": "default",
	})
}

func (e *Engine) serverInfo(w http.ResponseWriter, _ *http.Request) {
	var parser any
	if e.cfg.Output == Split {
		parser = e.cfg.Model
	}
	reply(w, map[string]any{
		"model_path": e.cfg.Model, "served_model_name": e.cfg.Model, "version": e.cfg.Version,
		"context_length": e.cfg.ContextLength, "max_req_input_len": e.cfg.ContextLength - 6,
		"max_total_num_tokens": e.cfg.ContextLength + 8192,
		"max_running_requests": e.cfg.Slots, "reasoning_parser": parser, "tool_call_parser": nil,
		"enable_cache_report": e.cfg.CacheReport, "disable_radix_cache": !e.cfg.RadixCache,
		"enable_metrics": e.cfg.Metrics, "page_size": 1, "status": "ready",
	})
}

// busy returns how many requests run and how many wait.
func (e *Engine) busy() (running, waiting int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.running), len(e.waiting)
}

func (e *Engine) load(w http.ResponseWriter, _ *http.Request) {
	running, waiting := e.busy()
	reply(w, []any{map[string]any{
		"dp_rank": 0, "num_reqs": running + waiting, "num_waiting_reqs": waiting, "num_tokens": 0, "num_pending_tokens": 0,
	}})
}

func (e *Engine) loads(w http.ResponseWriter, _ *http.Request) {
	running, waiting := e.busy()
	reply(w, map[string]any{
		"timestamp": time.Now().UTC().Format(time.RFC3339), "version": e.cfg.Version, "dp_rank_count": 1,
		"loads": []any{map[string]any{
			"dp_rank": 0, "num_running_reqs": running, "num_waiting_reqs": waiting, "num_total_reqs": running + waiting,
			"max_running_requests": e.cfg.Slots,
		}},
		"aggregate": map[string]any{"total_running_reqs": running, "total_waiting_reqs": waiting, "total_reqs": running + waiting},
	})
}

func (e *Engine) flushCache(w http.ResponseWriter, _ *http.Request) {
	e.mu.Lock()
	e.cache.Forget()
	e.mu.Unlock()
	send(w, http.StatusOK, "text/plain; charset=utf-8", []byte("Cache flushed.\n"))
}

func (e *Engine) tokenize(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	var req struct {
		Prompt   *string         `json:"prompt"`
		Messages json.RawMessage `json:"messages"`
	}
	_ = json.Unmarshal(body, &req) // a fault is told by Render below
	text := ""
	if req.Prompt != nil && req.Messages == nil {
		text = *req.Prompt
	} else {
		rendered, problem := e.reader.Render(r.URL.Path, body)
		if problem != nil {
			e.refuse(w, problem)
			return
		}
		text = rendered
	}
	ids := e.vocab.IDs(text)
	reply(w, map[string]any{"tokens": ids, "count": len(ids), "max_model_len": e.cfg.ContextLength})
}

func (e *Engine) detokenize(w http.ResponseWriter, r *http.Request) {
	var req struct {
		Tokens []int `json:"tokens"`
	}
	if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
		e.refuse(w, wire.Invalid(r.URL.Path, "'type': 'json_invalid', 'loc': ('body', 0), 'msg': 'JSON decode error'"))
		return
	}
	text, ok := e.vocab.Text(req.Tokens)
	if !ok {
		e.refuse(w, wire.Refused("The tokens are not all in the vocabulary."))
		return
	}
	reply(w, map[string]any{"text": text})
}
