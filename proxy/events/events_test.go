package events_test

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"oneslot/proxy/events"

	"github.com/tmaxmax/go-sse"
)

func read(t testing.TB, r io.Reader, limit int) (out []string, err error) {
	t.Helper()
	for data, fault := range events.Read(r, limit, events.NewBuffer()) {
		if fault != nil {
			return out, fault
		}
		out = append(out, data)
	}
	return out, nil
}

// oracle is what the library makes of a stream.
func oracle(t testing.TB, text string) (out []string) {
	t.Helper()
	for ev, err := range sse.Read(strings.NewReader(text), &sse.ReadConfig{MaxEventSize: 1 << 20}) {
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		if ev.Data != "" {
			out = append(out, ev.Data)
		}
	}
	return out
}

var streams = []string{
	"",
	"data: a\n\n",
	"data: a\r\n\r\ndata: b\r\n\r\n",
	"data: a\r\rdata: b\r\r",
	"data: a\n\r\n\rdata: b\r\n\ndata: c\n\n",
	"data:a\n\ndata:  b\n\n",
	"data: a\ndata: b\n\n",
	"data\n\ndata:\n\ndata: a\n\n",
	"data:\ndata:\n\ndata: a\n\n",
	"data\ndata: a\n\n",
	": comment\n\n:\n\ndata: a\n: more\n\n",
	"event: x\nid: 7\nretry: 10\ndata: a\n\nevent: y\n\n",
	"\ufeffdata: a\n\ndata: \ufeffb\n\n",
	"\n\n\ndata: a\n\n",
	"data: unfinished",
	"data: a\n\ndata: unfinished\n",
	"datax: a\n\n data: b\n\nDATA: c\n\n",
	"data: [DONE]\n\n",
	"data: 日本\n\ndata: \xff\xfe\n\n",
	"data: " + strings.Repeat("long ", 20_000) + "\n\ndata: b\n\n",
}

// TestRead holds the reader to the library, however the stream is cut.
func TestRead(t *testing.T) {
	for _, text := range streams {
		want := oracle(t, text)
		for name, r := range map[string]io.Reader{
			"whole": strings.NewReader(text), "bytes": iotest.OneByteReader(strings.NewReader(text)),
			"halves": iotest.HalfReader(strings.NewReader(text)), "end with data": iotest.DataErrReader(strings.NewReader(text)),
		} {
			got, err := read(t, r, 1<<20)
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("%.60q, %s: %.80q, %v; want %.80q", text, name, got, err, want)
			}
		}
	}
}

func FuzzRead(f *testing.F) {
	for _, text := range streams {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if strings.Contains(text, "\x00") || strings.Count(text, "\ufeff") > 0 {
			return // the library treats a NUL in an id, and a second mark, in its own way
		}
		want := oracle(t, text)
		if got, err := read(t, iotest.OneByteReader(strings.NewReader(text)), 1<<20); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %q, %v; want %q", text, got, err, want)
		}
	})
}

// TestErrors come last, after every whole event.
func TestErrors(t *testing.T) {
	broken := errors.New("broken")
	got, err := read(t, io.MultiReader(strings.NewReader("data: a\n\ndata: b"), iotest.ErrReader(broken)), 100)
	if !errors.Is(err, broken) || !slices.Equal(got, []string{"a"}) {
		t.Errorf("%q, %v", got, err)
	}
	long := strings.Repeat("x", 101)
	for _, text := range []string{"data: " + long + "\n\n", "data: " + long, "data: " + long[:60] + "\ndata: " + long[:60] + "\n\n", ":" + long + long} {
		got, err := read(t, strings.NewReader("data: "+long[:100]+"\n\n"+text), 100)
		if !errors.Is(err, events.ErrTooLong) || len(got) != 1 {
			t.Errorf("%.20q: %d events, %v", text, len(got), err)
		}
	}
}

// TestNoProgress: a reader that never brings anything is given up.
func TestNoProgress(t *testing.T) {
	reads := 0
	_, err := read(t, readerFunc(func([]byte) (int, error) { reads++; return 0, nil }), 100)
	if !errors.Is(err, io.ErrNoProgress) || reads > 1000 {
		t.Errorf("%v after %d reads", err, reads)
	}
}

// TestBufferGrows while there is much at hand, and no further.
func TestBufferGrows(t *testing.T) {
	var sizes []int
	text := strings.NewReader(strings.Repeat("data: a\n\n", 30_000))
	r := readerFunc(func(p []byte) (int, error) {
		sizes = append(sizes, len(p))
		return text.Read(p)
	})
	n := 0
	for range events.Read(r, 100, events.NewBuffer()) {
		n++
	}
	if n != 30_000 || sizes[0] != 4<<10 || slices.Max(sizes) > 32<<10 || sizes[5] < 30<<10 {
		t.Errorf("%d events, reads of %v", n, sizes)
	}
}

// TestReadsLate: as long as whole events are at hand nothing is read, so that the
// reader knows when there is a wait.
func TestReadsLate(t *testing.T) {
	var log []string
	pieces := []string{"data: a\n\ndata: b\n\nda", "ta: c\n\n"}
	r := readerFunc(func(p []byte) (int, error) {
		log = append(log, "read")
		if len(pieces) == 0 {
			return 0, io.EOF
		}
		n := copy(p, pieces[0])
		pieces = pieces[1:]
		return n, nil
	})
	for data := range events.Read(r, 100, events.NewBuffer()) {
		log = append(log, data)
	}
	if want := []string{"read", "a", "b", "read", "c", "read"}; !slices.Equal(log, want) {
		t.Errorf("%v, want %v", log, want)
	}
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func BenchmarkRead(b *testing.B) {
	text := strings.Repeat(`data: {"id":"x","choices":[{"index":0,"delta":{"content":" word"},"finish_reason":null}]}`+"\n\n", 1000)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	buf := events.NewBuffer()
	for b.Loop() {
		for range events.Read(strings.NewReader(text), 1<<20, buf) {
			continue
		}
	}
}
