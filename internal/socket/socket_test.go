package socket_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"oneslot/internal/socket"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// ends are both ends of a connection: one as net has it, or calm, and its other end.
func ends(t *testing.T, calm bool) (near, far net.Conn) {
	t.Helper()
	line, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer line.Close()
	dial := new(net.Dialer).DialContext
	if calm {
		dial = socket.Dialer(&net.Dialer{})
	}
	if near, err = dial(t.Context(), "tcp", line.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if far, err = line.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = near.Close(), far.Close() })
	return near, far
}

// said is what a call told, as those see it who judge errors. Addresses differ.
func said(n int, err error) string {
	var timed interface{ Timeout() bool }
	var op *net.OpError
	text := fmt.Sprintf("%d eof=%v closed=%v late=%v reset=%v pipe=%v timeout=%v", n, errors.Is(err, io.EOF), errors.Is(err, net.ErrClosed),
		errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.As(err, &timed) && timed.Timeout())
	if errors.As(err, &op) {
		text += fmt.Sprintf(" %s %s %v %v", op.Op, op.Net, op.Source != nil && op.Addr != nil, op.Err)
	}
	return text
}

// TestAsNet has a calm connection and one of net's do the same, and compares what they say.
func TestAsNet(t *testing.T) {
	some := make([]byte, 4)
	for name, do := range map[string]func(near, far net.Conn) (int, error){
		"reads": func(near, far net.Conn) (int, error) {
			_, _ = far.Write([]byte("abc"))
			return near.Read(some)
		},
		"waits to read": func(near, far net.Conn) (int, error) {
			late := time.AfterFunc(20*time.Millisecond, func() { _, _ = far.Write([]byte("ab")) })
			defer late.Stop()
			return near.Read(some)
		},
		"reads nothing":    func(near, _ net.Conn) (int, error) { return near.Read(nil) },
		"writes nothing":   func(near, _ net.Conn) (int, error) { return near.Write(nil) },
		"reads to the end": func(near, far net.Conn) (int, error) { _ = far.Close(); return near.Read(some) },
		"reads too late": func(near, _ net.Conn) (int, error) {
			_ = near.SetReadDeadline(time.Unix(1, 0))
			return near.Read(some)
		},
		"is late while it reads": func(near, _ net.Conn) (int, error) {
			_ = near.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
			return near.Read(some)
		},
		"reads after its end": func(near, _ net.Conn) (int, error) { _ = near.Close(); return near.Read(some) },
		"ends while it reads": func(near, _ net.Conn) (int, error) {
			late := time.AfterFunc(20*time.Millisecond, func() { _ = near.Close() })
			defer late.Stop()
			return near.Read(some)
		},
		"is reset": func(near, far net.Conn) (int, error) {
			_ = far.(*net.TCPConn).SetLinger(0)
			_ = far.Close()
			return near.Read(some)
		},
		"writes after its end": func(near, _ net.Conn) (int, error) { _ = near.Close(); return near.Write(some) },
		"writes to nobody": func(near, far net.Conn) (int, error) {
			_ = far.(*net.TCPConn).SetLinger(0)
			_ = far.Close()
			_, _ = near.Read(some) // the end has come
			return near.Write(some)
		},
		"writes too late": func(near, _ net.Conn) (int, error) {
			_ = near.SetWriteDeadline(time.Unix(1, 0))
			return near.Write(some)
		},
		"half closes": func(near, far net.Conn) (int, error) {
			_ = near.(interface{ CloseWrite() error }).CloseWrite()
			return far.Read(some)
		},
	} {
		t.Run(name, func(t *testing.T) {
			var got [2]string
			for i, calm := range []bool{true, false} {
				near, far := ends(t, calm)
				got[i] = said(do(near, far))
			}
			if got[0] != got[1] {
				t.Errorf("calm: %s\nnet:  %s", got[0], got[1])
			}
		})
	}
}

