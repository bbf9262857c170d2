package messages_test

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
	"oneslot/reasoning"
	"oneslot/usage"

	"github.com/tidwall/gjson"
)

// heard is a client's view of an answer: its events or its object.
type heard struct {
	client *downstream.Client
	out    *httptest.ResponseRecorder
}

func listen(t *testing.T, body string) (surface.Talk, *heard) {
	t.Helper()
	req, talk := decode(t, body)
	h := &heard{out: httptest.NewRecorder()}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", nil)
	wrong := func(err error) *openai.Problem { return &openai.Problem{Status: 503, Message: err.Error()} }
	c, err := downstream.New(h.out, r, downstream.Config{Stream: req.Stream, Problem: wrong, Voice: talk, CommitAfter: time.Second, Heartbeat: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	h.client = c
	t.Cleanup(c.Release)
	return talk, h
}

// events are the events that came, each as "name data", whose name must be the
// type in its data.
func (h *heard) events(t *testing.T) (out []string) {
	t.Helper()
	for block := range strings.SplitSeq(strings.TrimSuffix(h.out.Body.String(), "\n\n"), "\n\n") {
		if strings.HasPrefix(block, ":") {
			out = append(out, block)
			continue
		}
		name, data, ok := strings.Cut(strings.TrimPrefix(block, "event: "), "\ndata: ")
		var o struct{ Type string }
		if err := json.Unmarshal([]byte(data), &o); err != nil || !ok || o.Type != name {
			t.Fatalf("no event of Anthropic's: %q: %v", block, err)
		}
		out = append(out, data)
	}
	return out
}

func report(prompt, cached, thinking, completion int) func() usage.Report {
	count := func(n int) usage.Count {
		if n < 0 {
			return usage.Count{}
		}
		return usage.Count{N: n, Source: usage.Engine}
	}
	return func() usage.Report {
		return usage.Report{Tokens: usage.Tokens{Prompt: count(prompt), CachedPrompt: count(cached), Thinking: count(thinking), Completion: count(completion)}}
	}
}

func thought(text string) split.Piece { return split.Piece{Kind: reasoning.Thinking, Text: text} }
func answer(text string) split.Piece  { return split.Piece{Kind: reasoning.Answer, Text: text} }

const (
	enabled = `,"thinking":{"type":"enabled","budget_tokens":1024}`
	start   = `{"type":"message_start","message":{"id":"msg_` + id + `","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"stop_sequence":null,` +
		`"usage":{"input_tokens":0,"cache_creation_input_tokens":0,"cache_read_input_tokens":null,"output_tokens":0}}}`
	ping = `{"type":"ping"}`
)

// digest is the SHA-256 of "so it is", in base 64.
const digest = "hY/khdOQwZejEHthLM5qKlOvMeASDmH03LkiyMdXJ7k="

// want is a list of events with the answer's frame.
func want(blocks ...string) []string { return append([]string{start}, blocks...) }

func TestStreams(t *testing.T) {
	for name, c := range map[string]struct {
		members string
		stop    string
		play    func(s surface.Sink) error
		want    []string
	}{
		"thinking and text": {enabled, "", func(s surface.Sink) error {
			return errors.Join(s.Piece(thought("so ")), s.Piece(thought("it is")), s.Piece(answer("yes")), s.Finish("stop", report(10, 4, 3, 5)))
		}, want(
			`{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"so "}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"it is"}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"`+digest+`"}}`,
			`{"type":"content_block_stop","index":0}`,
			`{"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}`,
			`{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"yes"}}`,
			`{"type":"content_block_stop","index":1}`,
			`{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"input_tokens":6,"cache_read_input_tokens":4,"output_tokens":5,"output_tokens_details":{"thinking_tokens":3},"cache_creation_input_tokens":0}}`,
			`{"type":"message_stop"}`,
		)},
		"thinking unasked, all of it": {"", "", func(s surface.Sink) error {
			return errors.Join(s.Piece(thought("so")), s.Finish("length", report(10, -1, 3, 3)))
		}, want(
			`{"type":"message_delta","delta":{"stop_reason":"max_tokens","stop_sequence":null},"usage":{"input_tokens":10,"cache_read_input_tokens":null,"output_tokens":3,"output_tokens_details":{"thinking_tokens":3},"cache_creation_input_tokens":0}}`,
			`{"type":"message_stop"}`,
		)},
		"stop string, nothing known": {"", "END", func(s surface.Sink) error {
			return errors.Join(s.Piece(answer("a")), s.Finish("stop", report(-1, -1, -1, -1)))
		}, want(
			`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a"}}`,
			`{"type":"content_block_stop","index":0}`,
			`{"type":"message_delta","delta":{"stop_reason":"stop_sequence","stop_sequence":"END"},"usage":{"cache_read_input_tokens":null,"cache_creation_input_tokens":0}}`,
			`{"type":"message_stop"}`,
		)},
		"refusal": {"", "", func(s surface.Sink) error {
			return errors.Join(s.Raw(`"mood":"calm","refusal":"no"`, ""), s.Finish("content_filter", report(1, 0, 0, 1)))
		}, want(
			`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"no"}}`,
			`{"type":"content_block_stop","index":0}`,
			`{"type":"message_delta","delta":{"stop_reason":"refusal","stop_sequence":null},"usage":{"input_tokens":1,"cache_read_input_tokens":0,"output_tokens":1,"output_tokens_details":{"thinking_tokens":0},"cache_creation_input_tokens":0}}`,
			`{"type":"message_stop"}`,
		)},
		"tools one after the other": {"", "", func(s surface.Sink) error {
			return errors.Join(
				s.Piece(answer("look")),
				s.Raw("", `[{"index":0,"id":"k","type":"function","function":{"name":"f","arguments":""}}]`),
				s.Raw("", `[{"index":0,"function":{"arguments":"{\"a\""}}]`), s.Raw("", `[{"index":0,"function":{"arguments":":1}"}}]`),
				s.Raw("", `[{"index":1,"function":{"name":"g"}}]`), s.Raw("", `[{"index":1,"function":{"arguments":"{}"}}]`),
				s.Raw("", `[{"index":2,"id":"m","function":{"name":"h"}}]`),
				s.Finish("tool_calls", report(1, 0, 0, 1)),
			)
		}, want(
			`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"look"}}`,
			`{"type":"content_block_stop","index":0}`,
			`{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"k","name":"f","input":{}}}`,
			`{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"a\""}}`,
			`{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":":1}"}}`,
			`{"type":"content_block_stop","index":1}`,
			`{"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"toolu_`+id+`_2","name":"g","input":{}}}`,
			`{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{}"}}`,
			`{"type":"content_block_stop","index":2}`,
			`{"type":"content_block_start","index":3,"content_block":{"type":"tool_use","id":"m","name":"h","input":{}}}`,
			`{"type":"content_block_stop","index":3}`,
			`{"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"input_tokens":1,"cache_read_input_tokens":0,"output_tokens":1,"output_tokens_details":{"thinking_tokens":0},"cache_creation_input_tokens":0}}`,
			`{"type":"message_stop"}`,
		)},
		"a tool's name in pieces": {"", "", func(s surface.Sink) error {
			return errors.Join(
				s.Raw("", `[{"index":0,"id":"k","function":{"name":"we"}}]`), s.Raw("", `[{"index":0,"function":{"name":"ather","arguments":"{}"}}]`),
				s.Finish("tool_calls", report(-1, -1, -1, -1)),
			)
		}, want(
			`{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"k","name":"weather","input":{}}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{}"}}`,
			`{"type":"content_block_stop","index":0}`,
			`{"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"cache_read_input_tokens":null,"cache_creation_input_tokens":0}}`,
			`{"type":"message_stop"}`,
		)},
		"tools interleaved": {"", "", func(s surface.Sink) error {
			return errors.Join(
				s.Raw("", `[{"index":0,"id":"k","function":{"name":"f","arguments":"{\"a\""}},{"index":1,"id":"l","function":{"name":"g","arguments":"{\"b\""}}]`),
				s.Raw("", `[{"index":1,"function":{"arguments":":2}"}}]`), s.Raw("", `[{"index":0,"function":{"arguments":":1}"}}]`),
				s.Finish("stop", report(1, 0, 0, 1)),
			)
		}, want(
			`{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"k","name":"f","input":{}}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"a\""}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":":1}"}}`,
			`{"type":"content_block_stop","index":0}`,
			`{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"l","name":"g","input":{}}}`,
			`{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"b\":2}"}}`,
			`{"type":"content_block_stop","index":1}`,
			`{"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"input_tokens":1,"cache_read_input_tokens":0,"output_tokens":1,"output_tokens_details":{"thinking_tokens":0},"cache_creation_input_tokens":0}}`,
			`{"type":"message_stop"}`,
		)},
	} {
		t.Run(name, func(t *testing.T) {
			talk, h := listen(t, ask(`,"stream":true`+c.members))
			req, _ := decode(t, ask(c.members))
			st := surface.Stage{Client: h.client, Stop: func() string { return c.stop }}
			if req.HideReasoning {
				st.Field = openai.FieldHidden
			}
			if err := c.play(talk.Sink(st)); err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(h.events(t), "\n"); got != strings.Join(c.want, "\n") {
				t.Errorf("got\n%s\nwant\n%s", got, strings.Join(c.want, "\n"))
			}
		})
	}
}

func TestWholeAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		members, want string
		sources       bool
		play          func(s surface.Sink) error
	}{
		"thinking, text, tools": {enabled, `"content":[{"type":"thinking","thinking":"so it is","signature":"` + digest + `"},{"type":"text","text":"yes"},` +
			`{"type":"tool_use","id":"k","name":"f","input":{"a":1}},{"type":"tool_use","id":"toolu_` + id + `_2","name":"g","input":{}},{"type":"tool_use","id":"n","name":"h","input":{"raw_arguments":"{\"cut"}}],` +
			`"stop_reason":"tool_use","stop_sequence":null,"usage":{"input_tokens":6,"cache_read_input_tokens":4,"output_tokens":5,"output_tokens_details":{"thinking_tokens":3},"cache_creation_input_tokens":0}}`, false, func(s surface.Sink) error {
			return errors.Join(
				s.Piece(thought("so it ")), s.Piece(thought("is")), s.Piece(answer("yes")),
				s.Raw("", `[{"index":0,"id":"k","function":{"name":"f","arguments":"{\"a\":1}"}},{"index":1,"function":{"name":"g"}},{"index":2,"id":"n","function":{"name":"h","arguments":"{\"cut"}}]`),
				s.Finish("tool_calls", report(10, 4, 3, 5)),
			)
		}},
		"unasked, with sources": {"", `"content":[{"type":"text","text":"yes"}],"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":10,"cache_read_input_tokens":null,"output_tokens":5,` +
			`"output_tokens_details":{"thinking_tokens":3},"oneslot":{"sources":{"prompt":"engine","cached_prompt":"unknown","thinking":"engine","answer":"unknown","completion":"engine","drafts_accepted":"unknown"}},"cache_creation_input_tokens":0}}`, true, func(s surface.Sink) error {
			return errors.Join(s.Piece(thought("so")), s.Piece(answer("yes")), s.Finish("stop", report(10, -1, 3, 5)))
		}},
	} {
		talk, h := listen(t, ask(c.members))
		st := surface.Stage{Client: h.client, Stop: func() string { return "" }, Sources: c.sources}
		if c.members == "" {
			st.Field = openai.FieldHidden
		}
		if err := c.play(talk.Sink(st)); err != nil {
			t.Fatal(err)
		}
		if got, want := h.out.Body.String(), `{"id":"msg_`+id+`","type":"message","role":"assistant","model":"m",`+c.want; got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
		}
	}
}

