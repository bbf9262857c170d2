// Package remote is how the program's own commands, such as `oneslot usage`,
// talk to a running proxy.
//
// A Client sends a Call and gives back the response, or one error that a person
// can act on: ErrUnreachable when nobody answers, a *Problem for what the proxy
// refused. The key is sent to the proxy and shown nowhere.
package remote
