// Package codec says the steps of the line as arguments of the scripts, and reads
// what they return. It is pure; the other side of it is written in queue/lua.
package codec
