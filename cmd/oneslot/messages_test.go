package main

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"oneslot/internal/simengine"
	"oneslot/internal/simengine/script"
)

// Anthropic's API through the whole program: the same line, slot, budget and
// account as for chat.

// toMessages sends a request of Messages.
func (p *proxyUnderTest) toMessages(ctx context.Context, path, members string) reply {
	p.t.Helper()
	body := `{"model":"ripple","max_tokens":4000,"messages":[{"role":"user","content":"hi"}]` + members + `}`
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+path, strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	for name, value := range map[string]string{"Content-Type": "application/json", "Anthropic-Version": "2023-06-01", "Anthropic-Beta": "x", "X-Api-Key": "none"} {
		req.Header.Set(name, value)
	}
	return p.do(req)
}

// message is an answer of Messages, whole or put together from its events.
type message struct {
	ID, Role, Model string
	Content         []struct {
		Type, Thinking, Signature, Text, ID, Name string
		Input                                     json.RawMessage
	}
	StopReason   string  `json:"stop_reason"`
	StopSequence *string `json:"stop_sequence"`
	Usage        struct {
		Input    int  `json:"input_tokens"`
		Output   int  `json:"output_tokens"`
		CacheRed *int `json:"cache_read_input_tokens"`
		Details  struct {
			Thinking int `json:"thinking_tokens"`
		} `json:"output_tokens_details"`
	}
}

// message reads a reply as Anthropic's clients do: blocks by their index, their
// texts joined, usage from the last event.
func (r *reply) message(t *testing.T) (m message) {
	t.Helper()
	if r.events == nil {
		if err := json.Unmarshal([]byte(r.body), &m); err != nil || r.status != 200 {
			t.Fatalf("status %d: %s: %v", r.status, r.body, err)
		}
		return m
	}
	ended := false
	for _, e := range r.events {
		var o struct {
			Type         string
			Index        int
			Message      *message
			ContentBlock json.RawMessage `json:"content_block"`
			Delta        struct {
				Thinking, Text, Signature string
				PartialJSON               string `json:"partial_json"`
			}
		}
		if err := json.Unmarshal([]byte(e.data), &o); err != nil || ended {
			t.Fatalf("%s: %v; after the end: %v", e.data, err, ended)
		}
		switch o.Type {
		case "message_start":
			m = *o.Message
		case "content_block_start":
			if o.Index != len(m.Content) {
				t.Fatalf("block %d begins after %d", o.Index, len(m.Content))
			}
			m.Content = append(m.Content, message{Content: make([]struct {
				Type, Thinking, Signature, Text, ID, Name string
				Input                                     json.RawMessage
			}, 1)}.Content[0])
			if err := json.Unmarshal(o.ContentBlock, &m.Content[o.Index]); err != nil {
				t.Fatal(err)
			}
			m.Content[o.Index].Input = nil
		case "content_block_delta":
			b := &m.Content[o.Index]
			b.Thinking += o.Delta.Thinking
			b.Text += o.Delta.Text
			b.Signature += o.Delta.Signature
			b.Input = append(b.Input, o.Delta.PartialJSON...)
		case "message_delta":
			var end struct {
				Delta *message
				Usage json.RawMessage
			}
			end.Delta = &m
			if err := json.Unmarshal([]byte(e.data), &end); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(end.Usage, &m.Usage); err != nil {
				t.Fatal(err)
			}
		case "message_stop":
			ended = true
		case "error":
			m.StopReason = "error"
			ended = true
		}
	}
	if !ended {
		t.Fatalf("the stream has no end: %s", r.body)
	}
	return m
}