// TestMuch: what does not fit into the socket at once arrives all the same, and a write
// that is not read from ends at its deadline, with what was taken of it.
func TestMuch(t *testing.T) {
	near, far := ends(t, true)
	text := bytes.Repeat([]byte("0123456789abcdef"), 1<<19)
	sent := make(chan error, 1)
	go func() {
		n, err := near.Write(text)
		if err == nil && n != len(text) {
			err = fmt.Errorf("it says that it wrote %d bytes", n)
		}
		sent <- errors.Join(err, near.Close())
	}()
	got, err := io.ReadAll(far)
	if err = errors.Join(err, <-sent); err != nil || !bytes.Equal(got, text) {
		t.Errorf("%d of %d bytes came: %v", len(got), len(text), err)
	}
	near, _ = ends(t, true)
	_ = near.SetWriteDeadline(time.Now().Add(50 * time.Millisecond))
	if n, err := near.Write(text); n == 0 || n == len(text) || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("wrote %d of %d bytes: %v", n, len(text), err)
	}
}

// TestOthers: what is no TCP connection stays as it is, and nobody is no connection.
func TestOthers(t *testing.T) {
	near, far := net.Pipe()
	defer near.Close()
	defer far.Close()
	if socket.Calm(near) != near {
		t.Error("a pipe was wrapped")
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if conn, err := socket.Dialer(&net.Dialer{})(gone, "tcp", "127.0.0.1:1"); conn != nil || err == nil {
		t.Errorf("got %v, %v", conn, err)
	}
}

// TestOffer: what goes at once is written, and nobody waits for the rest.
func TestOffer(t *testing.T) {
	for _, calm := range []bool{true, false} {
		near, far := ends(t, calm)
		if n, err := socket.Offer(near, []byte("abc")); n != 3 || err != nil {
			t.Errorf("offered %d bytes: %v", n, err)
		}
		got := make([]byte, 3)
		if _, err := io.ReadFull(far, got); err != nil || string(got) != "abc" {
			t.Errorf("%q came: %v", got, err)
		}
		if n, err := socket.Offer(near, nil); n != 0 || err != nil {
			t.Errorf("offered nothing: %d, %v", n, err)
		}
		much, taken := make([]byte, 1<<20), 0
		for { // until the other side has no room
			n, err := socket.Offer(near, much)
			if taken += n; err != nil || n == 0 {
				if err != nil || taken == 0 {
					t.Errorf("%d bytes were taken: %v", taken, err)
				}
				break
			}
		}
		_ = near.Close()
		if n, err := socket.Offer(near, much); n != 0 || !errors.Is(err, net.ErrClosed) {
			t.Errorf("offered to a closed connection: %d, %v", n, err)
		}
	}
	near, far := net.Pipe()
	defer near.Close()
	defer far.Close()
	if n, err := socket.Offer(near, []byte("abc")); n != 0 || err != nil {
		t.Errorf("offered to a pipe: %d, %v", n, err)
	}
}

// TestQuiet: whatever has come is noticed, and left for who reads it.
func TestQuiet(t *testing.T) {
	for _, calm := range []bool{true, false} {
		near, far := ends(t, calm)
		if !socket.Quiet(near) {
			t.Error("nothing has come")
		}
		_, _ = far.Write([]byte("a"))
		if !await(func() bool { return !socket.Quiet(near) }) {
			t.Error("a byte was not noticed")
		}
		if n, err := near.Read(make([]byte, 4)); n != 1 || err != nil || !socket.Quiet(near) {
			t.Errorf("%d bytes were left to read: %v", n, err)
		}
		_ = far.Close()
		if !await(func() bool { return !socket.Quiet(near) }) {
			t.Error("the end was not noticed")
		}
		_ = near.Close()
		if socket.Quiet(near) {
			t.Error("a closed connection is quiet")
		}
	}
	near, far := net.Pipe()
	defer near.Close()
	defer far.Close()
	if !socket.Quiet(near) {
		t.Error("of a pipe nothing can be told")
	}
}

// await waits, for 10 s at most, for what another side has sent to arrive.
func await(is func() bool) bool {
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); {
		if is() {
			return true
		}
		<-time.After(time.Millisecond)
	}
	return false
}
