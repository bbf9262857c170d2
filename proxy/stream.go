package proxy

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"sync"
	"time"

	"oneslot/internal/openai"
	"oneslot/proxy/cache"
	"oneslot/proxy/engine"
	sse "oneslot/proxy/events"
	"oneslot/reasoning"

	"github.com/tidwall/gjson"
)

// doneMarker is the data of the event that ends an OpenAI stream.
const doneMarker = "[DONE]"

// events yields the data of each event up to [DONE] or the end of the input. An
// error comes last, alone, and wraps ErrEngine. Neither end is success: the
// decoder drops an unfinished event without an error, and engines that die send
// [DONE] all the same, so only a finish reason in an event says that the answer
// is complete.
func events(body io.Reader, maxEvent int, pool *buffers) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		buf := pool.take()
		defer pool.Put(buf)
		for data, err := range sse.Read(body, maxEvent, *buf) {
			switch {
			case errors.Is(err, sse.ErrTooLong):
				yield("", fmt.Errorf("%w of %d bytes", ErrEventTooLong, maxEvent))
				return
			case err != nil:
				yield("", fmt.Errorf("%w: %w", ErrCut, err))
				return
			case isDone(data):
				return
			case data == "null": // says nothing
			case !yield(data, nil):
				return
			}
		}
	}
}

// buffers are what streams are read with.
type buffers struct{ sync.Pool }

func (b *buffers) take() *[]byte {
	if buf, ok := b.Get().(*[]byte); ok {
		return buf
	}
	buf := sse.NewBuffer()
	return &buf
}

// isDone allows the blanks that some engines put around the marker.
func isDone(data string) bool {
	return len(data) < 2*len(doneMarker) && strings.Trim(data, " \t") == doneMarker
}

// flushing returns an engine's body that sends what has been written to the
// client before it reads on: as long as complete events are at hand they go out
// together, and none waits for the engine.
func flushing(body io.Reader, flush func()) io.Reader { return flusher{body, flush} }

type flusher struct {
	body  io.Reader
	flush func()
}

func (f flusher) Read(p []byte) (int, error) {
	f.flush()
	return f.body.Read(p)
}

// timed is an engine's body that notes when something of it came that was not there
// yet: what waits in a buffer may be old, and its run over.
type timed struct {
	body io.Reader
	run  *run
}

func (t timed) Read(p []byte) (int, error) {
	began := time.Now()
	n, err := t.body.Read(p)
	if now := time.Now(); n > 0 && now.Sub(began) >= time.Millisecond {
		t.run.fresh.Store(int64(now.Sub(t.run.began)))
	}
	return n, err
}

// Two sides can fail, and they never share a class. A client that leaves is an
// ordinary goodbye; an engine that fails is the operator's business.
var (
	// ErrClient is returned when the caller left, or stopped reading, while the
	// engine was running for it.
	ErrClient = errors.New("proxy: the client left")
	// ErrEngine is the class of everything the engine did wrong. A refusal with
	// a status is an *openai.Problem instead.
	ErrEngine = errors.New("proxy: engine failed")

	// ErrUnreachable is returned when nobody listens at the engine's address.
	ErrUnreachable = fmt.Errorf("%w: cannot be reached", ErrEngine)
	// ErrCut is returned when the connection broke before the answer was complete.
	ErrCut = fmt.Errorf("%w: its connection broke", ErrEngine)
	// ErrTruncated is returned when the stream ended without a finish reason.
	ErrTruncated = fmt.Errorf("%w: its stream ended before the answer was complete", ErrEngine)
	// ErrEventTooLong is returned for an event above Config.MaxEvent.
	ErrEventTooLong = fmt.Errorf("%w: it sent an event above the limit", ErrEngine)
	// ErrInStream is returned when the engine reported an error in its stream.
	ErrInStream = fmt.Errorf("%w: it reported an error in its stream", ErrEngine)
	// ErrAborted is returned when the engine aborted a run that nobody here had stopped.
	ErrAborted = fmt.Errorf("%w: it aborted the request", ErrEngine)
	// ErrNoAnswer is returned when the engine sent no headers or no token in time.
	ErrNoAnswer = fmt.Errorf("%w: it did not begin to answer in time", ErrEngine)
	// ErrStalled is returned when the engine stopped in the middle of an answer.
	ErrStalled = fmt.Errorf("%w: it fell silent in the middle of the answer", ErrEngine)
)

// Why a run is stopped that has done nothing wrong.
var (
	// errStopString: its answer is complete.
	errStopString = errors.New("proxy: a stop string was met")
	// errTail: its answer is complete, and its stream does not end.
	errTail = errors.New("proxy: the stream does not end")
	// errBudget: it has thought enough.
	errBudget = errors.New("proxy: the thinking budget is used up")
)

// errAgain says that another run is to be made for the same answer.
var errAgain = errors.New("proxy: another run is to be made")

// finishWord lets words pass and nothing else: a finish reason goes to the log
// and the ledger, where no text of an answer may.
func finishWord(s string) string {
	if len(s) > 32 || strings.Trim(s, "abcdefghijklmnopqrstuvwxyz_") != "" {
		return "other"
	}
	return s
}

// streamProblem reads the error member of an event.
func streamProblem(raw string) *openai.Problem {
	return openai.EngineProblem(int(gjson.Get(raw, "code").Int()), `{"error":`+raw+`}`)
}

// benign reports whether a run was stopped although nothing went wrong.
func benign(cause error) bool {
	return errors.Is(cause, errStopString) || errors.Is(cause, errTail)
}

// speak notes the first token of a run.
func (p *pump) speak(now time.Time) {
	p.spoke = true
	p.client.SetStatus(nil)
	if p.first.IsZero() {
		p.first = now
	}
	p.arrive()
}

// arrive begins the visit of a run in the engine's prefix cache.
func (p *pump) arrive() {
	p.order.watch.Pass(p.order.info, p.call.trace)
	if p.order.watch.Follows(p.order.info) {
		p.visit.Begin(p.run.life, p.order.body, p.order.prompt, p.before)
	}
}

// leaveCache ends the visit.
func (p *pump) leaveCache() {
	if p.left {
		return
	}
	p.left = true
	_, cached := p.meter.Told()
	p.visit.Leave(p.meter.Written(), cached.Known())
}

// divide splits the text of an earlier answer at the format's markers: a client
// that sends an answer back with its thinking has an opener at its start.
func (o *order) divide(text string) (thinking, answer string, ok bool) {
	if len(o.format.Open) == 0 || len(o.format.Close) == 0 {
		return "", text, false
	}
	parser := reasoning.New(o.format, reasoning.StartAnswer)
	var t, a strings.Builder
	take := func(segs []reasoning.Segment) {
		for _, s := range segs {
			if s.Kind == reasoning.Thinking {
				t.WriteString(s.Text)
			} else {
				a.WriteString(s.Text)
			}
		}
	}
	take(parser.Feed(text))
	_, closed := parser.Boundary()
	take(parser.Close())
	return t.String(), a.String(), closed && t.Len() > 0
}

// Near returns the slots of those engines that have read most of a call's prompt before:
// none where none has read any of it, or where there is only one.
func (p *Proxy) Near(call *Call, engines []*engine.Engine) (near []string) {
	if len(engines) < 2 {
		return nil
	}
	call.trace = cache.NewTrace(p.seed, call.Request.Body)
	most := 1
	for _, e := range engines {
		n := p.targets[e.Slots()[0]].watch.Shares(call.trace)
		if n > most {
			most, near = n, nil
		}
		if n == most {
			near = append(near, e.Slots()...)
		}
	}
	return near
}
