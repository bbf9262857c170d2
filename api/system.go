package api

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"oneslot/api/openapi"
	"oneslot/api/report"
	"oneslot/ledger"
	"oneslot/proxy"
	"oneslot/proxy/engine"
	"oneslot/queue"

	"github.com/labstack/echo/v4"
)

// A Pool is the line of one model and the engines behind it.
type Pool struct {
	// Queue is the line.
	Queue *queue.Queue
	// Engines serve it; all serve the same model.
	Engines []*engine.Engine
}

// model is the name under which clients ask for the pool.
func (p *Pool) model() string { return p.Engines[0].ModelName() }

// nameless reports whether nobody has ever told what the model is called.
func (p *Pool) nameless() bool { return !p.Engines[0].Named() && p.model() == noName }

// noName is what an Engine calls a model that it does not know.
const noName = "default"

// Slots names the pool's engine slots.
func (p *Pool) Slots() []string {
	var names []string
	for _, e := range p.Engines {
		names = append(names, e.Slots()...)
	}
	return names
}

// modelView is one entry of GET /v1/models. max_model_len is what SGLang and
// vLLM call the context length; clients that know it read it.
type modelView struct {
	ID          string `json:"id"`
	Object      string `json:"object"`
	Created     int64  `json:"created"`
	OwnedBy     string `json:"owned_by"`
	Root        string `json:"root,omitempty"`
	MaxModelLen int    `json:"max_model_len,omitempty"`
	*anthropicView
}

// anthropicView is what Anthropic's clients read of a model, who say who they are.
type anthropicView struct {
	Type        string    `json:"type"`
	DisplayName string    `json:"display_name"`
	CreatedAt   time.Time `json:"created_at"`
	MaxInput    int       `json:"max_input_tokens,omitempty"`
}

func ofAnthropic(c echo.Context) bool { return c.Request().Header.Get("Anthropic-Version") != "" }

// infoBound is how long a route waits for an engine's account of itself.
const infoBound = 2 * time.Second

// list returns the models and their aliases. An engine that does not answer is
// listed by its configured name.
func (s *Server) list(c echo.Context) []modelView {
	ctx, cancel := context.WithTimeout(c.Request().Context(), infoBound)
	defer cancel()
	var all []modelView
	byName := map[string]modelView{}
	for _, p := range s.Pools {
		v := modelView{Object: "model", OwnedBy: "oneslot", Created: s.Started.Unix()}
		for _, e := range p.Engines {
			if info, err := e.Info(ctx); err == nil && info.ContextLength > 0 && (v.MaxModelLen == 0 || info.ContextLength < v.MaxModelLen) {
				v.MaxModelLen = info.ContextLength
			}
		}
		v.ID = p.model()
		byName[v.ID] = v
		all = append(all, v)
	}
	aliases := len(all)
	for alias, name := range s.cfg.Aliases {
		v, ok := byName[name]
		if _, taken := byName[alias]; ok && !taken {
			v.ID, v.Root = alias, name
			all = append(all, v)
		}
	}
	slices.SortFunc(all[aliases:], func(a, b modelView) int { return strings.Compare(a.ID, b.ID) })
	if ofAnthropic(c) {
		for i := range all {
			v := &all[i]
			v.anthropicView = &anthropicView{"model", v.ID, s.Started.UTC().Truncate(time.Second), v.MaxModelLen}
		}
	}
	return all
}

func (s *Server) models(c echo.Context) error {
	all := s.list(c)
	o := map[string]any{"object": "list", "data": all}
	if ofAnthropic(c) {
		o["has_more"], o["first_id"], o["last_id"] = false, all[0].ID, all[len(all)-1].ID
	}
	return c.JSON(http.StatusOK, o)
}

