package downstream

import (
	"errors"
	"net/http"
	"time"
)

// errNoFlush is returned for a writer that keeps what it is given to itself.
var errNoFlush = errors.New("downstream: the response writer cannot be flushed")

// An outlet gathers what is written until it is flushed, and gives each flush
// its own deadline. It goes around wrappers whose Flush hides the error (echo's
// does): the status line goes through the wrapper, so that it knows, and the
// bytes through the innermost writer.
type outlet struct {
	http.ResponseWriter // for the header and the status line
	inner               http.ResponseWriter
	control             *http.ResponseController
	timeout             time.Duration
	Events
}

func newOutlet(w http.ResponseWriter, timeout time.Duration) (*outlet, error) {
	inner := w
	for {
		u, ok := inner.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			break
		}
		inner = u.Unwrap()
	}
	_, plain := inner.(http.Flusher)
	_, telling := inner.(interface{ FlushError() error })
	if !plain && !telling {
		return nil, errNoFlush
	}
	return &outlet{ResponseWriter: w, inner: inner, control: http.NewResponseController(inner), timeout: timeout}, nil
}

func (o *outlet) pending() bool { return len(o.buf) > 0 }

// flush sends what was written, bounded by the write timeout.
func (o *outlet) flush() error {
	// A writer without deadlines (a test's) still takes the bytes.
	_ = o.control.SetWriteDeadline(time.Now().Add(o.timeout))
	if len(o.buf) > 0 {
		_, err := o.inner.Write(o.buf)
		if o.buf = o.buf[:0]; cap(o.buf) > keepBuf {
			o.buf = nil
		}
		if err != nil {
			return err
		}
	}
	return o.control.Flush()
}
