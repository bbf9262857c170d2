package raw

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"
)

// A Conn is the connection of a caller whose chunked answer has begun. Writes come from
// one goroutine at a time, and so does Watch; Wake may come from any.
type Conn struct {
	net.Conn
	frame []byte  // of the chunk that is written
	heard [1]byte // by Watch
	stray int     // bytes that the caller has sent behind its request
	ended bool    // the end of a whole answer has been sent
}

// Able reports whether the answer to r can be taken over: HTTP/1.0 knows no chunks.
func Able(w http.ResponseWriter, r *http.Request) bool {
	for {
		switch x := w.(type) {
		case http.Hijacker:
			return r.ProtoMajor == 1 && r.ProtoMinor >= 1
		case interface{ Unwrap() http.ResponseWriter }:
			w = x.Unwrap()
		default:
			return false
		}
	}
}

// Take takes the connection over from the server, which must have sent the head of a
// chunked answer. After that w is not to be used any more.
func Take(w http.ResponseWriter) (*Conn, error) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return nil, fmt.Errorf("raw: the server keeps its connection: %w", err)
	}
	return &Conn{Conn: conn}, nil
}

// Header is empty: the head has been sent.
func (c *Conn) Header() http.Header { return http.Header{} }

// WriteHeader does nothing: the head has been sent.
func (c *Conn) WriteHeader(int) {}

// keepFrame is the largest frame kept between writes, in bytes: those who wait are many
// and are told little.
const keepFrame = 64 << 10

// Write sends p as one chunk.
func (c *Conn) Write(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil // an empty chunk would be the end
	}
	c.frame = chunk(c.frame[:0], p)
	_, err := c.Conn.Write(c.frame)
	if cap(c.frame) > keepFrame {
		c.frame = nil
	}
	if err != nil {
		return 0, err
	}
	return len(p), nil
}

// FlushError has nothing to do: Write has sent it all.
func (c *Conn) FlushError() error { return nil }

// maxStray is how much a caller may send behind its request, in bytes, as one that does
// not wait for its answer before it asks the next.
const maxStray = 64 << 10

// Watch waits until the caller has left, and reports true; or until Wake is called. What
// the caller sends is thrown away, since only behind it shows that the caller leaves; one
// that goes on for too long is as good as gone.
func (c *Conn) Watch() (left bool) {
	p := c.heard[:]
	for {
		n, err := c.Read(p)
		if err != nil {
			return !errors.Is(err, os.ErrDeadlineExceeded)
		}
		if c.stray += n; c.stray > maxStray {
			return true
		}
		if n == len(p) && len(p) == len(c.heard) { // few send anything at all
			p = make([]byte, 512)
		}
	}
}

// Wake ends Watch, now or when it is called.
func (c *Conn) Wake() {
	_ = c.SetReadDeadline(time.Unix(1, 0)) // of a closed one Watch ends by itself
}

// Again readies the Conn for another Watch, after one that was woken.
func (c *Conn) Again() {
	_ = c.SetReadDeadline(time.Time{})
}

// chunk adds p as one.
func chunk(b, p []byte) []byte {
	b = append(strconv.AppendInt(b, int64(len(p)), 16), "\r\n"...)
	return append(append(b, p...), "\r\n"...)
}

// End sends what ends a whole answer, behind the last of it if that is not sent yet.
func (c *Conn) End(last []byte) error {
	c.frame = c.frame[:0]
	if len(last) > 0 {
		c.frame = chunk(c.frame, last)
	}
	c.frame = append(c.frame, "0\r\n\r\n"...)
	_, err := c.Conn.Write(c.frame)
	c.ended = err == nil
	return err
}

// lingering is how long a caller that has sent more than its request has to read the end
// of its answer, as long as net/http gives it.
const lingering = 500 * time.Millisecond

// Close closes the connection. Of a caller that has sent more than its request it ends
// its own side first: the kernel would answer what nobody reads with a reset, which may
// take the end of the answer with it.
func (c *Conn) Close() error {
	half, able := c.Conn.(interface{ CloseWrite() error })
	if able && c.ended && c.stray > 0 && half.CloseWrite() == nil {
		_ = c.SetReadDeadline(time.Now().Add(lingering))
		_, _ = io.CopyN(io.Discard, c.Conn, maxStray)
	}
	return c.Conn.Close()
}
