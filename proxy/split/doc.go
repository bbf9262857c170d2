// Package split turns the deltas of an engine's stream into pieces of thinking
// and answer for the client, whoever did the splitting.
//
// It is pure: no I/O, no clock, no goroutines. A Splitter belongs to one stream
// and is not safe for concurrent use.
//
// # What it promises
//
//   - Text that the engine has already split (`reasoning_content`, `reasoning`)
//     is passed on as it was split; else the format's parser splits it. The
//     first delta with visible text decides. An engine that begins to split
//     later is believed from there on.
//   - The edges are the same in both: whitespace that touches the boundary is
//     dropped, all other is kept; an opener that leaked into the engine's
//     thinking is dropped, and so are control tokens.
//   - A prefill that the engine echoes before it goes on is dropped; llama.cpp's
//     server does that.
//   - Stop strings act on the answer alone. The answer is cut exactly before the
//     first of them, however the stream was cut into events.
//   - Token probabilities follow their text into the answer. Those of thinking
//     and of markers are left out, and where entries cannot be aligned with the
//     text there are none.
//   - Nothing is lost: Close returns what was held back.
package split
