// Package job is what the line is told of one request: whose it is, how urgent, how large,
// and how its work is begun. No prompt is in it.
package job
