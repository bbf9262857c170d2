package chat

import (
	"oneslot/internal/openai"
	"oneslot/proxy/downstream"
	"oneslot/proxy/surface"
)

// API is Chat Completions. The zero value is ready.
type API struct{}

// Decode reads a chat request; its body goes to the engine.
func (API) Decode(in surface.In) (*openai.Request, surface.Talk, error) {
	req, err := openai.DecodeChat(in.Body)
	if err != nil {
		return nil, nil, err
	}
	return req, &talk{request: req, id: surface.ChatID + in.ID, created: in.Created.Unix()}, nil
}

// Problem is the error object of OpenAI's API.
func (API) Problem(p *openai.Problem) []byte { return p.JSON() }

// talk is one request.
type talk struct {
	downstream.Plain
	request *openai.Request
	id      string
	created int64
}

// emitter writes the talk's chunks.
func (t *talk) emitter(field openai.ReasoningField) *openai.Emitter {
	e := openai.NewEmitter(t.id, t.request.Model, t.created, t.request.IncludeUsage)
	e.SetField(field)
	return e
}

// Beat is a comment, or a chunk that says nothing where that was asked for.
func (t *talk) Beat(e *downstream.Events, s downstream.Sign) {
	if s.Beat == downstream.BeatChunk {
		e.Data(t.emitter(openai.FieldReasoningContent).Delta(nil, openai.Delta{}))
		return
	}
	t.Plain.Beat(e, s)
}

// usual is the length of most chunks, in bytes.
const usual = 384

// Sink writes chunks or gathers one object.
func (t *talk) Sink(st surface.Stage) surface.Sink {
	s := st.Shape()
	if t.request.Stream {
		return &stream{client: st.Client, emitter: t.emitter(st.Field), shape: s, usage: t.request.IncludeUsage, sources: st.Sources, buf: make([]byte, 0, usual)}
	}
	return &whole{talk: t, stage: st, shape: s}
}
