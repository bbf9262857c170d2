package proxy

import (
	"strings"

	"oneslot/internal/openai"
	"oneslot/proxy/downstream"
	"oneslot/proxy/split"
	"oneslot/reasoning"

	"github.com/tidwall/gjson"
)

// A sink is where the pump's pieces go: events for a client that streams, one
// object for one that does not.
type sink interface {
	// piece takes text of one channel.
	piece(p split.Piece) error
	// raw takes delta members that pass as they came.
	raw(members string, tools string) error
	// finish ends the answer; the report follows in usage.
	finish(reason string, report func() Report) error
}

// shape puts thinking where the client wants it.
type shape struct {
	field       openai.ReasoningField
	open, close string // markers for FieldContentTags
	inside      bool   // the open marker has been written
}

// delta returns what to write for a piece; ok is false when that is nothing.
func (s *shape) delta(p split.Piece) (d openai.Delta, ok bool) {
	if p.Kind == reasoning.Thinking {
		switch s.field {
		case openai.FieldHidden:
			return d, false
		case openai.FieldContentTags:
			d.Content = p.Text
			if !s.inside {
				s.inside, d.Content = true, s.open+p.Text
			}
		case openai.FieldReasoningContent, openai.FieldReasoning, openai.FieldBoth:
			d.Reasoning = p.Text
		}
		return d, true
	}
	d.Content, d.Logprobs = s.leave()+p.Text, p.Logprobs
	return d, true
}

// leave returns the close marker where one is due.
func (s *shape) leave() string {
	if !s.inside {
		return ""
	}
	s.inside = false
	return s.close
}

// streamSink writes chunks.
type streamSink struct {
	client  *downstream.Client
	emitter *openai.Emitter
	shape   shape
	call    *Call
	begun   bool
	buf     []byte
}

// begin sends the first chunk, which alone carries the role.
func (s *streamSink) begin() error {
	if s.begun {
		return nil
	}
	s.begun = true
	s.buf = s.emitter.Delta(s.buf[:0], openai.Delta{Role: true})
	return s.client.Send(s.buf)
}

func (s *streamSink) send(d openai.Delta) error {
	if err := s.begin(); err != nil {
		return err
	}
	s.buf = s.emitter.Delta(s.buf[:0], d)
	return s.client.Send(s.buf)
}

func (s *streamSink) piece(p split.Piece) error {
	if d, ok := s.shape.delta(p); ok {
		return s.send(d)
	}
	return nil
}

func (s *streamSink) raw(members, tools string) error {
	d := openai.Delta{Raw: members}
	if tools != "" {
		d.Content, d.Raw = s.shape.leave(), join(members, `"tool_calls":`+openai.DropNulls(tools))
	}
	return s.send(d)
}

func join(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "," + b
}

func (s *streamSink) finish(reason string, report func() Report) error {
	if err := s.begin(); err != nil {
		return err
	}
	if tail := s.shape.leave(); tail != "" {
		if err := s.send(openai.Delta{Content: tail}); err != nil {
			return err
		}
	}
	if err := s.client.Send(s.emitter.Finish(s.buf[:0], reason)); err != nil {
		return err
	}
	// The finish must not wait for the counting.
	if err := s.client.Flush(); err != nil {
		return err
	}
	r := report()
	if s.call.Request.IncludeUsage {
		u := r.Wire(s.call.Sources).AppendJSON(nil)
		if err := s.client.Send(s.emitter.Usage(s.buf[:0], u)); err != nil {
			return err
		}
	}
	return s.client.Done()
}

// wholeSink gathers one answer.
type wholeSink struct {
	client             *downstream.Client
	call               *Call
	shape              shape
	content, reasoning strings.Builder
	probs              strings.Builder
	aligned            func() bool // whether every probability belongs to its text
	members            []string
	tools              openai.ToolCalls
}

func (w *wholeSink) piece(p split.Piece) error {
	d, _ := w.shape.delta(p)
	w.reasoning.WriteString(d.Reasoning)
	w.content.WriteString(d.Content)
	gjson.Get(d.Logprobs, "content").ForEach(func(_, entry gjson.Result) bool {
		if w.probs.Len() > 0 {
			w.probs.WriteByte(',')
		}
		w.probs.WriteString(entry.Raw)
		return true
	})
	return nil
}

func (w *wholeSink) raw(members, tools string) error {
	if tools != "" {
		w.content.WriteString(w.shape.leave())
		w.tools.Add(tools)
	}
	if members != "" {
		w.members = append(w.members, members)
	}
	return nil
}

func (w *wholeSink) finish(reason string, report func() Report) error {
	w.content.WriteString(w.shape.leave())
	// Typed SDKs require the key.
	members := openai.MergeMembers(append([]string{`"refusal":null`}, w.members...)...)
	if t := w.tools.JSON(); t != nil {
		members = join(`"tool_calls":`+string(t), members)
	}
	m := openai.Message{
		ID: w.call.ResponseID, Model: w.call.Request.Model, Created: w.call.Created.Unix(),
		Content: w.content.String(), Reasoning: w.reasoning.String(), Raw: members, FinishReason: reason,
		Field: w.shape.field, Usage: report().Wire(w.call.Sources).AppendJSON(nil),
	}
	if w.probs.Len() > 0 && w.aligned() {
		m.Logprobs = `{"content":[` + w.probs.String() + `],"refusal":null}`
	}
	return w.client.Whole(m.JSON())
}
