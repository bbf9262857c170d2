// Package engine is one LLM engine as oneslot sees it: where it is, which
// dialect it speaks, and how to talk to it.
//
// # What it promises
//
//   - Only configured URLs are ever called, by fixed paths; redirects are not
//     followed, and no header of a client is passed on.
//   - Chat dispatches one run and returns the engine's response as it comes. It
//     never closes an engine's stream by itself: on SGLang 0.5.18 and 0.5.19 a
//     run whose connection is gone goes on as a ghost that no abort by its id
//     can reach.
//   - Begin dispatches one without waiting for anything, where a connection is open.
//   - Abort stops a run by the id that oneslot gave it. A 200 proves nothing, so
//     whoever aborts watches the stream end or calls Settle.
//   - Settle returns nil only when the engine has been seen idle. Where oneslot
//     is the engine's sole client it aborts everything first.
//   - Idle connections are kept for less than the engines' five seconds, so that
//     a request never meets a connection that is just being closed.
//
// # Dialects
//
// What differs between SGLang, vLLM, llama.cpp and the rest is data in
// dialect.go: paths, names of fields, how load is told, how text is tokenized.
// Info finds the dialect once by asking and remembers the answer until the
// engine could not be reached.
//
// # Ownership
//
// An Engine is safe for concurrent use. It keeps no goroutine. The caller of
// Chat owns the response body, reads it from the socket (see package wire), and
// closes it.
package engine
