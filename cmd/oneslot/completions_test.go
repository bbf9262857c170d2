package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"oneslot/internal/simengine"
	"oneslot/internal/simengine/script"
)

// send makes a request of any kind and reads the whole reply as it came.
func (p *proxyUnderTest) send(ctx context.Context, method, path, body string) reply {
	p.t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, base+path, strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	resp, err := p.client.Do(req)
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil && ctx.Err() == nil {
		p.t.Fatal(err)
	}
	return reply{status: resp.StatusCode, header: resp.Header, body: string(text)}
}

// awaitWaiting waits for n requests to be in line and returns the id of the last.
func (p *proxyUnderTest) awaitWaiting(n int) string {
	p.t.Helper()
	for range 1000 {
		if waiters, _ := p.get("/v1/queue")["waiters"].([]any); len(waiters) == n {
			return waiters[n-1].(map[string]any)["request_id"].(string)
		}
		<-time.After(10 * time.Millisecond)
	}
	p.t.Fatalf("there are never %d in line: %v", n, p.get("/v1/queue"))
	return ""
}

// asked are the requests that reach the engine, as they came.
type asked struct{ bodies []string }

func (a *asked) take(_ http.ResponseWriter, body string) bool {
	if strings.Contains(body, `"stream"`) {
		a.bodies = append(a.bodies, body)
	}
	return false
}

// completed is what a client makes of a completion.
func completed(t *testing.T, r reply) (text, thinking, finish string, usage map[string]any) {
	t.Helper()
	var parts []string
	if strings.HasPrefix(r.header.Get("Content-Type"), "text/event-stream") {
		for block := range strings.SplitSeq(r.body, "\n\n") {
			if data, ok := strings.CutPrefix(block, "data: "); ok && data != "[DONE]" {
				parts = append(parts, data)
			}
		}
	} else {
		parts = append(parts, r.body)
	}
	for _, part := range parts {
		var o struct {
			ID, Object string
			Usage      map[string]any
			Choices    []struct {
				Text      string
				Reasoning string `json:"reasoning_content"`
				Finish    string `json:"finish_reason"`
			}
		}
		if err := json.Unmarshal([]byte(part), &o); err != nil || o.Object != "text_completion" || o.ID != "cmpl-"+r.header.Get("X-Request-Id") {
			t.Fatalf("no completion: %v: %s", err, part)
		}
		if o.Usage != nil {
			usage = o.Usage
		}
		for _, c := range o.Choices {
			text, thinking, finish = text+c.Text, thinking+c.Reasoning, finish+c.Finish
		}
	}
	return text, thinking, finish, usage
}

// rawStream is an engine's stream of a completion.
func rawStream(texts ...string) script.Script {
	var s script.Script
	for _, text := range texts {
		quoted, _ := json.Marshal(text)
		s = append(s, script.Write(`data: {"object":"text_completion","choices":[{"index":0,"text":`+string(quoted)+`,"logprobs":null,"finish_reason":null}]}`+"\n\n"))
	}
	return append(s, script.Write(`data: {"object":"text_completion","choices":[{"index":0,"text":"","finish_reason":"stop","matched_stop":2}]}`+"\n\n"),
		script.Write(`data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":5,"total_tokens":8,"reasoning_tokens":0}}`+"\n\n"), script.Done())
}

// TestCompletions: the same life as a chat's, and text that is left alone.
func TestCompletions(t *testing.T) {
	for _, x := range []struct{ name, config, text, thinking string }{
		{"off", "", " so</think>\n\nYES ", ""},
		{"split", "reasoning: {completions: split}", "YES ", "so"},
	} {
		for _, path := range []string{"/v1/completions", "/completions"} {
			for _, stream := range []string{"true", "false"} {
				t.Run(x.name+path+"/stream="+stream, func(t *testing.T) {
					inBubble(t, func(t *testing.T) {
						seen := &asked{}
						p := start(t, simengine.Config{Scripts: []script.Script{rawStream(" so", "</thi", "nk>\n\nYES", " ")}}, x.config, seen.take)
						r := p.send(t.Context(), http.MethodPost, path, `{"model":"ripple","prompt":["<think>"],"max_tokens":50,"stop":"END","best_of":1,"suffix":null,"custom_x":[1],"stream":`+stream+`,"stream_options":{"include_usage":true}}`)
						text, thinking, finish, usage := completed(t, r)
						if text != x.text || thinking != x.thinking || finish != "stop" || usage["completion_tokens"] != 5.0 || usage["prompt_tokens"] != 3.0 {
							t.Errorf("got %q | %q, %s, %v: %s", thinking, text, finish, usage, r.body)
						}
						if x.name == "off" {
							details, _ := usage["completion_tokens_details"].(map[string]any)
							if row := p.record(r); tokens(row, "answer") != 5.0 || tokens(row, "thinking") != 0.0 || details["reasoning_tokens"] != 0.0 {
								t.Errorf("not all of it is answer: %v, %v", row["tokens"], details)
							}
						}
						var body map[string]any
						if len(seen.bodies) != 1 || json.Unmarshal([]byte(seen.bodies[0]), &body) != nil {
							t.Fatalf("the engine saw %q", seen.bodies)
						}
						if body["prompt"] != "<think>" || body["max_tokens"] != 50.0 || body["custom_x"] == nil || body["messages"] != nil || body["best_of"] != nil || (body["stop"] != nil) != (x.name == "off") {
							t.Errorf("the engine saw %s", seen.bodies[0])
						}
					})
				})
			}
		}
	}
}

// TestCompletionsInLine: they wait, are cancelled and are refused as chats are.
func TestCompletionsInLine(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := start(t, simengine.Config{}, "queue: {max_waiting: 1}")
		running := p.open(t.Context(), `{"model":"ripple","stream":true,"messages":[{"role":"user","content":"hi"}],"sim":{"answer":2000,"thinking":10,"tokens_per_second":10}}`)
		ended := make(chan reply)
		go func() {
			ended <- p.send(t.Context(), http.MethodPost, "/v1/completions", `{"model":"ripple","prompt":"p","stream":true}`)
		}()
		p.until(func(s simengine.Stats) bool { return s.Running == 1 })
		line := p.awaitWaiting(1)
		full := p.send(t.Context(), http.MethodPost, "/v1/completions", `{"model":"ripple","prompt":"q"}`)
		if full.status != http.StatusTooManyRequests || !strings.Contains(full.body, `"code":"rate_limit_exceeded"`) {
			t.Errorf("got %d %s", full.status, full.body)
		}
		if r := p.send(t.Context(), http.MethodDelete, "/v1/queue/cmpl-"+line, ""); r.status != http.StatusOK {
			t.Errorf("cancel: %d %s", r.status, r.body)
		}
		got := <-ended
		if !strings.Contains(got.body, ": queue position=1 of=1") && got.status == http.StatusOK || !strings.Contains(got.body, `"code":"cancelled"`) {
			t.Errorf("got %d %s", got.status, got.body)
		}
		if refused := p.send(t.Context(), http.MethodPost, "/v1/completions", `{"model":"ripple","prompt":"q","suffix":"s"}`); refused.status != http.StatusBadRequest || !strings.Contains(refused.body, `"param":"suffix"`) {
			t.Errorf("got %d %s", refused.status, refused.body)
		}
		if o := p.settledRecord(line)["outcome"]; o != "cancelled" {
			t.Errorf("the outcome is %v", o)
		}
		p.send(t.Context(), http.MethodDelete, "/v1/queue/"+running.header.Get("X-Request-Id"), "")
		<-running.whole
	})
}
