// Command oneslot lets many clients share an LLM engine that answers one
// request at a time.
//
//	oneslot serve --engine http://127.0.0.1:30000
//
// `oneslot help` lists the commands. A fault of the settings ends the program
// with status 2, any other failure with status 1; either is told in one
// sentence on standard error.
package main