// model shows one model. Its name may hold slashes, as they are or encoded. Where
// any name is accepted it is one of the first model's.
func (s *Server) model(c echo.Context) error {
	name := c.Param("*")
	if c.Request().URL.RawPath != "" {
		name, _ = url.PathUnescape(name) // it was parsed once already
	}
	list := s.list(c)
	for _, v := range list {
		if v.ID == name {
			return c.JSON(http.StatusOK, v)
		}
	}
	if s.cfg.AcceptAnyModel && name != "" {
		v := list[0]
		v.ID, v.Root = name, v.ID
		return c.JSON(http.StatusOK, v)
	}
	return unknownModel(name)
}

// health says that the process lives.
func (s *Server) health(c echo.Context) error {
	return c.JSON(http.StatusOK, map[string]string{"status": "ok"})
}

// describe gives the description of this API.
func (s *Server) describe(c echo.Context) error {
	return c.Blob(http.StatusOK, "application/yaml", []byte(openapi.YAML()))
}

// ready says whether a request would be served now: the line answers, and at
// least one engine of each pool does.
func (s *Server) ready(c echo.Context) error {
	ctx, cancel := context.WithTimeout(c.Request().Context(), infoBound)
	defer cancel()
	state := map[string]string{"status": "ready", "queue": "ok", "engine": "ok", "ledger": "ok"}
	if s.Ledger.Err() != nil {
		state["ledger"] = "failing" // requests are served all the same
	}
	if s.responses.Err() != nil {
		state["responses"] = "failing"
	}
	if s.draining.Load() {
		state["status"], state["queue"] = "not ready", "draining"
	}
	for _, p := range s.Pools {
		snap, err := p.Queue.Snapshot(ctx)
		switch {
		case err != nil:
			state["status"], state["queue"] = "not ready", "down"
		case snap.Gate == queue.Draining:
			state["status"], state["queue"] = "not ready", "draining"
		case snap.Gate == queue.Paused && state["queue"] == "ok":
			state["queue"] = "paused" // requests are taken, and wait
		}
		if err := anyReady(ctx, p.Engines); err != nil {
			state["status"], state["engine"] = "not ready", "down"
		}
	}
	status := http.StatusOK
	if state["status"] != "ready" {
		status = http.StatusServiceUnavailable
		c.Response().Header().Set("Retry-After", "5")
	}
	return c.JSON(status, state)
}

// anyReady asks the engines in turn until one answers. None may use up the time
// of those after it.
func anyReady(ctx context.Context, engines []*engine.Engine) error {
	err := proxy.ErrUnreachable
	for _, e := range engines {
		if err = isReady(ctx, e, infoBound/time.Duration(len(engines))); err == nil {
			return nil
		}
	}
	return err
}

func isReady(ctx context.Context, e *engine.Engine, bound time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	return e.Ready(ctx)
}

func (s *Server) metrics(c echo.Context) error {
	s.Metrics.ServeHTTP(c.Response(), c.Request())
	return nil
}

// usage shows what one request used. Callers see their own.
func (s *Server) usage(c echo.Context) error {
	id, err := requestID(c)
	if err != nil {
		return err
	}
	ask, err := report.Read(c.Request())
	if err != nil {
		return err
	}
	row, err := s.Ledger.Get(c.Request().Context(), id)
	switch {
	case errors.Is(err, ledger.ErrNotFound), err == nil && !callerOf(c).owns(row.Key):
		return unknownRequest()
	case err != nil:
		return err
	}
	return s.desk(c).Row(row, ask.CSV)
}

// usages lists rows of the ledger, newest first, or adds them up. Callers see
// their own.
func (s *Server) usages(c echo.Context) error {
	ask, err := report.Read(c.Request())
	if err != nil {
		return err
	}
	if who := callerOf(c); !who.admin {
		ask.Query.Key = who.name
	}
	return s.desk(c).Answer(c.Request().Context(), ask)
}

// desk answers out of the ledger; each page gets the time of an answer.
func (s *Server) desk(c echo.Context) *report.Desk {
	return &report.Desk{Ledger: s.Ledger, To: c.Response(), Page: func() { s.bound(c) }}
}
