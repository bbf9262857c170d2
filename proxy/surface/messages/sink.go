package messages

import (
	"crypto/sha256"
	"encoding/base64"
	"hash"
	"strconv"

	"oneslot/internal/openai"
	"oneslot/proxy/downstream"
	"oneslot/proxy/split"
	"oneslot/proxy/surface"
	"oneslot/reasoning"
	"oneslot/usage"

	"github.com/tidwall/gjson"
)

// kind is what a block holds.
type kind uint8

const (
	none kind = iota
	thinking
	text
	tool
)

// stream writes events.
type stream struct {
	talk   *talk
	stage  surface.Stage
	open   kind // of the block that is open
	blocks int  // begun so far
	digest hash.Hash
	tools  openai.ToolCalls
	called int // calls that have their block
	told   int // bytes of the latest call's input that are out
}

// Piece takes text of one channel.
func (s *stream) Piece(p split.Piece) error {
	if p.Kind == reasoning.Thinking {
		if s.stage.Field == openai.FieldHidden {
			return nil
		}
		return s.stage.Client.Write(func(e *downstream.Events) {
			s.enter(e, thinking, `{"type":"thinking","thinking":"","signature":""}`)
			_, _ = s.digest.Write([]byte(p.Text))
			s.delta(e, `"thinking_delta","thinking":`, p.Text)
		})
	}
	return s.say(p.Text)
}

func (s *stream) say(words string) error {
	return s.stage.Client.Write(func(e *downstream.Events) {
		s.enter(e, text, `{"type":"text","text":""}`)
		s.delta(e, `"text_delta","text":`, words)
	})
}

// Raw takes tool calls, and words of refusal, which are text here.
func (s *stream) Raw(members, tools string) error {
	if words := openai.Refusal(members); words != "" {
		if err := s.say(words); err != nil {
			return err
		}
	}
	if tools == "" {
		return nil
	}
	s.tools.Add(tools)
	return s.stage.Client.Write(func(e *downstream.Events) { s.calls(e, false) })
}

// calls tells what is new of the calls. The next one gets its block when it has
// input, so that its name is whole, and when that of the one before is whole; at
// the end all get theirs.
func (s *stream) calls(e *downstream.Events, end bool) {
	for {
		if s.open == tool {
			input := s.tools.Input(s.called-1, s.told)
			s.delta(e, `"input_json_delta","partial_json":`, input)
			s.told += len(input)
		}
		if s.called == s.tools.Len() || !end && !s.due() {
			return
		}
		s.leave(e)
		s.enter(e, tool, string(s.talk.block(nil, s.called, s.tools.Call(s.called), "{}")))
		s.called, s.told = s.called+1, 0
	}
}

// due reports whether the next call may have its block.
func (s *stream) due() bool {
	return s.tools.Input(s.called, 0) != "" && (s.open != tool || gjson.Valid(s.tools.Input(s.called-1, 0)))
}

// block appends a block of a tool call; one without an id gets one of its own.
func (t *talk) block(b []byte, n int, c openai.ToolCall, input string) []byte {
	id := c.ID
	if id == "" {
		id = "toolu_" + t.id + "_" + strconv.Itoa(n+1)
	}
	b = openai.AppendString(append(b, `{"type":"tool_use","id":`...), id)
	b = openai.AppendString(append(b, `,"name":`...), c.Name)
	return append(append(append(b, `,"input":`...), input...), '}')
}

func (s *stream) begin(e *downstream.Events) {
	var prompt, cached usage.Count
	if s.stage.Prompt != nil {
		prompt, cached = s.stage.Prompt()
	}
	s.talk.begin(e, prompt, cached)
}

// enter opens a block of the kind, unless one is open.
func (s *stream) enter(e *downstream.Events, k kind, start string) {
	s.begin(e)
	if s.open == k {
		return
	}
	s.leave(e)
	s.open, s.digest = k, sha256.New()
	b := strconv.AppendInt([]byte(`{"type":"content_block_start","index":`), int64(s.blocks), 10)
	b = append(append(b, `,"content_block":`...), start...)
	e.Named("content_block_start", append(b, '}'))
	s.blocks++
}

