package responses_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"oneslot/internal/openai"
	"oneslot/proxy/downstream"
	"oneslot/proxy/split"
	"oneslot/proxy/surface"
	"oneslot/proxy/surface/responses"
	"oneslot/reasoning"
	"oneslot/usage"
)

const id = "0123456789abcdef0123456789abcdef"

// event is one event of a stream.
type event struct {
	name string
	data map[string]any
}

// rig is one request with its client.
type rig struct {
	t      *testing.T
	client *downstream.Client
	sink   surface.Sink
	w      *httptest.ResponseRecorder
}

func newAPI(t *testing.T, cfg responses.Config) *responses.API {
	t.Helper()
	a, err := responses.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func wrong(err error) *openai.Problem {
	var p *openai.Problem
	if errors.As(err, &p) {
		return p
	}
	return &openai.Problem{Status: 502, Type: "server_error", Code: "upstream_error", Message: err.Error()}
}

// begin decodes a request, in a bubble, and puts its client where it waits.
func begin(t *testing.T, a *responses.API, body string) *rig {
	t.Helper()
	return beginAs(t, a, "key", id, body)
}

func beginAs(t *testing.T, a *responses.API, key, id, body string) *rig {
	t.Helper()
	req, talk, err := a.Decode(surface.In{ID: id, Key: key, Created: time.Unix(1764500000, 0), Body: []byte(body)})
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, w: httptest.NewRecorder()}
	r.client, err = downstream.New(r.w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", nil), downstream.Config{
		Stream: req.Stream, Problem: wrong, Voice: talk, CommitAfter: 500 * time.Millisecond, Heartbeat: 10 * time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.client.Release)
	r.sink = talk.Sink(surface.Stage{Client: r.client, Aligned: func() bool { return true }})
	return r
}

func (r *rig) say(kind reasoning.Kind, text string) {
	r.t.Helper()
	if err := r.sink.Piece(split.Piece{Kind: kind, Text: text}); err != nil {
		r.t.Error(err)
	}
}

func (r *rig) call(deltas string) {
	r.t.Helper()
	if err := r.sink.Raw("", deltas); err != nil {
		r.t.Error(err)
	}
}

// finish ends the answer and returns its response object.
func (r *rig) finish(reason string) map[string]any {
	r.t.Helper()
	err := r.sink.Finish(reason, func() usage.Report {
		n := func(n int) usage.Count { return usage.Count{N: n, Source: usage.Engine} }
		return usage.Report{Tokens: usage.Tokens{Prompt: n(9), CachedPrompt: n(4), Thinking: n(2), Answer: n(3), Completion: n(5)}}
	})
	if err != nil {
		r.t.Error(err)
	}
	r.client.Release()
	if events := r.events(); len(events) > 0 {
		o, _ := events[len(events)-1].data["response"].(map[string]any)
		return o
	}
	var o map[string]any
	if err := json.Unmarshal(r.w.Body.Bytes(), &o); err != nil {
		r.t.Fatalf("%v: %s", err, r.w.Body)
	}
	return o
}

// events reads the stream and checks what holds for all of it.
func (r *rig) events() (out []event) {
	r.t.Helper()
	done := false
	for block := range strings.SplitSeq(strings.TrimSuffix(r.w.Body.String(), "\n\n"), "\n\n") {
		if strings.HasPrefix(block, ": ") || block == "" {
			continue
		}
		if block == "data: [DONE]" {
			done = true
			continue
		}
		head, data, ok := strings.Cut(block, "\ndata: ")
		if !ok {
			return nil // a whole answer
		}
		e := event{name: strings.TrimPrefix(head, "event: ")}
		if err := json.Unmarshal([]byte(data), &e.data); err != nil {
			r.t.Fatalf("%v: %s", err, data)
		}
		if done || e.data["type"] != e.name || e.data["sequence_number"] != float64(len(out)) {
			r.t.Errorf("event %d: after the end %v, named %s: %s", len(out), done, e.name, data)
		}
		out = append(out, e)
	}
	return out
}

// names are the types of the events, with the same in a row told once.
func names(events []event) string {
	var out []string
	for _, e := range events {
		name := strings.TrimPrefix(e.name, "response.")
		if len(out) == 0 || out[len(out)-1] != name {
			out = append(out, name)
		}
	}
	return strings.Join(out, " ")
}

const (
	thought = reasoning.Thinking
	said    = reasoning.Answer
)

const twoCalls = `[{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":""}}]`

// tell is an answer with everything in it.
func (r *rig) tell() {
	r.say(thought, "so ")
	r.say(thought, "it is")
	r.say(said, "Yes")
	r.say(said, " \"it\" is")
	r.call(twoCalls)
	r.call(`[{"index":0,"function":{"arguments":"{\"x\""}}]`)
	r.call(`[{"index":0,"function":{"arguments":":1}"}},{"index":1,"id":"b","function":{"name":"g","arguments":"{}"}}]`)
}

