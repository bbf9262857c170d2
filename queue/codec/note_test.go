package codec

import (
	"testing"

	"oneslot/queue/line"
)

// TestParseNote: what is no message is found out.
func TestParseNote(t *testing.T) {
	for text, want := range map[string]Note{
		"cancel x":           {Kind: Asked, Grant: line.Grant{ID: "x"}},
		"held name -":        {Kind: Claimed, Text: "held name -"},
		"look":               {Kind: Resync},
		"recall ":            {Kind: Recalled},
		"recall a b":         {Kind: Recalled, Key: "a b"},
		"reset 12 the slot":  {Kind: Vouched, Grant: line.Grant{Slot: "the slot", Fence: 12, Owner: "me"}},
		"granted 7 2 id a b": {Kind: Granted, Grant: line.Grant{Fence: 7, State: line.Busy, ID: "id", Slot: "a b", Owner: "me"}},
	} {
		if got, ok := ParseNote(text, "me"); !ok || got != want {
			t.Errorf("%q is %+v, %v", text, got, ok)
		}
	}
	for _, text := range []string{"", "grant", "granted 7 2 id", "granted x 2 id a", "reset a", "reset x a"} {
		if got, ok := ParseNote(text, "me"); ok {
			t.Errorf("%q was taken for %+v", text, got)
		}
	}
}
