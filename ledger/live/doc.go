// Package live reads the ledger of a running proxy over HTTP, with the calls of
// ledger.Ledger. The proxy decides what the key may see. Times of admission come
// to the second.
package live
