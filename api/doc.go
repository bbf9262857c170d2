// Package api is the HTTP edge: routes, keys, requests, errors, and the views
// of the line and of the ledger.
//
// # Routes
//
//	POST   /v1/chat/completions   queued, then answered by an engine
//	POST   /v1/completions        the same for raw text
//	POST   /v1/responses          the same in items and events
//	GET    /v1/responses/{id}     one that is kept; DELETE forgets it
//	POST   /v1/responses/{id}/cancel
//	POST   /v1/messages           the same in Anthropic's words
//	POST   /v1/messages/count_tokens
//	GET    /v1/models, /v1/models/{id}
//	GET    /v1/queue, /v1/queue/{id}
//	GET    /v1/queue/events       what changes in the line; see package board
//	DELETE /v1/queue/{id}         cancel a request that waits or runs
//	DELETE /v1/queue?key=NAME     cancel all requests of a key
//	POST   /v1/queue/pause        nothing is dispatched, who comes waits; an admin's, as
//	                              are the next three
//	POST   /v1/queue/drain        what runs ends, who waits is told, who comes is refused
//	POST   /v1/queue/resume       ends either
//	POST   /v1/queue/slots/{engine}/reset   the operator's word that the engine of an
//	                              aborting, poisoned or down slot is idle
//	GET    /v1/usage/{id}         what a request used
//	GET    /v1/usage              rows, newest first, or sums by key, model or day; JSON or CSV
//	GET    /healthz /readyz /metrics /openapi.yaml
//
// The queued routes and those of the models also answer without /v1, and each with a slash at its
// end. Everything else is a 404 in OpenAI's shape; nothing is ever forwarded by
// path, and nothing is redirected. HEAD works where GET does.
//
// # What a client may rely on
//
//   - X-Request-Id is in every response. It names the request in the line, in
//     the ledger and in the log. A client's own X-Request-Id is kept as a label.
//   - Every error has OpenAI's shape, on the routes of messages Anthropic's, also where
//     the request could not be read as far as its route (see package door), and
//     X-Oneslot-Reason where OpenAI has no code for it. Refusals that a retry can heal carry Retry-After, 1 to 60 s.
//   - All that can be refused is refused before the line is joined.
//   - The operators' switches hold for all proxies that share the line in Redis, and
//     stay set until they are set again, also when every proxy is restarted; in
//     one process they end with it. A proxy that stops drains itself only.
//   - A request that was let in has exactly one outcome, in the ledger and in
//     the one log line that it gets.
//   - A caller sees his own requests whole, others' only as positions. With keys
//     configured everything but /healthz, /readyz and /openapi.yaml needs one.
//
// # Keys, and none
//
// With keys configured a request names one, and nothing else is asked. Without,
// whoever reaches the listener is the operator; what may reach it through a
// browser is then refused: a POST or DELETE that a page of an origin neither the
// same nor listed has caused, and on a loopback listener any request under a name
// that somebody else could own, since such a name may have been made to resolve to
// this machine (DNS rebinding). Addresses, names without a dot, those below
// .localhost, .local, .internal, .home.arpa and .test, and Config.Hosts pass, and
// so do installed applications, whose origin is not http. A body is read as JSON
// whatever its Content-Type says.
//
// # Times
//
// Headers have 10 s, a body the time that it earns by coming (see package intake,
// which also bounds the memory of them all), and a connection without a request
// 2 min. No refusal waits for a body. No time is set for a whole response, or a stream could not last: each
// write has its own.
//
// # Ownership
//
// A request belongs to its handler's goroutine. It joins the line, waits there, and
// runs the engine's answer through itself; downstream.Client writes the heartbeats
// meanwhile, on a timer that ends with it. A request that still waits when its status
// line goes out is handed to a goroutine of its own, which has the bare connection,
// and the handler returns; Shutdown waits for both. While such a request runs, a
// second goroutine watches for its caller's leaving, as net/http's does for a handler.
// Package board has one more while anybody watches.
package api
