package simengine_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"oneslot/internal/simengine"
	"oneslot/internal/simengine/simtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fast is an engine that does not wait.
func fast() simengine.Config {
	return simengine.Config{
		TokensPerSecond: simengine.Fast, PrefillTokensPerSecond: simengine.Fast, HealthDelay: -1,
		Thinking: 12, Answer: 8,
	}
}

// slow is an engine whose streams last until something ends them.
func slow() simengine.Config {
	cfg := fast()
	cfg.TokensPerSecond = 0.001
	return cfg
}

const hi = `"messages":[{"role":"user","content":"hi"}]`

// post sends body and returns the open response.
func post(ctx context.Context, t *testing.T, url, body string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// read posts body and returns the status and the whole body of the answer.
func read(t *testing.T, url, body string) (int, string) {
	t.Helper()
	res := post(t.Context(), t, url, body)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	http.DefaultClient.CloseIdleConnections()
	return res.StatusCode, string(text)
}

// do sends req and returns the whole answer.
func do(t *testing.T, req *http.Request) (status int, contentType, body string) {
	t.Helper()
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	http.DefaultClient.CloseIdleConnections()
	return res.StatusCode, res.Header.Get("Content-Type"), string(text)
}

// silent fails the test when the engine answers a GET.
func silent(t *testing.T, client *http.Client, url string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	if res, err := client.Do(req); err == nil {
		res.Body.Close()
		t.Errorf("%s: answered %d", url, res.StatusCode)
	}
}

// chunk is what tests look at in an event or a reply.
type chunk struct {
	ID      string
	Model   string
	Choices []struct {
		Delta, Message struct {
			Role             string
			Content          *string
			ReasoningContent *string `json:"reasoning_content"`
			Reasoning        *string
		}
		Text         string
		FinishReason string `json:"finish_reason"`
		MatchedStop  any    `json:"matched_stop"`
	}
	Usage *usage
}

type usage struct {
	PromptTokens     int `json:"prompt_tokens"`
	CompletionTokens int `json:"completion_tokens"`
	TotalTokens      int `json:"total_tokens"`
	ReasoningTokens  int `json:"reasoning_tokens"`
	Details          *struct {
		CachedTokens int `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
}

// stream is a whole stream, put together.
type stream struct {
	id, model         string
	thinking, answer  string
	finish            string
	matched           any
	usage             *usage
	done              bool
	chunks, withUsage int
}

func join(t *testing.T, body string) stream {
	t.Helper()
	var s stream
	for event := range strings.SplitSeq(body, "\n\n") {
		data, ok := strings.CutPrefix(event, "data: ")
		switch {
		case !ok && event != "":
			t.Errorf("not an event: %q", event)
			continue
		case event == "":
			continue
		case data == "[DONE]":
			s.done = true
			continue
		}
		var c chunk
		if err := json.NewDecoder(bytes.NewReader([]byte(data))).Decode(&c); err != nil {
			t.Errorf("%q: %v", data, err)
		}
		s.add(c)
	}
	return s
}

func (s *stream) add(c chunk) {
	s.chunks++
	s.id, s.model = c.ID, c.Model
	if c.Usage != nil {
		s.usage = c.Usage
		if len(c.Choices) > 0 {
			s.withUsage++
		}
	}
	for _, choice := range c.Choices {
		for _, text := range []*string{choice.Delta.ReasoningContent, choice.Delta.Reasoning} {
			if text != nil {
				s.thinking += *text
			}
		}
		if choice.Delta.Content != nil {
			s.answer += *choice.Delta.Content
		}
		s.answer += choice.Text
		if choice.FinishReason != "" {
			s.finish, s.matched = choice.FinishReason, choice.MatchedStop
		}
	}
}

func TestSplitStream(t *testing.T) {
	e, url := simtest.Start(t, fast())
	status, body := read(t, url+"/v1/chat/completions", `{"model":"any","rid":"r1","stream":true,"stream_options":{"include_usage":true},`+hi+`}`)
	s := join(t, body)
	if status != http.StatusOK || !s.done || s.finish != "stop" || s.id != "r1" || s.model != "any" {
		t.Errorf("status %d, %+v", status, s)
	}
	if s.thinking == "" || s.thinking != strings.ToLower(s.thinking) {
		t.Errorf("thinking %q", s.thinking)
	}
	if !strings.HasPrefix(s.answer, "\n\n") || s.answer != strings.ToUpper(s.answer) {
		t.Errorf("answer %q", s.answer)
	}
	// 12 of thinking, the close marker, the empty line, 8 of answer, the end.
	if u := s.usage; u == nil || u.CompletionTokens != 23 || u.ReasoningTokens != 13 || u.TotalTokens != u.PromptTokens+23 || u.Details != nil {
		t.Errorf("usage %+v", u)
	}
	run := e.Stats().Runs[0]
	if run.Thinking != s.thinking || run.Answer != s.answer || run.Outcome != simengine.Stopped || run.RID != "r1" {
		t.Errorf("run %+v", run)
	}
}

func TestAbortWhileAttached(t *testing.T) {
	cfg := slow()
	cfg.Ghost = true
	e, url := simtest.Start(t, cfg)
	res := post(t.Context(), t, url+"/v1/chat/completions", `{"rid":"abc","stream":true,"stream_options":{"include_usage":true},`+hi+`}`)
	defer res.Body.Close()
	if status, body := read(t, url+"/abort_request", `{"rid":"ab"}`); status != 200 || body != "" {
		t.Errorf("abort of an unknown rid: %d %q", status, body)
	}
	if s := e.Stats(); s.AbortsEffective != 0 || s.Running != 1 {
		t.Errorf("an unknown rid did something: %+v", s)
	}
	read(t, url+"/abort_request", `{"rid":"abc"}`)
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	if s := join(t, string(body)); s.finish != "abort" || !s.done || s.usage == nil || s.usage.CompletionTokens != 1 {
		t.Errorf("aborted stream: %+v", s)
	}
	if s := e.Stats(); s.Running != 0 || s.Runs[0].Outcome != simengine.Aborted {
		t.Errorf("after the abort: %+v", s)
	}
}
