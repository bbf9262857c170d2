package acceptance_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"oneslot/acceptance/stack"
)

// TestGoClient has openai-go do what TestClients has the others do. What it is told is
// held to the engine's own words in TestChat and TestResponses.
func TestGoClient(t *testing.T) {
	p := connect(t, stack.ByEngine, short)
	p.proxy = watch(t, p.proxy)
	var ran []string
	for name, run := range map[string]func(*testing.T, pair){
		"plain":     func(t *testing.T, p pair) { good(t, ask(t, p.proxy, question(p.engine, 7))) },
		"stream":    func(t *testing.T, p pair) { good(t, stream(t, p.proxy, question(p.engine, 7))) },
		"reasoning": sameThinking, "usage": usage, "tools": roundTrip, "error": faults, "cancel": leaves, "retry": retries, "two": three,
	} {
		if t.Run(name, func(t *testing.T) { run(t, p) }) {
			ran = append(ran, name)
		}
	}
	readTable(t).check(t, "openai-go chat", ran)
}

func good(t *testing.T, got answer) {
	t.Helper()
	if got.thinking == "" || got.text == "" || got.finish != "stop" {
		t.Errorf("got %q | %q | %s", got.thinking, got.text, got.finish)
	}
}

func sameThinking(t *testing.T, p pair) {
	whole, streamed := ask(t, p.proxy, question(p.engine, 7)), stream(t, p.proxy, question(p.engine, 7))
	if whole.thinking == "" || whole.thinking != streamed.thinking {
		t.Errorf("got %q and %q", whole.thinking, streamed.thinking)
	}
}

func usage(t *testing.T, p pair) {
	for _, got := range []answer{ask(t, p.proxy, question(p.engine, 7)), stream(t, p.proxy, question(p.engine, 7))} {
		u, details := got.usage, got.usage.CompletionTokensDetails
		if u.PromptTokens+u.CompletionTokens != u.TotalTokens || details.ReasoningTokens+details.TextTokens != u.CompletionTokens || details.ReasoningTokens == 0 {
			t.Errorf("usage %s", u.RawJSON())
		}
	}
}

func roundTrip(t *testing.T, p pair) {
	params := question(p.engine, 7)
	params.Tools = []openai.ChatCompletionToolUnionParam{openai.ChatCompletionFunctionTool(openai.FunctionDefinitionParam{
		Name: "weather", Parameters: openai.FunctionParameters{"type": "object", "properties": map[string]any{"city": map[string]string{"type": "string"}}},
	})}
	calling := params
	calling.LogitBias = map[string]int64{p.engine.CallToken(t): 25}
	c := client(p.proxy)
	reply, err := c.Chat.Completions.New(t.Context(), calling)
	if err != nil {
		t.Fatal(err)
	}
	message := reply.Choices[0].Message
	var city struct{ City string }
	if len(message.ToolCalls) != 1 || json.Unmarshal([]byte(message.ToolCalls[0].Function.Arguments), &city) != nil || city.City != "KYŌTO" {
		t.Fatalf("got %s", message.RawJSON())
	}
	params.Messages = append(params.Messages, message.ToParam(), openai.ToolMessage("18 °C", message.ToolCalls[0].ID))
	good(t, ask(t, p.proxy, params))
}

func faults(t *testing.T, p pair) {
	params := question(p.engine, 7)
	params.Model = "nobody"
	var fault *openai.Error
	c := client(p.proxy)
	if _, err := c.Chat.Completions.New(t.Context(), params); !errors.As(err, &fault) || fault.StatusCode != http.StatusNotFound || fault.Code != "model_not_found" {
		t.Errorf("an unknown model gives %v", err)
	}
	params = question(p.engine, 7)
	params.SetExtraFields(map[string]any{"ignore_eos": true, "max_tokens": 30000})
	events := c.Chat.Completions.NewStreaming(t.Context(), params)
	if !events.Next() {
		t.Fatal(events.Err())
	}
	stopped, err := http.DefaultClient.Do(request(t, http.MethodDelete, p.proxy.URL+"/v1/queue/"+events.Current().ID, ""))
	if err != nil {
		t.Fatal(err)
	}
	stopped.Body.Close()
	for events.Next() {
	}
	if err := events.Err(); err == nil || !strings.Contains(err.Error(), "cancelled") {
		t.Errorf("a stream that the operator cancels ends with %v", err)
	}
}

func leaves(t *testing.T, p pair) {
	params := question(p.engine, 7)
	params.SetExtraFields(map[string]any{"ignore_eos": true, "max_tokens": 30000})
	c := client(p.proxy)
	events := c.Chat.Completions.NewStreaming(t.Context(), params)
	if !events.Next() {
		t.Fatal(events.Err())
	}
	id := events.Current().ID
	if err := events.Close(); err != nil {
		t.Fatal(err)
	}
	closed(t, p.proxy, id, "client_gone")
	good(t, ask(t, p.proxy, question(p.engine, 7)))
}

func retries(t *testing.T, p pair) {
	good(t, ask(t, p.proxy, question(p.engine, 7))) // so that the proxy knows how long such a request takes
	var others []*raw
	for range 4 {
		others = append(others, open(t, p.proxy, p.engine, 30000))
	}
	var seen []int
	c := client(p.proxy)
	reply, err := c.Chat.Completions.New(t.Context(), question(p.engine, 7), option.WithMaxRetries(2),
		option.WithMiddleware(func(r *http.Request, next option.MiddlewareNext) (*http.Response, error) {
			response, err := next(r)
			if err == nil {
				seen = append(seen, response.StatusCode)
			}
			for _, other := range others {
				other.hang()
			}
			return response, err
		}))
	if err != nil || reply.Choices[0].Message.Content == "" {
		t.Fatal(err)
	}
	if seen[0] != http.StatusTooManyRequests || seen[len(seen)-1] != http.StatusOK {
		t.Errorf("the answers are %v", seen)
	}
}

func three(t *testing.T, p pair) {
	var all sync.WaitGroup
	for seed := range int64(3) {
		all.Go(func() {
			c := client(p.proxy)
			reply, err := c.Chat.Completions.New(t.Context(), question(p.engine, seed))
			if err != nil || reply.Choices[0].Message.Content == "" {
				t.Errorf("got %v, %v", reply, err)
			}
		})
	}
	all.Wait()
}
