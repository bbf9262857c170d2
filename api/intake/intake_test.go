package intake

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"oneslot/internal/simengine/simtest"
)

// read serves a Room in a bubble; each request's body is read on the account of its
// path, none for /, and given back when the handler's connection ends. The answer is what came
// of it.
func read(t *testing.T, cfg Config, f func(t *testing.T, r *Room, dial func(head string) net.Conn)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		room, line := New(cfg), simtest.NewPipes()
		server := &http.Server{ReadHeaderTimeout: time.Hour, Handler: http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			b := room.Open(w, req)
			defer b.Close()
			text, err := b.All(strings.TrimPrefix(req.URL.Path, "/"))
			b.Settle(w.Header())
			told := fmt.Sprintf("%d of %d: %v", len(text), cap(text), err)
			w.Header().Set("Content-Length", strconv.Itoa(len(told)))
			_, _ = io.WriteString(w, told)
			b.Linger()
		})}
		var wg sync.WaitGroup
		wg.Go(func() { _ = server.Serve(line) })
		t.Cleanup(func() {
			_ = server.Close()
			wg.Wait()
			<-time.After(time.Second) // a connection that ends with an answer takes half of it
		})
		f(t, room, func(head string) net.Conn {
			conn, err := line.Dial(t.Context(), "", "")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = conn.Close() })
			_, _ = io.WriteString(conn, "POST "+head)
			return conn
		})
	})
}

func answer(t *testing.T, conn net.Conn) (text string, closes bool) {
	t.Helper()
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body), resp.Close
}

const head = "/k HTTP/1.1\r\nHost: x\r\n"

// TestSizes: a declared body takes its own length and no more, a chunked one grows;
// both end at the limit.
func TestSizes(t *testing.T) {
	read(t, Config{Body: 10_000}, func(t *testing.T, r *Room, dial func(string) net.Conn) {
		for name, c := range map[string]struct{ text, want string }{
			"none":            {head + "\r\n", "0 of 0: <nil>"},
			"declared":        {head + "Content-Length: 3\r\n\r\nabc", "3 of 3: <nil>"},
			"the limit":       {head + "Content-Length: 10000\r\n\r\n" + strings.Repeat("x", 10_000), "10000 of 10000: <nil>"},
			"beyond":          {head + "Content-Length: 10001\r\n\r\n", "0 of 0: " + ErrTooLarge.Error()},
			"chunked":         {head + "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", "3 of 4096: <nil>"},
			"chunked, limit":  {head + "Transfer-Encoding: chunked\r\n\r\n2710\r\n" + strings.Repeat("x", 10_000) + "\r\n0\r\n\r\n", "10000 of 10001: <nil>"},
			"chunked, beyond": {head + "Transfer-Encoding: chunked\r\n\r\n2711\r\n" + strings.Repeat("x", 10_001) + "\r\n0\r\n\r\n", "0 of 0: " + ErrTooLarge.Error()},
			"no chunks":       {head + "Transfer-Encoding: chunked\r\n\r\nzz\r\n", "0 of 0: invalid byte in chunk length"},
		} {
			if got, _ := answer(t, dial(c.text)); got != c.want {
				t.Errorf("%s: got %q, want %q", name, got, c.want)
			}
		}
		synctest.Wait()
		if n := r.Held(); n != 0 {
			t.Errorf("%d bytes are still reserved", n)
		}
	})
}

// TestPace: a body has some seconds, and more for what it brings, but not for ever.
func TestPace(t *testing.T) {
	cfg := Config{Patience: 10 * time.Second, Pace: 100, Time: time.Minute}
	for name, c := range map[string]struct {
		every int // bytes a second
		at    time.Duration
	}{
		"nothing":  {0, 10 * time.Second},
		"a byte":   {1, 10 * time.Second},
		"half":     {50, 20 * time.Second},
		"enough":   {100, time.Minute},
		"too much": {10_000, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			read(t, cfg, func(t *testing.T, _ *Room, dial func(string) net.Conn) {
				began := time.Now()
				conn := dial(head + "Content-Length: 1000000\r\n\r\n")
				go func() {
					for range 100 * min(c.every, 1) {
						<-time.After(time.Second)
						if _, err := io.WriteString(conn, strings.Repeat("x", c.every)); err != nil {
							return
						}
					}
				}()
				got, closes := answer(t, conn)
				if since := time.Since(began); got != "0 of 0: "+ErrSlow.Error() || !closes || since < c.at-2*time.Second || since > c.at+time.Second {
					t.Errorf("got %q after %v, want it after %v", got, since, c.at)
				}
				_ = conn.Close()
			})
		})
	}
}

