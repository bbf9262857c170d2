package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"oneslot/internal/simengine/simtest"
)

// BenchmarkInside is a stream through the whole program without the kernel: what it
// shows is the program's own, since its connections are pipes, and its client and its
// engine say what was laid out before.
func BenchmarkInside(b *testing.B) {
	client := inside(b)
	ask := `{"model":"ripple","stream":true,"messages":[{"role":"user","content":"hi"}]}`
	post := []byte("POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: " + strconv.Itoa(len(ask)) + "\r\n\r\n" + ask)
	in := bufio.NewReader(client)
	b.ReportAllocs()
	began := processor()
	for b.Loop() {
		if _, err := client.Write(post); err != nil {
			b.Fatal(err)
		}
		if text, err := readMessage(in, nil); err != nil || !bytes.HasSuffix(text, []byte("data: [DONE]\n\n")) {
			b.Fatalf("%s %v", text, err)
		}
	}
	b.ReportMetric(float64((processor()-began).Nanoseconds())/1e3/float64(b.N), "cpu-us/op")
}

// processor is the processor time that this process has taken.
func processor() time.Duration {
	var used syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &used) // of itself it cannot fail
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// inside starts the program on pipes and returns a connection to it.
func inside(b *testing.B) net.Conn {
	b.Helper()
	engine, line := simtest.NewPipes(), simtest.NewPipes()
	go laidOut(engine, cannedEngine(4))
	b.Cleanup(func() { _ = engine.Close() })
	started(b, "engines: [{name: spark, url: http://engine, model: ripple}]\n", world{
		dial: engine.Dial, listen: func(string, string) (net.Listener, error) { return line, nil },
	})
	client, err := line.Dial(b.Context(), "", "")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = client.Close() })
	return client
}

// laidOut serves what handler answers, of which it asks each path once.
func laidOut(line net.Listener, handler http.Handler) {
	for {
		conn, err := line.Accept()
		if err != nil {
			return
		}
		go func() {
			defer conn.Close()
			in, answers, path := bufio.NewReader(conn), map[string][]byte{}, ""
			for {
				if _, err := readMessage(in, &path); err != nil {
					return
				}
				if answers[path] == nil {
					answers[path] = answerOf(handler, path)
				}
				if _, err := conn.Write(answers[path]); err != nil {
					return
				}
			}
		}()
	}
}

// answerOf is the answer to a path, as an engine sends it.
func answerOf(handler http.Handler, path string) []byte {
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequest(http.MethodPost, path, nil)) //nolint:noctx // a benchmark
	var b bytes.Buffer
	fmt.Fprintf(&b, "HTTP/1.1 %d OK\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s", w.Code, w.Header().Get("Content-Type"), w.Body.Len(), w.Body)
	return b.Bytes()
}

// readMessage reads a request, whose path it notes, or a response, and returns its body. It
// takes no memory once it has read the first.
func readMessage(in *bufio.Reader, path *string) ([]byte, error) {
	size, chunked := 0, false
	for first := true; ; first = false {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return nil, err
		}
		name, value, _ := bytes.Cut(bytes.TrimSpace(line), []byte(" "))
		switch {
		case len(name) == 0:
			if chunked {
				return readChunks(in)
			}
			body, err := in.Peek(size)
			if err == nil {
				_, err = in.Discard(size)
			}
			return body, err
		case first && path != nil:
			if value, _, _ = bytes.Cut(value, []byte(" ")); string(value) != *path {
				*path = string(value)
			}
		case bytes.EqualFold(name, []byte("Content-Length:")):
			for size = 0; len(value) > 0; value = value[1:] {
				size = 10*size + int(value[0]-'0')
			}
		case bytes.EqualFold(name, []byte("Transfer-Encoding:")):
			chunked = true
		}
	}
}

// readChunks reads chunks to their end, and returns the last one that has text.
func readChunks(in *bufio.Reader) (last []byte, err error) {
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return nil, err
		}
		size, err := strconv.ParseInt(strings.TrimSpace(line), 16, 32)
		if err != nil {
			return nil, err
		}
		text := make([]byte, size+2)
		if _, err := io.ReadFull(in, text); err != nil {
			return nil, err
		}
		if size == 0 {
			return last, nil
		}
		last = text[:size]
	}
}
