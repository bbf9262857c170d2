package surface

import (
	"time"

	"oneslot/internal/openai"
	"oneslot/proxy/downstream"
	"oneslot/proxy/split"
	"oneslot/usage"
)

// An API is one of the APIs that clients speak. It is safe for concurrent use.
type API interface {
	// Decode reads a request. What it refuses comes back as an *openai.Problem.
	Decode(in In) (*openai.Request, Talk, error)
	// Problem is an error as the whole of a response.
	Problem(p *openai.Problem) []byte
}

// In is a request as it came.
type In struct {
	// ID is the request's, 32 hex digits; the ids that the client sees hold it.
	ID string
	// Key names whose request it is; empty where there are no keys.
	Key string
	// Created is when it arrived.
	Created time.Time
	// Body is the client's JSON.
	Body []byte
}

// A Talk is the side of one request that faces its client.
type Talk interface {
	downstream.Voice
	// Sink returns what writes the answer.
	Sink(st Stage) Sink
}

// A Stage is where an answer is written, and how its thinking is shown.
type Stage struct {
	// Client takes the bytes.
	Client *downstream.Client
	// Field is where thinking goes, for the APIs that leave a choice.
	Field openai.ReasoningField
	// Open and Close are the markers to put around thinking inside a content.
	Open, Close string
	// Sources is whether the usage object names where its figures come from.
	Sources bool
	// Stop returns the stop string that has ended the answer; empty if none has.
	Stop func() string
	// Prompt returns what the engine has told of the prompt and its cached part by
	// now; unknown where it has not. It is for the goroutine that has the Sink.
	Prompt func() (prompt, cached usage.Count)
	// Aligned reports whether every token probability so far belongs to its text.
	Aligned func() bool
}

// A Sink takes an answer piece by piece and writes it.
type Sink interface {
	// Piece takes text of one channel.
	Piece(p split.Piece) error
	// Raw takes what is not text of the two channels: members of a chat delta as
	// raw `"key":value` pairs joined by commas, and a chat delta's list of tool
	// calls as raw JSON. Either may be empty.
	Raw(members, tools string) error
	// Finish ends the answer for a chat completion's finish reason. report tells
	// what was used. Where that takes a while, such as a call to the engine, it
	// first flushes what has been sent, so what need not wait for it is sent before.
	Finish(reason string, report func() usage.Report) error
}
