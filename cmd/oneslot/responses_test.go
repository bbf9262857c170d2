package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"oneslot/internal/simengine"
	"oneslot/internal/simengine/script"
)

// happening is one event of a stream of responses.
type happening struct {
	name string
	data map[string]any
}

// happenings reads a stream of named and numbered events.
func happenings(t *testing.T, r reply) (out []happening) {
	t.Helper()
	body, ok := strings.CutSuffix(r.body, "\n\ndata: [DONE]\n\n")
	if !ok {
		t.Errorf("the stream ends with %q", r.body[max(0, len(r.body)-80):])
	}
	for block := range strings.SplitSeq(body, "\n\n") {
		if strings.HasPrefix(block, ": ") {
			continue
		}
		name, data, ok := strings.Cut(block, "\ndata: ")
		h := happening{name: strings.TrimPrefix(name, "event: ")}
		if err := json.Unmarshal([]byte(data), &h.data); !ok || err != nil || h.data["type"] != h.name || h.data["sequence_number"] != float64(len(out)) {
			t.Errorf("event %d cannot be read: %q, %v", len(out), block, err)
		}
		out = append(out, h)
	}
	return out
}

// told is what a client makes of an answer: its thinking, its text, its calls.
func told(t *testing.T, object map[string]any) (thinking, text string, calls []string) {
	t.Helper()
	items, _ := object["output"].([]any)
	for _, one := range items {
		item := one.(map[string]any)
		parts, _ := item["content"].([]any)
		for _, p := range parts {
			words, _ := p.(map[string]any)["text"].(string)
			if item["type"] == "reasoning" {
				thinking += words
			} else {
				text += words
			}
		}
		if item["type"] == "function_call" {
			calls = append(calls, fmt.Sprint(item["call_id"], item["name"], item["arguments"]))
		}
	}
	return thinking, text, calls
}

// answered posts a request to /v1/responses and returns its response object.
func (p *proxyUnderTest) answered(body string) (reply, map[string]any) {
	p.t.Helper()
	r := p.send(p.t.Context(), http.MethodPost, "/v1/responses", body)
	var object map[string]any
	if strings.HasPrefix(r.header.Get("Content-Type"), "text/event-stream") {
		all := happenings(p.t, r)
		object, _ = all[len(all)-1].data["response"].(map[string]any)
	} else if err := json.Unmarshal([]byte(r.body), &object); err != nil {
		p.t.Fatalf("%v: %s", err, r.body)
	}
	return r, object
}

const thinks = `"sim":{"thinking":6,"answer":4}`

// TestResponses: the same thinking and answer, streamed or not, with a row.
func TestResponses(t *testing.T) {
	for _, path := range []string{"/v1/responses", "/responses"} {
		inBubble(t, func(t *testing.T) {
			p := start(t, simengine.Config{}, "")
			r := p.send(t.Context(), http.MethodPost, path, `{"model":"ripple","input":"hi","instructions":"be brief",`+thinks+`}`)
			var whole map[string]any
			if err := json.Unmarshal([]byte(r.body), &whole); err != nil {
				t.Fatalf("%v: %s", err, r.body)
			}
			_, streamed := p.answered(`{"model":"ripple","input":[{"role":"user","content":"hi"}],"instructions":"be brief","stream":true,` + thinks + `}`)
			thinking, text, _ := told(t, whole)
			again, textAgain, _ := told(t, streamed)
			if thinking == "" || text == "" || thinking != again || text != textAgain || strings.ToUpper(text) != text || whole["status"] != "completed" {
				t.Errorf("got %q | %q, and %q | %q", thinking, text, again, textAgain)
			}
			row, used := p.record(r), whole["usage"].(map[string]any)
			details := used["output_tokens_details"].(map[string]any)
			if row["outcome"] != "served" || used["output_tokens"] != tokens(row, "completion") || details["reasoning_tokens"] != tokens(row, "thinking") || used["input_tokens"] != tokens(row, "prompt") {
				t.Errorf("usage %v of %v", used, row)
			}
			if id := "resp_" + r.header.Get("X-Request-Id"); whole["id"] != id || p.fetch("/v1/usage/"+id).status != http.StatusOK {
				t.Errorf("the id is %v, not %s", whole["id"], id)
			}
		})
	}
}

// TestResponsesWait: the line is told by events, and a client that leaves it is
// out of it.
func TestResponsesWait(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := start(t, simengine.Config{}, "")
		first := p.open(t.Context(), `{"model":"ripple","stream":true,"messages":[{"role":"user","content":"hi"}],"sim":{"answer":200,"thinking":10,"tokens_per_second":10}}`)
		p.until(func(s simengine.Stats) bool { return s.Running == 1 })
		r, object := p.answered(`{"model":"ripple","input":"hi","stream":true,` + thinks + `}`)
		<-first.whole
		var names []string
		for _, h := range happenings(t, r)[:6] {
			names = append(names, strings.TrimPrefix(h.name, "response."))
		}
		if got := strings.Join(names, " "); got != "created queued queued queued in_progress output_item.added" {
			t.Errorf("got %s", got)
		}
		if !strings.Contains(r.body, ": queue position=1 of=1") || object["status"] != "completed" {
			t.Errorf("got %s", r.body)
		}
	})
}

