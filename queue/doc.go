// Package queue is the waiting room in front of engines that answer one request
// at a time.
package queue
