// Package line is the policy of the queue: who waits, in which order, who holds
// which engine slot, and by which number.
package line
