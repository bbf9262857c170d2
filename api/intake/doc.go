// Package intake reads the bodies of requests within bounds: of size, of time, and
// of the memory that all of them take together.
//
// # Memory
//
// A body has its bytes reserved before they are read: the declared length at once, a
// chunked one as it grows. They stay reserved until Close, that is for as long as
// the request is in the program, in line too. What does not fit into the room of the
// key, or of all, is refused with ErrKeyFull or ErrFull, without a byte read. One
// client that begins fifty large uploads thus takes the room of its key and no more.
//
// # Time
//
// A body that brings nothing does not keep its reservation: it has Config.Patience,
// a second more for every Config.Pace bytes that have come, and Config.Time at most.
//
// # Answers before the end of a body
//
// A refusal does not wait for the body. Settle, called before the headers go out,
// takes in what is small and already there, so that the connection can be used
// again, and marks it for closing otherwise. Linger, called after the answer, reads
// on and throws away: many clients read no answer while they can still write, and
// would report a broken connection.
//
// # Ownership
//
// A Body belongs to the handler of its request; after Part, to whoever ends the request.
// Room.Close, from any goroutine, leaves a second to what is still coming, and what comes
// later: a retry may still be owed an answer. What has been read is not touched. The
// package starts no goroutine.
package intake
