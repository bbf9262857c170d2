// Package line is the policy of the queue: who waits, in which order, who holds
// which engine slot, and by which number. It is pure: no I/O, no clock, no lock, no
// goroutine; the time comes in with each step.
//
// A Line takes one Step at a time and answers with a Reply. The memory store of
// package queue is a Line behind a mutex; the Redis store runs the same policy as
// scripts, and a test holds them to this one: same steps, same replies.
//
// # Rules
//
//   - Order: turn.compare in order.go, over counters of slot time, one for each key
//     in each class. Whoever enters a class starts at no less than the least counter
//     of those active in it.
//   - Under a key, users take turns by the same rule, over counters of their own, if
//     the first of its tickets in line named one. What users there are changes
//     nothing between keys. They are forgotten when the key is not active any more.
//   - Positions are places in this order, each waiting job charged the typical slot
//     time: the order in which Look lists the tickets.
//   - Steps take O(log n), whatever there are of tickets, keys and users. Only places
//     cost a look at each key that waits: a Join tells its place while these are few,
//     Rank and Look always.
//   - Keys and users that are not active are remembered while they have used more than
//     the least of those that are: the others are forgotten when somebody enters.
//   - Counters are microseconds of slot time, begin again at zero whenever their
//     class is empty, and have room for three centuries.
//   - A slot is handed to a job only if it is clean. An unclean one is handed to
//     the owner of whoever is next, to make its engine idle; the ticket stays.
//   - Of several clean slots a job is handed one that it prefers, else the first. What
//     is preferred changes neither the order nor when anybody gets a slot.
//   - Every hand-out has a number, the fence, higher than all before. Free and Mark
//     count only by the number of the present hold.
//   - An owner whose lease is over loses its tickets, and its slots become free and
//     unclean, at the beginning of the next step of anybody.
//   - Arrivals and fences follow the store's clock and never stand still, so a
//     store that has lost its data still continues both.
//   - An empty store that meets a survivor of an earlier one hands nothing out for
//     the quiet time. A survivor's hold is restored if its number is later than any
//     the store knows; its tickets come back under their old arrival.
package line
