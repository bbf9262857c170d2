//go:build linux && !race

package socket

import (
	"syscall"
	"unsafe"
)

// call is a read or a write of at least one byte that does not block, made again when a
// signal came first.
func call(what, fd uintptr, p []byte) (int, syscall.Errno) {
	for {
		n, _, fault := syscall.RawSyscall(what, fd, uintptr(unsafe.Pointer(&p[0])), uintptr(len(p)))
		if fault == 0 {
			return int(n), 0
		}
		if fault != syscall.EINTR {
			return 0, fault
		}
	}
}

func write(fd uintptr, p []byte) (int, syscall.Errno) { return call(syscall.SYS_WRITE, fd, p) }

// peek looks for one byte, and tells why there is none; the end is no fault.
func peek(fd uintptr) syscall.Errno {
	var one [1]byte
	_, _, fault := syscall.RawSyscall6(syscall.SYS_RECVFROM, fd, uintptr(unsafe.Pointer(&one[0])), 1, syscall.MSG_PEEK|syscall.MSG_DONTWAIT, 0, 0)
	return fault
}