// TestMessages: thinking and answer are the same, streamed or not, and the row is
// that of any request.
func TestMessages(t *testing.T) {
	for _, mode := range []string{"", `,"stream":true`} {
		inBubble(t, func(t *testing.T) {
			p := start(t, simengine.Config{Scripts: []script.Script{{
				chunk(`{"content":"so it"}`, ""), chunk(`{"content":" is</think>yes"}`, ""), chunk(`{"content":"!"}`, ""),
				script.Write(`data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n" + `data: {"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":7,"prompt_tokens_details":{"cached_tokens":4}}}` + "\n\ndata: [DONE]\n\n"),
			}}}, raw)
			r := p.toMessages(t.Context(), "/v1/messages", mode+`,"system":"be brief","thinking":{"type":"enabled","budget_tokens":3000}`)
			m := r.message(t)
			if len(m.Content) != 2 || m.Content[0].Thinking != "so it is" || m.Content[0].Signature == "" || m.Content[1].Text != "yes!" || m.StopReason != "end_turn" {
				t.Errorf("%s: the client got %+v", mode, m)
			}
			if m.Usage.Input != 6 || m.Usage.CacheRed == nil || *m.Usage.CacheRed != 4 || m.Usage.Output != 7 || m.Usage.Details.Thinking == 0 {
				t.Errorf("%s: the usage is %+v", mode, m.Usage)
			}
			id := r.header.Get("Request-Id")
			if m.ID != "msg_"+id || id != r.header.Get("X-Request-Id") {
				t.Errorf("%s: the id is %q, the request's %q", mode, m.ID, id)
			}
			row := p.fetch("/v1/usage/" + m.ID)
			for _, want := range []string{`"outcome":"served"`, `"finish_reason":"stop"`, `"id":"` + id} {
				if !strings.Contains(row.body, want) {
					t.Errorf("%s: the row has no %s: %s", mode, want, row.body)
				}
			}
			up := p.upstream()
			if text := asJSON(t, up["messages"]); text != `[{"content":"be brief","role":"system"},{"content":"hi","role":"user"}]` || up["thinking"] != nil || up["system"] != nil {
				t.Errorf("%s: the engine got %s and %v", mode, text, up)
			}
		})
	}
}

// TestMessagesStop: a stop sequence ends the answer, and is named; thinking that
// nobody asked for is not shown, but counted.
func TestMessagesStop(t *testing.T) {
	for _, mode := range []string{"", `,"stream":true`} {
		inBubble(t, func(t *testing.T) {
			p := start(t, simengine.Config{Scripts: []script.Script{{chunk(`{"content":"the END</think>a\nE"}`, ""), chunk(`{"content":"ND b"}`, ""), script.Hold()}}}, raw)
			r := p.toMessages(t.Context(), "/messages", mode+`,"stop_sequences":["STOP","END"]`)
			m := r.message(t)
			if len(m.Content) != 1 || m.Content[0].Text != "a\n" || m.StopReason != "stop_sequence" || m.StopSequence == nil || *m.StopSequence != "END" {
				t.Errorf("%s: the client got %+v", mode, m)
			}
			if m.Usage.Details.Thinking == 0 {
				t.Errorf("%s: the usage is %+v", mode, m.Usage)
			}
		})
	}
}

// TestMessagesTools: a call, and its result sent back with the thinking before it.
func TestMessagesTools(t *testing.T) {
	for _, mode := range []string{"", `,"stream":true`} {
		inBubble(t, func(t *testing.T) {
			calls := script.Script{
				chunk(`{"content":"hm</think>"}`, ""), chunk(`{"tool_calls":[{"index":0,"id":"k","type":"function","function":{"name":"f","arguments":""}}]}`, ""),
				chunk(`{"tool_calls":[{"index":0,"function":{"arguments":"{\"a\""}}]}`, ""), chunk(`{"tool_calls":[{"index":0,"function":{"arguments":":1}"}}]}`, ""),
				script.Write(`data: {"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}` + "\n\ndata: [DONE]\n\n"),
			}
			p := start(t, simengine.Config{Scripts: []script.Script{calls}}, raw)
			r := p.toMessages(t.Context(), "/v1/messages", mode+`,"thinking":{"type":"adaptive"},"tools":[{"name":"f","input_schema":{"type":"object"}}],"messages":[{"role":"user","content":"q"},`+
				`{"role":"assistant","content":[{"type":"thinking","thinking":"before","signature":"x"},{"type":"tool_use","id":"j","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"j","content":"one"}]}]`)
			m := r.message(t)
			if len(m.Content) != 2 || m.Content[0].Thinking != "hm" || m.Content[1].Name != "f" || m.Content[1].ID != "k" || string(m.Content[1].Input) != `{"a":1}` || m.StopReason != "tool_use" {
				t.Errorf("%s: the client got %+v", mode, m)
			}
			want := `[{"content":"q","role":"user"},{"content":"","reasoning_content":"before","role":"assistant","tool_calls":[{"function":{"arguments":"{}","name":"f"},"id":"j","type":"function"}]},{"content":"one","role":"tool","tool_call_id":"j"}]`
			if got := asJSON(t, p.upstream()["messages"]); got != want {
				t.Errorf("%s: the engine got %s", mode, got)
			}
		})
	}
}

// TestMessagesHistoryRule: what becomes of thinking that is sent back is the
// format's rule.
func TestMessagesHistoryRule(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := start(t, simengine.Config{}, `formats: [{name: ripple, open: ["<think>"], close: ["</think>"], starts_in: thinking, history: drop}]`)
		p.toMessages(t.Context(), "/v1/messages", `,"messages":[{"role":"user","content":"q"},{"role":"assistant","content":[{"type":"thinking","thinking":"before","signature":"x"},{"type":"text","text":"a"}]},{"role":"user","content":"r"}]`)
		if got := asJSON(t, p.upstream()["messages"]); strings.Contains(got, "before") || !strings.Contains(got, `"a"`) {
			t.Errorf("the engine got %s", got)
		}
	})
}

// TestMessagesWait: who waits gets the beginning of his message and pings that say
// where he stands; a cancel is an error event, and the budget holds.
func TestMessagesWait(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := start(t, simengine.Config{TokensPerSecond: 10, Thinking: 2000}, raw)
		ctx, leave := context.WithCancel(t.Context())
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			req, _ := http.NewRequestWithContext(ctx, http.MethodPost, base+"/v1/chat/completions", strings.NewReader(hello))
			if resp, err := p.client.Do(req); err == nil {
				p.read(resp)
			}
		}()
		synctest.Wait()
		<-time.After(time.Second)
		waits := make(chan reply, 1)
		go func() { waits <- p.toMessages(t.Context(), "/v1/messages", `,"stream":true`) }()
		<-time.After(25 * time.Second)
		line := p.fetch("/v1/queue")
		var view struct {
			Waiters []struct {
				RequestID string `json:"request_id"`
			}
		}
		if err := json.Unmarshal([]byte(line.body), &view); err != nil || len(view.Waiters) != 1 {
			t.Fatalf("the line is %s", line.body)
		}
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodDelete, base+"/v1/queue/msg_"+view.Waiters[0].RequestID, nil)
		if r := p.do(req); r.status != 200 {
			t.Fatalf("the cancel got %d %s", r.status, r.body)
		}
		r := <-waits
		var kinds []string
		for _, e := range r.events {
			var o struct{ Type string }
			_ = json.Unmarshal([]byte(e.data), &o)
			kinds = append(kinds, o.Type)
		}
		if got := strings.Join(kinds, " "); got != "message_start ping ping ping error" || len(r.comments) != 3 || !strings.Contains(r.comments[0], "queue position=1 of=1") {
			t.Errorf("the client heard %s and %q", got, r.comments)
		}
		if last := r.events[len(r.events)-1].data; last != `{"type":"error","error":{"type":"conflict_error","message":"The request was cancelled."},"request_id":"`+view.Waiters[0].RequestID+`"}` {
			t.Errorf("the stream ended with %s", last)
		}
		leave()
		<-gone
	})
	inBubble(t, func(t *testing.T) {
		p := start(t, simengine.Config{Thinking: 200, Answer: 5}, "")
		r := p.toMessages(t.Context(), "/v1/messages", `,"thinking":{"type":"enabled","budget_tokens":20}`)
		m := r.message(t)
		if row := p.fetch("/v1/usage/" + m.ID).body; len(m.Content) != 2 || m.Usage.Details.Thinking > 60 || !strings.Contains(row, `"budget":"cut"`) {
			t.Errorf("the client got %+v; the row is %s", m, row)
		}
		r = p.toMessages(t.Context(), "/v1/messages", `,"thinking":{"type":"disabled"}`)
		m = r.message(t)
		if row := p.fetch("/v1/usage/" + m.ID).body; len(m.Content) != 1 || m.Content[0].Type != "text" || !strings.Contains(row, `"budget":"off"`) {
			t.Errorf("the client got %+v; the row is %s", m, row)
		}
	})
}

