// Package markers tells from what an engine showed how its model marks thinking.
//
// It is pure: texts in, a format row out. It knows no marker by heart; it
// compares what was seen with the rows it is given, and where none fits it takes
// the markers out of a rendered conversation.
//
// # What it promises
//
//   - A row is Verified only when the opener and the closer were both seen: in
//     raw output, at the end of a prompt, around thinking that the template
//     rendered, in the template's source, or as what the engine's own parser
//     splits at.
//   - Where a stream begins follows from what was seen first hand: the end of the
//     prompt, else the output. It is not taken over from a row of the same markers.
//   - Rows that cannot be told apart are all named; none of them is picked but one
//     whose name is in the names of the model or of its parser.
package markers
