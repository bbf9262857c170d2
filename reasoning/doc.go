// Package reasoning splits the text a model writes into thinking and answer
// while it is being written.
//
// It is pure: no input or output, no goroutines, no clock, no logger, standard
// library only. A Format says, as data, which markers a model family writes; a
// Parser reads one stream in that format. No marker is written in the code.
//
// # Contract
//
// For every text and every way of cutting it into Feed calls:
//
//   - Conservation: thinking + answer + the markers removed + the white space
//     at their edges = the text. Segments come in the order of the text.
//   - Chunk invariance: what the segments join to does not depend on the cuts.
//   - Bounded delay: at most the longest marker less one byte is held back,
//     and the white space that may yet turn out to touch a marker.
//   - Nothing is lost at the end: Close gives out whatever was held.
//
// A segment is never empty. If the format's markers are valid UTF-8, as
// Validate demands, and the pieces fed are cut between characters, so are the
// segments.
//
// # One block
//
// A stream has at most one block of thinking, at its start. An opener counts
// only before the first visible character; later ones are text. The first
// closer ends thinking; later ones are answer text. Text without a closer stays
// thinking: it is never promoted to answer, whatever ended the stream.
//
//	StartThinking  the prompt has opened thinking; one leading opener, which some
//	               models repeat, is dropped
//	StartAnswer    a leading opener begins thinking; else all is answer
//	StartAuto      the first visible text decides: an opener begins thinking;
//	               anything else goes where Format.Otherwise says, and that is
//	               the answer unless the format sets it. It therefore acts as
//	               one of the two above; it exists so that a row can say that
//	               the template may or may not open the block.
//
// A tool-call opener that the format lists in ToolOpen also ends thinking, and
// stays as the beginning of the answer. Anything else that looks like a tool
// call is opaque: thinking that drafts or quotes one stays thinking.
//
// Control tokens are removed wherever they stand, as though the model had not
// written them: white space on both sides of one counts as one run. A marker
// that is interrupted by a control token is no marker.
//
// Where several markers could match, the leftmost does; of those that begin at
// the same byte the longest does; of equal ones the opener, then the closer,
// then the tool opener, then the control token, as far as each counts there.
//
// # Channels
//
// Where Format.Channels is set, a stream is a sequence of messages, each with a
// header that names its channel. The contract is the same, but for this:
//
//   - Headers and ends of messages are the markers. Thinking may come again after
//     an answer has begun, and what is given out follows the headers.
//   - A message whose header names a recipient is a tool call. It is answer,
//     whatever its channel, and stays byte for byte, header and end included:
//     whoever parses tool calls needs the whole of it.
//   - An end counts where a header, another end or the end of the stream follows;
//     else it is text. In a channel of Channels.Last nothing else counts, so that
//     an answer may quote any marker.
//   - A stream that begins with no header, which the prompt may have begun, is
//     answer, all of it.
//   - A header has no line break and at most 256 bytes; else it is text. That is
//     also what may be held back, beside ends of messages. A header that the end of
//     the stream cuts off is dropped.
//   - Boundary is where thinking first ended.
//
// # White space
//
// White space is space, tab, carriage return and line feed. Where it touches
// the opener or the closer it is dropped: before and after the opener, before
// the closer, and after the closer up to the first visible character. An
// opener or closer that the prompt holds counts (StartThinking, StartClosed).
// All other white space is kept, byte for byte. In particular:
//
//   - before a first visible character that is no opener it is kept;
//   - in a stream of nothing but white space it is kept with StartAnswer, since
//     no marker touched it, and dropped with StartThinking, since one did;
//   - at the end of thinking that no closer followed it is kept, also before
//     the start of a closer that the end of the stream cut off;
//   - before a tool opener it is kept, as the end of thinking: that opener is
//     text, not a marker that is removed;
//   - within and at the end of the answer it is kept.
//
// # Boundary
//
// Boundary counts the bytes fed up to the end of the closer, or up to the tool
// opener, that ended thinking. A meter that knows the engine's running token
// totals reads the split off there.
package reasoning
