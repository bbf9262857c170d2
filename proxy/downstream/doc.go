// Package downstream is the side of a request that faces its caller: the status
// line, the heartbeats while there is nothing to say, the events of a stream or
// the one JSON object, and the error that may end either.
//
// # What it promises
//
//   - Headers of a stream go out after Config.CommitAfter at the latest, so that
//     an error that comes early still has its own status, and no client waits
//     longer than that for its first byte.
//   - No silence is longer than Config.Heartbeat, and hardly one is shorter: the signs of
//     life of all clients are rounded to the same moments. A stream gets what its Voice has
//     for that, between events and never inside one; a whole answer gets newlines
//     before its JSON, which every JSON reader skips.
//   - Each event is one line of data. There is never an id or a retry, and a name
//     only where the client's API has one: clients break on them. Nothing is
//     compressed.
//   - An answer ends once: the first of Whole, Done and Fail counts. With Config.Lag the
//     end of a stream, where it is short and no answer is kept, goes out with the end of
//     the response, whose handler is about to return; if that takes longer, by itself.
//   - With Config.Keep the answer goes on when its caller is lost: no call fails,
//     and all that belongs to it is kept on the tape, for a Client that repeats it
//     to another connection. Without it nothing is kept.
//   - A failed or overdue write is remembered and returned by every later call;
//     no flush hides it.
//
// # Ownership
//
// A Client starts no goroutine that lives on: its timer, and a round of those who break
// their silence at the same moment, run in one for the length of the writes. Who made it calls Release at the end, and nothing is
// written after that. A handler that would return before has its client Part: the bare
// connection (package raw) goes on with the answer, to Close.
package downstream
