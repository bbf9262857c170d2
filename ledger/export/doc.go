// Package export writes rows and sums of the ledger as CSV (RFC 4180) or as a
// table for a terminal.
//
// A figure that nobody knows is an empty cell in CSV and a dash in a table, never
// zero. Words that clients chose cannot be run as formulas by a spreadsheet, nor
// steer a terminal.
package export
