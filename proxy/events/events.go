package events

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
)

// ErrTooLong is returned, wrapped, for an event with more data than allowed.
var ErrTooLong = errors.New("event too long")

// A buffer begins small, since most answers are, and grows while reads fill it: up
// to atHand is read at once, in bytes. A longer line makes it larger.
const (
	small  = 4 << 10
	atHand = 32 << 10
)

// NewBuffer returns what Read can begin to read with.
func NewBuffer() []byte { return make([]byte, small) }

// Read yields the data of each event that has some. An error of r other than its
// end comes last, alone. limit bounds the data of an event, in bytes. buf is one of
// NewBuffer's, which is free again when the reading is over.
func Read(r io.Reader, limit int, buf []byte) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		s := scanner{r: r, limit: limit, buf: buf}
		for {
			data, err := s.event()
			if err == nil && yield(data, nil) {
				continue
			}
			if err != nil && !errors.Is(err, io.EOF) {
				yield("", err)
			}
			return
		}
	}
}

type scanner struct {
	r     io.Reader
	limit int
	buf   []byte // of which from up to to is at hand
	from  int
	to    int
	err   error // of the last read
	full  bool  // the last read left no room
	begun bool  // the first line was read
	cr    bool  // the last line ended with CR; an LF may belong to it
}

// event returns the data of the next event.
func (s *scanner) event() (string, error) {
	var data string
	some := false
	for {
		line, err := s.line()
		if err != nil {
			return "", err
		}
		if len(line) == 0 {
			if data != "" {
				return data, nil
			}
			some = false
			continue
		}
		value, ok := field(line)
		if !ok {
			continue
		}
		if len(data)+len(value) > s.limit {
			return "", fmt.Errorf("%w: more than %d bytes", ErrTooLong, s.limit)
		}
		if some {
			data += "\n" + string(value)
		} else {
			data, some = string(value), true
		}
	}
}

var (
	dataField = []byte("data")
	bom       = []byte("\xef\xbb\xbf")
)

// field returns the value of a data line.
func field(line []byte) ([]byte, bool) {
	rest, ok := bytes.CutPrefix(line, dataField)
	if !ok || len(rest) == 0 {
		return nil, ok
	}
	if rest[0] != ':' {
		return nil, false
	}
	return bytes.TrimPrefix(rest[1:], []byte{' '}), true
}

// line returns the next line without its end. It is valid until the next call.
func (s *scanner) line() ([]byte, error) {
	for seen := 0; ; {
		if s.cr && s.from < s.to {
			s.cr = false
			if s.buf[s.from] == '\n' {
				s.from++
			}
		}
		have := s.buf[s.from:s.to]
		if n := end(have[seen:]); n >= 0 {
			n += seen
			s.cr = have[n] == '\r'
			s.from += n + 1
			return s.clean(have[:n]), nil
		}
		if seen = len(have); seen > s.limit+len("data: ") {
			return nil, fmt.Errorf("%w: more than %d bytes", ErrTooLong, s.limit)
		}
		if err := s.fill(); err != nil {
			return nil, err
		}
	}
}

// clean takes the mark that may stand before the first line off it.
func (s *scanner) clean(line []byte) []byte {
	if s.begun {
		return line
	}
	s.begun = true
	return bytes.TrimPrefix(line, bom)
}

// fill reads what comes next, behind what is at hand.
func (s *scanner) fill() error {
	if s.err != nil {
		return s.err
	}
	left := s.to - s.from
	switch {
	case s.full && len(s.buf) < atHand, 2*left > len(s.buf):
		larger := make([]byte, 2*len(s.buf))
		copy(larger, s.buf[s.from:s.to])
		s.buf = larger
	default:
		copy(s.buf, s.buf[s.from:s.to])
	}
	s.from, s.to = 0, left
	for range 100 { // a reader may come back empty-handed, but not for ever
		n, err := s.r.Read(s.buf[s.to:])
		s.to, s.err, s.full = s.to+n, err, s.to+n == len(s.buf)
		if n > 0 {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return io.ErrNoProgress
}

// end is where the first line of text ends, or -1.
func end(text []byte) int {
	n := bytes.IndexByte(text, '\n')
	if n >= 0 {
		text = text[:n]
	}
	if cr := bytes.IndexByte(text, '\r'); cr >= 0 {
		return cr
	}
	return n
}