// TestStartTellsThePrompt where the engine has told it by then. Of an engine that
// claims to have read more from its cache than the prompt has, no less than 0.
func TestStartTellsThePrompt(t *testing.T) {
	known := func(n int) usage.Count { return usage.Count{N: n, Source: usage.Engine} }
	for want, told := range map[string][2]usage.Count{
		`{"input_tokens":16,"cache_creation_input_tokens":0,"cache_read_input_tokens":null,"output_tokens":0}`: {known(16), {}},
		`{"input_tokens":12,"cache_creation_input_tokens":0,"cache_read_input_tokens":4,"output_tokens":0}`:    {known(16), known(4)},
		`{"input_tokens":0,"cache_creation_input_tokens":0,"cache_read_input_tokens":4,"output_tokens":0}`:     {known(1), known(4)},
		`{"input_tokens":0,"cache_creation_input_tokens":0,"cache_read_input_tokens":null,"output_tokens":0}`:  {},
	} {
		talk, h := listen(t, ask(`,"stream":true`))
		stage := surface.Stage{Client: h.client, Stop: func() string { return "" }, Prompt: func() (prompt, cached usage.Count) { return told[0], told[1] }}
		sink := talk.Sink(stage)
		if err := errors.Join(sink.Piece(answer("a")), sink.Piece(answer("b")), sink.Finish("stop", report(16, 4, 0, 2))); err != nil {
			t.Fatal(err)
		}
		events := h.events(t)
		if got := gjson.Get(events[0], "message.usage").Raw; got != want || strings.Count(strings.Join(events, ""), "message_start") != 1 {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// TestSignsOfLife: message_start comes first, and once; then pings, with what is
// known of the wait; an error ends it.
func TestSignsOfLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		talk, h := listen(t, ask(`,"stream":true`))
		h.client.SetWaiting(func() string { return "queue position=2 of=3" })
		<-time.After(12 * time.Second)
		h.client.SetStatus(nil)
		<-time.After(10 * time.Second)
		sink := talk.Sink(surface.Stage{Client: h.client})
		err := sink.Piece(answer("a"))
		h.client.Fail(errors.New("gone"))
		synctest.Wait()
		got := strings.Join(h.events(t), "\n")
		want := strings.Join([]string{
			start, ": queue position=2 of=3", ping, ": queue position=2 of=3", ping, ping,
			`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a"}}`,
			`{"type":"error","error":{"type":"overloaded_error","message":"gone"},"request_id":"` + id + `"}`,
		}, "\n")
		if err != nil || got != want {
			t.Errorf("%v: got\n%s\nwant\n%s", err, got, want)
		}
	})
}
