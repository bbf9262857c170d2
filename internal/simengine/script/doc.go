// Package script says, step by step, what an engine does on the wire instead
// of a generated reply: raw bytes, pauses, broken connections.
//
// # Text form
//
// A script file is a txtar archive. The text before the first section is a
// comment. Each section is one step; its name is the step, its body the data:
//
//	A reply that is cut inside the close marker.
//	-- write --
//	data: {"choices":[{"index":0,"delta":{"content":"so</th"}}]}
//
//	-- sleep 1200ms --
//	-- write-cut --
//	data: {"choices":[{"index":0,"del
//	-- reset --
//
// The steps:
//
//	status 302             status instead of 200; body: header lines "Name: value"
//	write                  the body as it is, one write and flush
//	write-cut              the body without its last line feed
//	hex                    bytes as hexadecimal digits; white space is free
//	repeat 90 1s           the body 90 times, one every second; 0 times is for ever
//	sleep 1200ms           silence
//	thinking, answer       an event in the engine's shape with the body as text,
//	                       without its last line feed
//	finish stop            the finish event, then usage if the request asked for it
//	done                   data: [DONE]
//	hold                   silence until the client leaves, an abort, or the end of the engine
//	await-leave            silence until the client has left, whatever the engine's habits
//	end                    orderly end of the HTTP body
//	cut                    the connection is closed without the last HTTP chunk
//	reset                  the connection is reset (RST)
//	next                   ends this script; the next one answers the next request
//
// After the last step the body ends in an orderly way.
package script
