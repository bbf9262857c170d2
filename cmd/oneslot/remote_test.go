package main

import (
	"context"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"oneslot/internal/simengine"
	"oneslot/internal/simengine/simtest"
)

// says runs a command against the program under test and returns what it printed.
func (p *proxyUnderTest) says(ctx context.Context, args ...string) (string, error) {
	out := &simtest.Buffer{}
	err := run(ctx, args, world{out: out, errs: out, dial: p.dial, environ: []string{"ONESLOT_URL=" + base}})
	return out.String(), err
}

func (p *proxyUnderTest) must(args ...string) string {
	p.t.Helper()
	text, err := p.says(p.t.Context(), args...)
	if err != nil {
		p.t.Errorf("oneslot %v: %v", args, err)
	}
	return text
}

// TestLineCommands: an operator looks at the line, pauses, cancels and resumes it.
func TestLineCommands(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := start(t, simengine.Config{Thinking: 200, Answer: 50}, "")
		first := p.open(t.Context(), hello)
		p.until(func(s simengine.Stats) bool { return s.Running == 1 })
		second := p.open(t.Context(), hello)
		id := second.header.Get("X-Request-Id")
		text := p.must("queue")
		for _, want := range []string{"1 of 64 waiting, 1 running\n", "spark", "busy", "thinking", first.header.Get("X-Request-Id"), id} {
			if !strings.Contains(text, want) {
				t.Errorf("`oneslot queue` does not show %q:\n%s", want, text)
			}
		}
		watching, leave := context.WithCancel(t.Context())
		seen := make(chan string, 1)
		go func() {
			text, err := p.says(watching, "queue", "--watch")
			if err != nil {
				t.Errorf("after Ctrl-C: %v", err)
			}
			seen <- text
		}()
		synctest.Wait()
		if text := p.must("pause"); !strings.Contains(text, "oneslot resume") {
			t.Errorf("`oneslot pause` says %q", text)
		}
		if text := p.must("cancel", "chatcmpl-"+id); text != "Cancelled.\n" {
			t.Errorf("`oneslot cancel` says %q", text)
		}
		r := <-second.whole
		if a := (&r).answer(t); a.err["code"] != "cancelled" {
			t.Errorf("who was cancelled got %v", a)
		}
		<-first.whole
		third := p.open(t.Context(), hello)
		<-time.After(time.Second)
		if text := p.must("queue"); !strings.Contains(text, "1 of 64 waiting, 0 running, PAUSED\n") || !strings.HasSuffix(text, "paused\n") {
			t.Errorf("while it is paused:\n%s", text)
		}
		if text := p.must("cancel", "--of", ""); text != "Cancelled 1 of .\n" {
			t.Errorf("`oneslot cancel --of` says %q", text)
		}
		<-third.whole
		if text := p.must("cancel", "--of", "team-a"); text != "No request of team-a waits or runs.\n" {
			t.Errorf("with nothing to cancel it says %q", text)
		}
		if _, err := p.says(t.Context(), "cancel", id); err == nil || !strings.HasPrefix(err.Error(), "It has ended already: cancelled. `oneslot usage "+id) {
			t.Errorf("of a request that has ended it says %v", err)
		}
		if _, err := p.says(t.Context(), "reset", "nope"); err == nil || !strings.Contains(err.Error(), "`oneslot queue`") {
			t.Errorf("of a slot that is not there it says %v", err)
		}
		if text := p.must("usage", "--key-name", "nope"); text != "No requests.\n" {
			t.Errorf("of no rows it says %q", text)
		}
		p.must("drain")
		if r := p.post(t.Context(), hello, nil); r.status != http.StatusServiceUnavailable || r.header.Get("X-Oneslot-Reason") != "draining" {
			t.Errorf("while it drains: %d %s", r.status, r.body)
		}
		<-time.After(time.Second)
		p.must("resume")
		if text := p.must("reset", "spark"); text != "It was idle: nothing to do.\n" {
			t.Errorf("`oneslot reset` says %q", text)
		}
		<-time.After(time.Second)
		leave()
		text = <-seen
		for _, want := range []string{"1 of 64 waiting, 1 running\n", " left request=" + id, " line waiting=0 running=1 paused=true", " joined request=", " draining=true", "state=idle"} {
			if !strings.Contains(text, want) {
				t.Errorf("`oneslot queue --watch` does not show %q:\n%s", want, text)
			}
		}
	})
}

