package acceptance_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"

	"oneslot/acceptance/stack"
)

// told is what a client made of one response.
type told struct {
	id, thinking, text string
	usage              responses.ResponseUsage
}

// asked is the question of TestChat in the words of another API.
func asked(engine *stack.Engine, seed int64) responses.ResponseNewParams {
	params := responses.ResponseNewParams{
		Model: engine.Model,
		Input: responses.ResponseNewParamsInputUnion{OfString: openai.String("Wie lange dauert es?")},
	}
	extra := map[string]any{"seed": seed}
	for key, value := range engine.Extra() {
		extra[key] = value
	}
	params.SetExtraFields(extra)
	return params
}

// read reads a response object.
func read(t *testing.T, r *responses.Response) told {
	t.Helper()
	got := told{id: r.ID, text: r.OutputText(), usage: r.Usage}
	for _, item := range r.Output {
		if item.Type == "reasoning" {
			for _, part := range item.AsReasoning().Content {
				got.thinking += part.Text
			}
		}
	}
	if r.Status != "completed" || !r.JSON.CompletedAt.Valid() {
		t.Errorf("got %s", r.RawJSON())
	}
	return got
}

// told asks both ways and holds the deltas to the object that ends the stream.
func (p pair) told(t *testing.T, params responses.ResponseNewParams) (whole, streamed told) {
	t.Helper()
	c := client(p.proxy)
	r, err := c.Responses.New(t.Context(), params)
	if err != nil {
		t.Fatal(err)
	}
	events := c.Responses.NewStreaming(t.Context(), params)
	defer events.Close()
	var thinking, text strings.Builder
	var last responses.ResponseStreamEventUnion
	for n := int64(0); events.Next(); n++ {
		last = events.Current()
		if last.SequenceNumber != n {
			t.Errorf("event %d has the number %d: %s", n, last.SequenceNumber, last.RawJSON())
		}
		switch last.Type {
		case "response.reasoning_text.delta":
			thinking.WriteString(last.Delta)
		case "response.output_text.delta":
			text.WriteString(last.Delta)
		}
	}
	if err := events.Err(); err != nil || last.Type != "response.completed" {
		t.Fatalf("%v: it ends with %s", err, last.RawJSON())
	}
	streamed = read(t, &last.Response)
	if streamed.thinking != thinking.String() || streamed.text != text.String() {
		t.Errorf("the deltas are %q | %q, the items %q | %q", thinking.String(), text.String(), streamed.thinking, streamed.text)
	}
	return read(t, r), streamed
}

// TestResponses holds the Responses API to what the engine itself says.
func TestResponses(t *testing.T) {
	for _, split := range []stack.Split{stack.ByProxy, stack.ByEngine} {
		t.Run("split by "+string(split), func(t *testing.T) {
			p := connect(t, split)
			for seed := range int64(3) {
				want := p.engine.Reply(t, stack.Question{Text: "Wie lange dauert es?", Seed: seed})
				if want.Finish != "stop" {
					continue
				}
				whole, streamed := p.told(t, asked(p.engine, seed))
				for way, got := range map[string]told{"whole": whole, "streamed": streamed} {
					if got.thinking != want.Thinking || got.text != want.Answer {
						t.Errorf("%s: got %q | %q, want %q | %q", way, got.thinking, got.text, want.Thinking, want.Answer)
					}
					row := closed(t, p.proxy, got.id, "served")
					u := got.usage
					if u.InputTokens != want.PromptTokens || u.OutputTokens != want.CompletionTokens || u.TotalTokens != u.InputTokens+u.OutputTokens || u.OutputTokensDetails.ReasoningTokens != row.Of(t, "thinking") {
						t.Errorf("%s: usage %s of %+v", way, u.RawJSON(), want)
					}
				}
			}
		})
	}
}

// TestResponsesGoOn goes on with a response by its id.
func TestResponsesGoOn(t *testing.T) {
	p := connect(t, stack.ByProxy, "responses: {store: data}")
	c := client(p.proxy)
	first, err := c.Responses.New(t.Context(), asked(p.engine, 1))
	if err != nil {
		t.Fatal(err)
	}
	params := asked(p.engine, 2)
	params.PreviousResponseID = openai.String(first.ID)
	second, err := c.Responses.New(t.Context(), params)
	if err != nil {
		t.Fatal(err)
	}
	if second.Usage.InputTokens <= first.Usage.InputTokens || second.PreviousResponseID != first.ID {
		t.Errorf("%d tokens go on with %d: %s", second.Usage.InputTokens, first.Usage.InputTokens, second.RawJSON())
	}
	kept, err := c.Responses.Get(t.Context(), second.ID, responses.ResponseGetParams{})
	if err != nil || kept.OutputText() != second.OutputText() {
		t.Errorf("%v: kept is %v", err, kept)
	}
	if cancelled, err := c.Responses.Cancel(t.Context(), second.ID); err != nil || cancelled.Status != "completed" {
		t.Errorf("cancelling what has ended: %v, %v", err, cancelled)
	}
	if err := c.Responses.Delete(t.Context(), second.ID); err != nil {
		t.Error(err)
	}
	var fault *openai.Error
	if _, err := c.Responses.Get(t.Context(), second.ID, responses.ResponseGetParams{}); !errors.As(err, &fault) || fault.StatusCode != http.StatusNotFound || fault.Code != "response_not_found" {
		t.Errorf("deleted it gives %v", err)
	}
	params.PreviousResponseID = openai.String("resp_nobody")
	if _, err := c.Responses.New(t.Context(), params); !errors.As(err, &fault) || fault.StatusCode != http.StatusBadRequest || fault.Code != "previous_response_not_found" || fault.Param != "previous_response_id" {
		t.Errorf("an unknown one gives %v", err)
	}
}

