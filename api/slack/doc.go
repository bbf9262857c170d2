// Package slack gives memory back to the system that a crowd of requests has left
// behind. The runtime would keep it: nothing makes garbage where only somebody waits, so
// that no collection comes, and what it returns by itself it returns slowly.
//
// It promises to cost a request two additions, to do nothing while about as much is
// needed as before, and to look again at most every ten seconds. What requests take is an
// estimate of their owner's.
package slack
