// Package simengine is a simulated LLM engine that answers one request at a
// time, over HTTP, with the habits of the real ones: those of SGLang 0.5.19 as
// they were measured, and in outline those of vLLM and llama.cpp's server. It
// needs no GPU and no model. Tests, benchmarks and demos run against it, and so
// does whoever starts `oneslot sim`.
//
// # Use
//
//	engine, err := simengine.New(simengine.Config{Thinking: 20, Answer: 10, Admin: true})
//	…
//	server := http.Server{Handler: engine, IdleTimeout: 5 * time.Second} // as the engines do
//	server.Serve(listener)
//	…
//	engine.Close() // before the server: it ends the handlers
//	server.Close()
//
// or, with the same names in lower case as flags,
//
//	oneslot sim --listen 127.0.0.1:30000 --thinking 20 --answer 10 --ghost
//	curl -N 127.0.0.1:30000/v1/chat/completions -H 'content-type: application/json' \
//	  -d '{"stream":true,"messages":[{"role":"user","content":"hi"}]}'
//
// Thinking comes in lower case and the answer in UPPER CASE, with umlauts,
// Cyrillic, kana and emoji in both, so a word in the wrong channel shows at a
// glance. Text follows the prompt and Config.Seed: the same request gets the
// same reply.
//
// A test starts one with package simtest, over loopback or inside a
// testing/synctest bubble; all waits use the clock of package time.
//
// # What a request may ask
//
// A field "sim" in the body, which no real engine knows, or the text
// `sim:{…}` at the start of the last message, shapes one reply:
//
//	{"sim": {"thinking": 200, "answer": 5, "tokens_per_second": 1000,
//	         "prefill_tokens_per_second": -1, "tokens_per_chunk": 4,
//	         "script": "-- write --\ndata: …\n\n"}}
//
// A speed of -1 is as fast as possible. "script" is a script file as package
// script describes it: raw bytes, pauses, broken connections. Config.Scripts and
// Engine.Play give scripts to whole engines and to coming requests.
//
// # Tokens
//
// Every generated piece is one token, a marker is one token (or several, with
// Format.Plain), and the end of the turn is one. The counts in usage and those
// of /tokenize follow the same rule (package words) and agree exactly:
//
//	completion_tokens = tokenize(open + thinking + close + "\n\n" + answer) + 1 on stop, + 0 on length
//
// # Habits of SGLang
//
//   - One slot (Config.Slots), first come first served. The response head is
//     held back until the first token.
//   - A streamed run goes on to its end after its client has left, if
//     Config.Ghost is set. One that is not streamed, still waits, or has had no
//     token for that long is noticed after Config.LeaveCheck. Without Ghost a
//     run ends at once when its client leaves.
//   - POST /abort_request {"rid": …} always answers 200 with no body. It works
//     only while the engine knows exactly that rid, that is until the client of
//     the stream has left, and then takes every rid that begins with it.
//     {"abort_all": true} always works. An aborted run ends with finish_reason
//     "abort", usage if asked for, and [DONE]; one that waited is empty.
//   - usage.reasoning_tokens is at the top level, counts the markers, and is
//     wrong for a continued message (everything) and for a marker of several
//     tokens (up to its first piece). prompt_tokens_details is null unless
//     Config.CacheReport is set and something was cached.
//   - Stop strings act inside thinking too. max_tokens counts thinking.
//   - prompt + max_tokens above the context is refused, not clamped.
//   - Errors are flat, and those of validation name the engine's source files.
//   - /health takes Config.HealthDelay, idle or busy.
//
// As vLLM it sends the head at once, names the field "reasoning", refuses other
// models than its own and has no abort. As llama.cpp's server it sends an empty
// comment every 30 s of prefill, trims the start of the answer and has /slots
// and /props. It differs from all of them in that it has no sampling, no tools
// of its own and one choice only.
//
// # Faults
//
// Engine.SetFaults changes habits and breaks the engine while it runs. With
// Config.Admin the same is had over HTTP:
//
//	GET  /sim/stats                      what the engine saw, see Stats
//	GET  /sim/faults                     the faults in force, see Faults
//	POST /sim/faults {"ghost":true}      changes those that are named
//	POST /sim/recover                    back to those of the Config
//	POST /sim/play                       scripts for the next requests
//
// # Ownership
//
// Each request has a run: a goroutine started when it joins the line and ended
// with its reply. The engine owns it, so it may outlive its client; Close ends
// all runs and waits for them. A run puts its reply in an outbox that the
// client's handler empties, so a slow client does not hold the slot. The slot is
// given back before the last event is put there: whoever has read the end of a
// reply finds the engine idle. Everything shared is guarded by Engine.mu.
package simengine