// TestResponsesCancelled ends in its own way, also for who waits for it whole.
func TestResponsesCancelled(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := start(t, simengine.Config{}, "responses: {store: memory}")
		ended := make(chan reply)
		go func() {
			ended <- p.send(t.Context(), http.MethodPost, "/v1/responses", `{"model":"ripple","input":"hi","stream":true,"sim":{"answer":2000,"thinking":3,"tokens_per_second":10}}`)
		}()
		p.until(func(s simengine.Stats) bool { return s.Running == 1 })
		<-time.After(2 * time.Second)
		slots, _ := p.get("/v1/queue")["slots"].([]any)
		id := "resp_" + slots[0].(map[string]any)["request_id"].(string)
		var cancelled map[string]any
		if r := p.send(t.Context(), http.MethodPost, "/v1/responses/"+id+"/cancel", ""); json.Unmarshal([]byte(r.body), &cancelled) != nil || cancelled["id"] != id || cancelled["status"] != "cancelled" {
			t.Errorf("got %d %s", r.status, r.body)
		}
		all := happenings(t, <-ended)
		last := all[len(all)-1]
		if fault := all[len(all)-2]; fault.name != "error" || fault.data["code"] != "cancelled" || last.name != "response.failed" {
			t.Errorf("it ends with %v, %v", fault, last)
		}
		if _, text, _ := told(t, last.data["response"].(map[string]any)); text == "" {
			t.Errorf("what was said is lost: %v", last.data)
		}
		if o := p.settledRecord(id)["outcome"]; o != "cancelled" {
			t.Errorf("the outcome is %v", o)
		}
		if got := p.get("/v1/responses/" + id); got["status"] != "cancelled" {
			t.Errorf("kept is %v", got)
		}
		if r := p.send(t.Context(), http.MethodPost, "/v1/responses/"+id+"/cancel", ""); r.status != http.StatusOK || !strings.Contains(r.body, `"status":"cancelled"`) {
			t.Errorf("a second time: %d %s", r.status, r.body)
		}
		if r := p.send(t.Context(), http.MethodPost, "/v1/responses/resp_"+strings.Repeat("0", 32)+"/cancel", ""); r.status != http.StatusNotFound {
			t.Errorf("an unknown one: %d %s", r.status, r.body)
		}
	})
}

// TestResponsesGoOn: what is kept is gone on with, shown and forgotten.
func TestResponsesGoOn(t *testing.T) {
	for store, works := range map[string]bool{"off": false, "memory": true, "data": true} {
		inBubble(t, func(t *testing.T) {
			seen := &asked{}
			p := start(t, simengine.Config{}, "responses: {store: "+store+"}", seen.take)
			_, first := p.answered(`{"model":"ripple","input":"one",` + thinks + `}`)
			id := first["id"].(string)
			next := p.send(t.Context(), http.MethodPost, "/v1/responses", `{"model":"ripple","input":"two","previous_response_id":"`+id+`",`+thinks+`}`)
			shown := p.send(t.Context(), http.MethodGet, "/v1/responses/"+id, "")
			if !works {
				if next.status != http.StatusBadRequest || !strings.Contains(next.body, "previous_response_not_found") || !strings.Contains(next.body, "responses.store") || shown.status != http.StatusNotFound {
					t.Errorf("%s: got %d %s, %d %s", store, next.status, next.body, shown.status, shown.body)
				}
				return
			}
			thinking, text, _ := told(t, first)
			var body struct {
				Messages []struct {
					Role, Content string
					Reasoning     string `json:"reasoning_content"`
				}
			}
			if err := json.Unmarshal([]byte(seen.bodies[1]), &body); err != nil || len(body.Messages) != 3 {
				t.Fatalf("%s: the engine saw %s", store, seen.bodies[1])
			}
			if m := body.Messages[1]; next.status != http.StatusOK || m.Role != "assistant" || m.Content != text || m.Reasoning != thinking {
				t.Errorf("%s: %d, it goes on with %+v", store, next.status, m)
			}
			if shown.status != http.StatusOK || !strings.Contains(shown.body, `"id":"`+id+`"`) {
				t.Errorf("%s: shown is %d %s", store, shown.status, shown.body)
			}
			gone := p.send(t.Context(), http.MethodDelete, "/v1/responses/"+id, "")
			again := p.send(t.Context(), http.MethodGet, "/v1/responses/"+id, "")
			if gone.status != http.StatusOK || !strings.Contains(gone.body, `"deleted":true`) || again.status != http.StatusNotFound {
				t.Errorf("%s: deleted is %d %s, then %d", store, gone.status, gone.body, again.status)
			}
		})
	}
}

