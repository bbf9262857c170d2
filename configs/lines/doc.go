// Package lines says on which line of a YAML file a key stands, or what makes it
// unreadable, so that a fault can be found. Keys are written as faults name them: queue.lease, or
// engines[0].url. What an alias or a merge brings in stands where that does.
package lines
