// Package simtest starts simulated engines for tests and ends them with the
// test: over loopback, or over pipes inside a testing/synctest bubble. Buffer takes what
// the programs before them say.
package simtest
