// Package console shows the line to a person at a terminal: as a table, and, from
// the feed of GET /v1/queue/events, as a table that keeps itself up to date or as a
// line for each thing that happens.
//
// It knows what the routes answer and nothing else. A Screen that is given every
// event of a feed shows what GET /v1/queue would, but for the times until a start and
// the places of others, which the feed does not keep up to date: a Watch asks for the
// whole view now and then.
//
// # Ownership
//
// Watch.Run starts two goroutines, one that reads the feed and one that asks for the
// view. Both end with Run, which waits for them.
package console
