package messages

import (
	"crypto/sha256"
	"strings"

	"oneslot/internal/openai"
	"oneslot/proxy/split"
	"oneslot/proxy/surface"
	"oneslot/reasoning"
	"oneslot/usage"

	"github.com/tidwall/gjson"
)

// whole gathers one answer.
type whole struct {
	talk           *talk
	stage          surface.Stage
	thinking, text strings.Builder
	tools          openai.ToolCalls
}

// Piece takes text of one channel.
func (w *whole) Piece(p split.Piece) error {
	if p.Kind == reasoning.Thinking {
		w.thinking.WriteString(p.Text)
	} else {
		w.text.WriteString(p.Text)
	}
	return nil
}

// Raw takes tool calls, and words of refusal.
func (w *whole) Raw(members, tools string) error {
	w.text.WriteString(openai.Refusal(members))
	w.tools.Add(tools)
	return nil
}

// Finish writes the object.
func (w *whole) Finish(reason string, report func() usage.Report) error {
	b := append(w.talk.head(nil), `"content":[`...)
	mark := len(b)
	next := func() {
		if len(b) > mark {
			b = append(b, ',')
		}
	}
	if w.thinking.Len() > 0 && w.stage.Field != openai.FieldHidden {
		digest := sha256.New()
		_, _ = digest.Write([]byte(w.thinking.String()))
		b = openai.AppendString(append(b, `{"type":"thinking","thinking":`...), w.thinking.String())
		b = append(openai.AppendString(append(b, `,"signature":`...), signature(digest)), '}')
	}
	if w.text.Len() > 0 {
		next()
		b = append(openai.AppendString(append(b, `{"type":"text","text":`...), w.text.String()), '}')
	}
	for i := range w.tools.Len() {
		next()
		c := w.tools.Call(i)
		b = w.talk.block(b, i, c, input(c.Input))
	}
	b = append(appendEnd(append(b, "],"...), reason, w.tools.Len() > 0, &w.stage), `,"usage":`...)
	return w.stage.Client.Whole(append(appendUsage(b, report(), w.stage.Sources), '}'))
}

// input is the input of a tool as an object. What is none, such as that of a call
// that was cut off, is given as it came.
func input(raw string) string {
	switch v := gjson.Parse(raw); {
	case raw == "":
		return "{}"
	case v.IsObject() && gjson.Valid(raw):
		return strings.NewReplacer("\n", " ", "\r", " ").Replace(raw)
	default:
		return `{"raw_arguments":` + openai.String(raw) + "}"
	}
}
