// Package configs is where the program's settings come from and how they are
// checked.
//
// # Precedence
//
// Built-in defaults, then the file (--config), then the environment
// (ONESLOT_LISTEN, ONESLOT_QUEUE_MAX_WAIT, …: the key in upper case, dots as
// underscores, lists parted by commas), then flags. `--engine URL` or
// ONESLOT_ENGINE alone is enough; format, model and tokenizer are the first
// engine's as well. A variable that is empty counts as not set, since that is how
// a compose file passes on what nobody has given.
//
// # What it promises
//
//   - An unknown key at any depth, an unknown ONESLOT_ variable or a value of the
//     wrong kind is an error: a misspelt limit must not be a missing one. Nothing
//     is converted but texts of the environment. Kubernetes' variables for a
//     service of the name oneslot are no settings.
//   - All faults are reported at once, each with its full key and what to do.
//   - No fault and no view of the settings shows a secret: an engine's key, a
//     password in an address, the hash of a caller's key.
//   - Nothing is called or opened here but the file: a configuration can be
//     checked on a machine that has no engine and no Redis.
//
// # One description
//
// The struct Config is the only list of settings. Its tags say what the file
// calls them and what they may hold; the reader of the file, the names of the
// variables, Show and Schema all follow it, and a test holds the example file to
// it, whose comments describe the settings in Schema.
//
// Shipped formats (formats.yaml) are embedded; a format of the user's replaces
// the shipped one of its name. Config is made of the Config types of the parts;
// only cmd imports this package.
package configs
