package api

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"oneslot/internal/simengine"
	"oneslot/internal/simengine/script"
)

// saying is an engine's answer of one delta and a finish reason; without one it
// breaks off with an error.
func saying(delta, reason string) script.Script {
	begin := script.Write(`data: {"choices":[{"index":0,"delta":` + delta + `,"finish_reason":null}]}` + "\n\n")
	if reason == "" {
		return script.Script{begin, script.Write(`data: {"error":{"message":"broken","type":"server_error","code":500}}` + "\n\n"), script.Done()}
	}
	return script.Script{begin, script.Finish(reason), script.Done()}
}

// TestEveryEventIsDescribed has streams of the two APIs with named events tell all
// they can: each event fits the description (whoever reads a response checks that),
// and the description has no event that never comes.
func TestEveryEventIsDescribed(t *testing.T) {
	call := `{"tool_calls":[{"index":0,"id":"k","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}}]}`
	for route, asks := range map[string]struct{ schema, body, more string }{
		"/v1/responses": {"ResponseEvent", `{"model":"ripple","stream":true,"input":"hi","tools":[{"type":"function","name":"f","parameters":{}}]`, `,"reasoning":{"summary":"auto"}`},
		"/v1/messages":  {"MessageEvent", `{"model":"ripple","stream":true,"max_tokens":99,"messages":[{"role":"user","content":"hi"}],"tools":[{"name":"f","input_schema":{}}]`, `,"thinking":{"type":"enabled","budget_tokens":50}`},
	} {
		sim := simengine.Config{Scripts: []script.Script{
			{script.Thinking("so it is"), script.Answer("yes"), script.Finish("stop"), script.Done()},
			{script.Thinking("so it is"), script.Answer("yes"), script.Finish("stop"), script.Done()},
			saying(`{"refusal":"no"}`, "stop"), saying(call, "tool_calls"), saying(`{"content":"a</think>cut"}`, "length"), saying(`{"content":"a</think>b"}`, ""),
			{script.Sleep(time.Minute), script.Answer("late"), script.Finish("stop"), script.Done()},
			saying(`{"content":"a</think>b"}`, "stop"),
		}}
		inBubble(t, setup{sim: sim, cfg: talkative(Config{})}, func(t *testing.T, e *edge) {
			seen := map[string]bool{}
			note := func(g got) {
				for _, data := range g.events() {
					var o struct{ Type string }
					if err := json.Unmarshal([]byte(data), &o); err == nil {
						seen[o.Type] = true
					}
				}
			}
			for _, more := range []string{"", asks.more, "", "", "", ""} {
				note(e.do(callOf(route, asks.body+more+"}")))
			}
			first := e.behind(t.Context(), callOf(route, asks.body+"}"))
			e.until(running)
			note(e.do(callOf(route, asks.body+"}")))
			note(<-first)
			said := eventTypes(t, asks.schema)
			if missing := slices.DeleteFunc(said, func(kind string) bool { return seen[kind] }); len(missing) > 0 {
				t.Errorf("%s: the description has %q, which never came; what came is %q", route, missing, slices.Sorted(maps.Keys(seen)))
			}
		})
	}
}

func callOf(path, body string) call { return call{http.MethodPost, path, body, nil} }

// eventTypes are the types of the events that a schema takes.
func eventTypes(t *testing.T, schema string) (types []string) {
	t.Helper()
	d, err := theDescription()
	if err != nil {
		t.Fatal(err)
	}
	schemas := d.paths["components"]["schemas"].(map[string]any)
	for _, one := range schemas[schema].(map[string]any)["oneOf"].([]any) {
		ref, ok := one.(map[string]any)["$ref"].(string)
		if !ok {
			continue
		}
		kind := schemas[ref[strings.LastIndexByte(ref, '/')+1:]].(map[string]any)["properties"].(map[string]any)["type"].(map[string]any)
		if name, ok := kind["const"].(string); ok {
			types = append(types, name)
		}
		list, _ := kind["enum"].([]any)
		for _, name := range list {
			types = append(types, fmt.Sprint(name))
		}
	}
	if len(types) < 8 {
		t.Errorf("%s has only the types %q", schema, types)
	}
	return types
}
