// Package configs is where the program's settings come from and how they are
// checked.
//
// # Precedence
//
// Built-in defaults, then the file (--config), then the environment
// (ONESLOT_LISTEN, ONESLOT_QUEUE_MAX_WAIT, …: the key in upper case, dots as
// underscores), then flags. `--engine URL` or ONESLOT_ENGINE alone is enough.
//
// # What it promises
//
//   - An unknown key, an unknown ONESLOT_ variable or a value of the wrong kind
//     is an error: a misspelt limit must not be a missing one.
//   - All faults are reported at once, each with the key and what to do.
//   - Nothing is called or opened here: a configuration can be checked on a
//     machine that has no engine and no Redis.
//
// Shipped formats (formats.yaml) are embedded; a format of the user's replaces
// the shipped one of its name. Config is made of the Config types of the parts;
// only cmd imports this package.
package configs