// TestMessageStartHasThePrompt where the answer begins at once, as the end has it.
func TestMessageStartHasThePrompt(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := start(t, simengine.Config{TokensPerSecond: -1, PrefillTokensPerSecond: -1}, "")
		r := p.toMessages(t.Context(), "/v1/messages", `,"stream":true`)
		var first struct{ Message message }
		if err := json.Unmarshal([]byte(r.events[0].data), &first); err != nil {
			t.Fatal(err)
		}
		if m := r.message(t); m.Usage.Input < 1 || first.Message.Usage.Input != m.Usage.Input {
			t.Errorf("it begins with %s and ends with %+v", r.events[0].data, m.Usage)
		}
	})
}

// TestCountTokens: by the engine's template where it can, else an estimate; the
// answer says which. It needs no slot.
func TestCountTokens(t *testing.T) {
	for dialect, source := range map[string]string{"sglang": "tokenizer", "openai": "estimate"} {
		inBubble(t, func(t *testing.T) {
			p := start(t, simengine.Config{Scripts: []script.Script{{script.Hold()}}}, `engines: [{name: spark, url: "http://engine.test", model: ripple, dialect: `+dialect+`}]`)
			ctx, leave := context.WithCancel(t.Context())
			go func() {
				req, _ := http.NewRequestWithContext(ctx, http.MethodPost, base+"/v1/chat/completions", strings.NewReader(hello))
				if resp, err := p.client.Do(req); err == nil {
					p.read(resp)
				}
			}()
			synctest.Wait()
			counted := map[string]float64{}
			for name, members := range map[string]string{"short": "", "long": `,"system":"` + strings.Repeat("word ", 100) + `"`} {
				r := p.toMessages(t.Context(), "/v1/messages/count_tokens", members)
				var o struct {
					Input   float64 `json:"input_tokens"`
					Oneslot struct{ Source string }
				}
				if err := json.Unmarshal([]byte(r.body), &o); err != nil || r.status != 200 || o.Oneslot.Source != source {
					t.Errorf("%s: %d %s", dialect, r.status, r.body)
				}
				counted[name] = o.Input
			}
			if d := counted["long"] - counted["short"]; counted["short"] < 1 || d < 90 || d > 220 {
				t.Errorf("%s: counted %v", dialect, counted)
			}
			if r := p.toMessages(t.Context(), "/messages/count_tokens", `,"model":"nobody"`); r.status != 404 || !strings.Contains(r.body, `"type":"not_found_error"`) {
				t.Errorf("%s: %d %s", dialect, r.status, r.body)
			}
			leave()
		})
	}
}

// TestPictures go to the engine; one that reads none says so, in each API's words.
func TestPictures(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := start(t, simengine.Config{}, "")
		r := p.toMessages(t.Context(), "/v1/messages", `,"messages":[{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"QQ=="}},{"type":"text","text":"what?"}]}]`)
		if r.status != 400 || !strings.HasPrefix(r.body, `{"type":"error","error":{"type":"invalid_request_error","message":"Model only supports text input`) || r.header.Get("X-Oneslot-Reason") != "prompt_refused" {
			t.Errorf("Messages: %d %v %s", r.status, r.header, r.body)
		}
		r = p.post(t.Context(), `{"model":"ripple","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,QQ=="}}]}]}`, nil)
		if r.status != 400 || !strings.HasPrefix(r.body, `{"error":{"message":"Model only supports text input`) {
			t.Errorf("Chat Completions: %d %s", r.status, r.body)
		}
	})
}