const all = `[{"id":"rs_` + id + `00","type":"reasoning","status":"completed","summary":[],"content":[{"type":"reasoning_text","text":"so it is"}],"encrypted_content":null},` +
	`{"id":"msg_` + id + `01","type":"message","status":"completed","role":"assistant","content":[{"type":"output_text","text":"Yes \"it\" is","annotations":[],"logprobs":[]}]},` +
	`{"id":"fc_` + id + `02","type":"function_call","status":"completed","call_id":"a","name":"f","arguments":"{\"x\":1}"},` +
	`{"id":"fc_` + id + `03","type":"function_call","status":"completed","call_id":"b","name":"g","arguments":"{}"}]`

// same reports whether two values are the same JSON.
func same(t *testing.T, got any, want string) bool {
	t.Helper()
	var w, g any
	raw, _ := json.Marshal(got)
	if err := errors.Join(json.Unmarshal([]byte(want), &w), json.Unmarshal(raw, &g)); err != nil {
		t.Fatal(err)
	}
	a, _ := json.Marshal(g)
	b, _ := json.Marshal(w)
	return string(a) == string(b)
}

// ask is a request with members beside a model and an input.
func ask(members string) string { return `{"model":"m","input":"hi"` + members + `}` }

func TestStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := begin(t, newAPI(t, responses.Config{}), ask(`,"stream":true`))
		r.tell()
		o := r.finish("tool_calls")
		events := r.events()
		want := "created in_progress output_item.added content_part.added reasoning_text.delta reasoning_text.done content_part.done output_item.done " +
			"output_item.added content_part.added output_text.delta output_text.done content_part.done output_item.done " +
			"output_item.added function_call_arguments.delta output_item.added function_call_arguments.delta function_call_arguments.done output_item.done function_call_arguments.done output_item.done completed"
		if got := names(events); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
		if !same(t, o["output"], all) || o["status"] != "completed" || o["completed_at"] == nil {
			t.Errorf("got %s", r.w.Body)
		}
		if !same(t, o["usage"], `{"input_tokens":9,"input_tokens_details":{"cached_tokens":4,"cache_write_tokens":0},"output_tokens":5,"output_tokens_details":{"reasoning_tokens":2},"total_tokens":14}`) {
			t.Errorf("usage is %v", o["usage"])
		}
		if !strings.HasSuffix(r.w.Body.String(), "\n\ndata: [DONE]\n\n") {
			t.Error("no [DONE]")
		}
		joined(t, events)
	})
}

// joined checks that the deltas are what the done events and the items say.
func joined(t *testing.T, events []event) {
	t.Helper()
	deltas := map[string]string{}
	for _, e := range events {
		at := fmt.Sprint(e.data["output_index"], e.data["item_id"])
		switch {
		case strings.HasSuffix(e.name, ".delta"):
			deltas[at] += e.data["delta"].(string)
		case strings.HasSuffix(e.name, "text.done"):
			if e.data["text"] != deltas[at] {
				t.Errorf("%s says %v after %q", e.name, e.data["text"], deltas[at])
			}
		case strings.HasSuffix(e.name, "arguments.done"):
			if e.data["arguments"] != deltas[at] {
				t.Errorf("%s says %v after %q", e.name, e.data["arguments"], deltas[at])
			}
		}
	}
	if len(deltas) != 4 {
		t.Errorf("there are deltas of %d items", len(deltas))
	}
}

func TestWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := begin(t, newAPI(t, responses.Config{}), ask(`,"instructions":"be brief","metadata":{"a":"b"},"max_output_tokens":50,"temperature":0.5,"reasoning":{"effort":"low"},"text":{"format":{"type":"json_object"}},"tools":[{"type":"function","name":"f","parameters":{}},{"type":"web_search"}],"tool_choice":{"type":"web_search"},"previous_response_id":null,"store":true`))
		r.tell()
		o := r.finish("tool_calls")
		for name, want := range map[string]string{
			"id": `"resp_` + id + `"`, "object": `"response"`, "created_at": "1764500000", "status": `"completed"`, "background": "false", "error": "null", "incomplete_details": "null",
			"instructions": `"be brief"`, "metadata": `{"a":"b"}`, "max_output_tokens": "50", "temperature": "0.5", "top_p": "1", "model": `"m"`, "output": all,
			"reasoning": `{"effort":"low","summary":null}`, "text": `{"format":{"type":"json_object"},"verbosity":"medium"}`, "tools": `[{"type":"function","name":"f","parameters":{}}]`, "tool_choice": `"auto"`,
			"previous_response_id": "null", "parallel_tool_calls": "true", "store": "false", "truncation": `"disabled"`,
		} {
			if !same(t, o[name], want) {
				t.Errorf("%s is %v, want %s", name, o[name], want)
			}
		}
	})
}

