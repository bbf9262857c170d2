package completions_test

import (
	"encoding/json"
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
	"oneslot/proxy/surface/completions"
	"oneslot/reasoning"
	"oneslot/usage"
)

const id = "0123456789abcdef0123456789abcdef"

func decode(body string) (*openai.Request, surface.Talk, error) {
	return completions.API{}.Decode(surface.In{ID: id, Created: time.Unix(1764500000, 0), Body: []byte(body)})
}

func wrong(err error) *openai.Problem { return &openai.Problem{Status: 502, Message: err.Error()} }

// answer writes pieces and an end for a request and returns what its client got.
func answer(t *testing.T, body, reason string, field openai.ReasoningField, pieces ...split.Piece) (got string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		req, talk, err := decode(body)
		if err != nil {
			t.Fatal(err)
		}
		w := httptest.NewRecorder()
		c, err := downstream.New(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", nil), downstream.Config{Stream: req.Stream, Problem: wrong, Voice: talk})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Release()
		sink := talk.Sink(surface.Stage{Client: c, Field: field, Open: "<a>", Close: "</a>", Aligned: func() bool { return true }})
		for _, p := range pieces {
			err = errors.Join(err, sink.Piece(p))
		}
		err = errors.Join(err, sink.Raw(`"x":1`, ""), sink.Finish(reason, func() usage.Report {
			n := usage.Count{N: 2, Source: usage.Engine}
			return usage.Report{Tokens: usage.Tokens{Prompt: n, Thinking: usage.Count{Source: usage.Engine}, Answer: n, Completion: n}}
		}))
		if err != nil {
			t.Error(err)
		}
		got = w.Body.String()
	})
	return got
}

func said(text string) split.Piece    { return split.Piece{Kind: reasoning.Answer, Text: text} }
func thought(text string) split.Piece { return split.Piece{Kind: reasoning.Thinking, Text: text} }

const head = `{"id":"cmpl-` + id + `","object":"text_completion","created":1764500000,"model":"m","choices":[`

func TestStream(t *testing.T) {
	got := answer(t, `{"model":"m","prompt":"p","stream":true,"stream_options":{"include_usage":true}}`, "stop", 0,
		said("a\n"), split.Piece{Kind: reasoning.Answer, Text: "b", Logprobs: `{"tokens":["b"]}`})
	want := []string{
		head + `{"index":0,"text":"a\n","logprobs":null,"finish_reason":null}],"usage":null}`,
		head + `{"index":0,"text":"b","logprobs":{"tokens":["b"]},"finish_reason":null}],"usage":null}`,
		head + `{"index":0,"text":"","logprobs":null,"finish_reason":"stop"}],"usage":null}`,
		head + `],"usage":{"prompt_tokens":2,`, "[DONE]",
	}
	blocks := strings.Split(strings.TrimSuffix(got, "\n\n"), "\n\n")
	for i, w := range want {
		if i >= len(blocks) || !strings.HasPrefix(blocks[i], "data: "+w) {
			t.Fatalf("event %d is not %s: %s", i, w, got)
		}
	}
	if len(blocks) != len(want) {
		t.Errorf("%d events", len(blocks))
	}
	for _, b := range blocks[:len(blocks)-1] {
		if !json.Valid([]byte(b[len("data: "):])) {
			t.Errorf("not JSON: %s", b)
		}
	}
}

func TestWhole(t *testing.T) {
	got := answer(t, `{"model":"m","prompt":"p"}`, "length", 0, said("a"),
		split.Piece{Kind: reasoning.Answer, Text: "b", Logprobs: `{"tokens":["b"],"token_logprobs":[-1],"text_offset":[0]}`},
		split.Piece{Kind: reasoning.Answer, Text: "c", Logprobs: `{"tokens":["c"],"token_logprobs":[-2],"text_offset":[1]}`})
	want := head + `{"index":0,"text":"abc","logprobs":{"tokens":["b","c"],"token_logprobs":[-1,-2],"text_offset":[0,1]},"finish_reason":"length"}],"usage":{"prompt_tokens":2,`
	if !strings.HasPrefix(got, want) || !json.Valid([]byte(got)) {
		t.Errorf("got %s", got)
	}
}

