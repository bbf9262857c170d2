// Package ask reads the requests of the simulated engine: it checks a body in
// the manner of SGLang's web layer and renders the messages with the chat
// template of the simulated model.
//
// It is pure. A fault is a *wire.Problem with the status and the words of the
// engine. As in the engine, numbers and switches may come as strings, a few
// fields may not be null, and unknown fields are ignored.
package ask
