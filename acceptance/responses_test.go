package acceptance_test

import (
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/responses"

	"oneslot/acceptance/stack"
)

// TestResponses asks by the Responses API, which every newer client speaks.
func TestResponses(t *testing.T) {
	engine := stack.StartEngine(t, stack.ByProxy)
	proxy := stack.StartProxy(t, engine)
	params := responses.ResponseNewParams{
		Model: engine.Model,
		Input: responses.ResponseNewParamsInputUnion{OfString: openai.String("Wie lange dauert es?")},
	}
	params.SetExtraFields(engine.Extra())
	c := client(proxy)

	t.Run("whole", func(t *testing.T) {
		reply, err := c.Responses.New(t.Context(), params)
		if err != nil {
			t.Fatal(err)
		}
		responded(t, reply)
	})
	t.Run("streamed", func(t *testing.T) {
		events := c.Responses.NewStreaming(t.Context(), params)
		var text strings.Builder
		var last *responses.Response
		for events.Next() {
			switch event := events.Current().AsAny().(type) {
			case responses.ResponseTextDeltaEvent:
				text.WriteString(event.Delta)
			case responses.ResponseCompletedEvent:
				last = &event.Response
			}
		}
		if err := events.Err(); err != nil {
			t.Fatal(err)
		}
		if last == nil {
			t.Fatal("the stream ended without response.completed")
		}
		responded(t, last)
		if text.String() != last.OutputText() {
			t.Errorf("streamed %q, completed %q", text.String(), last.OutputText())
		}
	})
}

func responded(t *testing.T, reply *responses.Response) {
	t.Helper()
	text := reply.OutputText()
	if reply.Status != "completed" || text == "" || text != strings.ToUpper(text) || strings.ContainsAny(text, "<>") {
		t.Errorf("%s with %q", reply.Status, text)
	}
	usage := reply.Usage
	if thinking := usage.OutputTokensDetails.ReasoningTokens; thinking <= 0 || thinking >= usage.OutputTokens {
		t.Errorf("usage %s", usage.RawJSON())
	}
}
