package simengine

import (
	"encoding/json"
	"io"
	"net/http"

	"oneslot/internal/simengine/script"
	"oneslot/internal/simengine/wire"
)

// Faults are the habits and failures that can be changed while the engine runs.
type Faults struct {
	Ghost bool `json:"ghost"` // streams go on after their client has left
	Deaf  bool `json:"deaf"`  // aborts answer 200 and do nothing
	Lossy bool `json:"lossy"` // only every third abort does something
	Stall bool `json:"stall"` // all is accepted, nothing is answered, runs stand still
	Dead  bool `json:"dead"`  // every connection is cut, every run is lost
}

// Faults returns the faults in force.
func (e *Engine) Faults() Faults {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.faults
}

// SetFaults puts f in force. Setting Dead ends all runs; setting it back is an
// engine that has started afresh.
func (e *Engine) SetFaults(f Faults) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.faults = f
	switch {
	case f.Stall && e.thaw == nil:
		e.thaw = make(chan struct{})
	case !f.Stall && e.thaw != nil:
		close(e.thaw)
		e.thaw = nil
	}
	if f.Dead {
		e.cache.Forget()
		e.seed++ // what comes back is another start
		for job := range e.running {
			job.stop(errDied)
		}
		for _, job := range e.waiting {
			job.stop(errDied)
		}
	}
}

// admin are the routes under /sim/.
func (e *Engine) admin(mux *http.ServeMux) {
	mux.HandleFunc("GET /sim/stats", func(w http.ResponseWriter, _ *http.Request) { answer(w, e.Stats()) })
	mux.HandleFunc("GET /sim/faults", func(w http.ResponseWriter, _ *http.Request) { answer(w, e.Faults()) })
	mux.HandleFunc("POST /sim/faults", func(w http.ResponseWriter, r *http.Request) {
		f := e.Faults()
		if err := json.NewDecoder(r.Body).Decode(&f); err != nil {
			e.refuse(w, wire.Refused("The body must be an object of faults, such as {\"ghost\":true}: %v.", err))
			return
		}
		e.SetFaults(f)
		answer(w, f)
	})
	mux.HandleFunc("POST /sim/recover", func(w http.ResponseWriter, _ *http.Request) {
		e.SetFaults(Faults{Ghost: e.cfg.Ghost, Deaf: e.cfg.Deaf, Lossy: e.cfg.Lossy})
		answer(w, e.Faults())
	})
	mux.HandleFunc("POST /sim/play", func(w http.ResponseWriter, r *http.Request) {
		text, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		scripts, err := script.Parse(string(text))
		if err != nil {
			e.refuse(w, wire.Refused("%v", err))
			return
		}
		e.Play(scripts...)
		answer(w, map[string]int{"queued": len(scripts)})
	})
}
