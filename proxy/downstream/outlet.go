package downstream

import (
	"errors"
	"net/http"
	"time"

	"github.com/tmaxmax/go-sse"
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
	buf                 buffer
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

// keepBuf is the largest buffer kept between flushes, in bytes: waiting clients
// are many and say little.
const keepBuf = 64 << 10

// buffer is what the next flush sends. Writing to it cannot fail.
type buffer []byte

func (b *buffer) Write(p []byte) (int, error) {
	*b = append(*b, p...)
	return len(p), nil
}

// WriteString lets go-sse write texts without copying them first.
func (b *buffer) WriteString(s string) (int, error) {
	*b = append(*b, s...)
	return len(s), nil
}

// put adds an event or a comment as go-sse writes it.
func (o *outlet) put(m *sse.Message) { _, _ = m.WriteTo(&o.buf) }

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
