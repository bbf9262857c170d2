// Package bell ends a wait: it wakes a goroutine, or tells a function, so that a wait
// needs no goroutine of its own.
//
// A Bell promises to ring once, and that nothing of it is left after that: its time
// limit is no timer any more. It has no lock; its owner's guards it.
package bell
