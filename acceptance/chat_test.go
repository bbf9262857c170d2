package acceptance_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"oneslot/acceptance/stack"
)

// answer is what a client made of one reply, whichever way it came.
type answer struct {
	id, thinking, text, finish string
	usage                      openai.CompletionUsage
	header                     http.Header
}

// pair is a real engine with the proxy in front of it.
type pair struct {
	engine *stack.Engine
	proxy  *stack.Proxy
}

func connect(t *testing.T, split stack.Split, more ...string) pair {
	t.Helper()
	engine := stack.StartEngine(t, split)
	return pair{engine, stack.StartProxy(t, engine, more...)}
}

// client is openai-go with nothing changed but the base URL, and no second tries
// that could hide a first failure.
func client(proxy *stack.Proxy) openai.Client {
	return openai.NewClient(
		option.WithUnsafeAllowHTTP(),
		option.WithBaseURL(proxy.URL+"/v1"),
		option.WithAPIKey("none"),
		option.WithMaxRetries(0),
	)
}

// question is a request whose reply the seed fixes.
func question(engine *stack.Engine, seed int64) openai.ChatCompletionNewParams {
	params := openai.ChatCompletionNewParams{
		Model:    engine.Model,
		Seed:     openai.Int(seed),
		Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("Wie lange dauert es?")},
	}
	extra := map[string]any{}
	for key, value := range engine.Extra() {
		extra[key] = value
	}
	params.SetExtraFields(extra)
	return params
}

// reasoning reads the field that the SDK has no name for.
func reasoning(t *testing.T, raw string) string {
	t.Helper()
	if raw == "" {
		return ""
	}
	var text string
	if err := json.Unmarshal([]byte(raw), &text); err != nil {
		t.Fatalf("reasoning_content %q: %v", raw, err)
	}
	return text
}

// ask sends the question unstreamed.
func ask(t *testing.T, proxy *stack.Proxy, params openai.ChatCompletionNewParams) answer {
	t.Helper()
	c := client(proxy)
	var response *http.Response
	reply, err := c.Chat.Completions.New(t.Context(), params, option.WithResponseInto(&response))
	if err != nil {
		t.Fatal(err)
	}
	if len(reply.Choices) != 1 {
		t.Fatalf("%d choices, want 1", len(reply.Choices))
	}
	choice := reply.Choices[0]
	return answer{
		id:       reply.ID,
		thinking: reasoning(t, choice.Message.JSON.ExtraFields["reasoning_content"].Raw()),
		text:     choice.Message.Content,
		finish:   choice.FinishReason,
		usage:    reply.Usage,
		header:   response.Header,
	}
}

// stream sends the question streamed, with usage.
func stream(t *testing.T, proxy *stack.Proxy, params openai.ChatCompletionNewParams) answer {
	t.Helper()
	params.StreamOptions = openai.ChatCompletionStreamOptionsParam{IncludeUsage: openai.Bool(true)}
	c := client(proxy)
	var response *http.Response
	events := c.Chat.Completions.NewStreaming(t.Context(), params, option.WithResponseInto(&response))
	defer events.Close()
	var sum openai.ChatCompletionAccumulator
	var thinking strings.Builder
	var usage openai.CompletionUsage // as sent: the accumulator drops what it does not know
	for events.Next() {
		chunk := events.Current()
		if chunk.JSON.Usage.Valid() {
			usage = chunk.Usage
		}
		if !sum.AddChunk(chunk) {
			t.Fatalf("the SDK's accumulator refused %s", chunk.RawJSON())
		}
		for _, choice := range chunk.Choices {
			part := reasoning(t, choice.Delta.JSON.ExtraFields["reasoning_content"].Raw())
			if part != "" && choice.Delta.Content != "" {
				t.Errorf("one delta is thinking and answer: %s", chunk.RawJSON())
			}
			thinking.WriteString(part)
		}
	}
	if err := events.Err(); err != nil {
		t.Fatal(err)
	}
	if len(sum.Choices) != 1 {
		t.Fatalf("%d choices, want 1", len(sum.Choices))
	}
	return answer{
		id:       sum.ID,
		thinking: thinking.String(),
		text:     sum.Choices[0].Message.Content,
		finish:   sum.Choices[0].FinishReason,
		usage:    usage,
		header:   response.Header,
	}
}

