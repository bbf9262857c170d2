//go:build linux && !race

package socket

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
)

// Calm returns c so that the scheduler is not told of its reads and writes, if c is a TCP
// connection. It owns c from then on.
func Calm(c net.Conn) net.Conn {
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return c
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return c // closed, as its first use will tell
	}
	return &conn{tcp, raw}
}

type conn struct {
	*net.TCPConn
	raw syscall.RawConn
}

// SyscallConn is that of a TCPConn.
func (c *conn) SyscallConn() (syscall.RawConn, error) { return c.raw, nil }

// Read is that of a TCPConn.
func (c *conn) Read(p []byte) (n int, err error) {
	if len(p) == 0 {
		return c.TCPConn.Read(p)
	}
	var fault syscall.Errno
	err = c.raw.Read(func(fd uintptr) bool {
		n, fault = call(syscall.SYS_READ, fd, p)
		return fault != syscall.EAGAIN
	})
	if err = c.failed("read", err, fault); err != nil {
		return 0, err
	}
	if n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

// Write is that of a TCPConn.
func (c *conn) Write(p []byte) (n int, err error) {
	if len(p) == 0 {
		return c.TCPConn.Write(p)
	}
	var fault syscall.Errno
	err = c.raw.Write(func(fd uintptr) bool {
		for n < len(p) {
			var more int
			if more, fault = call(syscall.SYS_WRITE, fd, p[n:]); fault != 0 {
				return fault != syscall.EAGAIN
			}
			n += more
		}
		return true
	})
	return n, c.failed("write", err, fault)
}

// failed words an error as net does: err is that of waiting, fault that of the call.
func (c *conn) failed(op string, err error, fault syscall.Errno) error {
	var waiting *net.OpError
	switch {
	case errors.As(err, &waiting):
		err = waiting.Err
	case err == nil && fault != 0:
		err = os.NewSyscallError(op, fault)
	case err == nil:
		return nil
	}
	return &net.OpError{Op: op, Net: "tcp", Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: err}
}
