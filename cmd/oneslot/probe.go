package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"oneslot/configs"
	"oneslot/proxy/probe"
	"oneslot/reasoning"

	"github.com/spf13/cobra"
)

// probeFlags are the flags of `oneslot probe`.
type probeFlags struct {
	engine, keyFile, write string
	busyOK, json           bool
	timeout                time.Duration
	rawTokens              int
}

func probeCommand(w *world) *cobra.Command {
	var f probeFlags
	c := &cobra.Command{
		Use: "probe", Short: "Ask an engine what it is, and how its model marks thinking", Args: noArgs,
		Long: "probe asks an engine what it is and says of every answer how it was come by. It\n" +
			"sends a few small requests to the model, but only if the engine is idle and\n" +
			"says so; otherwise it only reads (--busy-ok overrides that).",
		Example: "  oneslot probe --engine http://127.0.0.1:30000 --write oneslot.yaml",
		RunE:    func(c *cobra.Command, _ []string) error { return f.run(c, w) },
	}
	s := c.Flags()
	s.StringVar(&f.engine, "engine", "", "base URL of the engine, such as http://127.0.0.1:30000 (or ONESLOT_ENGINE)")
	s.StringVar(&f.keyFile, "api-key-file", "", "file that holds the engine's API key")
	s.StringVar(&f.write, "write", "", "new `file` to write settings into, for oneslot serve --config")
	s.BoolVar(&f.busyOK, "busy-ok", false, "send test requests also to an engine that is busy, or does not tell")
	s.BoolVar(&f.json, "json", false, "print the findings as JSON")
	s.DurationVar(&f.timeout, "timeout", 5*time.Minute, "bound of it all; what was found until then is shown")
	s.IntVar(&f.rawTokens, "raw-tokens", 256, "most tokens of the two requests that look for markers; more for a model that thinks long")
	return c
}

func (f *probeFlags) run(c *cobra.Command, w *world) error {
	cfg, err := f.config(w)
	if err != nil {
		return err
	}
	if terminal(w.errs) {
		cfg.Tell = func(what string) { fmt.Fprintln(w.errs, "asking:", what) }
	}
	report, err := probe.Run(c.Context(), cfg)
	if err != nil {
		return err
	}
	var unwritten error
	if f.write != "" {
		unwritten = writeNew(f.write, report.Config(cfg.URL, cfg.APIKey))
	}
	if f.json {
		enc := json.NewEncoder(w.out)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "  ")
		return errors.Join(unwritten, enc.Encode(report))
	}
	advice := f.advice(report)
	if unwritten != nil {
		advice = ""
	}
	return errors.Join(unwritten, printReport(w.out, report, advice))
}

// terminal reports whether somebody watches what is written to w.
func terminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// config turns flags into the probe's Config. All faults are of the command line.
func (f *probeFlags) config(w *world) (probe.Config, error) {
	cfg := probe.Config{URL: f.engine, BusyOK: f.busyOK, Time: f.timeout, RawTokens: f.rawTokens, Dial: w.dial}
	for _, pair := range w.environ {
		if v, ok := strings.CutPrefix(pair, "ONESLOT_ENGINE="); ok && cfg.URL == "" {
			cfg.URL = v
		}
	}
	if cfg.URL == "" {
		return cfg, fmt.Errorf("%w: --engine is missing: give the base URL of the engine, such as http://127.0.0.1:30000", errUsage)
	}
	if err := cfg.Validate(); err != nil {
		return cfg, fmt.Errorf("%w: --engine, --timeout or --raw-tokens: %w", errUsage, err)
	}
	if f.keyFile != "" {
		key, err := os.ReadFile(f.keyFile)
		if err != nil {
			return cfg, fmt.Errorf("%w: --api-key-file: %w", errUsage, err)
		}
		cfg.APIKey = strings.TrimSpace(string(key))
	}
	if _, err := os.Lstat(f.write); f.write != "" && !errors.Is(err, os.ErrNotExist) {
		return cfg, fmt.Errorf("%w: --write: %s is there already: name a new file, or remove it", errUsage, f.write)
	}
	rows, err := (&configs.Config{}).FormatRows()
	if err != nil {
		return cfg, err
	}
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		cfg.Rows = append(cfg.Rows, rows[name])
	}
	return cfg, nil
}

// writeNew writes a file that only its owner reads, since it may hold a key.
func writeNew(path string, data []byte) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("%w: --write: %w", errUsage, err)
	}
	_, err = file.Write(data)
	return errors.Join(err, file.Close())
}

// printReport shows a report to a person.
func printReport(out io.Writer, r *probe.Report, advice string) error {
	var b strings.Builder
	fmt.Fprintf(&b, "engine at %s\n", r.Engine)
	if r.ReadOnly != "" {
		fmt.Fprintf(&b, "Not everything was asked: %s (--busy-ok asks all the same).\n", r.ReadOnly)
	}
	const margin = 21
	for _, one := range r.Findings {
		fmt.Fprintf(&b, "\n%-*s%s\n", margin, one.Name, said(one))
		if one.Detail != "" {
			fmt.Fprintf(&b, "%*s%s\n", margin, "", one.Detail)
		}
		for _, e := range one.Evidence {
			fmt.Fprintf(&b, "%*s| %s -> %s\n", margin, "", e.Call, e.Reply)
		}
	}
	b.WriteString("\n" + advice)
	_, err := io.WriteString(out, b.String())
	return err
}

// said is the answer of a finding in a word.
func said(f probe.Finding) string {
	value := f.Value
	if strings.ContainsAny(value, "\r\n\t") && !strings.HasPrefix(value, `"`) {
		value = strconv.Quote(value)
	}
	switch f.State {
	case probe.Found:
		return value
	case probe.Absent:
		return "no"
	case probe.Skipped:
		return "not asked"
	case probe.Unknown:
	}
	return strings.TrimSpace(value + " (not certain)")
}

// advice says what to do with the findings.
func (f *probeFlags) advice(r *probe.Report) string {
	if f.write != "" {
		return fmt.Sprintf("Settings are in %s: oneslot serve --config %s\n", f.write, f.write)
	}
	if r.Format == nil {
		return "With --write FILE this becomes settings for `oneslot serve --config FILE`.\n"
	}
	return fmt.Sprintf("With --write FILE this becomes settings for `oneslot serve --config FILE`, with the format row %s.\n", rowWords(*r.Format))
}

func rowWords(row reasoning.Format) string {
	if row.Verified {
		return row.Name + " (verified)"
	}
	return row.Name + " (not verified)"
}
