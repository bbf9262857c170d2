// Package wire sends requests to one server over HTTP/1.1 connections that it keeps
// for the next ones.
//
// # What it promises
//
//   - A request and its response are handled in the goroutine of whoever asks: the
//     request goes out in one write, and the body is read from the socket by the
//     reader's own goroutine. Only a new connection and a long request have one, which
//     dials, or writes it while the response is waited for; it ends with that.
//   - A request can be begun before anybody waits for its response, without waiting: what
//     the socket does not take at once is written beside.
//   - When the context of a request ends its connection is closed, also under a body
//     that is being read.
//   - A request is sent once. It is sent again only on a connection that was kept, and
//     only when the kernel had taken nothing of it, or, if it may be repeated, when the
//     connection ended without a byte of a response.
//   - A kept connection is used only if nothing has come on it, its end neither, and
//     for no longer than Config.Idle. One whose response was not read to its end is
//     closed.
//   - Nothing is followed, stored or unpacked: no redirects, cookies or compression.
//
// The responses are read by net/http: what is framed how is not decided here.
//
// # Ownership
//
// A Client is safe for concurrent use. The caller closes the body of a response. Close
// drops the connections that are kept.
package wire
