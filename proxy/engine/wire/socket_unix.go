//go:build unix

package wire

import (
	"crypto/tls"
	"errors"
	"net"
	"syscall"
)

// quiet reports whether nothing has come on a kept connection, its end neither. A look
// at the socket tells, without waiting and without taking anything from it.
func (c *conn) quiet() bool {
	if c.r.Buffered() > 0 {
		return false
	}
	inner := c.Conn
	if secure, ok := inner.(*tls.Conn); ok {
		inner = secure.NetConn()
	}
	raw, err := socket(inner)
	if raw == nil {
		return err == nil // a test's
	}
	var fault error
	err = raw.Read(func(fd uintptr) bool {
		var one [1]byte
		_, _, fault = syscall.Recvfrom(int(fd), one[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		return true
	})
	return err == nil && full(fault)
}

// offer writes what the socket takes at once: nothing where that cannot be told.
func (c *conn) offer(text []byte) (n int, err error) {
	raw, err := socket(c.Conn)
	if raw == nil {
		return 0, err
	}
	var fault error
	err = raw.Write(func(fd uintptr) bool {
		n, fault = syscall.Write(int(fd), text)
		return true
	})
	if fault != nil {
		n = 0
	}
	if full(fault) {
		fault = nil
	}
	return n, errors.Join(err, fault)
}

// socket is what a connection of the system is made on, nil for any other.
func socket(c net.Conn) (syscall.RawConn, error) {
	if s, ok := c.(syscall.Conn); ok {
		return s.SyscallConn()
	}
	return nil, nil
}

// full reports whether a call would have had to wait.
func full(err error) bool {
	return errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EWOULDBLOCK)
}
