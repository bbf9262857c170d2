package outbox_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"oneslot/internal/simengine/outbox"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve starts a server whose handler delivers box once and tells how it went.
func serve(t *testing.T, box *outbox.Box) (url string, whole <-chan bool) {
	t.Helper()
	done := make(chan bool, 1) // the handler does not wait for the test
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ok := false
		defer func() { done <- ok }()
		ok = box.Deliver(w, r)
	}))
	t.Cleanup(server.Close)
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	return server.URL, done
}

func open(ctx context.Context, t *testing.T, url string) (*http.Response, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	return http.DefaultClient.Do(req)
}

func TestDeliver(t *testing.T) {
	for _, tc := range []struct {
		name  string
		items []outbox.Item
		body  string
		err   error
		whole bool
	}{
		{"whole", []outbox.Item{outbox.Write([]byte("a")), outbox.Write([]byte("b"))}, "ab", nil, true},
		{"nothing", nil, "", nil, true},
		{"cut", []outbox.Item{outbox.Write([]byte("a")), outbox.Cut()}, "a", io.ErrUnexpectedEOF, false},
		{"reset", []outbox.Item{outbox.Write([]byte("a")), outbox.Reset()}, "a", syscall.ECONNRESET, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			box := outbox.New()
			url, whole := serve(t, box)
			box.Put(outbox.Head(201, http.Header{"X-A": {"b"}}))
			box.Put(tc.items...)
			box.Close()
			box.Put(outbox.Write([]byte("too late")))
			res, err := open(t.Context(), t, url)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			body, err := io.ReadAll(res.Body)
			if string(body) != tc.body || !errors.Is(err, tc.err) || res.StatusCode != 201 || res.Header.Get("X-A") != "b" {
				t.Errorf("%d %q %v", res.StatusCode, body, err)
			}
			if got := <-whole; got != tc.whole {
				t.Errorf("delivered whole: %v", got)
			}
		})
	}
}

func TestCutBeforeTheHead(t *testing.T) {
	for name, item := range map[string]outbox.Item{"cut": outbox.Cut(), "reset": outbox.Reset()} {
		box := outbox.New()
		url, whole := serve(t, box)
		box.Put(item)
		box.Close()
		if res, err := open(t.Context(), t, url); err == nil {
			res.Body.Close()
			t.Errorf("%s: status %d", name, res.StatusCode)
		}
		<-whole
	}
}

// TestEachWriteIsOneChunk reads the HTTP chunks themselves: an event is not
// joined with the next.
func TestEachWriteIsOneChunk(t *testing.T) {
	box := outbox.New()
	box.Put(outbox.Head(200, nil), outbox.Write([]byte("one")), outbox.Write([]byte("three")))
	box.Close()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { box.Deliver(w, r) }))
	defer server.Close()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() }) // all was read
	if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	all, err := io.ReadAll(conn)
	if err != nil {
		t.Fatal(err)
	}
	_, body, _ := strings.Cut(string(all), "\r\n\r\n")
	if want := "3\r\none\r\n5\r\nthree\r\n0\r\n\r\n"; body != want {
		t.Errorf("got %q, want %q", body, want)
	}
	if text, err := io.ReadAll(httputil.NewChunkedReader(bufio.NewReader(strings.NewReader(body)))); string(text) != "onethree" || err != nil {
		t.Errorf("%q %v", text, err)
	}
}

// TestAsItComes delivers what is put while the client reads.
func TestAsItComes(t *testing.T) {
	box := outbox.New()
	url, whole := serve(t, box)
	box.Put(outbox.Head(200, nil))
	res, err := open(t.Context(), t, url)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	lines := bufio.NewReader(res.Body)
	for _, want := range []string{"a\n", "b\n"} {
		box.Put(outbox.Write([]byte(want)))
		if got, err := lines.ReadString('\n'); got != want || err != nil {
			t.Errorf("got %q %v, want %q", got, err, want)
		}
	}
	box.Close()
	if _, err := lines.ReadString('\n'); err != io.EOF {
		t.Errorf("end: %v", err)
	}
	if !<-whole {
		t.Error("not delivered whole")
	}
}

func TestClientLeaves(t *testing.T) {
	box := outbox.New()
	url, whole := serve(t, box)
	box.Put(outbox.Head(200, nil))
	ctx, cancel := context.WithCancel(t.Context())
	res, err := open(ctx, t, url)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	cancel()
	if <-whole {
		t.Error("delivered whole to a client that has left")
	}
	box.Put(outbox.Write([]byte("unread"))) // nobody is there; nothing happens
	box.Close()
}
