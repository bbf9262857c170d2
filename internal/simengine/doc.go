// Package simengine is a simulated LLM engine that answers one request at a
// time.
package simengine
