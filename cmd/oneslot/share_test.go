package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"oneslot/internal/simengine"
)

// namedBy are requests on each API that say whom they are for, and what they ask.
var namedBy = map[string]string{
	"/v1/chat/completions": `{"model":"ripple","stream":true,"user":%q,"max_tokens":5,"messages":[{"role":"user","content":%q}]}`,
	"/v1/completions":      `{"model":"ripple","stream":true,"safety_identifier":%q,"max_tokens":5,"prompt":%q}`,
	"/v1/responses":        `{"model":"ripple","stream":true,"safety_identifier":%q,"max_output_tokens":5,"input":%q}`,
	"/v1/messages":         `{"model":"ripple","stream":true,"metadata":{"user_id":%q},"max_tokens":5,"messages":[{"role":"user","content":%q}]}`,
}

// Those who share a key share its slot time by the user their requests name, if that
// is set: one's only job goes before another's nineteen. Nothing tells the names.
func TestUsersShareAKey(t *testing.T) {
	secret, row := newKey(t, "--name", "team", "--share-by", "user")
	plain, plainRow := newKey(t, "--name", "plain")
	keys := "keys:\n  " + row + "\n  " + plainRow + "\nqueue: {max_waiting_per_key: 30}"
	for name, c := range map[string]struct {
		settings, secret string
		second           int // the place of the second user's job among those that ran
	}{
		"by key":                 {keys, secret, 1},
		"without keys":           {"queue: {share_by: user}", "", 1},
		"a key that does not":    {keys, plain, 20},
		"nobody does by default": {"", "", 20},
	} {
		for path, body := range namedBy {
			t.Run(name+path, func(t *testing.T) {
				inBubble(t, func(t *testing.T) {
					p := start(t, simengine.Config{Thinking: 3, Answer: 3}, c.settings)
					var all []*try
					send := func(user, what string) {
						all = append(all, p.tryAt(path, fmt.Sprintf(body, user, what), bearer(c.secret)))
					}
					for n := range 20 {
						send("anna@example.com", fmt.Sprintf("first %d", n))
					}
					send("ben@example.com", "second")
					for _, a := range all {
						if r := <-a.got; r.status != http.StatusOK {
							t.Errorf("got %d %s", r.status, r.body)
						}
					}
					for i, run := range p.engine.Stats().Runs {
						if strings.Contains(string(run.Body), "second") != (i == c.second) {
							t.Errorf("run %d is %s", i, run.Body)
						}
					}
				})
			})
		}
	}
}
