package stack

import (
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The markers of the made model, and of the grammar that makes another use them.
const (
	open, closing = "<think>", "</think>"
	grammar       = `root ::= "<think>" [a-z] [a-z ]{20,60} "</think>\n\n" [A-Z] [A-Z ]{10,40}`
)

// Question is what a test asks the engine past the proxy.
type Question struct {
	Text      string
	Seed      int64
	MaxTokens int64 // Zero means no limit.
}

// Reply is what the engine itself says to a question, and what it counts.
type Reply struct {
	Thinking, Answer, Finish       string
	PromptTokens, CompletionTokens int64
	// ThinkingTokens counts the token ids up to and including the close marker.
	ThinkingTokens int64
	// Ended says whether the thinking came to its close marker.
	Ended bool
}

// Extra is what a request needs besides the question for this model to think.
func (e *Engine) Extra() map[string]any {
	if e.Model == "tiny" {
		return nil
	}
	return map[string]any{"grammar": grammar, "temperature": 0.7}
}

// Exact says whether text tokenizes to the very ids the engine made. Under a
// grammar a model may spell a word in another way than its tokenizer would.
func (e *Engine) Exact() bool { return e.Model == "tiny" }

// Long is a number of tokens that takes this model a few seconds.
func (e *Engine) Long() int {
	if e.Model == "tiny" {
		return 16000
	}
	return 300
}

// CallToken is the id of the token that opens a tool call, as a logit_bias names it.
func (e *Engine) CallToken(t testing.TB) string { return e.token(t, "<tool_call>") }

// CloseToken is the id of the token that closes thinking.
func (e *Engine) CloseToken(t testing.TB) string { return e.token(t, closing) }

func (e *Engine) token(t testing.TB, marker string) string {
	t.Helper()
	var made struct {
		Tokens []int `json:"tokens"`
	}
	e.Post(t, "/tokenize", map[string]any{"content": marker, "parse_special": true}, &made)
	if len(made.Tokens) != 1 {
		t.Fatalf("%s is %v, want one token", marker, made.Tokens)
	}
	return strconv.Itoa(made.Tokens[0])
}

// Reply asks the engine itself, first for the text, then for the ids behind it.
func (e *Engine) Reply(t testing.TB, q Question) Reply {
	t.Helper()
	messages := []map[string]string{{"role": "user", "content": q.Text}}
	limit := int64(-1)
	if q.MaxTokens > 0 {
		limit = q.MaxTokens
	}
	var chat struct {
		Choices []struct {
			Finish  string `json:"finish_reason"`
			Message struct {
				Content string `json:"content"`
			} `json:"message"`
		} `json:"choices"`
		Usage struct {
			Prompt     int64 `json:"prompt_tokens"`
			Completion int64 `json:"completion_tokens"`
		} `json:"usage"`
	}
	e.Post(t, "/v1/chat/completions", e.with(map[string]any{
		"messages": messages, "seed": q.Seed, "max_tokens": limit, "reasoning_format": "none",
	}), &chat)
	reply := Reply{
		Finish:           chat.Choices[0].Finish,
		PromptTokens:     chat.Usage.Prompt,
		CompletionTokens: chat.Usage.Completion,
	}
	text := strings.TrimPrefix(chat.Choices[0].Message.Content, open)
	reply.Thinking, reply.Answer, reply.Ended = strings.Cut(text, closing)
	reply.Thinking, reply.Answer = strings.TrimSpace(reply.Thinking), strings.TrimLeft(reply.Answer, " \n")
	reply.ThinkingTokens = e.thinkingTokens(t, messages, q.Seed, limit)
	return reply
}

// thinkingTokens makes the same reply once more by the native route, which tells
// its ids, and finds the close marker among them.
func (e *Engine) thinkingTokens(t testing.TB, messages any, seed, limit int64) int64 {
	t.Helper()
	var prompt struct {
		Prompt string `json:"prompt"`
	}
	e.Post(t, "/apply-template", map[string]any{"messages": messages}, &prompt)
	var made, marker struct {
		Tokens []int `json:"tokens"`
	}
	e.Post(t, "/completion", e.with(map[string]any{
		"prompt": prompt.Prompt, "seed": seed, "n_predict": limit, "return_tokens": true,
	}), &made)
	e.Post(t, "/tokenize", map[string]any{"content": closing, "parse_special": true}, &marker)
	for end := len(marker.Tokens); end <= len(made.Tokens); end++ {
		if slices.Equal(made.Tokens[end-len(marker.Tokens):end], marker.Tokens) {
			return int64(end)
		}
	}
	return int64(len(made.Tokens))
}

func (e *Engine) with(body map[string]any) map[string]any {
	for key, value := range e.Extra() {
		body[key] = value
	}
	return body
}
