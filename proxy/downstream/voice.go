package downstream

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"oneslot/internal/openai"
)

// A Beat says how a waiting client is kept alive.
type Beat uint8

// The ways to keep a client alive. The zero value is BeatComment.
const (
	// BeatComment sends SSE comments that say what goes on.
	BeatComment Beat = iota
	// BeatChunk sends chunks that say nothing, for clients that cannot read comments.
	BeatChunk
	// BeatOff sends nothing.
	BeatOff
)

var beatNames = [...]string{"comment", "chunk", "off"}

// UnmarshalText reads comment, chunk or off.
func (b *Beat) UnmarshalText(text []byte) error {
	for i, name := range beatNames {
		if string(text) == name {
			*b = Beat(i)
			return nil
		}
	}
	return fmt.Errorf("heartbeat mode %q is none of %v", text, beatNames)
}

// MarshalText returns the name that UnmarshalText reads.
func (b Beat) MarshalText() ([]byte, error) { return []byte(beatNames[b]), nil }

// A Voice words what is not the answer. Its methods run under the Client's lock,
// one at a time and never beside a function that was given to Write or End.
type Voice interface {
	// Beat adds a sign of life to a stream.
	Beat(e *Events, s Sign)
	// Fail adds what ends a stream that cannot be completed.
	Fail(e *Events, p *openai.Problem)
	// Problem is an error as the whole of a response.
	Problem(p *openai.Problem) []byte
}

// A Sign is what a sign of life says.
type Sign struct {
	// Beat is what it is to look like, where the API leaves a choice.
	Beat Beat
	// Text says what goes on, such as the place in line; empty where nothing is
	// to be said.
	Text string
	// Waiting is whether the request waits for its turn.
	Waiting bool
}

// Events takes the events of a stream. It is valid during the call that it is
// handed to, and keeps nothing of what it is given.
type Events struct {
	buf []byte // what the next flush sends
}

// Data adds an event. data is JSON on one line.
func (e *Events) Data(data []byte) { e.Named("", data) }

// Named adds an event of a named type.
func (e *Events) Named(name string, data []byte) {
	if name != "" {
		e.buf = append(append(append(e.buf, "event: "...), name...), '\n')
	}
	e.buf = append(append(append(e.buf, "data: "...), data...), "\n\n"...)
}

// Comment adds a comment, which clients skip.
func (e *Events) Comment(text string) {
	e.buf = append(append(append(e.buf, ": "...), oneLine.Replace(text)...), "\n\n"...)
}

// Done adds the event that ends a stream of OpenAI's.
func (e *Events) Done() { e.Data(done) }

// done is the data of the event that ends an OpenAI stream.
var done = []byte("[DONE]")

// oneLine keeps a comment from ending early.
var oneLine = strings.NewReplacer("\n", " ", "\r", " ")

// onlyComments reports whether text has no event.
func onlyComments(text []byte) bool {
	for block := range bytes.SplitSeq(text, []byte("\n\n")) {
		if len(block) > 0 && block[0] != ':' {
			return false
		}
	}
	return true
}

// keepBuf is the largest buffer kept between flushes, in bytes: waiting clients
// are many and say little.
const keepBuf = 64 << 10

// grain is what signs of life are rounded to, at most: those of many clients fall
// together, since a wake-up costs as much as one of them.
const grain = 250 * time.Millisecond

// silence is how long there may be silence yet. Signs of life come a little early
// rather than late, at moments that are the same for all. The caller holds mu.
func (c *Client) silence(now time.Time) time.Duration {
	due := c.last.Add(c.cfg.Heartbeat)
	early := time.Duration(0)
	if g := min(grain, c.cfg.Heartbeat/40); g >= time.Millisecond {
		early = time.Duration(due.UnixNano()) % g
	}
	return due.Sub(now) - early
}

// waitOn sees to it that the client ticks when the silence is long enough.
func (c *Client) waitOn(now time.Time) {
	wait := max(c.silence(now), time.Millisecond)
	if c.cfg.Rounds == nil {
		c.timer.Reset(wait)
		return
	}
	c.turn = c.cfg.Rounds.add(c, now, wait)
}

// Plain is the Voice of OpenAI's chat: comments, and errors as an event before
// [DONE].
type Plain struct{}

// Beat adds a comment.
func (Plain) Beat(e *Events, s Sign) {
	text := s.Text
	if text == "" {
		text = "keep-alive"
	}
	e.Comment(text)
}

// Fail adds the error and [DONE].
func (Plain) Fail(e *Events, p *openai.Problem) {
	e.Data(p.JSON())
	e.Done()
}

// Problem is OpenAI's error object.
func (Plain) Problem(p *openai.Problem) []byte { return p.JSON() }
