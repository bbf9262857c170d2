// Package ledger keeps one row for each authenticated request: what it was,
// how it ended, how long it waited and ran, and which tokens it used.
//
// Rows live in a Store: one file in the data folder (ledger/sqlite) or the Redis
// that several proxies share (ledger/redis). No prompt, answer or thinking text
// is ever part of a row, and labels are cut to 256 bytes.
//
// # The life of a row
//
// Begin writes it when the request is admitted, Update while it is open, Finish
// when it has ended. The first final outcome stays: a later Update or Finish of
// the same id changes nothing, so a request has exactly one outcome.
//
// # Who owns what
//
// Begin, Update and Finish only put the row into memory and return. One
// goroutine, started by New and ended by Close, writes what has gathered at
// once, at most Config.Every later; several changes of one row make one write.
// Get, List and Sum see rows that are not in the store yet.
//
// # When things fail
//
//   - kill -9: rows written stay, which is so at most Every plus one write after
//     Finish has returned, or Every plus two where it came during a write. What a dead
//     process left open is closed: running as slot_lost, queued as abandoned, both with
//     the reason process_died and without the times that nobody knows, and Config.Lost is
//     told; when, its store says.
//   - a store that fails: rows stay in memory and are tried again; Err says why,
//     and Begin refuses new ones with ErrBacklog beyond Config.Backlog. Finish is
//     never refused. Get, List and Sum say ErrStore then, unless the row is here.
//
// Rows older than Config.Retention, and the oldest above Config.MaxRows, are
// deleted by the writer, a thousand at a time. Open rows stay.
package ledger
