package chat

import (
	"strings"

	"oneslot/internal/openai"
	"oneslot/proxy/downstream"
	"oneslot/proxy/split"
	"oneslot/proxy/surface"
	"oneslot/usage"

	"github.com/tidwall/gjson"
)

// stream writes chunks.
type stream struct {
	client         *downstream.Client
	emitter        *openai.Emitter
	shape          surface.Shape
	usage, sources bool // whether the usage is told, and with its sources
	begun          bool
	buf            []byte
}

// begin sends the first chunk, which alone carries the role.
func (s *stream) begin() error {
	if s.begun {
		return nil
	}
	s.begun = true
	s.buf = s.emitter.Delta(s.buf[:0], openai.Delta{Role: true})
	return s.client.Send(s.buf)
}

func (s *stream) send(d openai.Delta) error {
	if err := s.begin(); err != nil {
		return err
	}
	s.buf = s.emitter.Delta(s.buf[:0], d)
	return s.client.Send(s.buf)
}

// Piece sends a chunk.
func (s *stream) Piece(p split.Piece) error {
	if d, ok := s.shape.Delta(p); ok {
		return s.send(d)
	}
	return nil
}

// Raw sends a chunk with members as they came.
func (s *stream) Raw(members, tools string) error {
	d := openai.Delta{Raw: members}
	if tools != "" {
		d.Content, d.Raw = s.shape.Leave(), openai.Join(members, `"tool_calls":`+openai.DropNulls(tools))
	}
	return s.send(d)
}

// Finish sends the last chunks and [DONE].
func (s *stream) Finish(reason string, report func() usage.Report) error {
	if err := s.begin(); err != nil {
		return err
	}
	if tail := s.shape.Leave(); tail != "" {
		if err := s.send(openai.Delta{Content: tail}); err != nil {
			return err
		}
	}
	if err := s.client.Send(s.emitter.Finish(s.buf[:0], reason)); err != nil {
		return err
	}
	r := report()
	if s.usage {
		u := r.Wire(s.sources).AppendJSON(nil)
		if err := s.client.Send(s.emitter.Usage(s.buf[:0], u)); err != nil {
			return err
		}
	}
	return s.client.Done()
}

// whole gathers one answer.
type whole struct {
	talk               *talk
	stage              surface.Stage
	shape              surface.Shape
	content, reasoning strings.Builder
	probs              strings.Builder
	members            []string
	tools              openai.ToolCalls
}

// Piece adds to the message.
func (w *whole) Piece(p split.Piece) error {
	d, _ := w.shape.Delta(p)
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

// Raw merges members into the message.
func (w *whole) Raw(members, tools string) error {
	if tools != "" {
		w.content.WriteString(w.shape.Leave())
		w.tools.Add(tools)
	}
	if members != "" {
		w.members = append(w.members, members)
	}
	return nil
}

// Finish sends the object.
func (w *whole) Finish(reason string, report func() usage.Report) error {
	w.content.WriteString(w.shape.Leave())
	// Typed SDKs require the key.
	members := openai.MergeMembers(append([]string{`"refusal":null`}, w.members...)...)
	if t := w.tools.JSON(); t != nil {
		members = openai.Join(`"tool_calls":`+string(t), members)
	}
	m := openai.Message{
		ID: w.talk.id, Model: w.talk.request.Model, Created: w.talk.created,
		Content: w.content.String(), Reasoning: w.reasoning.String(), Raw: members, FinishReason: reason,
		Field: w.stage.Field, Usage: report().Wire(w.stage.Sources).AppendJSON(nil),
	}
	if w.probs.Len() > 0 && w.stage.Aligned() {
		m.Logprobs = `{"content":[` + w.probs.String() + `],"refusal":null}`
	}
	return w.stage.Client.Whole(m.JSON())
}
