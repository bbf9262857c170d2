//go:build unix

package socket

import (
	"crypto/tls"
	"errors"
	"net"
	"syscall"
)

// Offer writes what the socket below c takes at once, and returns how many bytes that
// were. It does not wait. 0 without an error also says that it cannot be told.
func Offer(c net.Conn, p []byte) (n int, err error) {
	raw, err := below(c)
	if raw == nil || len(p) == 0 {
		return 0, err
	}
	var fault syscall.Errno
	err = raw.Write(func(fd uintptr) bool {
		n, fault = write(fd, p)
		return true
	})
	switch {
	case err != nil:
	case full(fault):
	case fault != 0:
		err = fault
	}
	return n, err
}

// Quiet reports whether nothing has come on c that was not read, its end neither. It
// takes nothing and does not wait. Where that cannot be told it is true.
func Quiet(c net.Conn) bool {
	if secure, ok := c.(*tls.Conn); ok {
		c = secure.NetConn()
	}
	raw, err := below(c)
	if raw == nil {
		return err == nil
	}
	var fault syscall.Errno
	err = raw.Read(func(fd uintptr) bool {
		fault = peek(fd)
		return true
	})
	return err == nil && full(fault)
}

// below is the socket of a connection, nil where there is none.
func below(c net.Conn) (syscall.RawConn, error) {
	if s, ok := c.(syscall.Conn); ok {
		return s.SyscallConn()
	}
	return nil, nil
}

// full reports whether a call would have had to wait.
func full(err error) bool {
	return errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EWOULDBLOCK)
}
