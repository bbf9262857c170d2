//go:build unix && (!linux || race)

package socket

import (
	"errors"
	"syscall"
)

// write writes once.
func write(fd uintptr, p []byte) (int, syscall.Errno) {
	n, err := syscall.Write(int(fd), p)
	return max(n, 0), number(err)
}

// peek looks for one byte, and tells why there is none; the end is no fault.
func peek(fd uintptr) syscall.Errno {
	var one [1]byte
	_, _, err := syscall.Recvfrom(int(fd), one[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
	return number(err)
}

func number(err error) (n syscall.Errno) {
	_ = errors.As(err, &n)
	return n
}
