package codec

import (
	"strconv"
	"strings"

	"oneslot/queue/line"
)

// NoteKind is what a note is about.
type NoteKind uint8

// The kinds of notes.
const (
	Resync   NoteKind = iota // messages may have been lost
	Granted                  // Grant was made for the owner
	Asked                    // the job Grant.ID is to be cancelled
	Recalled                 // all jobs of Key are
	Vouched                  // the engine of the hold Grant is idle
	Wanted                   // the slot of Grant is wanted for a better job
	Claimed                  // Text is about who answers a request; see package claims
)

// Note is a message from another process.
type Note struct {
	Kind  NoteKind
	Grant line.Grant
	Key   string
	Text  string
}

// What other processes are told by Go, with what follows.
const (
	Recall = "recall " // the key whose jobs are to be cancelled
	Vouch  = "reset "  // fence and slot of a hold whose engine is idle
)

// ParseNote reads what is published for an owner: "granted fence state id slot", "cancel
// id", "look", "recall key", "reset fence slot", "wanted fence slot", or "asked", "held",
// "gone" or "free" with a claim.
func ParseNote(text, owner string) (Note, bool) {
	kind, rest, _ := strings.Cut(text, " ")
	switch kind {
	case "cancel":
		return Note{Kind: Asked, Grant: line.Grant{ID: rest}}, true
	case "look":
		return Note{Kind: Resync}, true
	case "asked", "held", "gone", "free":
		return Note{Kind: Claimed, Text: text}, true
	case strings.TrimSpace(Recall):
		return Note{Kind: Recalled, Key: rest}, true
	case strings.TrimSpace(Vouch), "wanted":
		fence, slot, whole := strings.Cut(rest, " ")
		n, err := strconv.ParseInt(fence, 10, 64)
		about := Vouched
		if kind == "wanted" {
			about = Wanted
		}
		return Note{Kind: about, Grant: line.Grant{Slot: slot, Fence: n, Owner: owner}}, whole && err == nil
	case "granted":
		f := strings.SplitN(rest, " ", 4)
		if len(f) < 4 {
			return Note{}, false
		}
		fence, err := strconv.ParseInt(f[0], 10, 64)
		state, fault := strconv.ParseUint(f[1], 10, 8)
		g := line.Grant{Fence: fence, State: line.State(state), ID: f[2], Slot: f[3], Owner: owner}
		return Note{Kind: Granted, Grant: g}, err == nil && fault == nil
	}
	return Note{}, false
}
