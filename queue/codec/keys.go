package codec

// Keys names every Redis key of one line, and nothing else does. All share the hash tag
// {name}, so that they live in one slot of a cluster.
type Keys struct{ Name string }

// Of is the name of a part.
func (k Keys) Of(part string) string { return "oneslot:{" + k.Name + "}:" + part }

// All lists the keys as the scripts get them.
func (k Keys) All() []string {
	return []string{
		k.Of("tickets"), // HASH those who wait
		k.Of("queues"),  // ZSET the same, by class, key, user and arrival
		k.Of("index"),   // ZSET whose turn it is
		k.Of("books"),   // HASH slots, owners, the slot time of keys and users, counters and switches
		k.Of("claims"),  // HASH who answers a request that may be repeated
		k.Of("claimed"), // ZSET these, by when they are forgotten
	}
}

// Wake is the pub/sub channel of an owner; of none, the beginning of all of them.
func (k Keys) Wake(owner string) string { return k.Of("wake:" + owner) }
