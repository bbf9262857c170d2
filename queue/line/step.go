package line

import (
	"fmt"
	"slices"
)

// Caller is who takes a step.
type Caller struct {
	Owner string
	Epoch int64 // of the store's data as the caller knows it; 0: knows none
}

// Step is one step of the line: any of the types below.
type Step interface{ step() }

// The steps. Every step first expires owners whose lease is over and, after its
// own change, hands out what is free.
type (
	// Join asks for a place. It is refused as Duplicate, Closed, AllPoisoned,
	// AllDown, Full or KeyLimit, checked in this order. Joining twice is joining once.
	Join struct {
		ID, Key string
		User    string // see Ticket
		Class   Class
		Limit   int   // of the key, in place of Rules.MaxWaitingPerKey; 0: that
		Cost    int64 // see Ticket; 0: the typical slot time
		// Arrival is that of a job whose place it takes, 0 of none: it stands where that
		// one stood, whatever the limits. Of is that job; it leaves the line if it is there.
		Arrival int64
		Of      string
		Prefer  Berths // see Ticket
	}
	// Rejoin puts tickets back that the store has lost, in their old order and
	// whatever the limits. Those still there are left alone.
	Rejoin struct{ Tickets []Ticket }
	// Leave takes tickets out of the line.
	Leave struct{ IDs []string }
	// Free gives a slot back: Clean if its engine has been seen idle since the
	// slot was last used. Stale if the caller does not hold it by this fence.
	// Gone are tickets that leave before it is handed on.
	Free struct {
		Slot  string
		Fence int64
		Clean bool
		Gone  []string
	}
	// Mark says what the holder of a slot is doing to its engine: Aborting,
	// Poisoned or Down. Stale as with Free.
	Mark struct {
		Slot  string
		Fence int64
		State State
	}
	// Yield gives back the slot of a batch job that has been asked for it: the job
	// stands in line again where it stood, and the engine is to be made idle. Stale
	// as with Free, or if it has not been asked for.
	Yield struct {
		Slot  string
		Fence int64
	}
	// Keep says that the job of a slot that has been asked for goes on. Stale as
	// with Yield.
	Keep struct {
		Slot  string
		Fence int64
	}
	// Renew renews the caller's lease, and takes back holds that a store without
	// its latest data has forgotten. Holds are those the caller believes in.
	Renew struct{ Holds []Grant }
	// Quit takes the caller out: its tickets leave, its slots are freed unclean.
	Quit struct{}
	// Switch opens or closes the gate between line and slots, and calls the other
	// owners to look at it.
	Switch struct{ To Gate }
	// Call passes a message on to an owner, to all others if To is empty.
	Call struct{ To, Text string }
	// Tell asks the owner of a job to cancel it. Stale if nobody has it.
	Tell struct{ ID string }
	// Rank asks for the positions of tickets.
	Rank struct{ IDs []string }
	// Look asks for everything. As it is: whoever asks arranges it (View.Arrange),
	// which takes its time, when nobody waits for the line any more.
	Look struct{ AsItIs bool }
)

func (Join) step()   {}
func (Rejoin) step() {}
func (Leave) step()  {}
func (Free) step()   {}
func (Mark) step()   {}
func (Yield) step()  {}
func (Keep) step()   {}
func (Renew) step()  {}
func (Quit) step()   {}
func (Switch) step() {}
func (Call) step()   {}
func (Tell) step()   {}
func (Rank) step()   {}
func (Look) step()   {}

// Verdict is how a step was decided.
type Verdict uint8

// The verdicts; the numbers are those of the scripts.
const (
	Done Verdict = iota
	Stale
	Full
	KeyLimit
	AllPoisoned
	AllDown
	Duplicate
	Closed // the gate is Draining
)

// State is what a slot is doing. The zero value is none of them.
type State uint8

// The states of a slot; the numbers are those of the scripts.
const (
	Idle     State = iota + 1
	Busy           // lent to a job
	Aborting       // its engine is being made idle
	Poisoned       // its engine could not be made idle; tried again until it can
	Down           // its engine cannot be reached; tried again until it can
)

// String returns the state as GET /v1/queue shows it.
func (s State) String() string {
	if s < Idle || s > Down {
		return "unknown"
	}
	return [...]string{Idle: "idle", Busy: "busy", Aborting: "aborting", Poisoned: "poisoned", Down: "down"}[s]
}

// Gate is what an operator lets through.
type Gate uint8

// The gates; the numbers are those of the scripts.
const (
	Open     Gate = iota
	Paused        // no slot is handed out; who comes waits
	Draining      // no slot is handed out, and nobody gets a place
)

// String returns the gate as metrics show it.
func (g Gate) String() string {
	if g > Draining {
		return "unknown"
	}
	return [...]string{Open: "open", Paused: "paused", Draining: "draining"}[g]
}

// Grant is one hold: Owner has Slot until it frees it by Fence. It is for the
// job ID if the state is Busy, else for the owner to make the engine idle.
type Grant struct {
	Slot, ID, Owner string
	Fence           int64
	State           State
}

// Reply is what a step brought about, as seen at its end.
type Reply struct {
	Verdict Verdict
	Epoch   int64      // of the store's data; another number means that they were lost
	Version int64      // changes whenever a position or the gate may have
	Waiting int        // tickets in line
	Arrival int64      // Join, Yield: of the ticket, in line or granted
	At      Standing   // Join: place 1 is next, 0 not in line, or in a crowd: then ask for it
	Running []Run      // Join, Rank: of each slot that is not out of order, if the gate is not closed
	Known   bool       // Renew: the lease had not run out
	Mine    int        // Renew: the caller's tickets in line
	Due     int64      // Renew: in how many microseconds the first lease of another ends; 0: there is none
	Grants  []Grant    // made by this step, for any owner
	Holds   []Grant    // Renew: all that the caller holds
	Lost    []Grant    // Renew: those of the caller's Holds that it has no more
	Asks    []Grant    // asked by this step to be given back early, for any owner; Renew: also the caller's
	Ranks   []Standing // Rank: place 0 for those not in line
	View    *View      // Look
	Gate    Gate       // what the operator lets through
	Ill     State      // Poisoned or Down if every slot is one of them, else 0
}

// Run is what a slot is doing: a job, of which it has done a part, or nothing.
type Run struct {
	For, Cost int64 // in microseconds
}

// Class is how urgent a job is. The zero value is Default.
type Class uint8

// The classes.
const (
	Default     Class = iota // everything that says nothing
	Interactive              // somebody watches
	Batch                    // nobody waits for it
)

var classNames = [...]string{Default: "default", Interactive: "interactive", Batch: "batch"}

// String returns the class as clients write it.
func (c Class) String() string {
	if int(c) < len(classNames) {
		return classNames[c]
	}
	return fmt.Sprintf("Class(%d)", uint8(c))
}

// ParseClass is the inverse of String. The empty text is Default.
func ParseClass(text string) (Class, error) {
	if text == "" {
		return Default, nil
	}
	if i := slices.Index(classNames[:], text); i >= 0 {
		return Class(i), nil
	}
	return Default, fmt.Errorf("line: class %q is none of interactive, default, batch", text)
}
