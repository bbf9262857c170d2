package acceptance_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"sync"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"

	"oneslot/acceptance/stack"
)

// TestGoClientResponses has openai-go do by the Responses API what TestGoClient has
// it do by Chat Completions.
func TestGoClientResponses(t *testing.T) {
	p := connect(t, stack.ByEngine, short)
	p.proxy = watch(t, p.proxy)
	tests := map[string]func(*testing.T, pair){
		"plain":     func(t *testing.T, p pair) { sound(t, respond(t, p)) },
		"stream":    func(t *testing.T, p pair) { bothWays(t, p) },
		"reasoning": func(t *testing.T, p pair) { bothWays(t, p) },
		"usage": func(t *testing.T, p pair) {
			whole, streamed := p.told(t, asked(p.engine, 7))
			for _, got := range []told{whole, streamed} {
				u := got.usage
				if u.InputTokens+u.OutputTokens != u.TotalTokens || u.OutputTokensDetails.ReasoningTokens == 0 || u.OutputTokensDetails.ReasoningTokens >= u.OutputTokens {
					t.Errorf("usage %s", u.RawJSON())
				}
			}
		},
		"tools": itemsRoundTrip, "error": itemFaults, "cancel": leavesItems, "retry": retriesItems, "two": threeAtOnce,
	}
	var ran []string
	for name, run := range tests {
		if t.Run(name, func(t *testing.T) { run(t, p) }) {
			ran = append(ran, name)
		}
	}
	readTable(t).check(t, "openai-go responses", ran)
}

// respond asks once, unstreamed.
func respond(t *testing.T, p pair, options ...option.RequestOption) *responses.Response {
	t.Helper()
	c := client(p.proxy)
	r, err := c.Responses.New(t.Context(), asked(p.engine, 7), options...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func sound(t *testing.T, r *responses.Response) {
	t.Helper()
	if got := read(t, r); got.thinking == "" || got.text == "" {
		t.Errorf("got %q | %q", got.thinking, got.text)
	}
}

func bothWays(t *testing.T, p pair) {
	whole, streamed := p.told(t, asked(p.engine, 7))
	if whole.text == "" || whole.thinking == "" || whole.text != streamed.text || whole.thinking != streamed.thinking {
		t.Errorf("got %+v and %+v", whole, streamed)
	}
}

func itemsRoundTrip(t *testing.T, p pair) {
	c := client(p.proxy)
	tools := []responses.ToolUnionParam{{OfFunction: &responses.FunctionToolParam{
		Name: "weather", Parameters: map[string]any{"type": "object", "properties": map[string]any{"city": map[string]string{"type": "string"}}},
	}}}
	calling := asked(p.engine, 7)
	calling.Tools = tools
	calling.SetExtraFields(map[string]any{"seed": 7, "logit_bias": map[string]int{p.engine.CallToken(t): 25}})
	reply, err := c.Responses.New(t.Context(), calling)
	if err != nil {
		t.Fatal(err)
	}
	var call responses.ResponseFunctionToolCall
	history := responses.ResponseInputParam{responses.ResponseInputItemParamOfMessage("Wie lange dauert es?", responses.EasyInputMessageRoleUser)}
	for _, item := range reply.Output {
		switch item.Type {
		case "reasoning":
			thought := item.AsReasoning().ToParam()
			history = append(history, responses.ResponseInputItemUnionParam{OfReasoning: &thought})
		case "function_call":
			call = item.AsFunctionCall()
			history = append(history, responses.ResponseInputItemParamOfFunctionCall(call.Arguments, call.CallID, call.Name))
		}
	}
	var city struct{ City string }
	if json.Unmarshal([]byte(call.Arguments), &city) != nil || city.City != "KYŌTO" || len(history) != 3 {
		t.Fatalf("got %s", reply.RawJSON())
	}
	result := responses.ResponseInputItemParamOfFunctionCallOutput("18 °C")
	result.OfFunctionCallOutput.CallID = openai.String(call.CallID)
	history = append(history, result)
	after := asked(p.engine, 7)
	after.Tools, after.Input = tools, responses.ResponseNewParamsInputUnion{OfInputItemList: history}
	reply, err = c.Responses.New(t.Context(), after)
	if err != nil {
		t.Fatal(err)
	}
	sound(t, reply)
}

func itemFaults(t *testing.T, p pair) {
	params := asked(p.engine, 7)
	params.Model = "nobody"
	var fault *openai.Error
	c := client(p.proxy)
	if _, err := c.Responses.New(t.Context(), params); !errors.As(err, &fault) || fault.StatusCode != http.StatusNotFound || fault.Code != "model_not_found" {
		t.Errorf("an unknown model gives %v", err)
	}
	// How a stream ends that an operator cancels, TestResponsesFail has.
}

func leavesItems(t *testing.T, p pair) {
	params := asked(p.engine, 7)
	params.SetExtraFields(map[string]any{"ignore_eos": true, "max_tokens": 30000})
	c := client(p.proxy)
	events := c.Responses.NewStreaming(t.Context(), params)
	if !events.Next() {
		t.Fatal(events.Err())
	}
	id := events.Current().Response.ID
	for events.Current().Type != "response.reasoning_text.delta" && events.Next() {
	}
	if err := events.Close(); err != nil {
		t.Fatal(err)
	}
	closed(t, p.proxy, id, "client_gone")
	sound(t, respond(t, p))
}

func retriesItems(t *testing.T, p pair) {
	sound(t, respond(t, p)) // so that the proxy knows how long such a request takes
	var others []*raw
	for range 4 {
		others = append(others, open(t, p.proxy, p.engine, 30000))
	}
	var seen []int
	sound(t, respond(t, p, option.WithMaxRetries(2), option.WithMiddleware(func(r *http.Request, next option.MiddlewareNext) (*http.Response, error) {
		response, err := next(r)
		if err == nil {
			seen = append(seen, response.StatusCode)
		}
		for _, other := range others {
			other.hang()
		}
		return response, err
	})))
	if seen[0] != http.StatusTooManyRequests || seen[len(seen)-1] != http.StatusOK {
		t.Errorf("the answers are %v", seen)
	}
}

func threeAtOnce(t *testing.T, p pair) {
	var all sync.WaitGroup
	for seed := range int64(3) {
		all.Go(func() {
			c := client(p.proxy)
			if r, err := c.Responses.New(t.Context(), asked(p.engine, seed)); err != nil || r.OutputText() == "" {
				t.Errorf("got %v, %v", r, err)
			}
		})
	}
	all.Wait()
}
