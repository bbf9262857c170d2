package codec

import "testing"

// TestKeysNames: the names are what proxies on one Redis have in common.
func TestKeysNames(t *testing.T) {
	k := Keys{Name: "default"}
	if got := k.Of("tickets"); got != "oneslot:{default}:tickets" {
		t.Errorf("tickets are at %s", got)
	}
	if got := k.Wake("me"); got != "oneslot:{default}:wake:me" {
		t.Errorf("messages are at %s", got)
	}
}
