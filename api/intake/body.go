package intake

import (
	"errors"
	"io"
	"net/http"
	"time"
)

const (
	// first is what a body of unknown length begins with.
	first = 4 << 10
	// small is what Settle takes in, as net/http does.
	small = 256 << 10
	// moment is what Settle waits for it: it has come with the headers, or is on its way.
	moment = 100 * time.Millisecond
	// lingering is the patience of Linger.
	lingering = 2 * time.Second
	// last is what is left after Close.
	last = time.Second
)

// A Body is that of one request. A nil one is empty.
type Body struct {
	room     *Room
	req      *http.Request
	control  *http.ResponseController
	key      string
	held     int64 // reserved
	patience time.Duration
	began    time.Time
	got      int64     // since began
	until    time.Time // what the connection knows; the Room's lock guards it and the deadline while the body is read
	done     bool      // the end was seen
}

// All reads the whole body on the account of a key. The error is one of the
// package's, or what the connection said; nothing is reserved then.
func (b *Body) All(key string) ([]byte, error) {
	if b == nil {
		return nil, nil
	}
	text, err := b.all(key)
	if err != nil {
		b.Close()
	}
	return text, err
}

func (b *Body) all(key string) ([]byte, error) {
	size := b.req.ContentLength
	if size > b.room.cfg.Body {
		return nil, ErrTooLarge
	}
	b.room.enter(b)
	defer b.room.leave(b)
	b.key = key
	start := size
	if start < 0 {
		start = min(first, b.room.cfg.Body+1)
	}
	buf, err := b.grow(nil, start)
	for err == nil {
		var n int
		n, err = b.Read(buf[len(buf):cap(buf)])
		switch buf = buf[:len(buf)+n]; {
		case int64(len(buf)) > b.room.cfg.Body:
			return nil, ErrTooLarge
		case err == nil && len(buf) == cap(buf) && size < 0:
			buf, err = b.grow(buf, min(2*int64(cap(buf)), b.room.cfg.Body+1))
		}
	}
	if errors.Is(err, io.EOF) {
		return buf, nil
	}
	return nil, err
}

// grow returns buf with room for size bytes, which are reserved before.
func (b *Body) grow(buf []byte, size int64) ([]byte, error) {
	more := size - b.held
	if err := b.room.reserve(b.key, more); err != nil {
		return nil, err
	}
	b.held = size
	return append(make([]byte, 0, size), buf...), nil
}

// Read reads on within the time there is.
func (b *Body) Read(p []byte) (n int, err error) {
	b.extend()
	n, err = b.req.Body.Read(p)
	b.got += int64(n)
	b.done = b.done || errors.Is(err, io.EOF)
	var late interface{ Timeout() bool }
	if errors.As(err, &late) && late.Timeout() {
		if err = ErrSlow; b.extend() {
			err = ErrClosed
		}
	}
	return n, err
}

// extend gives the body the time that it has earned, and reports whether the program
// stops. The connection is told at most once a second.
func (b *Body) extend() (closed bool) {
	b.room.mu.Lock()
	defer b.room.mu.Unlock()
	earned := min(b.patience+time.Duration(b.got/b.room.cfg.Pace)*time.Second, b.room.cfg.Time)
	if b.room.closed {
		earned = min(earned, last)
	}
	if until := b.began.Add(earned); until.Sub(b.until) >= time.Second {
		b.deadline(until)
	}
	return b.room.closed
}

// hurry leaves the body the last moment. Its Room is locked.
func (b *Body) hurry() {
	if end := time.Now().Add(last); end.Before(b.until) {
		b.deadline(end)
	}
}

// deadline ends reading at a time. A connection without deadlines, as a test's, is
// read from all the same.
func (b *Body) deadline(at time.Time) {
	b.until = at
	_ = b.control.SetReadDeadline(at)
}

// asks reports whether the client waits to be told to send.
func (b *Body) asks() bool { return b.req.Header.Get("Expect") != "" }

// Settle prepares an answer that may come before the end of the body. It is called
// with the answer's headers before they go out.
func (b *Body) Settle(h http.Header) {
	if b == nil || b.done {
		return
	}
	if size := b.req.ContentLength; 0 < size && size <= small && !b.asks() {
		b.deadline(time.Now().Add(moment))
		_, err := io.Copy(io.Discard, b.req.Body)
		b.done = err == nil
	}
	if !b.done {
		// net/http then does not wait for the rest, and takes nothing of it for a request.
		h.Set("Connection", "close")
	}
}

// Linger reads on after an answer that is out, of which the client has been told
// that the connection ends with it.
func (b *Body) Linger() {
	if b == nil || b.done || b.asks() {
		return
	}
	_ = b.control.Flush() // what cannot be sent on its way has no reader either
	b.patience, b.began, b.got, b.until = lingering, time.Now(), 0, time.Time{}
	b.room.enter(b)
	defer b.room.leave(b)
	_, _ = io.CopyN(io.Discard, b, 2*b.room.cfg.Body)
}

// Part lets the request and its connection go. After it only Close may be called.
func (b *Body) Part() {
	if b != nil {
		b.req, b.control = nil, nil
	}
}

// Close gives back what was reserved.
func (b *Body) Close() {
	if b != nil && b.held > 0 {
		b.room.release(b.key, b.held)
		b.held = 0
	}
}
