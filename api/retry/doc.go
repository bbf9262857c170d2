// Package retry lets a request outlive the connection that brought it. A client that
// is lost and asks again gets its old place in line, or the answer of the run that
// goes on, from its beginning: never a second run.
//
// # Who is the same
//
// Of one caller, that is one API key, on one route:
//
//   - Two requests with the same Idempotency-Key are one, whether the first is lost,
//     connected, or has been answered within the grace. Both are told the answer. The
//     same key with another body is refused with 422, and a connection beyond
//     Config.Visits (8) to the same request with 409.
//   - Without a key, one whose X-Stainless-Retry-Count is above 0 is the request of
//     the same body whose client is lost. One whose client is there is somebody who
//     asks the same, and so is one with a key.
//
// # When a lost client is waited for
//
// When the last connection of a request ends, and it had sent a key, or ended at the
// time it had announced (X-Stainless-Timeout, X-Stainless-Read-Timeout), within a
// tenth: libraries hang up before they try again. OpenAI's cut their time to whole
// seconds, so that the second counts as well; openai-node says nothing of its usual
// 10 minutes, which are taken for granted. Place and run are then kept for
// Config.Grace, and given up after it. In all other cases they are given up at once,
// and so are those of a request whose answer can no longer be repeated.
//
//	          ┌───────────── a retry joins ──────────────┐
//	          ▼                                          │
//	asked ─► told ── the last connection is lost ─► waited for ── Grace ─► given up
//	          │                │ no retry is expected,             ▲
//	          │                │ or the answer is too large        │
//	          │                └───────────────────────────────────┤
//	          └─ ended ─► kept, for Grace ─────────────────────────┘
//
// An answer that has ended is kept for Config.Grace if it had a key, or nobody has
// got all of it. An error is kept only if another try would end in it too.
//
// # What it costs
//
// A request that says nothing of retries costs nothing. For the others the answer is
// kept in memory while it is told, up to Config.Answer bytes each; of those that have
// ended up to Config.Kept, and Config.Bytes together, the oldest given up first.
// Nothing of a request is written anywhere.
//
// # Several proxies
//
// A Book knows the requests of its own process only. Where proxies share a line, they know
// by package queue/claims which of them answers a request: a hash of caller and key, or of
// caller and body, is all that is told. A retry that reaches another proxy is a request of
// its own there, with its own id and row:
//
//   - The first client is lost: the retry takes its place in line over, or stands where it
//     stood before it had the slot, so that it is next of its key; what was said is lost
//     with the run. The first ends as if its grace were over: abandoned, or client_gone.
//     The retry is not run before that.
//   - It is connected: a request of the same key is refused with 409, since the answer
//     cannot be followed from another process. One without a key is another's.
//   - It has been answered: the retry is answered anew, the tape being another's.
//   - The first proxy says nothing: the retry waits until its lease is over.
//
// A request with a key costs a call to Redis at its start for that, and one at its end;
// one without shows itself when its client is lost.
//
// # Ownership
//
// Whoever has the first connection (package api says who) runs the request and lives
// until it is known whether somebody has got the answer. Each further connection has a
// handler that plays the tape of it. The package starts no goroutine; its timers drop what is overdue.
package retry
