// Package report is the ledger over HTTP: it reads a question out of a URL and
// writes the answer as JSON or CSV.
//
// A page of JSON has at most 1000 rows. CSV without a limit is everything that was
// asked for, sent page by page, so that an export of any size costs the memory of
// one page. Whose rows a caller may see is the caller's business: Ask.Query.Key.
package report
