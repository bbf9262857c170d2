// Package events reads an engine's stream of server-sent events.
//
// It follows the format's standard: lines end with LF, CR or CRLF, a blank line
// ends an event, several data lines are joined, comments and other fields are
// skipped, an event that is not ended is dropped. Tests hold it to a well-known
// library at every cut. It is here because an engine's events are the hot path:
// one small copy an event is all it takes.
//
// It reads only when no whole line is at hand, and never more than has come, so
// whoever needs to act before a wait can do so in the reader it gives.
package events
