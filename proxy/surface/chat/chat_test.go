package chat_test

import (
	"context"
	"errors"
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
	"oneslot/proxy/surface/chat"
	"oneslot/reasoning"
	"oneslot/usage"
)

const id = "0123456789abcdef0123456789abcdef"

// talk is a request with its client, who reads into a recorder.
func talk(t *testing.T, body string, beat downstream.Beat) (surface.Talk, *downstream.Client, *httptest.ResponseRecorder) {
	t.Helper()
	req, talk, err := chat.API{}.Decode(surface.In{ID: id, Created: time.Unix(1764500000, 0), Body: []byte(body)})
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", nil)
	c, err := downstream.New(w, r, downstream.Config{Stream: req.Stream, Problem: wrong, Voice: talk, Beat: beat, Heartbeat: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Release)
	return talk, c, w
}

func wrong(err error) *openai.Problem {
	return &openai.Problem{Status: 502, Type: "server_error", Message: err.Error()}
}

// ask is a request with members beside a model and a message.
func ask(members string) string {
	return `{"model":"m","messages":[{"role":"user","content":"hi"}]` + members + `}`
}

// report is what a request of the tests used.
func report() usage.Report {
	known := func(n int) usage.Count { return usage.Count{N: n, Source: usage.Engine} }
	return usage.Report{Tokens: usage.Tokens{Prompt: known(3), Thinking: known(1), Answer: known(1), Completion: known(2)}}
}

func TestBeats(t *testing.T) {
	const silent = `data: {"id":"chatcmpl-` + id + `","object":"chat.completion.chunk","created":1764500000,"model":"m","choices":[{"index":0,"delta":{},"finish_reason":null}]}` + "\n\n"
	for _, x := range []struct {
		beat downstream.Beat
		want string
	}{
		{downstream.BeatComment, ": s\n\n"},
		{downstream.BeatChunk, silent},
		{downstream.BeatOff, ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			_, c, w := talk(t, ask(`,"stream":true`), x.beat)
			c.SetWaiting(func() string { return "s" })
			<-time.After(time.Second)
			synctest.Wait()
			c.Release()
			if got := w.Body.String(); got != x.want {
				t.Errorf("%v: got %q, want %q", x.beat, got, x.want)
			}
		})
	}
}

func TestAnswer(t *testing.T) {
	for _, x := range []struct {
		name, members string
		want          []string
	}{
		{"stream", `,"stream":true,"stream_options":{"include_usage":true}`, []string{
			`"delta":{"role":"assistant","content":""},"finish_reason":null}],"usage":null}`, `"delta":{"reasoning_content":"so"}`, `"delta":{"content":"yes"}`,
			`"delta":{"mood":"calm","tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}]}`, `"delta":{},"finish_reason":"tool_calls"`, `"choices":[],"usage":{"prompt_tokens":3`, "data: [DONE]\n\n",
		}},
		{"whole", "", []string{
			`{"id":"chatcmpl-` + id, `"reasoning_content":"so","content":"yes","tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}]`, `"mood":"calm"`, `"finish_reason":"tool_calls"`, `"usage":{"prompt_tokens":3`,
		}},
	} {
		t.Run(x.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				talk, c, w := talk(t, ask(x.members), downstream.BeatComment)
				sink := talk.Sink(surface.Stage{Client: c, Aligned: func() bool { return true }})
				err := errors.Join(
					sink.Piece(split.Piece{Kind: reasoning.Thinking, Text: "so"}), sink.Piece(split.Piece{Kind: reasoning.Answer, Text: "yes"}),
					sink.Raw(`"mood":"calm"`, `[{"index":0,"id":"a","function":{"name":"f","arguments":"{}"},"type":null}]`), sink.Finish("tool_calls", report),
				)
				c.Release()
				rest := w.Body.String()
				for _, want := range x.want {
					_, after, ok := strings.Cut(rest, want)
					if !ok {
						t.Fatalf("%v: no %s in %s", err, want, rest)
					}
					rest = after
				}
			})
		})
	}
}

func TestRefusals(t *testing.T) {
	_, _, err := chat.API{}.Decode(surface.In{Body: []byte(`{"model":"m"}`)})
	var p *openai.Problem
	if !errors.As(err, &p) || p.Param != "messages" {
		t.Errorf("got %v", err)
	}
	if got := string(chat.API{}.Problem(wrong(context.Canceled))); got != `{"error":{"message":"context canceled","type":"server_error","param":null,"code":null}}` {
		t.Errorf("got %s", got)
	}
}
