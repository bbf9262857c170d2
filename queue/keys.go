package queue

import (
	"strings"

	"github.com/redis/go-redis/v9"
)

// keys names every Redis key of one line. All share the hash tag {name}, so that
// a script's keys live in one slot of a cluster. No other file builds a key. What
// they hold is said at the top of lua/line.lua.
type keys struct{ name string }

func (k keys) of(part string) string { return "oneslot:{" + k.name + "}:" + part }

// all lists the keys as the scripts get them.
func (k keys) all() []string {
	return []string{
		k.of("tickets"),  // HASH those who wait
		k.of("queues"),   // ZSET the same, by class, key and arrival
		k.of("accounts"), // HASH the slot time of each key in each class
		k.of("books"),    // HASH slots, owners, counters and switches
	}
}

// wake is the pub/sub channel of an owner, or the beginning of all such names if
// owner is empty.
func (k keys) wake(owner string) string { return k.of("wake:" + owner) }

// load makes the scripts of their files, which read returns.
func (r *redisStore) load(read func(name string) (string, error)) error {
	var policy strings.Builder
	for _, name := range []string{"line", "order", "moves"} {
		text, err := read(name)
		if err != nil {
			return err
		}
		policy.WriteString(text)
	}
	for _, name := range []string{
		"line_join", "line_rejoin", "line_leave", "line_rank", "line_look", "line_pause",
		"slot_free", "slot_mark", "owner_renew", "owner_quit", "job_tell",
	} {
		text, err := read(name)
		if err != nil {
			return err
		}
		r.scripts[name] = redis.NewScript(policy.String() + text)
	}
	return nil
}
