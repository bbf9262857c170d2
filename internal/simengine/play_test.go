package simengine_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"oneslot/internal/simengine"
	"oneslot/internal/simengine/script"
	"oneslot/internal/simengine/simtest"
)

// reply is the head of a played reply.
type reply struct {
	StatusCode int
	Header     http.Header
}

// played sends one request to an engine that plays s and returns what came and
// the error it ended with.
func played(t *testing.T, cfg simengine.Config, s script.Script) (head reply, body string, err error) {
	t.Helper()
	cfg.Scripts = []script.Script{s}
	_, url := simtest.Start(t, cfg)
	res := post(t.Context(), t, url+"/v1/chat/completions", streamed("a"))
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	http.DefaultClient.CloseIdleConnections()
	return reply{res.StatusCode, res.Header}, string(text), err
}

func TestPlay(t *testing.T) {
	for _, tc := range []struct {
		name   string
		script script.Script
		body   string
		err    error
	}{
		{"end", script.Script{script.Write("data: a\n\ndata: b"), script.End(), script.Write("never")}, "data: a\n\ndata: b", nil},
		{"end of script", script.Script{script.Write("\x00\xff")}, "\x00\xff", nil},
		{"cut", script.Script{script.Write("data: a"), script.Cut()}, "data: a", io.ErrUnexpectedEOF},
		{"reset", script.Script{script.Write("data: a"), script.Reset()}, "data: a", syscall.ECONNRESET},
		{"done", script.Script{script.Done()}, "data: [DONE]\n\n", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			res, body, err := played(t, fast(), tc.script)
			if body != tc.body || !errors.Is(err, tc.err) {
				t.Errorf("%q, %v; want %q, %v", body, err, tc.body, tc.err)
			}
			if got := res.Header.Get("Content-Type"); res.StatusCode != 200 || got != "text/event-stream; charset=utf-8" {
				t.Errorf("%d %s", res.StatusCode, got)
			}
		})
	}
}

func TestPlayStatus(t *testing.T) {
	res, body, err := played(t, fast(), script.Script{
		script.Status(503, http.Header{"retry-after": {"7"}, "Content-Type": {"text/plain"}}), script.Write("busy"),
	})
	if err != nil || res.StatusCode != 503 || res.Header.Get("Retry-After") != "7" || res.Header.Get("Content-Type") != "text/plain" || body != "busy" {
		t.Errorf("%d %v %q %v", res.StatusCode, res.Header, body, err)
	}
}

func TestPlayInTheShapeOfTheEngine(t *testing.T) {
	all := script.Script{script.Thinking("so"), script.Answer("OK"), script.Finish("stop"), script.Done()}
	_, body, err := played(t, fast(), all)
	if s := join(t, body); err != nil || s.thinking != "so" || s.answer != "OK" || s.finish != "stop" || !s.done || s.id != "a" || s.usage == nil {
		t.Errorf("%+v %v", s, err)
	}
	raw := fast()
	raw.Output = simengine.Raw
	_, body, _ = played(t, raw, all)
	if s := join(t, body); s.thinking != "" || s.answer != "soOK" {
		t.Errorf("raw: %+v", s)
	}
}

func TestScriptsInTurn(t *testing.T) {
	one, two, three := script.Script{script.Write("1")}, script.Script{script.Write("2")}, script.Script{script.Write("3")}
	cfg := fast()
	cfg.Scripts, cfg.Admin = []script.Script{one, two}, true
	e, url := simtest.Start(t, cfg)
	e.Play(three)
	read(t, url+"/sim/play", "-- write-cut --\n4\n-- next --\n-- write-cut --\n5\n")
	got := ""
	for range 6 {
		_, body := read(t, url+"/v1/chat/completions", streamed("a"))
		got += body
	}
	_, body := read(t, url+"/v1/chat/completions", `{"stream":true,"sim":{"script":"-- write-cut --\nown\n"},`+hi+`}`)
	if got += body; got != "345122own" {
		t.Errorf("played %q", got)
	}
	if status, _ := read(t, url+"/v1/chat/completions", `{"sim":{"script":"-- wrong --\n"},`+hi+`}`); status != 400 {
		t.Errorf("a wrong script: %d", status)
	}
	if status, _ := read(t, url+"/sim/play", "nothing"); status != 400 {
		t.Errorf("a wrong script to play: %d", status)
	}
}

func TestWaitsOfAScriptEnd(t *testing.T) {
	for _, tc := range []struct {
		name string
		wait script.Step
	}{
		{"hold", script.Hold()},
		{"sleep", script.Sleep(time.Hour)},
		{"repeat", script.Repeat("data: a\n\n", 0, time.Hour)},
		{"await-leave", script.AwaitLeave()},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cfg := fast()
			cfg.Scripts = []script.Script{{script.Write(": there\n\n"), tc.wait}}
			e, url := simtest.Start(t, cfg)
			res := post(t.Context(), t, url+"/v1/chat/completions", streamed("a"))
			defer res.Body.Close()
			read(t, url+"/abort_request", `{"rid":"a"}`)
			body, err := io.ReadAll(res.Body)
			if err != nil || !strings.HasSuffix(string(body), "data: [DONE]\n\n") {
				t.Errorf("aborted: %q %v", body, err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			res = post(ctx, t, url+"/v1/chat/completions", streamed("b"))
			defer res.Body.Close()
			await(t, e, func(s simengine.Stats) bool { return !s.Runs[1].FirstToken.IsZero() })
			cancel()
			await(t, e, func(s simengine.Stats) bool { return s.Runs[1].Outcome == simengine.Left })
			res = post(t.Context(), t, url+"/v1/chat/completions", streamed("c"))
			defer res.Body.Close()
			e.Close()
			if _, err := io.ReadAll(res.Body); err == nil {
				t.Error("closed: the body ended in an orderly way")
			}
			http.DefaultClient.CloseIdleConnections()
		})
	}
}

// TestAwaitLeaveOfAGhost goes on after the client has left, which it sees
// whatever the habits.
func TestAwaitLeaveOfAGhost(t *testing.T) {
	cfg := fast()
	cfg.Ghost = true
	cfg.Scripts = []script.Script{{script.Write(": there\n\n"), script.AwaitLeave(), script.Write("late")}}
	e, url := simtest.Start(t, cfg)
	ctx, cancel := context.WithCancel(t.Context())
	res := post(ctx, t, url+"/v1/chat/completions", streamed("a"))
	defer res.Body.Close()
	cancel()
	await(t, e, func(s simengine.Stats) bool { return s.Runs[0].Outcome == simengine.Scripted })
	http.DefaultClient.CloseIdleConnections()
}

// TestScriptedGhost is out of reach of an abort by rid as any ghost is.
func TestScriptedGhost(t *testing.T) {
	cfg := slow()
	cfg.Ghost = true
	cfg.Scripts = []script.Script{{script.Write(": there\n\n"), script.Hold()}}
	e, url := simtest.Start(t, cfg)
	ctx, cancel := context.WithCancel(t.Context())
	res := post(ctx, t, url+"/v1/chat/completions", streamed("a"))
	defer res.Body.Close()
	cancel()
	await(t, e, func(s simengine.Stats) bool { return s.Ghosts == 1 })
	read(t, url+"/abort_request", `{"rid":"a"}`)
	if s := e.Stats(); s.Running != 1 || s.AbortsEffective != 0 {
		t.Errorf("%+v", s)
	}
	read(t, url+"/abort_request", `{"abort_all":true}`)
	await(t, e, func(s simengine.Stats) bool { return s.Running == 0 && s.Runs[0].Outcome == simengine.Aborted })
}
