// Package queue is the waiting room in front of engines that answer one request
// at a time. Do takes a job, waits for its turn, lends it an engine slot for the
// length of a call and takes the slot back, whatever happens. Enter and Take are its two
// halves, for who would wait between them without a goroutine.
//
// The order is decided in one place, the pure type line.Line. It is kept by one of
// two stores: in this process (NewMemory) or in Redis (NewRedis), where the same
// policy runs as the scripts in lua/. The package knows nothing of requests and
// engines: no prompt and no answer passes through it, and it never logs.
//
// # States of a job
//
//	       ┌─ no room, stopping, ill, no store ─► ErrRejected
//	Do ────┤
//	       └─► waiting ─ left, waited, cancelled ─► ErrAbandoned
//	              │    └ drained, store away too long ─► ErrRejected
//	              │ clean slot granted
//	              ▼
//	           running ─┬─ work returned ─► its error or nil
//	                    ├─ preempted ─────► waiting
//	                    ├─ cancelled ─────► ErrCancelled and work's error
//	                    ├─ lease lost ────► ErrSlotLost and work's error
//	                    └─ closed ────────► ErrStopping and work's error
//
// What Do checks, in this order; the first that applies is the answer:
//
//  1. the id is not 32 hex digits: an error without class, a fault of the caller
//  2. the client has left: ErrLeft
//  3. Drain or Close was called: ErrStopping
//  4. a job of this id is here: ErrDuplicate
//  5. the store is known not to answer: ErrStoreDown
//  6. the store does not answer now: ErrStoreDown
//  7. a job of this id is elsewhere: ErrDuplicate
//  8. the gate is Draining: ErrDraining
//  9. all slots poisoned or down for longer than PoisonGrace: ErrPoisoned, or
//     ErrDown if none is poisoned
//  10. MaxWaiting wait: ErrFull; MaxWaitingPerKey of the key: ErrKeyLimit
//  11. the job would probably wait for longer than its Patience: ErrHopeless
//  12. while it waits, whatever is first: the client leaves (ErrLeft), MaxWait is
//     over (ErrWaited), Cancel (ErrCancelled), Drain (ErrStopping), the gate is
//     Draining (ErrDraining), the store
//     stays away for longer than MaxOutage (ErrStoreDown)
//  13. at the grant, once more: client left, cancelled, lease lost. Work is not
//     called then, unless Job.Start has begun it.
//
// # Contexts
//
// The context of Do, Enter and Take is the client's: when it ends while the job waits, the
// place is gone at once; between Enter and Take nobody looks at it. The context given to
// work has its values but not its end, since work must abort the engine before it hangs
// up: work itself watches the client. It ends with the cause ErrSlotLost, ErrCancelled or
// ErrStopping, or with ErrPreempted before the first token of a batch job (see
// Hold.Begin), after which work is called again when the job's turn has come once more.
//
// # Order
//
// A key whose jobs have waited for StarvationAfter while none of them had a slot goes
// first, the longest such key before the others; from the end of that
// job the time counts anew. Then the class decides: interactive, default, batch. Inside a class the
// slot is shared by the keys: the one that has used the least slot time is served, of
// several the one that has gone without the longest, and inside a key who came first. Jobs without a key are those of one key, so that
// without keys, and without users, all of a class is first come, first served. Time counts from the grant until the
// slot is given back or its engine is being aborted, by the store's clock, while it
// runs too, and for a dead holder to the end of its lease.
//
// A key that comes into a class where it neither waits nor runs starts at the least
// counter of the keys that do: idleness earns no credit. Where nobody waits or runs
// all start at zero. Each class counts on its own, or keys that hardly run in a class
// that hardly gets the slot would set the mark for newcomers of the others.
//
// Where jobs name users (Job.User), those of one key share its turns by the same rules,
// over counters of their own. Between keys they count for nothing, and so do they in
// limits. They are forgotten when their key has no job in line and none that runs.
//
// A batch job gives way until its first token is out (Hold.Begin), at most twice, when a
// better one is next and no slot is about to be free: work ends with ErrPreempted, the
// job stands where it stood, and work is called again in its turn.
//
// A job may take over the place of one that another process gives up for it (Job.Stead):
// it stands where that one stood, or came, before the slot had it.
//
// A position is the place in this order if the time stood still, nobody came, and each
// job before took the typical slot time, a moving average. So it may also grow: by
// newcomers of other keys and better classes. With more than 32 keys in line it is not
// told at once where the line is in Redis (Place.Position is 0), but within a poll.
//
// # States of a slot
//
//	idle ── grant ──► busy ── Idle, with no cause to stop ──────────► idle, clean
//	  │                 └──── returned or panicked without Idle ──┐
//	  └─ unclean, and somebody waits ──► aborting ◄───────────────┘
//	                                      │  ▲ └─ Settle: nil ──────► idle, clean
//	                                      ▼  │ again after 1 s .. 10 s
//	                              poisoned or down
//
// Operators: Switch closes the gate between line and slots for all processes, until
// it is opened again. Paused, all who wait and come stay in line; Draining, they get
// ErrDraining: in this process at once, in others with the next message or renewal. A
// gate that a store has lost with its data is closed again by whoever remembers it,
// but not one that a stale replica has never heard of. Reset lends an aborting,
// poisoned or down slot on the operator's word alone, by the number of the hold that
// he has seen.
//
// Only a clean slot is lent. Unclean is a slot nobody has proved idle: in a new
// store, after its holder died or quit, after a time without any process. The
// process of whoever is next makes its engine idle by Settle; meanwhile all who
// wait keep their places, and may be served by another slot. A dirty hold passes
// from the job to a mender; Do has returned by then.
//
// # Trust window
//
// A hold is a slot, a fence and an owner. In Redis it lasts as long as the owner's
// lease, which every process renews for all its holds and tickets in one call every
// min(Poll, Lease/3). By its own clock it trusts the lease until
//
//	start of the last successful renewal + Lease - Margin
//
// and then cancels what runs with ErrSlotLost, before the store may hand the slot
// on. While it does not trust its lease it takes no grant. Fences rise with every
// grant, by the store's clock, so that they rise also when the store has lost the
// last one. Whatever names an older fence is answered Stale and moves nothing. A
// successor starts on an engine that Settle has seen idle, so that not even a
// paused process that goes on for a moment is a second run.
//
// In memory a hold lasts as long as the process; there is nothing to renew.
//
// # Keys
//
// All under the hash tag {Name}, listed in store.go: tickets (who waits), queues (the
// same by class, key, user and arrival), index (whose turn it is), books (slots, owners,
// the slot time of keys and users, counters, switches), times (how long the last jobs had
// a slot, for package eta), claims and claimed (who answers a request, for package
// claims). The clock is that of Redis. Channels wake:OWNER carry what codec.ParseNote reads.
//
// # Wake-up
//
// The step that frees a slot hands it on. Its reply names the next holder, who is
// woken at once if he is in the same process, and by a message otherwise. Messages
// may be lost: every renewal also returns what this process holds, so a lost one
// costs min(Poll, Lease/3) at most, and so does a lost reply.
//
// # Ownership
//
//   - A waiting job is a timer and a map entry; the goroutine that called Do waits
//     with it, but between Enter and Take none needs to.
//   - The keeper, the only one that renews, and the listener, the only one that
//     receives, are started by New for a store that leases, and end in Close.
//   - The trust timer runs distrust, which never blocks.
//   - A mender is started for each unclean hold. It ends when it has freed it, when
//     the hold is lost, or in Close, which waits for its first try only.
//   - One goroutine at a time sends the ids of those who left, a thousand a call.
//   - In Redis a slot is freed by a goroutine of its own: work's caller need not
//     wait for the round trip.
//   - The lock Queue.mu is never held over a call to the store, to Settle or to work.
//
// # Failures
//
//	client leaves while waiting     its place is gone at once, nothing reaches the engine
//	client leaves while running     work's affair: it aborts the engine, then returns
//	work panics                     slot dirty, mended; the panic goes on
//	engine cannot be made idle      slot poisoned, probed until well; newcomers refused after PoisonGrace
//	process is killed or paused     its slots and places are free when its lease ends, which
//	                                all others look out for; the engine is settled first
//	Redis away for a moment         what runs goes on in the trust window; those who wait stay;
//	                                new ones get ErrStoreDown at once
//	longer than the trust window    what runs ends with ErrSlotLost
//	longer than MaxOutage           those who wait get ErrStoreDown
//	Redis comes back without data   survivors take their holds back and join again under their
//	                                first arrival; nothing is granted for two polls; slot
//	                                times count from zero, those of holds taken back for
//	                                no key
//	Redis failed over, a bit stale  holds, tickets and departures it has missed are told again
//	reply of a call lost            every step may be repeated; the renewal tells what it brought
//	message lost                    a poll later
//	other slots configured          ErrStoreDown with the words, until the others are gone
//	Close runs into its bound       work is cancelled with ErrStopping, slots are freed unclean
package queue
