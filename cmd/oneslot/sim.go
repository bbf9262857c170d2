package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	"oneslot/configs"
	"oneslot/internal/simengine"
	"oneslot/internal/simengine/script"
	"oneslot/reasoning"

	"github.com/spf13/cobra"
)

// simFlags are the flags of `oneslot sim` that are not fields of its Config.
type simFlags struct {
	listen, format, script, dialect string
	raw, split                      bool
	simengine.Config
}

func simCommand(w *world) *cobra.Command {
	var f simFlags
	c := &cobra.Command{
		Use: "sim", Short: "Run a simulated engine that answers one request at a time", Args: noArgs,
		Example: "  oneslot sim --listen 127.0.0.1:30000 --thinking 200 --answer 50",
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, err := f.config()
			if err != nil {
				return err
			}
			return simulate(c.Context(), cfg, f.listen, w)
		},
	}
	s := c.Flags()
	s.StringVar(&f.listen, "listen", "127.0.0.1:30000", "address to answer on")
	s.Float64Var(&f.TokensPerSecond, "tokens-per-second", 10, "speed of decoding; -1 is as fast as possible")
	s.Float64Var(&f.PrefillTokensPerSecond, "prefill-tokens-per-second", 475, "speed of prefill; -1 is as fast as possible")
	s.IntVar(&f.Thinking, "thinking", 60, "tokens of thinking in a reply; -1 is none")
	s.IntVar(&f.Answer, "answer", 30, "tokens of answer in a reply; -1 is none")
	s.IntVar(&f.TokensPerChunk, "tokens-per-chunk", 1, "tokens that come at once, as with speculative drafts")
	s.StringVar(&f.format, "format", "ripple", "format whose markers it writes")
	s.StringVar(&f.script, "script", "", "file with a reply to play instead")
	s.StringVar(&f.dialect, "dialect", "sglang", "whose manner it takes on: sglang, vllm or llamacpp")
	s.BoolVar(&f.Ghost, "ghost", false, "go on when the client of a stream has left, as SGLang 0.5.18 and 0.5.19 do")
	s.BoolVar(&f.raw, "raw", false, "write the markers into content")
	s.BoolVar(&f.split, "split", false, "split thinking from content (the default)")
	s.IntVar(&f.ContextLength, "context", 131072, "most tokens of prompt and completion")
	s.StringVar(&f.Model, "model", "ripple", "name of the model")
	s.BoolVar(&f.RadixCache, "radix-cache", false, "keep prompts, so that a known beginning costs no time")
	s.BoolVar(&f.CacheReport, "cache-report", false, "tell cached tokens in usage")
	s.BoolVar(&f.Metrics, "metrics", false, "offer /metrics")
	s.BoolVar(&f.Admin, "admin", false, "offer /sim/, which shows what it saw and breaks it on demand")
	s.Uint64Var(&f.Seed, "seed", 0, "varies the texts")
	return c
}

// config turns the flags into the engine's Config.
func (f *simFlags) config() (simengine.Config, error) {
	cfg := f.Config
	if f.raw && f.split {
		return cfg, fmt.Errorf("%w: --raw and --split exclude each other", errUsage)
	}
	if f.raw {
		cfg.Output = simengine.Raw
	}
	cfg.Dialect = simengine.Dialect(f.dialect)
	rows, err := (&configs.Config{}).FormatRows()
	if err != nil {
		return cfg, err
	}
	row, ok := rows[f.format]
	if !ok || len(row.Open) == 0 || len(row.Close) == 0 {
		return cfg, fmt.Errorf("%w: --format %q is no format with markers; configs/formats.yaml lists them", errUsage, f.format)
	}
	cfg.Format = simengine.Format{Open: row.Open[0], Close: row.Close[0], StartsInThinking: row.StartsIn == reasoning.StartThinking}
	if f.script == "" {
		return cfg, nil
	}
	text, err := os.ReadFile(f.script)
	if err != nil {
		return cfg, fmt.Errorf("%w: --script: %w", errUsage, err)
	}
	if cfg.Scripts, err = script.Parse(string(text)); err != nil {
		return cfg, fmt.Errorf("%w: --script %s: %w", errUsage, f.script, err)
	}
	return cfg, nil
}

// simulate runs a simulated engine until ctx ends.
func simulate(ctx context.Context, cfg simengine.Config, address string, w *world) error {
	e, err := simengine.New(cfg)
	if err != nil {
		return fmt.Errorf("%w: %w", errUsage, err)
	}
	l, err := w.listen("tcp", address)
	if err != nil {
		return listenFault(address, err)
	}
	server := &http.Server{Handler: e, ReadHeaderTimeout: 10 * time.Second}
	failed := make(chan error, 1) // buffered: Serve may end after nobody listens any more
	go func() { failed <- server.Serve(l) }()
	if _, err := fmt.Fprintf(w.out, "simulated engine at http://%s\n", l.Addr()); err != nil {
		return errors.Join(err, l.Close())
	}
	select {
	case err = <-failed:
	case <-ctx.Done():
		err = nil
	}
	e.Close()
	return errors.Join(err, server.Close())
}
