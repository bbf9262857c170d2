// Package socket reads and writes TCP connections without telling the scheduler.
//
// Such a connection never blocks: the kernel takes or gives what there is, and who has to
// wait does so in the runtime's poller. Yet each call to net announces a system call that
// might block, and where the program was idle before, that wakes the runtime's watchdog,
// a thread that then looks around every 20 µs: it cost more than any other part of a
// short answer.
//
// # What it promises
//
//   - A Conn behaves as the *net.TCPConn that it is made of: deadlines, Close beside a
//     read, errors and their classes, and what goes by SyscallConn.
//   - Offer and Quiet write and look without waiting, whatever the connection is made of.
//   - Where it is not known how to do so, the connection is returned as it is; so it is
//     under the race detector, which learns by net's calls what comes before what.
package socket
