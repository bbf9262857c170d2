// Package ledger keeps one row for each authenticated request: what it was,
// how it ended, how long it waited and ran, and which tokens it used.
//
// Rows live in one SQLite file in the data folder. No prompt, answer or
// thinking text is ever part of a row, and labels are cut to 256 bytes.
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
// goroutine, started by Open and ended by Close, writes what has gathered in
// one transaction, at most Config.Every later; several changes of one row make
// one write. Get, List and Sum see rows that are not on disk yet.
//
// One process holds a data folder, by a lock on ledger.lock that the system
// frees with the process. Others may read it at the same time (Config.ReadOnly).
//
// # When things fail
//
//   - kill -9: rows committed are on disk, which is so at most Every plus one
//     transaction after Finish has returned. Open closes what the dead process
//     left open: running as slot_lost, queued as abandoned.
//   - power loss: the last transactions may be missing, the file stays whole.
//   - a full or broken disk: rows stay in memory and are tried again; Err says
//     why, and Begin refuses new ones with ErrBacklog beyond Config.Backlog.
//     Finish is never refused.
//   - a file that is damaged, or of a newer version, is left as it is: Open
//     says so.
//
// Rows older than Config.Retention, and the oldest above Config.MaxRows, are
// deleted by the writer, a thousand at a time. Open rows stay.
package ledger
