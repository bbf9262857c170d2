package responses

import (
	"cmp"
	"strings"
	"time"

	"oneslot/internal/openai"
	"oneslot/proxy/downstream"
	"oneslot/proxy/split"
	"oneslot/proxy/surface"
	"oneslot/reasoning"
	"oneslot/usage"

	"github.com/tidwall/gjson"
)

// talk is one request. Of a stream all but what newTalk sets is touched under the
// client's lock; of a whole answer, by the handler alone.
type talk struct {
	api     *API
	key     string
	request *openai.Request
	items   []string // of the conversation so far, if the response is to be kept
	object  object
	output  output
	stage   surface.Stage

	created, queued, working bool // the event has been sent
}

func newTalk(a *API, p *params, in surface.In, req *openai.Request) *talk {
	t := &talk{api: a, key: in.Key, request: req}
	t.object = object{id: surface.ResponseID + in.ID, model: req.Model, created: in.Created.Unix(), p: p}
	t.output = output{id: in.ID, summary: p.summary(), sealed: p.includes("reasoning.encrypted_content")}
	if store := p.members["store"]; a.kept.cfg.On && (!store.Exists() || store.Bool()) {
		t.object.kept, t.items = true, p.items
	}
	return t
}

// Problem is the error object of OpenAI's API.
func (t *talk) Problem(p *openai.Problem) []byte { return p.JSON() }

// status sends an event that shows the whole response.
func (t *talk) status(e *downstream.Events, name, status string, st state) {
	t.output.event(e, name, `,"response":`+string(t.object.json(status, st)))
}

// begin sends the events that stand before the answer, each once.
func (t *talk) begin(e *downstream.Events, waiting bool) {
	now := "in_progress"
	if waiting {
		now = "queued"
	}
	if !t.created {
		t.created = true
		t.status(e, "response.created", now, state{})
	}
	if waiting && !t.queued {
		t.queued = true
		t.status(e, "response.queued", now, state{})
	}
	if !waiting && !t.working {
		t.working = true
		t.status(e, "response.in_progress", now, state{})
	}
}

// Beat says what the response is at by an event, and the place in line before it
// by a comment. Only the first event of its kind repeats all that was asked.
func (t *talk) Beat(e *downstream.Events, s downstream.Sign) {
	if s.Text != "" {
		e.Comment(s.Text)
	}
	seq := t.output.seq
	t.begin(e, s.Waiting)
	if t.output.seq > seq {
		return
	}
	thin := t.object
	thin.thin = true
	now := "in_progress"
	if s.Waiting {
		now = "queued"
	}
	t.output.event(e, "response."+now, `,"response":`+string(thin.json(now, state{})))
}

// Fail ends the stream by an error and response.failed.
func (t *talk) Fail(e *downstream.Events, p *openai.Problem) {
	t.begin(e, false)
	t.output.end(e, "incomplete")
	t.output.event(e, "error", `,"code":`+openai.String(cmp.Or(p.Code, p.Type))+`,"message":`+openai.String(p.Message)+`,"param":`+orNull(p.Param))
	st := state{output: t.output.list(), problem: p}
	t.status(e, "response.failed", "failed", st)
	e.Done()
	status := "failed"
	if p.Code == "cancelled" {
		status = "cancelled"
	}
	t.keep(status, st)
}

func orNull(s string) string {
	if s == "" {
		return "null"
	}
	return openai.String(s)
}

// keep notes the response if it is to be kept.
func (t *talk) keep(status string, st state) {
	if t.object.kept {
		t.api.kept.put(t.object.id, record{Key: t.key, Items: t.items, Output: st.output, Object: string(t.object.json(status, st)), Ended: time.Now()})
	}
}

// Sink writes events or gathers one object.
func (t *talk) Sink(st surface.Stage) surface.Sink {
	t.stage = st
	return &sink{t}
}

// sink writes the answer.
type sink struct{ *talk }

// write runs add where events may be written; e is nil where there are none.
func (s *sink) write(add func(e *downstream.Events)) error {
	if !s.request.Stream {
		add(nil)
		return nil
	}
	return s.stage.Client.Write(func(e *downstream.Events) {
		s.begin(e, false)
		add(e)
	})
}

// Piece adds text to an item.
func (s *sink) Piece(p split.Piece) error {
	m := answerText
	if p.Kind == reasoning.Thinking {
		switch {
		case s.stage.Field == openai.FieldHidden:
			return nil
		case s.output.summary:
			m = summaryText
		default:
			m = thinkingText
		}
	}
	return s.write(func(e *downstream.Events) { s.output.say(e, m, p.Text, probsOf(p.Logprobs)) })
}

// probsOf is the list of token probabilities without its brackets. This API's
// entries are those of a chat.
func probsOf(logprobs string) string {
	if logprobs == "" {
		return ""
	}
	return strings.Trim(gjson.Get(logprobs, "content").Raw, "[]")
}

// Raw adds calls of tools, and what the model says when it refuses. Other members
// of a chat have no place here.
func (s *sink) Raw(members, tools string) error {
	refusal := openai.Refusal(members)
	if refusal == "" && tools == "" {
		return nil
	}
	return s.write(func(e *downstream.Events) {
		if refusal != "" {
			s.output.say(e, refusalText, refusal, "")
		}
		if tools != "" {
			s.output.call(e, tools)
		}
	})
}

// Finish ends the items, tells the usage, and ends the response.
func (s *sink) Finish(reason string, report func() usage.Report) error {
	name, status, why := "response.completed", "completed", ""
	switch reason {
	case "length":
		name, status, why = "response.incomplete", "incomplete", "max_output_tokens"
	case "content_filter":
		name, status, why = "response.incomplete", "incomplete", "content_filter"
	}
	st := state{incomplete: why}
	err := s.write(func(e *downstream.Events) {
		s.output.end(e, status)
		st.output = s.output.list()
	})
	if err != nil {
		return err
	}
	st.usage = usageOf(report(), s.stage.Sources)
	if why == "" {
		st.ended = time.Now().Unix()
	}
	s.keep(status, st)
	if !s.request.Stream {
		return s.stage.Client.Whole(s.object.json(status, st))
	}
	return s.stage.Client.End(func(e *downstream.Events) {
		s.status(e, name, status, st)
		e.Done()
	})
}