// TestRoom: what is reserved is refused to others before a byte is read, by key and
// in all, and is there again when its request has ended.
func TestRoom(t *testing.T) {
	read(t, Config{Total: 30_000, PerKey: 20_000, Body: 15_000}, func(t *testing.T, r *Room, dial func(string) net.Conn) {
		post := func(path, more string) net.Conn { return dial(path + " HTTP/1.1\r\nHost: x\r\n" + more) }
		is := func(conn net.Conn, want error) {
			t.Helper()
			if got, closes := answer(t, conn); got != "0 of 0: "+want.Error() || !closes {
				t.Errorf("got %q, to be closed: %v; want %v", got, closes, want)
			}
			_ = conn.Close()
		}
		first := post("/a", "Content-Length: 15000\r\n\r\nx")
		synctest.Wait()
		is(post("/a", "Content-Length: 5001\r\n\r\n"), ErrKeyFull)
		second := post("/b", "Content-Length: 11000\r\n\r\nx")
		synctest.Wait()
		is(post("/c", "Content-Length: 4001\r\n\r\n"), ErrFull)
		is(post("/c", "Transfer-Encoding: chunked\r\n\r\n"), ErrFull)
		_, _ = io.WriteString(first, strings.Repeat("x", 14_999))
		if got, _ := answer(t, first); got != "15000 of 15000: <nil>" {
			t.Errorf("got %q", got)
		}
		synctest.Wait()
		if n := r.Held(); n != 11_000 {
			t.Errorf("%d bytes are reserved", n)
		}
		grows := post("/c", "Transfer-Encoding: chunked\r\n\r\n2000\r\n")
		_, _ = io.WriteString(grows, strings.Repeat("x", 0x2000-1))
		synctest.Wait()
		if n := r.Held(); n != 11_000+8192 {
			t.Errorf("%d bytes are reserved", n)
		}
		_ = grows.Close()
		synctest.Wait()
		nobody := []net.Conn{post("/", "Content-Length: 15000\r\n\r\nx"), post("/", "Content-Length: 4000\r\n\r\nx")}
		synctest.Wait()
		is(post("/", "Content-Length: 1\r\n\r\n"), ErrFull)
		for _, conn := range nobody {
			_ = conn.Close()
		}
		_ = second.Close()
		synctest.Wait()
		if n := r.Held(); n != 0 || len(r.byKey) != 0 {
			t.Errorf("%d bytes are still reserved, of %v", n, r.byKey)
		}
	})
}

// TestClose ends what is being read, and what is only read on; nobody new is read.
func TestClose(t *testing.T) {
	read(t, Config{}, func(t *testing.T, r *Room, dial func(string) net.Conn) {
		half := dial(head + "Content-Length: 1000000\r\n\r\nx")
		large := dial(head + "Content-Length: 100000000\r\n\r\nx")
		in := bufio.NewReader(large)
		if resp, err := http.ReadResponse(in, nil); err != nil || !resp.Close {
			t.Fatal(err)
		}
		synctest.Wait()
		began := time.Now()
		r.Close()
		if got, _ := answer(t, half); !strings.HasSuffix(got, ErrClosed.Error()) {
			t.Errorf("got %q", got)
		}
		if _, err := io.ReadAll(in); err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Error(err)
		}
		if got, _ := answer(t, dial(head+"Content-Length: 1000\r\n\r\nx")); !strings.HasSuffix(got, ErrClosed.Error()) {
			t.Errorf("got %q", got)
		}
		if since := time.Since(began); since > 4*time.Second { // the two last one after the other, each with its end
			t.Errorf("it took %v", since)
		}
		if got, _ := answer(t, dial(head+"Content-Length: 3\r\n\r\nabc")); got != "3 of 3: <nil>" {
			t.Errorf("got %q", got)
		}
	})
}

// deadlines is the answer of a connection of which only the deadline is known.
type deadlines struct {
	http.ResponseWriter
	at time.Time
}

func (d *deadlines) SetReadDeadline(at time.Time) error {
	d.at = at
	return nil
}

// TestCloseBeforeReading: a body that is open and not read yet when the program stops
// has the second too, not the patience that it was opened with.
func TestCloseBeforeReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		room, w := New(Config{}), &deadlines{}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader("abc"))
		if err != nil {
			t.Fatal(err)
		}
		b := room.Open(w, req)
		defer b.Close()
		room.Close()
		if text, err := b.All("k"); string(text) != "abc" || err != nil {
			t.Errorf("got %q, %v", text, err)
		}
		if left := time.Until(w.at); left != last {
			t.Errorf("it has %v to come", left)
		}
	})
}
