// Package door has what a client hears before a handler does: net/http answers
// requests that it cannot read by itself, in plain text, and the door says the same in
// the API's own words, under the same status.
//
// # How
//
// Such answers are written when no handler has the connection: from the moment at
// which it is accepted, or an answer has ended, until the next request is handed on.
// Only then the door looks at what is written. While a handler has the connection,
// a write costs one flag more, and its bytes are never looked at, so that no answer
// can be mistaken for one of these.
//
// # Which
//
// Request lines, headers and a Host that are malformed or missing (400), headers that
// are too large (431), an Expect other than 100-continue (417), a coding of the body
// that is not known (501), and versions of HTTP before 1.0 or after 1.1 (505). In each
// case net/http closes the connection after it.
//
// # The end
//
// Close ends the connections on which nothing has been asked yet. net/http would wait
// for their first request for 5 s.
package door
