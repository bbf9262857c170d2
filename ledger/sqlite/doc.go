// Package sqlite keeps the ledger in one SQLite file in the data folder.
//
// One process holds a data folder, by a lock on ledger.lock that the system
// frees with the process. Others may read it at the same time (Config.ReadOnly).
//
//   - kill -9: rows committed are on disk. Open closes what the dead process
//     left open: running as slot_lost, queued as abandoned.
//   - power loss: the last transactions may be missing, the file stays whole.
//   - a file that is damaged, or of a newer version, is left as it is: Open
//     says so. One of an older version is brought to the newest, each step
//     whole or not at all.
package sqlite
