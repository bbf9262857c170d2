// Package outbox carries a reply of the simulated engine from the goroutine that
// makes it to the HTTP handler of its client.
//
// A Box has no limit: a slow client does not hold up the engine, as with the
// real ones, and a client that has left leaves the reply unread.
package outbox
