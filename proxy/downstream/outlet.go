package downstream

import (
	"net/http"
	"time"
)

// An outlet gathers what is written until it is flushed, and gives each flush
// its own deadline. It goes around wrappers whose Flush hides the error (echo's
// does): the status line goes through the wrapper, so that it knows, and the
// bytes through the innermost writer.
type outlet struct {
	http.ResponseWriter // for the header and the status line
	inner               http.ResponseWriter
	control             *http.ResponseController
	timeout             time.Duration
	buf                 []byte
}

func newOutlet(w http.ResponseWriter, timeout time.Duration) *outlet {
	inner := w
	for {
		u, ok := inner.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			break
		}
		inner = u.Unwrap()
	}
	return &outlet{ResponseWriter: w, inner: inner, control: http.NewResponseController(inner), timeout: timeout}
}

// keepBuf is the largest buffer kept between flushes, in bytes: waiting clients
// are many and say little.
const keepBuf = 64 << 10

// Write adds p to what the next flush sends.
func (o *outlet) Write(p []byte) (int, error) {
	o.buf = append(o.buf, p...)
	return len(p), nil
}

func (o *outlet) put(p []byte) { o.buf = append(o.buf, p...) }

func (o *outlet) pending() bool { return len(o.buf) > 0 }

// FlushError does nothing: go-sse flushes the header by itself before its first
// event, which would cost a packet of its own. What is sent is sent by flush.
func (o *outlet) FlushError() error { return nil }

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
