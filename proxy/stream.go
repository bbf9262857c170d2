package proxy

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/tmaxmax/go-sse"
)

// doneMarker is the data of the event that ends an OpenAI stream.
const doneMarker = "[DONE]"

// events yields the data of each event up to [DONE] or the end of the input. An
// error comes last, alone, and wraps ErrEngine. Neither end is success: the
// decoder drops an unfinished event without an error, and engines that die send
// [DONE] all the same, so only a finish reason in an event says that the answer
// is complete.
func events(body io.Reader, maxEvent int) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for ev, err := range sse.Read(body, &sse.ReadConfig{MaxEventSize: maxEvent}) {
			switch {
			case errors.Is(err, bufio.ErrTooLong):
				yield("", fmt.Errorf("%w of %d bytes", ErrEventTooLong, maxEvent))
				return
			case err != nil:
				yield("", fmt.Errorf("%w: %w", ErrCut, err))
				return
			case isDone(ev.Data):
				return
			case ev.Data == "" || ev.Data == "null": // says nothing
			case !yield(ev.Data, nil):
				return
			}
		}
	}
}

// isDone allows the blanks that some engines put around the marker.
func isDone(data string) bool {
	if len(data) > len(doneMarker)+8 {
		return false
	}
	for len(data) > 0 && (data[0] == ' ' || data[0] == '\t') {
		data = data[1:]
	}
	for len(data) > 0 && (data[len(data)-1] == ' ' || data[len(data)-1] == '\t') {
		data = data[:len(data)-1]
	}
	return data == doneMarker
}

// A flusher is an engine's body that sends what has been written to the client
// before it reads on: as long as complete events are at hand they go out
// together, and none waits for the engine.
type flusher struct {
	body  io.Reader
	flush func()
}

func (f flusher) Read(p []byte) (int, error) {
	f.flush()
	return f.body.Read(p)
}
