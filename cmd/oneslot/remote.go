package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"oneslot/api/board"
	"oneslot/internal/console"
	"oneslot/internal/remote"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"
)

// remoteFlags are the flags of the commands that talk to a running proxy.
type remoteFlags struct{ url, key string }

func (f *remoteFlags) add(s *pflag.FlagSet) {
	s.StringVar(&f.url, "url", "", "base URL of the proxy (default: ONESLOT_URL, else by ONESLOT_LISTEN, else http://127.0.0.1:8080)")
	s.StringVar(&f.key, "key", "", "API key (better: ONESLOT_API_KEY, which other users of the machine do not see)")
}

// client makes the client. The caller closes it.
func (f *remoteFlags) client(w *world) (*remote.Client, error) {
	cfg := remote.Config{URL: f.url, Key: f.key, Dial: w.dial}
	if cfg.URL == "" {
		cfg.URL = w.env("ONESLOT_URL")
	}
	if cfg.URL == "" {
		cfg.URL = "http://" + reachable(listenOf(w))
	}
	if cfg.Key == "" {
		cfg.Key = w.env("ONESLOT_API_KEY")
	}
	c, err := remote.New(cfg)
	if err != nil {
		return nil, fmt.Errorf("%w: --url: %w", errUsage, err)
	}
	return c, nil
}

// env is the value of a variable, empty if it is not set.
func (w *world) env(name string) (value string) {
	for _, pair := range w.environ {
		if v, ok := strings.CutPrefix(pair, name+"="); ok {
			value = v
		}
	}
	return value
}

// lineCommands are those that look after the line of a running proxy.
func lineCommands(w *world) []*cobra.Command {
	return []*cobra.Command{
		queueCommand(w), cancelCommand(w), resetCommand(w),
		gateCommand(w, "pause", "Hand out no slot any more: what runs goes on, who comes waits", "Paused: what runs goes on, who comes waits. `oneslot resume` ends it."),
		gateCommand(w, "drain", "Send away who waits and who comes; what runs goes on", "Draining: what runs goes on, everybody else is sent away. `oneslot resume` ends it."),
		gateCommand(w, "resume", "End a pause or a drain", "The line is open."),
	}
}

// asking is a command that asks a running proxy by way of do.
func asking(w *world, c *cobra.Command, do func(ctx context.Context, proxy *remote.Client, args []string) error) *cobra.Command {
	var f remoteFlags
	c.RunE = func(c *cobra.Command, args []string) error {
		proxy, err := f.client(w)
		if err != nil {
			return err
		}
		defer proxy.Close()
		return do(c.Context(), proxy, args)
	}
	f.add(c.Flags())
	return c
}

func queueCommand(w *world) *cobra.Command {
	var follow bool
	c := &cobra.Command{
		Use: "queue", Short: "Show the line of a running proxy", Args: noArgs,
		Long: "queue shows who runs and who waits. With --watch it goes on until Ctrl-C: as a table\nthat keeps itself up to date in a terminal, as a line for each event elsewhere. A\nproxy that is away for less than a minute is waited for.",
	}
	c.Flags().BoolVarP(&follow, "watch", "w", false, "go on and show what changes")
	return asking(w, c, func(ctx context.Context, proxy *remote.Client, _ []string) error {
		if follow {
			return watch(ctx, proxy, w.out)
		}
		var v board.View
		if err := proxy.JSON(ctx, remote.Call{Path: "/v1/queue"}, &v); err != nil {
			return err
		}
		return console.New(v).Table(w.out, console.Window{})
	})
}

