// Package ledger keeps one row for each authenticated request: what it was,
// how it ended, how long it waited and ran, and which tokens it used.
//
// Rows live in one SQLite file in the data folder. No prompt, answer or
// thinking text is ever part of a row.
package ledger
