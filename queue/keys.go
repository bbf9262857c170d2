package queue

// keys names every Redis key of one line. All share the hash tag {name}, so that
// a script's keys live in one slot of a cluster. No other file builds a key. What
// they hold is said at the top of lua/line.lua.
type keys struct{ name string }

func (k keys) of(part string) string { return "oneslot:{" + k.name + "}:" + part }

// all lists the keys as the scripts get them.
func (k keys) all() []string {
	return []string{
		k.of("line"),    // ZSET waiting ids, in order
		k.of("tickets"), // HASH what is known of them
		k.of("bykey"),   // HASH how many wait of each fairness key
		k.of("books"),   // HASH slots, owners, counters and switches
	}
}

// wake is the pub/sub channel of an owner, or the beginning of all such names if
// owner is empty.
func (k keys) wake(owner string) string { return k.of("wake:" + owner) }