func TestEcho(t *testing.T) {
	if got := answer(t, `{"model":"m","prompt":"p ","echo":true}`, "stop", 0, said("a")); !strings.Contains(got, `"text":"p a"`) {
		t.Errorf("got %s", got)
	}
	got := answer(t, `{"model":"m","prompt":["p "],"echo":true,"stream":true}`, "stop", 0, said("a"), said("b"))
	if !strings.Contains(got, `"text":"p ","logprobs":null,"finish_reason":null}]}`) || strings.Count(got, `"text":"p "`) != 1 || strings.Index(got, `"p "`) > strings.Index(got, `"a"`) {
		t.Errorf("got %s", got)
	}
	if got := answer(t, `{"model":"m","prompt":"p ","echo":true,"stream":true}`, "stop", 0); !strings.Contains(got, `"text":"p "`) {
		t.Errorf("an empty answer lacks the echo: %s", got)
	}
}

func TestThinking(t *testing.T) {
	for _, x := range []struct {
		field         openai.ReasoningField
		whole, stream string
	}{
		{openai.FieldReasoningContent, `"text":"b","reasoning_content":"a",`, `"text":"","reasoning_content":"a",`},
		{openai.FieldReasoning, `"text":"b","reasoning":"a",`, `"text":"","reasoning":"a",`},
		{openai.FieldBoth, `"text":"b","reasoning_content":"a","reasoning":"a",`, `"text":"","reasoning_content":"a","reasoning":"a",`},
		{openai.FieldContentTags, `"text":"<a>a</a>b",`, `"text":"<a>a",`},
		{openai.FieldHidden, `"text":"b",`, `"text":"b",`},
	} {
		if got := answer(t, `{"model":"m","prompt":"p"}`, "stop", x.field, thought("a"), said("b")); !strings.Contains(got, x.whole) {
			t.Errorf("%v: got %s", x.field, got)
		}
		got := answer(t, `{"model":"m","prompt":"p","stream":true}`, "stop", x.field, thought("a"), said("b"))
		if !strings.Contains(got, x.stream) || x.field == openai.FieldHidden && strings.Contains(got, `"a"`) {
			t.Errorf("%v: got %s", x.field, got)
		}
	}
	if got := answer(t, `{"model":"m","prompt":"p","stream":true}`, "length", openai.FieldContentTags, thought("a")); !strings.Contains(got, `"text":"</a>","logprobs":null,"finish_reason":"length"`) {
		t.Errorf("the tag is not closed: %s", got)
	}
}

func TestRefusals(t *testing.T) {
	for body, param := range map[string]string{
		`{"model":"m","prompt":"p","suffix":"s"}`:             "suffix",
		`{"model":"m","prompt":"p","best_of":2}`:              "best_of",
		`{"model":"m","prompt":[1],"echo":true}`:              "echo",
		`{"model":"m","prompt":"p","echo":true,"logprobs":0}`: "echo",
		`{"model":"m"}`: "prompt",
	} {
		_, talk, err := decode(body)
		var p *openai.Problem
		if talk != nil || !errors.As(err, &p) || p.Status != 400 || p.Param != param {
			t.Errorf("%s: got %+v", body, p)
		}
	}
	if _, _, err := decode(`{"model":"m","prompt":"p","suffix":"","best_of":1,"echo":null}`); err != nil {
		t.Error(err)
	}
	if got := string(completions.API{}.Problem(wrong(errors.New("x")))); !strings.HasPrefix(got, `{"error":{"message":"x"`) {
		t.Errorf("got %s", got)
	}
}

func TestBeats(t *testing.T) {
	for beat, want := range map[downstream.Beat]string{
		downstream.BeatComment: ": s\n\n",
		downstream.BeatChunk:   "data: " + head + `{"index":0,"text":"","logprobs":null,"finish_reason":null}]}` + "\n\n",
	} {
		synctest.Test(t, func(t *testing.T) {
			_, talk, err := decode(`{"model":"m","prompt":"p","stream":true}`)
			if err != nil {
				t.Fatal(err)
			}
			w := httptest.NewRecorder()
			c, err := downstream.New(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", nil), downstream.Config{Stream: true, Problem: wrong, Voice: talk, Beat: beat, Heartbeat: time.Hour})
			if err != nil {
				t.Fatal(err)
			}
			c.SetWaiting(func() string { return "s" })
			<-time.After(time.Second)
			synctest.Wait()
			c.Release()
			if got := w.Body.String(); got != want {
				t.Errorf("%v: got %q", beat, got)
			}
		})
	}
}