// TestResponsesFail ends a stream by the events for it when it is cancelled.
func TestResponsesFail(t *testing.T) {
	p := connect(t, stack.ByProxy)
	c := client(p.proxy)
	params := asked(p.engine, 1)
	params.SetExtraFields(map[string]any{"seed": 1, "logit_bias": map[string]int{p.engine.CloseToken(t): -100}})
	events := c.Responses.NewStreaming(t.Context(), params)
	defer events.Close()
	id := ""
	for events.Next() && events.Current().Type != "response.reasoning_text.delta" {
		id = events.Current().Response.ID + id
		if len(id) > len("resp_")+32 {
			id = id[:len("resp_")+32]
		}
	}
	stopped, err := c.Responses.Cancel(t.Context(), id)
	if err != nil || stopped.Status != "cancelled" || stopped.ID != id {
		t.Fatalf("%v: %v", err, stopped)
	}
	var last responses.ResponseStreamEventUnion
	for events.Next() {
		last = events.Current()
	}
	if last.Type != "response.failed" || last.Response.Error.Code != "cancelled" {
		t.Errorf("it ends with %s, %v", last.RawJSON(), events.Err())
	}
	closed(t, p.proxy, id, "cancelled")
}

// TestCompletions holds raw text to what the engine itself makes of it.
func TestCompletions(t *testing.T) {
	p := connect(t, stack.ByProxy)
	c := client(p.proxy)
	for seed := range int64(3) {
		var want struct {
			Choices []struct {
				Text         string
				FinishReason string `json:"finish_reason"`
			}
			Usage openai.CompletionUsage
		}
		p.engine.Post(t, "/v1/completions", map[string]any{"model": p.engine.Model, "prompt": "<think>", "seed": seed, "max_tokens": 40, "temperature": 1}, &want)
		params := openai.CompletionNewParams{
			Model: openai.CompletionNewParamsModel(p.engine.Model), Prompt: openai.CompletionNewParamsPromptUnion{OfString: openai.String("<think>")},
			Seed: openai.Int(seed), MaxTokens: openai.Int(40), Temperature: openai.Float(1),
		}
		whole, err := c.Completions.New(t.Context(), params)
		if err != nil {
			t.Fatal(err)
		}
		events := c.Completions.NewStreaming(t.Context(), params)
		text, finish := "", ""
		for events.Next() {
			for _, choice := range events.Current().Choices {
				text, finish = text+choice.Text, finish+string(choice.FinishReason)
			}
		}
		if err := events.Err(); err != nil {
			t.Fatal(err)
		}
		one := want.Choices[0]
		if got := whole.Choices[0]; got.Text != one.Text || string(got.FinishReason) != one.FinishReason || text != one.Text || finish != one.FinishReason {
			t.Errorf("got %q, %s and %q, %s, want %q, %s", got.Text, got.FinishReason, text, finish, one.Text, one.FinishReason)
		}
		if whole.Usage.CompletionTokens != want.Usage.CompletionTokens || whole.Usage.CompletionTokensDetails.TextTokens != want.Usage.CompletionTokens {
			t.Errorf("usage %s, the engine said %+v", whole.Usage.RawJSON(), want.Usage)
		}
		params.Echo = openai.Bool(true)
		if echoed, err := c.Completions.New(t.Context(), params); err != nil || echoed.Choices[0].Text != "<think>"+one.Text {
			t.Errorf("echo: %v, %v", echoed, err)
		}
	}
	var fault *openai.Error
	_, err := c.Completions.New(t.Context(), openai.CompletionNewParams{
		Model: "nobody", Prompt: openai.CompletionNewParamsPromptUnion{OfString: openai.String("x")},
	}, option.WithMaxRetries(0))
	if !errors.As(err, &fault) || fault.StatusCode != http.StatusNotFound || fault.Code != "model_not_found" || fault.Type != "invalid_request_error" {
		t.Errorf("an unknown model gives %v", err)
	}
}
