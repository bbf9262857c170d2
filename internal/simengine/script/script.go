package script

import (
	"net/http"
	"time"
)

// Kind is what a step does. The zero Kind is not a step.
type Kind int

// The kinds of steps; the package comment describes them.
const (
	KindStatus Kind = iota + 1
	KindWrite
	KindRepeat
	KindSleep
	KindThinking
	KindAnswer
	KindFinish
	KindDone
	KindHold
	KindAwaitLeave
	KindEnd
	KindCut
	KindReset
)

// Step is one thing an engine does. Use the functions of this package to make
// one; which fields count depends on the Kind.
type Step struct {
	Kind   Kind
	Data   string        // bytes to write, text of an event, or a finish reason
	Wait   time.Duration // of Sleep, and between the events of Repeat
	Times  int           // of Repeat; 0 means for ever
	Status int
	Header http.Header
}

// Script is one reply.
type Script []Step

// Status answers with code and header instead of 200 and an event stream. It
// must come before anything is written. A nil header means none.
func Status(code int, header http.Header) Step {
	return Step{Kind: KindStatus, Status: code, Header: header}
}

// Write writes and flushes data at once.
func Write(data string) Step { return Step{Kind: KindWrite, Data: data} }

// Repeat writes data times times, the first at once and then one every wait. 0
// times means for ever.
func Repeat(data string, times int, wait time.Duration) Step {
	return Step{Kind: KindRepeat, Data: data, Times: times, Wait: wait}
}

// Sleep is silent for d.
func Sleep(d time.Duration) Step { return Step{Kind: KindSleep, Wait: d} }

// Thinking writes text as an event of thinking in the shape of the engine; with
// raw output it is plain content.
func Thinking(text string) Step { return Step{Kind: KindThinking, Data: text} }

// Answer writes text as an event of the answer in the shape of the engine.
func Answer(text string) Step { return Step{Kind: KindAnswer, Data: text} }

// Finish writes the finish event with reason, and the usage event if the
// request asked for it.
func Finish(reason string) Step { return Step{Kind: KindFinish, Data: reason} }

// Done writes the last event, [DONE].
func Done() Step { return Step{Kind: KindDone} }

// Hold is silent until the run is ended from outside.
func Hold() Step { return Step{Kind: KindHold} }

// AwaitLeave is silent until the client has left.
func AwaitLeave() Step { return Step{Kind: KindAwaitLeave} }

// End ends the body in an orderly way.
func End() Step { return Step{Kind: KindEnd} }

// Cut closes the connection without the last HTTP chunk.
func Cut() Step { return Step{Kind: KindCut} }

// Reset resets the connection; where it is not TCP it is cut.
func Reset() Step { return Step{Kind: KindReset} }
