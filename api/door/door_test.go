package door

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open serves through a door on a real network, where net/http has half-closed
// connections; dial sends text over a new one.
func open(t *testing.T) (d *Door, dial func(text string) net.Conn) {
	t.Helper()
	server := &http.Server{ReadHeaderTimeout: time.Minute, MaxHeaderBytes: 8 << 10, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		if r.URL.Path == "/lookalike" { // bytes that net/http could have said, in the middle of an answer
			_ = http.NewResponseController(w).Flush()
			text = []byte(plain)
		}
		_, _ = w.Write(text)
	})}
	d = New(server, func(status int, fault string) Refusal {
		return Refusal{Header: http.Header{"X-Ours": {"yes"}}, Body: fmt.Appendf(nil, "%d|%s", status, fault)}
	})
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() { _ = server.Serve(d.Listen(l)) })
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := server.Shutdown(ctx); err != nil { // waits for the half second that net/http stays behind a refusal
			t.Error(err)
		}
		wg.Wait()
	})
	return d, func(text string) net.Conn {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		_ = conn.SetDeadline(time.Now().Add(30 * time.Second))
		if _, err := io.WriteString(conn, text); err != nil {
			t.Fatal(err)
		}
		return conn
	}
}

const plain = "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n400 Bad Request"

// next reads one response; the body of ours is told apart by its header.
func next(t *testing.T, in *bufio.Reader) (status int, ours bool, body string) {
	t.Helper()
	resp, err := http.ReadResponse(in, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if ours = resp.Header.Get("X-Ours") == "yes"; ours && (!resp.Close || resp.ContentLength != int64(len(text))) {
		t.Errorf("length %d, to be closed: %v", resp.ContentLength, resp.Close)
	}
	return resp.StatusCode, ours, string(text)
}

// faults are what net/http answers itself.
var faults = map[string]struct {
	text string
	want string
}{
	"no HTTP":           {"hello\r\n\r\n", "400|"},
	"TLS":               {"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", "400|"},
	"no version":        {"GET /\r\n\r\n", "400|"},
	"version 3":         {"GET / HTTP/3.0\r\nHost: x\r\n\r\n", "505|unsupported protocol version"},
	"no host":           {"GET / HTTP/1.1\r\n\r\n", "400|missing required Host header"},
	"two hosts":         {"GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", "400|"},
	"bad host":          {"GET / HTTP/1.1\r\nHost: x y\r\n\r\n", "400|malformed Host header"},
	"bad header":        {"GET / HTTP/1.1\r\nHost: x\r\nA B: c\r\n\r\n", "400|invalid header name"},
	"bad value":         {"GET / HTTP/1.1\r\nHost: x\r\nA: \x01\r\n\r\n", "400|"},
	"two lengths":       {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", "400|"},
	"negative length":   {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\nab", "400|"},
	"unknown encoding":  {"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\nab", "501|"},
	"unknown expect":    {"POST / HTTP/1.1\r\nHost: x\r\nExpect: miracles\r\nContent-Length: 2\r\n\r\nab", "417|"},
	"unknown expect 10": {"POST / HTTP/1.0\r\nExpect: miracles\r\nContent-Length: 2\r\n\r\nab", "417|"},
	"bad header 10":     {"GET / HTTP/1.0\r\nA B: c\r\n\r\n", "400|invalid header name"},
	"large headers":     {"GET / HTTP/1.1\r\nHost: x\r\nA: " + strings.Repeat("x", 16<<10) + "\r\n\r\n", "431|"},
	"large headers 10":  {"GET / HTTP/1.0\r\nA: " + strings.Repeat("x", 16<<10) + "\r\n\r\n", "431|"},
}

// TestReworded: every refusal of net/http's is told in our words, on a fresh
// connection, after an answer on the same one, and behind a pipelined request.
func TestReworded(t *testing.T) {
	_, dial := open(t)
	const good = "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nok"
	for name, c := range faults {
		check := func(how string, in *bufio.Reader) {
			t.Helper()
			status, ours, body := next(t, in)
			if !ours || body != c.want || !strings.HasPrefix(body, fmt.Sprint(status)) {
				t.Errorf("%s, %s: got %d %q, in our words: %v; want %q", name, how, status, body, ours, c.want)
			}
			if rest, err := io.ReadAll(in); err != nil || len(rest) > 0 {
				t.Errorf("%s, %s: then came %q, %v", name, how, rest, err)
			}
		}
		fine := func(in *bufio.Reader) {
			t.Helper()
			if status, ours, body := next(t, in); status != 200 || ours || body != "ok" {
				t.Errorf("%s: the request before got %d %q", name, status, body)
			}
		}
		check("alone", bufio.NewReader(dial(c.text)))
		conn := dial(good)
		in := bufio.NewReader(conn)
		fine(in)
		if _, err := io.WriteString(conn, c.text); err != nil {
			t.Fatal(err)
		}
		check("kept alive", in)
		in = bufio.NewReader(dial(good + good + c.text))
		fine(in)
		fine(in)
		check("pipelined", in)
	}
}

// TestHandlersWordsStand: whatever a handler writes goes out as it is, also where it
// looks like a refusal of net/http's and is written in one piece.
func TestHandlersWordsStand(t *testing.T) {
	_, dial := open(t)
	raw, err := io.ReadAll(dial("GET /lookalike HTTP/1.0\r\n\r\n"))
	if err != nil || !strings.HasSuffix(string(raw), "\r\n\r\n"+plain) || strings.Contains(string(raw), "X-Ours") {
		t.Errorf("got %q, %v", raw, err)
	}
	in := bufio.NewReader(dial("OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\nPOST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\nok"))
	if status, ours, _ := next(t, in); status != 200 || ours {
		t.Errorf("OPTIONS got %d", status)
	}
	if status, ours, _ := next(t, in); status != 100 || ours {
		t.Errorf("who asks first got %d", status)
	}
	if status, ours, body := next(t, in); status != 200 || ours || body != "ok" {
		t.Errorf("then %d %q", status, body)
	}
}

// TestClose ends silent connections, the next ones too, and no other.
func TestClose(t *testing.T) {
	d, dial := open(t)
	first, half := dial(""), dial("POST / HT")
	busy := dial("POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n")
	in := bufio.NewReader(busy)
	if status, _, _ := next(t, in); status != 100 { // its handler reads, and those before it are accepted
		t.Fatalf("the busy one got %d", status)
	}
	d.Close()
	for name, c := range map[string]net.Conn{"silent": first, "half": half, "next": dial("")} {
		if n, err := c.Read(make([]byte, 1)); err == nil || n > 0 || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: there is something to read, or the connection is still there: %v", name, err)
		}
	}
	if _, err := io.WriteString(busy, "ok"); err != nil {
		t.Fatal(err)
	}
	if status, _, body := next(t, in); status != 200 || body != "ok" {
		t.Errorf("the busy one got %d %q", status, body)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.silent) != 0 {
		t.Errorf("%d connections are still noted", len(d.silent))
	}
}

// nowhere takes everything.
type nowhere struct{ net.Conn }

func (nowhere) Write(p []byte) (int, error) { return len(p), nil }

// BenchmarkWrite is what the door costs a chunk of a stream.
func BenchmarkWrite(b *testing.B) {
	for name, c := range map[string]net.Conn{"bare": nowhere{}, "door": &conn{Conn: nowhere{}}} {
		if door, ok := c.(*conn); ok {
			door.answering.Store(true)
		}
		b.Run(name, func(b *testing.B) {
			p := make([]byte, 200)
			for b.Loop() {
				_, _ = c.Write(p)
			}
		})
	}
}