// watch shows the line until ctx ends, or the proxy is away for too long.
func watch(ctx context.Context, proxy *remote.Client, out io.Writer) error {
	w := console.Watch{
		Out: out,
		Feed: func(ctx context.Context) (io.ReadCloser, error) {
			resp, err := proxy.Open(ctx, remote.Call{Path: "/v1/queue/events", Accept: "text/event-stream"})
			if err != nil {
				return nil, err
			}
			return resp.Body, nil
		},
		View: func(ctx context.Context) (v board.View, err error) {
			err = proxy.JSON(ctx, remote.Call{Path: "/v1/queue"}, &v)
			return v, err
		},
		Final: func(err error) bool {
			var p *remote.Problem
			return errors.As(err, &p) && p.Status < http.StatusInternalServerError
		},
	}
	if f, ok := out.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		resized := make(chan os.Signal, 1)
		signal.Notify(resized, syscall.SIGWINCH)
		defer signal.Stop(resized)
		w.Resized, w.Window = resized, func() console.Window { return windowOf(f) }
	}
	if err := w.Run(ctx); ctx.Err() == nil {
		return err
	}
	return nil // the user wanted the end
}

// windowOf is the size of a terminal, or what one has that does not tell.
func windowOf(f *os.File) console.Window {
	columns, rows, err := term.GetSize(int(f.Fd()))
	if err != nil || columns == 0 || rows == 0 {
		return console.Window{Rows: 24, Columns: 80}
	}
	return console.Window{Rows: rows, Columns: columns}
}

func cancelCommand(w *world) *cobra.Command {
	var of string
	c := &cobra.Command{
		Use: "cancel [ID]", Short: "Cancel a request that waits or runs, or all of a key",
		Example: "  oneslot cancel 3f6c0a5e8b1d4c7f9e2a6b8d0c4e1f73\n  oneslot cancel --of team-a",
	}
	c.Flags().StringVar(&of, "of", "", "name of the key all of whose requests are to be cancelled")
	c.Args = func(c *cobra.Command, args []string) error {
		if named := c.Flags().Changed("of"); named == (len(args) == 1) || len(args) > 1 {
			return fmt.Errorf("%w: name one request, by its id (`oneslot queue` lists them), or a key: --of NAME", errUsage)
		}
		return nil
	}
	return asking(w, c, func(ctx context.Context, proxy *remote.Client, args []string) error {
		if len(args) == 1 {
			if err := proxy.JSON(ctx, remote.Call{Method: http.MethodDelete, Path: "/v1/queue/" + url.PathEscape(args[0])}, new(any)); err != nil {
				return err
			}
			c.Println("Cancelled.")
			return nil
		}
		var done struct{ Cancelled int }
		if err := proxy.JSON(ctx, remote.Call{Method: http.MethodDelete, Path: "/v1/queue", Query: url.Values{"key": {of}}}, &done); err != nil {
			return err
		}
		if done.Cancelled == 0 {
			c.Printf("No request of %s waits or runs.\n", of)
			return nil
		}
		c.Printf("Cancelled %d of %s.\n", done.Cancelled, of)
		return nil
	})
}

func gateCommand(w *world, word, short, said string) *cobra.Command {
	c := &cobra.Command{Use: word, Short: short, Args: noArgs}
	return asking(w, c, func(ctx context.Context, proxy *remote.Client, _ []string) error {
		if err := proxy.JSON(ctx, remote.Call{Method: http.MethodPost, Path: "/v1/queue/" + word}, new(any)); err != nil {
			return err
		}
		c.Println(said)
		return nil
	})
}

func resetCommand(w *world) *cobra.Command {
	c := &cobra.Command{
		Use: "reset SLOT", Short: "Hand on a poisoned slot, on your word that its engine is idle",
		Long: "reset hands on a slot that is aborting, poisoned or down because nobody can see its\nengine idle. If it is not, two requests run on the engine.",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("%w: name one slot; `oneslot queue` lists them", errUsage)
			}
			return nil
		},
	}
	return asking(w, c, func(ctx context.Context, proxy *remote.Client, args []string) error {
		var done struct{ Was string }
		if err := proxy.JSON(ctx, remote.Call{Method: http.MethodPost, Path: "/v1/queue/slots/" + url.PathEscape(args[0]) + "/reset"}, &done); err != nil {
			return err
		}
		if done.Was == "idle" {
			c.Println("It was idle: nothing to do.")
			return nil
		}
		c.Printf("Reset: it was %s.\n", done.Was)
		return nil
	})
}
