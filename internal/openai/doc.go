// Package openai holds the wire types that the HTTP edge and the engine side
// share: what oneslot reads of a request, how it edits one, what it reads
// of an engine's event, how it writes an event of its own, and the error
// envelope.
//
// It is pure: no I/O, no clock, no goroutines. Only the fields that oneslot
// reads or writes are typed; everything else passes as the bytes it came as,
// so that a field nobody here has heard of reaches the engine unharmed.
//
// # What it promises
//
//   - DecodeChat and DecodeCompletion never accept what would be misread later: the body is one JSON
//     object in valid UTF-8, and each field that oneslot knows has its type or is
//     null. Names count as they are spelled, and of a repeated one the last value
//     counts, which is how the engines read them.
//   - Rewrite changes the named keys and keeps the other bytes and their order;
//     ForwardMessages does the same to a list of messages.
//   - A Chunk is read in one pass and tolerates null and absence everywhere:
//     null equals absent. No event makes it panic or exhaust the stack.
//   - An Emitter writes a chunk on one line, with only the keys that say
//     something: never a null delta key.
//   - A Problem is the only shape in which an error leaves the program.
package openai
