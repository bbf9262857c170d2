// Package parted knows who is answered without the HTTP server: the requests whose
// handlers have returned while they waited. The server has forgotten them, so that its
// Shutdown neither waits for them nor ends them.
//
// It promises that whoever has joined a Crowd before it left the server is waited for, and
// that nobody outlives the end of the wait: the connections of those who are there are
// closed then, and of those who still come.
package parted