// TestResponsesTools: a call, its result sent back, and the fields of both.
func TestResponsesTools(t *testing.T) {
	line := func(delta, finish string) script.Step {
		return script.Write(`data: {"choices":[{"index":0,"delta":` + delta + `,"finish_reason":` + finish + `}]}` + "\n\n")
	}
	for _, stream := range []string{"true", "false"} {
		inBubble(t, func(t *testing.T) {
			seen := &asked{}
			p := start(t, simengine.Config{Scripts: []script.Script{{
				line(`{"role":"assistant","content":""}`, "null"), line(`{"content":"so</think>"}`, "null"),
				line(`{"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":""}}]}`, "null"),
				line(`{"tool_calls":[{"index":0,"id":null,"function":{"name":null,"arguments":"{\"x\":1}"}}]}`, "null"), line(`{}`, `"tool_calls"`), script.Done(),
			}}}, "", seen.take)
			_, object := p.answered(`{"model":"ripple","input":"hi","stream":` + stream + `,"tools":[{"type":"function","name":"f","parameters":{"type":"object"}},{"type":"web_search"}]}`)
			thinking, text, calls := told(t, object)
			if thinking != "so" || text != "" || len(calls) != 1 || calls[0] != `af{"x":1}` {
				t.Errorf("got %q, %q, %q", thinking, text, calls)
			}
			items, _ := json.Marshal(object["output"])
			_, object = p.answered(`{"model":"ripple","input":[{"role":"user","content":"hi"},` + strings.Trim(string(items), "[]") + `,{"type":"function_call_output","call_id":"a","output":"42"}],` + thinks + `}`)
			if !strings.Contains(seen.bodies[1], `{"role":"tool","tool_call_id":"a","content":"42"}`) || !strings.Contains(seen.bodies[1], `"reasoning_content":"so"`) || object["status"] != "completed" {
				t.Errorf("the engine saw %s", seen.bodies[1])
			}
		})
	}
}

// TestResponsesFail: before the first byte with a status, after it by an event.
func TestResponsesFail(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := start(t, simengine.Config{Scripts: []script.Script{{script.Write("data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"so</think>half\"}}]}\n\n"), script.End()}}}, "")
		all := happenings(t, p.send(t.Context(), http.MethodPost, "/v1/responses", `{"model":"ripple","input":"hi","stream":true}`))
		last := all[len(all)-1]
		object := last.data["response"].(map[string]any)
		if last.name != "response.failed" || object["status"] != "failed" || object["error"].(map[string]any)["code"] != "upstream_error" {
			t.Errorf("it ends with %v", last)
		}
		for body, want := range map[string]int{
			`{"model":"nobody","input":"hi"}`:                   http.StatusNotFound,
			`{"model":"ripple","input":"hi","background":true}`: http.StatusBadRequest,
			`{"model":"ripple"}`:                                http.StatusBadRequest,
		} {
			if r := p.send(t.Context(), http.MethodPost, "/v1/responses", body); r.status != want || !strings.HasPrefix(r.body, `{"error":{"message":"`) {
				t.Errorf("%s: got %d %s", body, r.status, r.body)
			}
		}
	})
}

// TestResponsesAreTheOwners: an admin's key neither reads nor deletes another's.
func TestResponsesAreTheOwners(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := start(t, simengine.Config{}, twoKeys+"responses: {store: memory}\n")
		ask := func(key, method, path, body string) reply {
			req, err := http.NewRequestWithContext(t.Context(), method, base+path, strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			req.Header = http.Header{"Authorization": {"Bearer " + key}, "Content-Type": {"application/json"}}
			return p.do(req)
		}
		var made struct{ ID string }
		if r := ask("open", http.MethodPost, "/v1/responses", `{"model":"ripple","input":"one"}`); json.Unmarshal([]byte(r.body), &made) != nil || made.ID == "" {
			t.Fatalf("%d %s", r.status, r.body)
		}
		for _, method := range []string{http.MethodGet, http.MethodDelete} {
			if r := ask("sesame", method, "/v1/responses/"+made.ID, ""); r.status != http.StatusNotFound || strings.Contains(r.body, "Send the whole") {
				t.Errorf("%s of another's: %d %s", method, r.status, r.body)
			}
		}
		if r := ask("open", http.MethodGet, "/v1/responses/"+made.ID, ""); r.status != http.StatusOK {
			t.Errorf("its owner gets %d %s", r.status, r.body)
		}
	})
}