// TestIncomplete: what was being told when the tokens ran out is marked.
func TestIncomplete(t *testing.T) {
	for reason, why := range map[string]string{"length": "max_output_tokens", "content_filter": "content_filter"} {
		for _, stream := range []string{"true", "false"} {
			synctest.Test(t, func(t *testing.T) {
				r := begin(t, newAPI(t, responses.Config{}), ask(`,"stream":`+stream))
				r.say(thought, "so")
				o := r.finish(reason)
				if o["status"] != "incomplete" || !same(t, o["incomplete_details"], `{"reason":"`+why+`"}`) || o["completed_at"] != nil {
					t.Errorf("got %s", r.w.Body)
				}
				if item := o["output"].([]any)[0].(map[string]any); item["status"] != "incomplete" {
					t.Errorf("the item is %v", item)
				}
				if stream == "true" && !strings.HasSuffix(names(r.events()), "output_item.done incomplete") {
					t.Errorf("got %s", names(r.events()))
				}
			})
		}
	}
}

// TestCutInACall: arguments that are not whole are never called done.
func TestCutInACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := begin(t, newAPI(t, responses.Config{}), ask(`,"stream":true`))
		r.call(`[{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\""}}]`)
		o := r.finish("length")
		if !same(t, o["output"], `[{"id":"fc_`+id+`00","type":"function_call","status":"incomplete","call_id":"a","name":"f","arguments":"{\"x\""}]`) {
			t.Errorf("got %v", o["output"])
		}
		if got := names(r.events()); got != "created in_progress output_item.added function_call_arguments.delta output_item.done incomplete" {
			t.Errorf("got %s", got)
		}
	})
}

// TestTwoParts: a refusal after some text is a part of its own, in the same item.
func TestTwoParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := begin(t, newAPI(t, responses.Config{}), ask(`,"stream":true`))
		r.say(said, "a")
		if err := r.sink.Raw(`"refusal":"no"`, ""); err != nil {
			t.Error(err)
		}
		o := r.finish("stop")
		want := "created in_progress output_item.added content_part.added output_text.delta output_text.done content_part.done content_part.added refusal.delta refusal.done content_part.done output_item.done completed"
		events := r.events()
		if got := names(events); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
		for _, e := range events {
			if at := e.data["content_index"]; at != nil && (at == 1.0) != (strings.Contains(e.name, "refusal") || strings.Contains(fmt.Sprint(e.data["part"]), "refusal")) {
				t.Errorf("%s is of part %v", e.name, at)
			}
		}
		if !same(t, o["output"].([]any)[0].(map[string]any)["content"], `[{"type":"output_text","text":"a","annotations":[],"logprobs":[]},{"type":"refusal","refusal":"no"}]`) {
			t.Errorf("got %v", o["output"])
		}
	})
}

// TestWaiting: a client hears of its place by events that idle timers count.
func TestWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := begin(t, newAPI(t, responses.Config{}), ask(`,"stream":true,"instructions":"long","tools":[{"type":"function","name":"f"}]`))
		r.client.SetWaiting(func() string { return "queue position=2" })
		<-time.After(11 * time.Second)
		synctest.Wait()
		r.client.SetStatus(func() string { return "prefill 3s" })
		<-time.After(20 * time.Second)
		synctest.Wait()
		r.say(said, "a")
		<-time.After(11 * time.Second)
		synctest.Wait()
		r.finish("stop")
		want := "created queued in_progress output_item.added content_part.added output_text.delta in_progress output_text.done content_part.done output_item.done completed"
		events := r.events()
		if got := names(events); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
		queued := 0
		for _, e := range events {
			o, _ := e.data["response"].(map[string]any)
			if e.name == "response.queued" {
				if queued++; o["status"] != "queued" || (o["instructions"] == nil) != (queued > 1) {
					t.Errorf("queued event %d has %v", queued, o)
				}
			}
		}
		if queued != 2 || strings.Count(r.w.Body.String(), ": queue position=2\n\n") != 2 || !strings.Contains(r.w.Body.String(), ": prefill 3s\n\n") {
			t.Errorf("%d queued events: %s", queued, r.w.Body)
		}
	})
}

func TestFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t, responses.Config{On: true})
		r := begin(t, a, ask(`,"stream":true`))
		r.say(said, "half")
		r.client.Fail(&openai.Problem{Status: 409, Type: "invalid_request_error", Code: "cancelled", Message: "It was cancelled."})
		events := r.events()
		if got := names(events); !strings.HasSuffix(got, "output_text.done content_part.done output_item.done error failed") || !strings.HasSuffix(r.w.Body.String(), "data: [DONE]\n\n") {
			t.Fatalf("got %s", got)
		}
		fault, last := events[len(events)-2].data, events[len(events)-1].data["response"].(map[string]any)
		if fault["code"] != "cancelled" || fault["message"] != "It was cancelled." || fault["param"] != nil {
			t.Errorf("the error event is %v", fault)
		}
		if last["status"] != "failed" || !same(t, last["error"], `{"code":"cancelled","message":"It was cancelled."}`) || last["output"].([]any)[0].(map[string]any)["status"] != "incomplete" {
			t.Errorf("the response is %v", last)
		}
		if err := r.sink.Finish("stop", func() usage.Report { return usage.Report{} }); err != nil || len(r.events()) != len(events) {
			t.Errorf("it ends twice: %v", err)
		}
		if text, err := a.Get("resp_"+id, "key"); err != nil || !strings.Contains(string(text), `"status":"cancelled"`) {
			t.Errorf("kept is %s, %v", text, err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		r := begin(t, newAPI(t, responses.Config{}), ask(`,"stream":true`))
		<-time.After(time.Second)
		synctest.Wait()
		r.client.Fail(errors.New("broken"))
		if got := names(r.events()); got != "created in_progress error failed" {
			t.Errorf("got %s", got)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		r := begin(t, newAPI(t, responses.Config{}), ask(`,"stream":true`))
		if status := r.client.Fail(errors.New("broken")); status != 502 || !strings.HasPrefix(r.w.Body.String(), `{"error":{"message":"broken"`) {
			t.Errorf("early: %d %s", status, r.w.Body)
		}
	})
}

// TestThinkingAsSummary for clients that read no other, and for sending back.
func TestThinkingAsSummary(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := begin(t, newAPI(t, responses.Config{}), ask(`,"stream":true,"reasoning":{"summary":"auto"},"include":["reasoning.encrypted_content"]`))
		r.say(thought, "so it is")
		r.say(said, "a")
		item := r.finish("stop")["output"].([]any)[0].(map[string]any)
		if !same(t, item["summary"], `[{"type":"summary_text","text":"so it is"}]`) || !same(t, item["content"], `[]`) || item["encrypted_content"] == nil {
			t.Errorf("got %v", item)
		}
		want := "created in_progress output_item.added reasoning_summary_part.added reasoning_summary_text.delta reasoning_summary_text.done reasoning_summary_part.done output_item.done"
		if got := names(r.events()); !strings.HasPrefix(got, want) {
			t.Errorf("got %s", got)
		}
		raw, _ := json.Marshal(map[string]any{"type": "reasoning", "summary": []any{}, "encrypted_content": item["encrypted_content"]})
		if got := messages(t, `[`+string(raw)+`,{"type":"message","role":"user","content":"b"}]`); !strings.Contains(got, `"reasoning_content":"so it is"`) {
			t.Errorf("sent back it is %s", got)
		}
	})
}

func TestHiddenThinkingAndRefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t, responses.Config{})
		req, talk, err := a.Decode(surface.In{ID: id, Body: []byte(ask(""))})
		if err != nil || req.Stream {
			t.Fatal(err)
		}
		r := begin(t, a, ask(""))
		r.sink = talk.Sink(surface.Stage{Client: r.client, Field: openai.FieldHidden})
		r.say(thought, "so")
		if err := r.sink.Raw(`"mood":1,"refusal":"I "`, ""); err != nil {
			t.Error(err)
		}
		if err := r.sink.Raw(`"refusal":"won't"`, ""); err != nil {
			t.Error(err)
		}
		if o := r.finish("stop"); !same(t, o["output"], `[{"id":"msg_`+id+`00","type":"message","status":"completed","role":"assistant","content":[{"type":"refusal","refusal":"I won't"}]}]`) {
			t.Errorf("got %v", o["output"])
		}
	})
}

// TestLogprobs go with their text.
func TestLogprobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := begin(t, newAPI(t, responses.Config{}), ask(`,"stream":true,"include":["message.output_text.logprobs"],"top_logprobs":2`))
		for _, c := range []string{"a", "b"} {
			if err := r.sink.Piece(split.Piece{Kind: said, Text: c, Logprobs: `{"content":[{"token":"` + c + `","top_logprobs":[]}],"refusal":null}`}); err != nil {
				t.Error(err)
			}
		}
		o := r.finish("stop")
		part := o["output"].([]any)[0].(map[string]any)["content"].([]any)[0].(map[string]any)
		if !same(t, part["logprobs"], `[{"token":"a","top_logprobs":[]},{"token":"b","top_logprobs":[]}]`) || !strings.Contains(r.w.Body.String(), `"delta":"b","logprobs":[{"token":"b","top_logprobs":[]}]`) {
			t.Errorf("got %s", r.w.Body)
		}
	})
}