// TestLineCommandFaults: what cannot be done is one sentence, with its status.
func TestLineCommandFaults(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		sum := "d74ff0ee8da3b9806b18c877dbf29bbde50b5bd8e4dad7a3a725000feb82e8f1" // of "pass"
		p := start(t, simengine.Config{}, "keys: [{name: team-a, sha256: "+sum+"}]")
		for _, c := range []struct {
			args   string
			status int
			says   string
		}{
			{"queue", 1, "ONESLOT_API_KEY"},
			{"pause --key pass", 1, "admin"},
			{"cancel --key pass x", 1, "No such request"},
			{"cancel --key pass --of other", 1, "admin key"},
			{"reset --key pass", 2, "name one slot"},
			{"cancel", 2, "name one request"},
			{"cancel a b", 2, "name one request"},
			{"cancel a --of b", 2, "name one request"},
			{"usage --outcome bogus", 2, "it must be one of served, rejected"},
			{"probe", 2, "--engine is missing"},
			{"config check bad.yaml", 2, "did you mean --config bad.yaml?"},
			{"queue more", 2, "takes no argument"},
			{"queue --url nowhere", 2, "http://HOST:PORT"},
		} {
			_, err := p.says(t.Context(), strings.Fields(c.args)...)
			if err == nil || status(err) != c.status || !strings.Contains(err.Error(), c.says) {
				t.Errorf("oneslot %s: status %d, %v; want %d and %q", c.args, status(err), err, c.status, c.says)
			}
		}
		if text, err := p.says(t.Context(), "queue", "--key", "pass"); err != nil || !strings.Contains(text, "0 of 64") {
			t.Errorf("with a key: %q, %v", text, err)
		}
		ended := make(chan error, 1)
		go func() {
			text, err := p.says(t.Context(), "queue", "--watch", "--key", "pass")
			if !strings.HasSuffix(text, " reconnecting…\n") {
				t.Errorf("when the proxy stops it says\n%s", text)
			}
			ended <- err
		}()
		synctest.Wait()
		if err := p.stop(); err != nil {
			t.Error(err)
		}
		if err := <-ended; err == nil || !strings.Contains(err.Error(), "given up after 1m0s: no proxy answers") {
			t.Errorf("when the proxy does not come back: %v", err)
		}
	})
}

// TestCompletion: the shells' scripts know the commands.
func TestCompletion(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		out := &simtest.Buffer{}
		if err := run(t.Context(), []string{"completion", shell}, world{out: out, errs: out}); err != nil || len(out.String()) < 1000 {
			t.Errorf("%s: %v, %d bytes", shell, err, len(out.String()))
		}
	}
	out := &simtest.Buffer{}
	if err := run(t.Context(), []string{"__complete", ""}, world{out: out, errs: out}); err != nil {
		t.Error(err)
	}
	for _, command := range []string{"serve", "queue", "cancel", "pause", "resume", "drain", "reset"} {
		if !strings.Contains(out.String(), command+"\t") {
			t.Errorf("%s is not offered: %s", command, out.String())
		}
	}
}

// TestSmallAnswers: of commands that ask nobody.
func TestSmallAnswers(t *testing.T) {
	file := t.TempDir() + "/oneslot.yaml"
	if err := os.WriteFile(file, []byte("engines: [{url: \"http://a\"}]\n"+twoKeys), 0o600); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{
		"--version":                     "oneslot ",
		"config check --config " + file: "The settings are good: 1 engine, listening on 127.0.0.1:8080.\nNote: keys are configured, but only programs of this machine reach 127.0.0.1:8080.\n",
	} {
		out := &simtest.Buffer{}
		if err := run(t.Context(), strings.Fields(args), world{out: out, errs: out}); err != nil || !strings.HasPrefix(out.String(), want) {
			t.Errorf("oneslot %s: %v, %q", args, err, out.String())
		}
	}
}
