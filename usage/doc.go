// Package usage counts the tokens of one request and says where each figure
// comes from.
//
// It is pure: no I/O of its own, no clock, no logger, no goroutines. A Meter
// belongs to one stream and is not safe for concurrent use; what it needs of
// the world, a Counter, is lent by the caller.
//
// # What is counted
//
// The thinking tokens of an answer are its completion tokens up to and
// including the close marker; the answer tokens are the rest, the end-of-turn
// token and tool calls included. So thinking + answer = completion, always.
// Cached prompt tokens are a part of the prompt tokens.
//
// A text that never closes its thinking is all thinking, whatever the finish
// reason says. A text in which no thinking was seen is all answer.
//
// # Which figure wins
//
// Running totals of the engine replace each other and are never added up. An
// event without totals, a null and a value that is no count change nothing.
//
// The engine's total decides what the completion is. For the split, best first:
//
//  1. the engine's running totals around the boundary, when the boundary falls
//     on the edge of a chunk or into a chunk of one token;
//  2. the tokenizer, kept between the running totals before and after the
//     boundary, or, without running totals, over the whole text up to the
//     boundary, in one go and never chunk by chunk;
//  3. the engine's own thinking figure, unless it is known to be wrong: 0
//     although thinking was seen, all of the completion although an answer was
//     seen, outside the running totals, or far below what the text can be;
//  4. an estimate from the length of the text.
//
// Without any total the tokenizer counts both parts, and without a tokenizer
// the figures are unknown. Unknown is never zero.
//
// The cached part of the prompt is what the engine tells, else 0 where its
// cache is known to be off or it tells whenever there is something, else what a
// model of its cache expects (package prefix), else unknown. The prompt is what
// the engine tells, else an own count.
//
// An answer made of several engine runs is reported as one run would have
// been: its prompt once, the thinking that was kept, the answer. The engine's
// totals over all runs stand beside it.
//
// # Failures
//
// A Counter may be slow or fail: the next source is taken, and the report says
// so by its Source. A report can be asked for at any time; it is right for a
// run that was cut, aborted or abandoned, up to what had arrived.
package usage