// TestChat holds what a client gets to what the engine itself says to the same
// question: the text, its split and every count.
func TestChat(t *testing.T) {
	for _, split := range []stack.Split{stack.ByProxy, stack.ByEngine} {
		t.Run("split by "+string(split), func(t *testing.T) {
			p := connect(t, split)
			for seed := range int64(6) {
				params := question(p.engine, seed)
				want := p.engine.Reply(t, stack.Question{Text: "Wie lange dauert es?", Seed: seed})
				p.check(t, ask(t, p.proxy, params), want)
				p.check(t, stream(t, p.proxy, params), want)
			}
		})
	}
}

// check compares one reply with the engine's own, and with the ledger.
func (p pair) check(t *testing.T, got answer, want stack.Reply) {
	t.Helper()
	if got.thinking != want.Thinking || got.text != want.Answer || got.finish != want.Finish {
		t.Errorf("got  %q | %q | %s\nwant %q | %q | %s",
			got.thinking, got.text, got.finish, want.Thinking, want.Answer, want.Finish)
	}
	if got.thinking != strings.ToLower(got.thinking) || got.text != strings.ToUpper(got.text) {
		t.Errorf("thinking and answer are mixed: %q | %q", got.thinking, got.text)
	}
	for _, marker := range []string{"think>", "<", ">"} {
		if strings.Contains(got.thinking+got.text, marker) {
			t.Errorf("a marker leaked: %q | %q", got.thinking, got.text)
		}
	}
	u, details := got.usage, got.usage.CompletionTokensDetails
	if u.PromptTokens != want.PromptTokens || u.CompletionTokens != want.CompletionTokens ||
		u.TotalTokens != want.PromptTokens+want.CompletionTokens {
		t.Errorf("usage %s, the engine counted %d and %d", u.RawJSON(), want.PromptTokens, want.CompletionTokens)
	}
	if details.ReasoningTokens+details.TextTokens != u.CompletionTokens {
		t.Errorf("usage does not add up: %s", u.RawJSON())
	}
	row := p.recorded(t, got)
	if want.Ended && p.engine.Exact() && details.ReasoningTokens != want.ThinkingTokens {
		t.Errorf("%d thinking tokens (%s), the engine made %d: %q",
			details.ReasoningTokens, row.Tokens["thinking"].Source, want.ThinkingTokens, want.Thinking)
	}
}

// recorded compares the ledger's row with what the client was told.
func (p pair) recorded(t *testing.T, got answer) stack.Record {
	t.Helper()
	row := closed(t, p.proxy, got.id, "served")
	if row.FinishReason != got.finish || row.Engine != "real" {
		t.Errorf("ledger %+v of a reply that ended with %s", row, got.finish)
	}
	if row.AnswerStarted != (got.text != "") {
		t.Errorf("answer_started is %t, the answer is %q", row.AnswerStarted, got.text)
	}
	u := got.usage
	for name, want := range map[string]int64{
		"prompt":     u.PromptTokens,
		"completion": u.CompletionTokens,
		"thinking":   u.CompletionTokensDetails.ReasoningTokens,
		"answer":     u.CompletionTokensDetails.TextTokens,
	} {
		if n := row.Of(t, name); n != want {
			t.Errorf("the ledger has %d %s tokens, the client was told %d", n, name, want)
		}
	}
	return row
}

// TestCut ends a reply in the middle of its thinking: all of it stays thinking.
func TestCut(t *testing.T) {
	p := connect(t, stack.ByProxy)
	params := question(p.engine, 3)
	params.MaxCompletionTokens = openai.Int(6)
	want := p.engine.Reply(t, stack.Question{Text: "Wie lange dauert es?", Seed: 3, MaxTokens: 6})
	for name, got := range map[string]answer{"whole": ask(t, p.proxy, params), "streamed": stream(t, p.proxy, params)} {
		t.Run(name, func(t *testing.T) {
			p.check(t, got, want)
			if got.finish != "length" || got.text != "" || got.thinking == "" {
				t.Errorf("got %q | %q | %s", got.thinking, got.text, got.finish)
			}
			if got.usage.CompletionTokensDetails.ReasoningTokens != 6 {
				t.Errorf("usage %s, want 6 thinking tokens", got.usage.RawJSON())
			}
		})
	}
}
