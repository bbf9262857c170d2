// Package claims sees to it that of all proxies of a line one answers a request, however
// often it is asked. A request is known by a name, a hash that two proxies make of it
// alike; no text of it is written anywhere.
//
// # How
//
// Whoever is about to answer a request takes the claim on its name, which Redis keeps
// with the owner of the line's lease. If another living process has it, that one is asked
// by a message:
//
//	its client is there     it says so: the newcomer must not answer       ErrHeld
//	its client is lost      it says that it is going, gives the request
//	                        up soon, place or run, and then drops the
//	                        claim                                          taken in two steps
//	it does not know it     it drops the claim                             taken
//	it says nothing         it is asked again, until its lease is over     taken
//
// The newcomer stands where the other stood, which he learns with the answer: in line
// before that one leaves it, so that nobody comes in between. He runs nothing before the
// claim is dropped, or the other's lease is over and its slot was settled: so no request
// runs twice at a time, on several slots either.
//
// # Ownership
//
// Take is called by the goroutine that answers the request. Messages come by Hear, which
// does not wait. Drop and answers to messages run in goroutines that the caller of New
// starts.
package claims
