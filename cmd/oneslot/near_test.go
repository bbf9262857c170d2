package main

import (
	"context"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"oneslot/internal/simengine"
	"oneslot/internal/simengine/simtest"
)

// TestTurnsGoWhereTheyWere: the second turn of a conversation goes to the engine that
// had the first, although the one that is first in order is free too; what nobody has
// read goes to that one, and nobody waits for the engine that he was at.
func TestTurnsGoWhereTheyWere(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		sim := simengine.Config{RadixCache: true, CacheReport: true, TokensPerSecond: 100}
		_, toB := simtest.Pipe(t, sim)
		held, release := make(chan struct{}, 1), make(chan struct{})
		hold := func(_ http.ResponseWriter, body string) bool {
			if strings.Contains(body, "hold the engine") {
				held <- struct{}{}
				<-release
			}
			return false
		}
		p := startWith(t, sim, `engines: [{name: a, url: "http://a.test", model: ripple, dialect: sglang}, {name: b, url: "http://b.test", model: ripple, dialect: sglang}]`,
			func(toA dialer) dialer {
				return func(ctx context.Context, network, address string) (net.Conn, error) {
					if strings.HasPrefix(address, "b.") {
						return toB.Transport.(*http.Transport).DialContext(ctx, network, address)
					}
					return toA(ctx, network, address)
				}
			}, hold)
		say := func(messages string) reply {
			return p.post(t.Context(), `{"model":"ripple","messages":[`+messages+`],"sim":{"thinking":5,"answer":5}}`, nil)
		}
		on := func(r reply, engine string, cached bool) {
			t.Helper()
			record := p.record(r)
			n, _ := tokens(record, "cached_prompt").(float64)
			if r.status != http.StatusOK || record["engine"] != engine || cached != (n > 20) {
				t.Errorf("status %d at engine %v with %v cached, want it at %s", r.status, record["engine"], n, engine)
			}
		}
		first := `{"role":"user","content":"` + strings.Repeat("we talk of the weather in the north ", 9) + `"}`
		second := first + `,{"role":"assistant","content":"It rains."},{"role":"user","content":"Still?"}`
		other := make(chan reply)
		busy := func() {
			go func() { other <- say(`{"role":"user","content":"hold the engine"}`) }()
			select {
			case <-held:
			case <-time.After(time.Minute):
				t.Fatal("it is not at the first engine")
			}
		}
		say(`{"role":"user","content":"hello"}`)
		synctest.Wait() // both engines have been seen idle
		busy()
		on(say(first), "b", false)
		release <- struct{}{}
		on(<-other, "a", false)

		on(say(second), "b", true)
		on(say(`{"role":"user","content":"And who are you?"}`), "a", false)

		third := `{"role":"user","content":"` + strings.Repeat("the seas of the south are warm ", 9) + `"}`
		on(say(third), "a", false)
		busy()
		on(say(third+`,{"role":"user","content":"More?"}`), "b", false)
		release <- struct{}{}
		on(<-other, "a", false)
	})
}
