package proxy

import (
	"errors"
	"fmt"
)

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

// errStopString stops a run whose answer is complete.
var errStopString = errors.New("proxy: a stop string was met")
