// Package simtest starts simulated engines for tests and ends them with the
// test: over loopback, or over pipes inside a testing/synctest bubble.
package simtest
