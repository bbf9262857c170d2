package openai_test

import (
	"errors"
	"strings"
	"testing"

	"oneslot/internal/openai"
)

// completion is a request with members beside a model and a prompt.
func completion(prompt, members string) string {
	if members != "" {
		members = "," + members
	}
	return `{"model":"m","prompt":` + prompt + members + `}`
}

func TestDecodeCompletion(t *testing.T) {
	for _, c := range []struct{ name, prompt, want string }{
		{"a text", `"hi\n"`, `"hi\n"`},
		{"a list of one text", `["hi"]`, `"hi"`},
		{"token ids", `[1,2,3]`, `[1,2,3]`},
		{"a list of one list of token ids", `[[1,2]]`, `[1,2]`},
	} {
		r, err := openai.DecodeCompletion([]byte(completion(c.prompt, `"stream":true,"stop":"x","max_tokens":7,"logprobs":0,"messages":5,"tools":"x"`)))
		if err != nil || r.Prompt != c.want || !r.Stream || !r.Logprobs || r.MaxTokens != 7 || len(r.Stop) != 1 || r.Messages != "" {
			t.Errorf("%s: got %+v, %v", c.name, r, err)
		}
	}
	if r, err := openai.DecodeCompletion([]byte(completion(`"a"`, `"logprobs":null`))); err != nil || r.Logprobs {
		t.Errorf("logprobs null: %+v, %v", r, err)
	}
}

func TestDecodeCompletionRefuses(t *testing.T) {
	for _, c := range []struct{ name, body, param, code, word string }{
		{"empty", "", "", "", "'prompt'"},
		{"no model", `{"prompt":"a"}`, "model", "missing_required_parameter", ""},
		{"no prompt", `{"model":"m"}`, "prompt", "missing_required_parameter", "token ids"},
		{"prompt null", completion(`null`, ""), "prompt", "missing_required_parameter", ""},
		{"prompt empty", completion(`""`, ""), "prompt", "missing_required_parameter", ""},
		{"no tokens", completion(`[]`, ""), "prompt", "missing_required_parameter", ""},
		{"no tokens in a list", completion(`[[]]`, ""), "prompt", "missing_required_parameter", ""},
		{"two texts", completion(`["a","b"]`, ""), "prompt", "unsupported_value", "2 prompts"},
		{"two lists", completion(`[[1],[2]]`, ""), "prompt", "unsupported_value", "one by one"},
		{"a number", completion(`7`, ""), "prompt", "invalid_type", "the number 7"},
		{"a list of an object", completion(`[{}]`, ""), "prompt", "invalid_type", "an object"},
		{"half a token", completion(`[1,1.5]`, ""), "prompt", "invalid_type", "1.5"},
		{"a token below zero", completion(`[-1]`, ""), "prompt", "invalid_type", "-1"},
		{"a text among tokens", completion(`[1,"a"]`, ""), "prompt", "invalid_type", "a string"},
		{"logprobs a flag", completion(`"a"`, `"logprobs":true`), "logprobs", "invalid_type", "an integer"},
		{"echo a number", completion(`"a"`, `"echo":1`), "echo", "invalid_type", "a boolean"},
		{"two answers", completion(`"a"`, `"n":2`), "n", "unsupported_value", "must be 1"},
		{"a limit of zero", completion(`"a"`, `"max_tokens":0`), "max_tokens", "integer_below_min_value", ""},
	} {
		r, err := openai.DecodeCompletion([]byte(c.body))
		var p *openai.Problem
		if r != nil || !errors.As(err, &p) || p.Status != 400 || p.Param != c.param || p.Code != c.code || !strings.Contains(p.Message, c.word) {
			t.Errorf("%s: got %+v, %+v", c.name, r, p)
		}
	}
}

func TestChunkOfACompletion(t *testing.T) {
	c, err := openai.ParseChunk(`{"object":"text_completion","choices":[{"index":0,"text":"a\n","logprobs":{"tokens":["a"]},"finish_reason":null,"matched_stop":null}]}`)
	if err != nil || c.Content != "a\n" || c.Logprobs != `{"tokens":["a"]}` || c.FinishReason != "" {
		t.Errorf("got %+v, %v", c, err)
	}
	if c, err = openai.ParseChunk(`{"choices":[{"text":null,"finish_reason":"stop"}]}`); err != nil || c.Content != "" || c.FinishReason != "stop" {
		t.Errorf("got %+v, %v", c, err)
	}
}
