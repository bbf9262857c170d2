// Package chat is Chat Completions, the API in which the engines are asked too.
//
// A stream is chunks with one id, one created and one model: the role alone in
// the first, then thinking and answer in members of their own, one chunk with the
// finish reason, the usage if it was asked for, and [DONE]. There are no null keys
// and no empty deltas. While nothing is to be said there are comments, which every
// client skips, or chunks that say nothing, for those that cannot. A failure is an
// event with the error object, then [DONE], and never a finish reason.
//
// A whole answer is the same pieces gathered into one object.
package chat