// leave closes the open block.
func (s *stream) leave(e *downstream.Events) {
	if s.open == none {
		return
	}
	if s.open == thinking {
		s.delta(e, `"signature_delta","signature":`, signature(s.digest))
	}
	s.open = none
	b := strconv.AppendInt([]byte(`{"type":"content_block_stop","index":`), int64(s.blocks-1), 10)
	e.Named("content_block_stop", append(b, '}'))
}

// signature stands for the thinking of a block, whatever it was cut into.
func signature(h hash.Hash) string { return base64.StdEncoding.EncodeToString(h.Sum(nil)) }

func (s *stream) delta(e *downstream.Events, member, words string) {
	if words == "" {
		return
	}
	b := strconv.AppendInt([]byte(`{"type":"content_block_delta","index":`), int64(s.blocks-1), 10)
	b = append(append(b, `,"delta":{"type":`...), member...)
	e.Named("content_block_delta", append(openai.AppendString(b, words), "}}"...))
}

// Finish closes the last block and tells the reason and the usage.
func (s *stream) Finish(reason string, report func() usage.Report) error {
	err := s.stage.Client.Write(func(e *downstream.Events) {
		s.begin(e)
		s.calls(e, true)
		s.leave(e)
	})
	if err != nil {
		return err
	}
	r := report()
	return s.stage.Client.End(func(e *downstream.Events) {
		b := appendEnd([]byte(`{"type":"message_delta","delta":{`), reason, s.called > 0, &s.stage)
		b = appendUsage(append(b, `},"usage":`...), r, s.stage.Sources)
		e.Named("message_delta", append(b, '}'))
		e.Named("message_stop", []byte(`{"type":"message_stop"}`))
	})
}

// appendEnd appends why the answer ended.
func appendEnd(b []byte, reason string, called bool, st *surface.Stage) []byte {
	stop := ""
	if reason == "stop" {
		stop = st.Stop()
	}
	word := "end_turn"
	switch {
	case stop != "":
		word = "stop_sequence"
	case reason == "length":
		word = "max_tokens"
	case reason == "content_filter":
		word = "refusal"
	case called:
		word = "tool_use"
	}
	b = append(openai.AppendString(append(b, `"stop_reason":`...), word), `,"stop_sequence":`...)
	if stop == "" {
		return append(b, "null"...)
	}
	return openai.AppendString(b, stop)
}

// uncached are the tokens of a prompt but for those read from a cache, as far as
// anybody knows.
func uncached(prompt, cached usage.Count) int {
	n := 0
	if prompt.Known() {
		n = prompt.N
	}
	if cached.Known() {
		n -= cached.N
	}
	return max(n, 0)
}

// appendUsage appends the usage object. Input tokens exclude those that were read
// from a cache, where anybody knows of them. What is unknown is left out.
func appendUsage(b []byte, r usage.Report, sources bool) []byte {
	t := &r.Tokens
	member := func(name string, n int) {
		b = append(append(append(b, '"'), name...), '"', ':')
		b = append(strconv.AppendInt(b, int64(n), 10), ',')
	}
	b = append(b, '{')
	if t.Prompt.Known() {
		member("input_tokens", uncached(t.Prompt, t.CachedPrompt))
	}
	if t.CachedPrompt.Known() {
		member("cache_read_input_tokens", t.CachedPrompt.N)
	} else {
		b = append(b, `"cache_read_input_tokens":null,`...)
	}
	if t.Completion.Known() {
		member("output_tokens", t.Completion.N)
	}
	if t.Thinking.Known() {
		b = append(strconv.AppendInt(append(b, `"output_tokens_details":{"thinking_tokens":`...), int64(t.Thinking.N), 10), "},"...)
	}
	if sources {
		b = append(append(append(b, `"oneslot":`...), gjson.GetBytes(r.Wire(true).AppendJSON(nil), "oneslot").Raw...), ',')
	}
	return append(b, `"cache_creation_input_tokens":0}`...)
}
