//go:build unix

package wire

import (
	"crypto/tls"
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
	socket, ok := inner.(syscall.Conn)
	if !ok {
		return true // a test's
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return false
	}
	var fault error
	err = raw.Read(func(fd uintptr) bool {
		var one [1]byte
		_, _, fault = syscall.Recvfrom(int(fd), one[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		return true
	})
	return err == nil && (fault == syscall.EAGAIN || fault == syscall.EWOULDBLOCK)
}
