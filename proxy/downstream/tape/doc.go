// Package tape keeps what one client was told, so that another connection of the
// same client can hear it from the beginning and go on from there.
//
// # What it promises
//
//   - Every player hears the same events in the same order, whenever it begins, and
//     then the same end, once.
//   - A tape holds at most its limit. Beyond it the beginning is given up: nobody
//     can begin to play any more, and those who do already go on. Nothing is ever
//     spilled to a file or another process.
//   - Who writes never waits for who plays. A player that is slow keeps what it has
//     not heard yet, until its own writes end it.
//
// # Ownership
//
// One goroutine at a time writes. Each player is a goroutine of its own, that of the
// connection it plays to. The package starts none.
package tape
