// Package board shows the line: once, as GET /v1/queue, and as a feed of what
// changes, as GET /v1/queue/events.
//
// A viewer sees his own requests whole and others' as positions; an admin sees all.
// The feed shows each viewer what the view shows him, no more.
//
// # The feed
//
// It begins with the event snapshot, the view. Then come, at most every half second:
//
//	joined   a request came into line          as in waiters
//	moved    its place in line is another      as in waiters
//	granted  it left the line for a slot       {"request_id","engine"}
//	left     it is gone, without being seen on a slot    {"request_id"}
//	slot     a slot's state or request is another        as in slots
//	phase    a run's phase is another, or 2 s have gone  as in slots
//	line     counts or switches are others     {"waiting","running","paused","draining"}
//
// Where more than 64 of them would come at once a snapshot does, and then 2 s of
// nothing. unavailable says that the line's store does not answer; a snapshot
// follows when it does again. Nothing is kept for a watcher that was away: he
// starts with a snapshot.
//
// # Ownership
//
// While anybody watches, one goroutine takes the line's snapshot for all, in at
// most a twentieth of the time. It begins with the first watcher and ends with the
// last, or in Close, which also ends all feeds. A watcher who does not read gets the
// newest state when he does; who does not take a write within its time is cut.
package board
