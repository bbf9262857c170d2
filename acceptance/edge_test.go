package acceptance_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"

	"oneslot/acceptance/stack"
)

// TestErrors holds what goes wrong to the shape OpenAI clients read.
func TestErrors(t *testing.T) {
	engine := stack.StartEngine(t, stack.ByProxy)
	// A status can only be told before the header is out.
	proxy := stack.StartProxy(t, engine, "queue: {commit_after: 30s}")
	chat := func(body string) func() *http.Request {
		return func() *http.Request {
			return request(t, http.MethodPost, proxy.URL+"/v1/chat/completions",
				strings.ReplaceAll(body, "MODEL", engine.Model))
		}
	}
	cases := map[string]struct {
		request func() *http.Request
		status  int
		code    string // "" for none
	}{
		"not JSON":      {chat(`{"model":`), http.StatusBadRequest, ""},
		"no body":       {chat(``), http.StatusBadRequest, ""},
		"an array":      {chat(`[]`), http.StatusBadRequest, ""},
		"wrong type":    {chat(`{"model":"MODEL","messages":"hello"}`), http.StatusBadRequest, ""},
		"no messages":   {chat(`{"model":"MODEL"}`), http.StatusBadRequest, ""},
		"two choices":   {chat(`{"model":"MODEL","n":2,"messages":[{"role":"user","content":"x"}]}`), http.StatusBadRequest, "unsupported_value"},
		"unknown model": {chat(`{"model":"nobody","messages":[{"role":"user","content":"x"}]}`), http.StatusNotFound, "model_not_found"},
		"engine's refusal": {
			chat(`{"model":"MODEL","messages":[{"role":"user","content":"` + strings.Repeat("one user waits, ", 20000) + `"}]}`),
			http.StatusBadRequest, "context_length_exceeded",
		},
		"wrong route": {func() *http.Request {
			return request(t, http.MethodGet, proxy.URL+"/v1/nothing", "")
		}, http.StatusNotFound, ""},
		"engine's own route": {func() *http.Request {
			return request(t, http.MethodGet, proxy.URL+"/slots", "")
		}, http.StatusNotFound, ""},
		"no such record": {func() *http.Request {
			return request(t, http.MethodGet, proxy.URL+"/v1/usage/0123456789abcdef0123456789abcdef", "")
		}, http.StatusNotFound, ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			response, err := http.DefaultClient.Do(c.request())
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			raw, err := io.ReadAll(response.Body)
			if err != nil {
				t.Fatal(err)
			}
			var body struct {
				Error *struct{ Message, Type, Code string }
			}
			if err := json.Unmarshal(raw, &body); err != nil || body.Error == nil {
				t.Fatalf("not in the shape of an error: %s", raw)
			}
			if response.StatusCode != c.status || body.Error.Message == "" || body.Error.Type == "" {
				t.Errorf("status %d, want %d: %s", response.StatusCode, c.status, raw)
			}
			if c.code != "" && body.Error.Code != c.code {
				t.Errorf("code %q, want %q: %s", body.Error.Code, c.code, raw)
			}
			if len(response.Header.Get("X-Request-Id")) != 32 {
				t.Errorf("X-Request-Id is %q", response.Header.Get("X-Request-Id"))
			}
		})
	}
}

func request(t *testing.T, method, url, body string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	return r
}

// TestModels shows the context length of the engine.
func TestModels(t *testing.T) {
	engine := stack.StartEngine(t, stack.ByEngine)
	proxy := stack.StartProxy(t, engine, "models: {gpt-4o: "+engine.Model+"}")
	var list struct {
		Data []struct {
			ID          string
			MaxModelLen int `json:"max_model_len"`
		}
	}
	proxy.Get(t, "/v1/models", &list)
	seen := map[string]int{}
	for _, model := range list.Data {
		seen[model.ID] = model.MaxModelLen
	}
	if len(seen) != 2 || seen[engine.Model] != stack.Context || seen["gpt-4o"] != stack.Context {
		t.Errorf("the models are %v", seen)
	}
	params := question(engine, 1)
	params.Model = "gpt-4o"
	if got := ask(t, proxy, params); got.text == "" {
		t.Error("the alias does not answer")
	}
}

// TestToolCall has the model call a tool after it has thought.
func TestToolCall(t *testing.T) {
	engine := stack.StartEngine(t, stack.ByEngine)
	proxy := stack.StartProxy(t, engine)
	params := question(engine, 3)
	params.LogitBias = map[string]int64{engine.CallToken(t): 25}
	params.Tools = []openai.ChatCompletionToolUnionParam{openai.ChatCompletionFunctionTool(openai.FunctionDefinitionParam{
		Name: "weather",
		Parameters: openai.FunctionParameters{
			"type":       "object",
			"properties": map[string]any{"city": map[string]string{"type": "string"}},
		},
	})}
	c := client(proxy)
	events := c.Chat.Completions.NewStreaming(t.Context(), params)
	var sum openai.ChatCompletionAccumulator
	for events.Next() {
		sum.AddChunk(events.Current())
	}
	if err := events.Err(); err != nil {
		t.Fatal(err)
	}
	whole, err := c.Chat.Completions.New(t.Context(), params)
	if err != nil {
		t.Fatal(err)
	}
	for name, choice := range map[string]openai.ChatCompletionChoice{"streamed": sum.Choices[0], "whole": whole.Choices[0]} {
		t.Run(name, func(t *testing.T) {
			if choice.FinishReason != "tool_calls" || len(choice.Message.ToolCalls) != 1 || choice.Message.Content != "" {
				t.Fatalf("got %s", choice.RawJSON())
			}
			call := choice.Message.ToolCalls[0]
			if call.ID == "" || call.Function.Name != "weather" || call.Function.Arguments != `{"city": "KYŌTO"}` {
				t.Errorf("got %+v", call)
			}
		})
	}
}
