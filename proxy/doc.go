// Package proxy runs one request on the engine that was granted to it and moves
// the answer to the client while it is being written.
//
// # Flow
//
//	engine event -> chunk -> pieces (split) -> meter (usage) -> client
//
// One goroutine does all of it, that of whoever called Serve, with no channel between the
// steps. Complete events that are already at hand go out in one write; before
// the engine is waited for, everything has been sent.
//
// A small request is made ready for its engine while it waits (Ahead), and is sent by
// whoever gives the slot back (Start), so that the engine need not wait until the next
// handler has woken up. Serve goes on with it from there.
//
// # What is rewritten
//
// The engine is always asked to stream and to tell its usage. Of the client's
// request only the keys that the proxy owns are changed; null fields, fields
// that could open the engine, and OpenAI's bookkeeping are left out. No header of
// the client reaches the engine. In what words the answer is told is the business
// of the API's package below proxy/surface.
//
// # Who writes to the client, and when
//
// A Client belongs to whoever called Serve. Until it is released, that
// goroutine and the heartbeat timer write, under its lock: signs of life while the
// request waits and while the engine is silent, then the answer. The status line
// goes out with the first byte, so that an early error has its own status; a
// later one ends the stream in the API's own way, and never as if the answer were
// complete.
//
// # Ends
//
// Only a finish reason makes an answer complete. A stream that ends without
// one, or breaks, or carries an error, is a failure of the engine, and what was
// held back is given out before the client is told.
//
// A run whose client leaves is stopped: the engine is told by the run's id
// while its stream is still attached, the stream is read to its end, which also
// brings the final usage, and only then is it closed. The abort is repeated,
// then everything is aborted, then the connection is closed. The client is told
// of the cause meanwhile.
//
// Call.Idle is called as soon as the engine is done, before the last of the answer
// has been counted and written: the next request need not wait for this client. From
// then on the run can neither be stopped nor aborted, since what runs there may be
// another's. It is called only when the engine ended the stream by itself, refused
// the request, or was never asked; in every other case the slot's next holder
// has to see it idle first.
//
// # Ownership
//
// A run's goroutines (the abort, the watch on silence, the tokenizing beside the
// stream) end before Serve returns; what Ahead has started, before its end does.
package proxy
