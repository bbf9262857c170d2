// Package raw is the connection of a caller who waits, without the HTTP server that took
// it in: the server's goroutines and buffers cost several times what is needed to keep
// somebody waiting, and thousands may wait.
//
// # What it promises
//
//   - What was begun as a chunked answer goes on as one: each Write is a chunk, in one
//     call of the system, and End ends the answer. Close without it breaks the answer off,
//     so that nobody takes a part for the whole.
//   - Whoever waits is one goroutine, in Watch, with the smallest stack that there is. It
//     learns that the caller has left, or is woken by Wake.
//   - The connection serves no further request. The head of the answer has to say so, by
//     Connection: close.
package raw
