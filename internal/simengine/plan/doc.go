// Package plan works out a whole reply of the simulated engine before the first
// token of it is spoken: its text, its tokens, what each token adds to the two
// channels, where it stops and why.
//
// It is pure. That a reply is known beforehand makes it independent of how it is
// cut into chunks, and lets stop strings be found without holding text back.
package plan
