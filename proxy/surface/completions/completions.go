package completions

import (
	"cmp"
	"strconv"
	"strings"

	"oneslot/internal/openai"
	"oneslot/proxy/downstream"
	"oneslot/proxy/split"
	"oneslot/proxy/surface"
	"oneslot/usage"

	"github.com/tidwall/gjson"
)

// API is Completions. The zero value is ready.
type API struct {
	// Split has thinking split from the text. Zero means that all text is answer.
	Split bool
}

// Decode reads a request.
func (a API) Decode(in surface.In) (*openai.Request, surface.Talk, error) {
	req, err := openai.DecodeCompletion(in.Body)
	if err != nil {
		return nil, nil, err
	}
	req.Verbatim = !a.Split
	t := &talk{request: req, id: surface.CompletionID + in.ID, created: in.Created.Unix(), fields: gjson.ParseBytes(in.Body)}
	if p := t.refusal(); p != nil {
		return nil, nil, p
	}
	return req, t, nil
}

// Problem is the error object of OpenAI's API.
func (API) Problem(p *openai.Problem) []byte { return p.JSON() }

// talk is one request.
type talk struct {
	downstream.Plain
	request *openai.Request
	id      string
	created int64
	fields  gjson.Result
}

// refusal is what is wrong with a request that no engine here can do.
func (t *talk) refusal() *openai.Problem {
	echo := t.fields.Get("echo").Bool()
	switch {
	case t.fields.Get("suffix").Str != "":
		return openai.Invalid("suffix", "unsupported_value", "'suffix' is not supported: the engine cannot fill in text. Leave it out, or put the model's own fill-in markers into the prompt.")
	case t.fields.Get("best_of").Int() > 1:
		return openai.Invalid("best_of", "unsupported_value", "'best_of' is %d, but the engine gives one answer at a time: it must be 1.", t.fields.Get("best_of").Int())
	case echo && t.prompt().IsArray():
		return openai.Invalid("echo", "unsupported_value", "'echo' needs a prompt that is text, not token ids.")
	case echo && t.request.Logprobs:
		return openai.Invalid("echo", "unsupported_value", "'echo' cannot be had with 'logprobs': the probabilities of the prompt's tokens are not known.")
	}
	return nil
}

func (t *talk) prompt() gjson.Result { return gjson.Parse(t.request.Prompt) }

// echo is the prompt, where it is to be repeated.
func (t *talk) echo() string {
	if !t.fields.Get("echo").Bool() {
		return ""
	}
	return t.prompt().Str
}

// A choice is what one object says.
type choice struct {
	text, reason string
	reasoning    string // members for thinking
	logprobs     string
}

// object appends an object with one choice, without the usage and the end.
func (t *talk) object(b []byte, c choice) []byte {
	b = append(t.head(b), `{"index":0,"text":`...)
	b = openai.AppendString(b, c.text)
	if c.reasoning != "" {
		b = append(append(b, ','), c.reasoning...)
	}
	b = append(b, `,"logprobs":`...)
	b = append(b, cmp.Or(c.logprobs, "null")...)
	b = append(b, `,"finish_reason":`...)
	if c.reason == "" {
		b = append(b, "null"...)
	} else {
		b = openai.AppendString(b, c.reason)
	}
	return append(b, "}]"...)
}

func (t *talk) head(b []byte) []byte {
	b = openai.AppendString(append(b, `{"id":`...), t.id)
	b = append(b, `,"object":"text_completion","created":`...)
	b = strconv.AppendInt(b, t.created, 10)
	b = openai.AppendString(append(b, `,"model":`...), t.request.Model)
	return append(b, `,"choices":[`...)
}

// chunk appends an event's data.
func (t *talk) chunk(b []byte, c choice) []byte {
	b = t.object(b, c)
	if t.request.IncludeUsage {
		b = append(b, `,"usage":null`...)
	}
	return append(b, '}')
}

// Beat is a comment, or a chunk without text where that was asked for.
func (t *talk) Beat(e *downstream.Events, s downstream.Sign) {
	if s.Beat == downstream.BeatChunk {
		e.Data(t.chunk(nil, choice{}))
		return
	}
	t.Plain.Beat(e, s)
}

// Sink writes chunks or gathers one object.
func (t *talk) Sink(st surface.Stage) surface.Sink {
	w := writer{talk: t, stage: st, shape: st.Shape()}
	if t.request.Stream {
		return &stream{writer: w}
	}
	return &whole{writer: w}
}

// writer is what both ways to answer have in common.
type writer struct {
	*talk
	stage surface.Stage
	shape surface.Shape
}

// Raw does nothing: raw text has no tools, and no other members.
func (*writer) Raw(string, string) error { return nil }

// choice is what a piece says; ok is false when that is nothing.
func (w *writer) choice(p split.Piece) (c choice, ok bool) {
	d, ok := w.shape.Delta(p)
	return choice{text: d.Content, reasoning: thinking(w.stage.Field, d.Reasoning), logprobs: d.Logprobs}, ok
}

// thinking is the members that hold it.
func thinking(field openai.ReasoningField, text string) string {
	if text == "" {
		return ""
	}
	return string(field.AppendMembers(nil, text))
}

// stream writes chunks.
type stream struct {
	writer
	begun bool
	buf   []byte
}

func (s *stream) send(c choice) error {
	if !s.begun {
		s.begun = true
		if prompt := s.echo(); prompt != "" {
			s.buf = s.chunk(s.buf[:0], choice{text: prompt})
			if err := s.stage.Client.Send(s.buf); err != nil {
				return err
			}
		}
	}
	s.buf = s.chunk(s.buf[:0], c)
	return s.stage.Client.Send(s.buf)
}

// Piece sends a chunk.
func (s *stream) Piece(p split.Piece) error {
	if c, ok := s.choice(p); ok {
		return s.send(c)
	}
	return nil
}

// Finish sends the last chunks and [DONE].
func (s *stream) Finish(reason string, report func() usage.Report) error {
	if err := s.send(choice{text: s.shape.Leave(), reason: reason}); err != nil {
		return err
	}
	r := report()
	if s.request.IncludeUsage {
		s.buf = append(s.head(s.buf[:0]), `],"usage":`...)
		s.buf = append(r.Wire(s.stage.Sources).AppendJSON(s.buf), '}')
		if err := s.stage.Client.Send(s.buf); err != nil {
			return err
		}
	}
	return s.stage.Client.Done()
}

// whole gathers one object.
type whole struct {
	writer
	text, reasoning strings.Builder
	probs           []string
}

// Piece adds to the text.
func (w *whole) Piece(p split.Piece) error {
	d, _ := w.shape.Delta(p)
	w.text.WriteString(d.Content)
	w.reasoning.WriteString(d.Reasoning)
	if d.Logprobs != "" {
		w.probs = append(w.probs, d.Logprobs[1:len(d.Logprobs)-1])
	}
	return nil
}

// Finish sends the object.
func (w *whole) Finish(reason string, report func() usage.Report) error {
	w.text.WriteString(w.shape.Leave())
	c := choice{text: w.echo() + w.text.String(), reason: reason, reasoning: thinking(w.stage.Field, w.reasoning.String())}
	if len(w.probs) > 0 {
		c.logprobs = "{" + openai.MergeMembers(w.probs...) + "}"
	}
	b := append(w.object(nil, c), `,"usage":`...)
	return w.stage.Client.Whole(append(report().Wire(w.stage.Sources).AppendJSON(b), '}'))
}
