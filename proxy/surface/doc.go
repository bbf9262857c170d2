// Package surface is the seam between the one life of a request and the APIs in
// which clients ask for it: Chat Completions, Completions, Responses, Messages.
//
// # What is shared, and what is not
//
// A request is decoded, waits, runs, and is accounted for in the same way
// whatever its API is. An API differs in three things, and in nothing else:
//
//   - Decode makes the one internal request, an openai.Request whose body is
//     what an engine reads, of the client's own.
//   - A Voice words what is not the answer: the signs of life of a stream, the
//     error that ends one, and the error object.
//   - A Sink writes the answer, as the pieces of it come: events of the API's own
//     grammar, or one object.
//
// A Talk is one request's Voice and Sink. They share what they have said: an API
// whose events are numbered begins its stream with a sign of life and goes on
// with the answer.
//
// # What an API may rely on
//
//   - Sink is called at most once, when the request has a slot. A request that
//     is refused, leaves or waits too long never has one.
//   - A Sink is used by one goroutine. Nothing is called after Finish, but a
//     Voice may be: Fail does nothing then, since the answer has ended.
//   - The methods of a Voice run under the client's lock, those of a Sink do
//     not. What both touch is touched inside downstream.Client.Write and End.
//   - An error that a Sink returns means that the client cannot be reached. It
//     comes from downstream.Client; a Sink has none of its own.
package surface
