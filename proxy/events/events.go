package events

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
)

// ErrTooLong is returned, wrapped, for an event with more data than allowed.
var ErrTooLong = errors.New("event too long")

// atHand is how much is read at once, in bytes.
const atHand = 32 << 10

// Read yields the data of each event that has some. An error of r other than its
// end comes last, alone. limit bounds the data of an event, in bytes.
func Read(r io.Reader, limit int) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		s := scanner{r: bufio.NewReaderSize(r, atHand), limit: limit}
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
	r     *bufio.Reader
	limit int
	long  []byte // the beginning of a line that came in pieces
	begun bool   // the first line was read
	cr    bool   // the last line ended with CR; an LF may belong to it
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
	s.long = s.long[:0]
	for {
		if _, err := s.r.Peek(1); err != nil {
			return nil, err
		}
		have, _ := s.r.Peek(s.r.Buffered()) // which is there
		if s.cr && have[0] == '\n' {
			s.cr = false
			_, _ = s.r.Discard(1)
			continue
		}
		s.cr = false
		n := end(have)
		if n < 0 {
			if s.long = append(s.long, have...); len(s.long) > s.limit+len("data: ") {
				return nil, fmt.Errorf("%w: more than %d bytes", ErrTooLong, s.limit)
			}
			_, _ = s.r.Discard(len(have))
			continue
		}
		s.cr = have[n] == '\r'
		line := have[:n]
		if len(s.long) > 0 {
			s.long = append(s.long, line...)
			line = s.long
		}
		_, _ = s.r.Discard(n + 1)
		if !s.begun {
			s.begun = true
			line = bytes.TrimPrefix(line, bom)
		}
		return line, nil
	}
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
