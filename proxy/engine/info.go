package engine

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/tidwall/gjson"
)

// Info is what an engine told about itself.
type Info struct {
	// Dialect is how to talk to it.
	Dialect *Dialect
	// Version is its own version text; empty when it does not say.
	Version string
	// Models are the names it serves, in its order.
	Models []string
	// ContextLength is the most tokens of prompt and completion; 0 is unknown.
	ContextLength int
	// Cache is what is known of its prefix cache.
	Cache Cache
	// Start changes when the engine is started anew; empty where nothing tells.
	Start string
}

// Info returns what the engine told about itself, asking it if that has not
// been done since it was last unreachable. The error wraps ErrUnreachable when
// nobody listens there, or somebody who is not ready yet.
func (e *Engine) Info(ctx context.Context) (Info, error) {
	e.mu.Lock()
	known := e.info
	e.mu.Unlock()
	if known != nil {
		return *known, nil
	}
	return e.Refresh(ctx)
}

func (e *Engine) forget() {
	e.mu.Lock()
	e.info, e.lost = nil, e.lost+1
	e.mu.Unlock()
}

// Lost is how often the engine was found unreachable, or not ready, so far.
func (e *Engine) Lost() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.lost
}

// Changes is how often what is known of the engine has changed so far.
func (e *Engine) Changes() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.lost + e.asked
}

// Known returns what Info would, without asking the engine.
func (e *Engine) Known() (Info, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.info == nil {
		return Info{}, false
	}
	return *e.info, true
}

// ModelName returns the name under which clients ask for this engine's model. An
// engine that has gone keeps the name that it told last: it most likely comes back as
// the same.
func (e *Engine) ModelName() string {
	if e.cfg.Model != "" {
		return e.cfg.Model
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return cmp.Or(e.name, "default")
}

// Named reports whether ModelName is what the settings or the engine say, and not
// what it was before the engine went, or nobody's.
func (e *Engine) Named() bool {
	_, known := e.Known()
	return known || e.cfg.Model != ""
}

// served returns the name that the engine itself knows the model by.
func (i Info) served(name string) string {
	if len(i.Models) == 0 {
		return name
	}
	for _, m := range i.Models {
		if m == name {
			return name
		}
	}
	return i.Models[0]
}

// UpstreamModel returns the model name to send to the engine.
func (e *Engine) UpstreamModel(i Info) string { return i.served(e.ModelName()) }

// missed notes that the engine was not there.
func (e *Engine) missed() {
	e.absent.Store(time.Now().UnixNano())
	e.misses.Add(1)
}

// Misses is how often anybody who called the engine found it not there or not ready,
// whether for a request or only to look.
func (e *Engine) Misses() int64 { return e.misses.Load() }

// lostFor is how long it counts that the engine was not there.
const lostFor = time.Minute

// Missing reports whether whoever last called the engine, within a minute, found that
// it is not there or not ready. It does not call it.
func (e *Engine) Missing() bool {
	at := e.absent.Load()
	return at != 0 && time.Since(time.Unix(0, at)) < lostFor
}

// Ready reports whether the engine answers at all. The error wraps ErrUnreachable
// when nobody listens there, or somebody who is not ready yet, of whom nothing is known
// any more then. It asks for the model list, which no engine answers from its busy loop; /health of SGLang takes a second.
func (e *Engine) Ready(ctx context.Context) error {
	_, err := e.models(ctx)
	if broken(err) {
		return fmt.Errorf("engine %s: %w: %w", e.label, ErrUnreachable, err)
	}
	return err
}

// models asks for the model list, which tells whether the engine is there.
func (e *Engine) models(ctx context.Context) (string, error) {
	list, err := e.call(ctx, http.MethodGet, "/v1/models", nil)
	switch {
	case broken(err):
		e.missed()
		e.forget() // it may come back as another
	case err == nil || refused(err):
		e.absent.Store(0)
	}
	return list, err
}

func (e *Engine) ask(ctx context.Context) (Info, error) {
	list, err := e.models(ctx)
	switch {
	case broken(err):
		return Info{}, fmt.Errorf("engine %s: %w: %w", e.label, ErrUnreachable, err)
	case err != nil && !refused(err):
		return Info{}, fmt.Errorf("engine %s: %w", e.label, err)
	}
	info := Info{}
	for _, m := range gjson.Get(list, "data").Array() {
		if id := m.Get("id").String(); id != "" {
			info.Models = append(info.Models, id)
		}
		for _, path := range []string{"max_model_len", "meta.n_ctx"} {
			if n := int(m.Get(path).Int()); n > 0 && info.ContextLength == 0 {
				info.ContextLength = n
			}
		}
	}
	return info, e.detect(ctx, &info)
}

// A guise is how an engine shows which dialect it speaks.
type guise struct {
	dialect string
	paths   []string
	mark    string // a member that only this engine's reply has
	read    func(gjson.Result, *Info)
}

func guises() []guise {
	return []guise{
		{SGLang, []string{"/server_info", "/get_server_info"}, "max_running_requests", readSGLang},
		{LlamaCpp, []string{"/props"}, "total_slots", readLlama},
		{VLLM, []string{"/version"}, "version", func(r gjson.Result, i *Info) { i.Version = r.Get("version").String() }},
	}
}

// detect fills in the dialect and what its own endpoint tells. A configured
// dialect is believed, also of an engine that lacks the endpoint. An endpoint
// that only fails to answer proves nothing, so that is an error: a wrong guess
// would be remembered.
func (e *Engine) detect(ctx context.Context, info *Info) error {
	want := e.cfg.Dialect
	list := guises()
	if known, ok := e.Known(); ok { // it is most likely still what it was
		slices.SortStableFunc(list, func(a, b guise) int {
			return compareTrue(a.dialect == known.Dialect.Name, b.dialect == known.Dialect.Name)
		})
	}
	for _, g := range list {
		if want != "" && want != Auto && want != g.dialect {
			continue
		}
		for _, path := range g.paths {
			body, err := e.call(ctx, http.MethodGet, path, nil)
			if err != nil && !refused(err) {
				return fmt.Errorf("engine %s: %w", e.label, err)
			}
			if r := gjson.Parse(body); err == nil && r.Get(g.mark).Exists() {
				info.Dialect = dialects()[g.dialect]
				g.read(r, info)
				if g.dialect == VLLM {
					e.metrics(ctx, info)
				}
				return nil
			}
		}
	}
	if want == "" || want == Auto {
		want = OpenAI
	}
	info.Dialect = dialects()[want]
	return nil
}

// compareTrue puts what is true first.
func compareTrue(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	default:
		return 1
	}
}

func readLlama(r gjson.Result, i *Info) {
	i.Version = strings.TrimSpace(r.Get("build_info").String())
	if n := int(r.Get("default_generation_settings.n_ctx").Int()); n > 0 {
		i.ContextLength = n
	}
}
