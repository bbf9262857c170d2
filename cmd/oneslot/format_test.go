package main

import (
	"testing"

	"oneslot/internal/simengine"
	"oneslot/internal/simengine/script"
)

// Without a format a model that does not think answers, and a model named ripple
// thinks first, at temperature 0.
func TestFormatByModelName(t *testing.T) {
	plain := script.Script{chunk(`{"content":"hello"}`, ""), finish()}
	for model, c := range map[string]struct {
		reasoning, content string
		temperature        any
	}{
		"llama-3":    {"", "hello", nil},
		"Ripple-65B": {"hello", "", 0.0},
	} {
		inBubble(t, func(t *testing.T) {
			p := start(t, simengine.Config{Model: model, Scripts: []script.Script{plain}}, `engines: [{url: "http://engine.test"}]`)
			r := p.post(t.Context(), `{"model":"`+model+`","stream":true,"messages":[{"role":"user","content":"hi"}]}`, nil)
			if a := (&r).answer(t); a.reasoning != c.reasoning || a.content != c.content {
				t.Errorf("%s: the client got %+v %s", model, a, r.body)
			}
			if got := p.upstream()["temperature"]; got != c.temperature {
				t.Errorf("%s: the engine got temperature %v", model, got)
			}
		})
	}
}
