// Package probe asks an engine what it is, and says of every answer how it was
// come by.
//
// # What it promises
//
//   - It never disturbs a busy engine. It looks at the load first and again before
//     each test request; if something runs, or if nobody can tell, it sends
//     nothing to the model and says so, unless Config.BusyOK.
//   - A test request is small, at temperature 0, and bounded; all of them together
//     have the time of Config.Time. One that has begun is never just dropped:
//     where the engine has an abort it is told by the run's own id while the
//     stream is attached, since SGLang goes on with a run whose client has left.
//   - Every finding carries the calls it rests on and what came back, shortened.
//     What could not be found is named, with what that means for the proxy.
//     An engine's settings may hold keys: only named members of them are shown.
//   - Which dialect an engine speaks is decided by package engine, as when the
//     proxy serves: the probe shows what the proxy will see.
//   - Report.Config is a configuration with which the proxy serves that engine.
//     A format row in it is verified only if both markers were seen.
//
// # How markers are found
//
// Four ways, each of which may be missing: the engine shows the prompt it makes of
// messages (/apply-template, or /tokenize and /detokenize), also of an earlier
// turn with thinking in it; its chat template (/props); its own parser is given the
// markers of known rows to split (/separate_reasoning); and a short reply with its
// markers left in. Package markers compares them.
//
// # Ownership
//
// Run starts no goroutine that outlives it. Nothing is kept between two runs.
package probe
