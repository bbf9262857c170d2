// Package redis keeps the ledger in the Redis that several proxies share.
//
// Rows are packed as JSON arrays in one hash, with their times in a sorted set;
// all keys have one hash tag, so that they live in one slot of a cluster. A row
// takes about 550 bytes of Redis' memory. No prompt or answer is part of one.
//
// Each open row belongs to the process that began it. A process shows that it
// lives by a lease, renewed with each write and at least three times a lease, on
// Redis' own clock. What a process leaves open when it dies is closed, within
// twice the lease, by whichever process looks first, itself started anew or
// another: running as slot_lost, queued as abandoned. Should its owner live after
// all (it was paused, or cut off from Redis), what it writes then is the truth.
//
// Sums read the rows that they add up, a thousand at a time.
package redis
