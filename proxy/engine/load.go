package engine

import (
	"context"
	"fmt"
	"net/http"
)

// Slots names the engine's slots: the first by its own name, the others by that and
// a number, as spark#2. The caller may keep the list, but not change it.
func (e *Engine) Slots() []string { return e.slots[:len(e.slots):len(e.slots)] }

func slotNames(cfg Config) []string {
	names := []string{cfg.Name}
	for n := 2; n <= cfg.Slots; n++ {
		names = append(names, fmt.Sprintf("%s#%d", cfg.Name, n))
	}
	return names
}

// A Load is what an engine says of how much it has to do.
type Load struct {
	// Requests is how many run or wait inside the engine.
	Requests int
	// From is the path that told; empty when the engine has no way to tell.
	From string
}

// Load asks how much the engine has to do. It only reads, and takes from
// milliseconds to a second. The error wraps ErrUnreachable when nobody is there.
func (e *Engine) Load(ctx context.Context) (Load, error) {
	info, err := e.Info(ctx)
	if err != nil {
		return Load{}, err
	}
	for _, l := range info.Dialect.loads {
		body, err := e.call(ctx, http.MethodGet, l.path, nil)
		if err != nil && !refused(err) {
			return Load{}, fmt.Errorf("engine %s: %w", e.label, err)
		}
		if n, ok := l.running(body); err == nil && ok {
			return Load{Requests: n, From: l.path}, nil
		}
	}
	return Load{}, nil
}

// Room is how many tokens an answer may have that is allowed so many (0: no limit)
// behind a prompt of so many bytes, taken to have four a token; 0 if nothing is known to
// bound it. It asks nobody.
func (e *Engine) Room(limit, prompt int) int {
	info, _ := e.Known()
	if info.ContextLength == 0 {
		return limit
	}
	room := max(info.ContextLength-prompt/4, 1)
	if limit > 0 {
		room = min(room, limit)
	}
	return room
}
