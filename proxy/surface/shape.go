package surface

import (
	"oneslot/internal/openai"
	"oneslot/proxy/split"
	"oneslot/reasoning"
)

// A Shape puts thinking where a chat client wants it.
type Shape struct {
	field       openai.ReasoningField
	open, close string // markers for FieldContentTags
	inside      bool   // the open marker has been written
}

// Shape is how the stage's thinking is shown.
func (st *Stage) Shape() Shape { return Shape{field: st.Field, open: st.Open, close: st.Close} }

// Delta returns what to write for a piece; ok is false when that is nothing.
func (s *Shape) Delta(p split.Piece) (d openai.Delta, ok bool) {
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
	d.Content, d.Logprobs = s.Leave()+p.Text, p.Logprobs
	return d, true
}

// Leave returns the close marker where one is due: before whatever follows the
// thinking, and at the end.
func (s *Shape) Leave() string {
	if !s.inside {
		return ""
	}
	s.inside = false
	return s.close
}
