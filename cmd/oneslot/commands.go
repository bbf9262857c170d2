package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"oneslot/configs"
	"oneslot/internal/remote"
	"oneslot/internal/tokenizer"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// version is set by the build.
var version = "dev"

func rootCommand(w *world) *cobra.Command {
	root := &cobra.Command{
		Use:           "oneslot",
		Short:         "Share an LLM engine that answers one request at a time",
		Long:          "oneslot is an OpenAI-compatible reverse proxy in front of an LLM engine that\nanswers one request at a time: it queues, keeps waiting clients informed,\nsplits thinking from the answer, and counts tokens.",
		SilenceUsage:  true,
		SilenceErrors: true,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return fmt.Errorf("%w: there is no command %q; `oneslot help` lists them", errUsage, args[0])
			}
			return nil
		},
		RunE: func(c *cobra.Command, _ []string) error {
			if asked, err := c.Flags().GetBool("version"); err != nil || asked {
				c.Print(about())
				return err
			}
			return c.Help()
		},
	}
	// Not by cobra's Version, whose template would have the linker keep every method of
	// every type, a quarter of the program.
	root.Flags().BoolP("version", "v", false, "print what this program is")
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return fmt.Errorf("%w: %w; `%s --help` lists the flags", errUsage, err, c.CommandPath())
	})
	root.AddCommand(serveCommand(w), simCommand(w), probeCommand(w), usageCommand(w), configCommand(w), keyCommand(), healthCommand(w), versionCommand())
	root.AddCommand(lineCommands(w)...)
	return root
}

// noArgs refuses arguments where none belong.
func noArgs(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("%w: %s takes no argument, got %q", errUsage, c.CommandPath(), args[0])
	}
	return nil
}

// settingFlags are the settings that have a flag, with what they mean.
func settingFlags(f *pflag.FlagSet) {
	f.String("config", "", "file with settings; see configs/oneslot.example.yaml (or ONESLOT_CONFIG)")
	f.String("listen", "", "address to answer on (default 127.0.0.1:8080)")
	f.String("engine", "", "base URL of the engine, such as http://127.0.0.1:30000")
	f.String("model", "", "name under which clients ask for the engine's model (default: the engine's own)")
	f.String("format", "", "how the model writes thinking (default auto: by the name of the model)")
	f.String("tokenizer", "", "path of the model's tokenizer.json (default: the engine counts)")
	f.String("redis", "", "keep the line in Redis: redis://[:PASSWORD@]HOST:PORT[/DB]; several, parted by commas")
	f.String("data", "", "folder of the ledger (default ./data)")
	f.String("log", "", "debug, info, warn or error (default info)")
	f.Bool("insecure-no-auth", false, "listen on other than loopback addresses without API keys")
	f.Bool("accept-any-model", false, "serve unknown model names too")
}

// settings reads the configuration that a command's flags point at.
func settings(c *cobra.Command, w *world) (configs.Config, error) {
	return configs.Load(sources(c, w))
}

// sources says where a command's settings come from.
func sources(c *cobra.Command, w *world) configs.Sources {
	src := configs.Sources{Environ: w.environ, Flags: map[string]any{}}
	for _, pair := range w.environ {
		if file, ok := strings.CutPrefix(pair, "ONESLOT_CONFIG="); ok {
			src.File = file
		}
	}
	c.Flags().Visit(func(f *pflag.Flag) {
		switch f.Name {
		case "config":
			src.File = f.Value.String()
		case "log":
			src.Flags["telemetry.log"] = f.Value.String()
		default:
			src.Flags[strings.ReplaceAll(f.Name, "-", "_")] = f.Value.String()
		}
	})
	return src
}

// verdict is what there is to say of settings without a fault.
func verdict(cfg configs.Config) string {
	engines := "1 engine"
	if n := len(cfg.Engines); n != 1 {
		engines = fmt.Sprintf("%d engines", n)
	}
	text := fmt.Sprintf("The settings are good: %s, listening on %s.", engines, cfg.Listen)
	if len(cfg.Keys) > 0 && cfg.Loopback() {
		text += fmt.Sprintf("\nNote: keys are configured, but only programs of this machine reach %s.", cfg.Listen)
	}
	return text
}

// noFile refuses an argument, which may be meant as the file.
func noFile(c *cobra.Command, args []string) error {
	if err := noArgs(c, args); err != nil {
		return fmt.Errorf("%w; did you mean --config %s?", err, args[0])
	}
	return nil
}

func configCommand(w *world) *cobra.Command {
	parent := &cobra.Command{Use: "config", Short: "Work with the settings", Args: noArgs, Run: func(c *cobra.Command, _ []string) { _ = c.Help() }}
	check := &cobra.Command{
		Use: "check", Short: "Report every fault of the settings", Args: noFile,
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, err := configs.Check(sources(c, w), tried)
			if err != nil {
				return err
			}
			c.Println(verdict(cfg))
			return nil
		},
	}
	settingFlags(check.Flags())
	example := &cobra.Command{
		Use: "example", Short: "Print the commented example file", Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			_, err := c.OutOrStdout().Write(configs.Example())
			return err
		},
	}
	show := &cobra.Command{
		Use: "show", Short: "Print the settings that hold, and where each was set", Args: noFile,
		RunE: func(c *cobra.Command, _ []string) error {
			text, err := configs.Show(sources(c, w))
			_, failed := fmt.Fprint(c.OutOrStdout(), text)
			return errors.Join(err, failed)
		},
	}
	settingFlags(show.Flags())
	schema := &cobra.Command{
		Use: "schema", Short: "Print the JSON Schema of the file, for editors", Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			text, err := configs.Schema()
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(c.OutOrStdout(), string(text))
			return err
		},
	}
	parent.AddCommand(check, show, schema, example)
	return parent
}

// healthCommand is for container engines, which have no HTTP client of their own.
func healthCommand(w *world) *cobra.Command {
	var f remoteFlags
	c := &cobra.Command{
		Use: "healthcheck", Short: "Ask a running proxy whether it lives", Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			proxy, err := f.client(w)
			if err != nil {
				return err
			}
			defer proxy.Close()
			ctx, cancel := context.WithTimeoutCause(c.Context(), 3*time.Second, errSilent)
			defer cancel()
			if err := proxy.JSON(ctx, remote.Call{Path: "/healthz"}, new(any)); ctx.Err() == nil {
				return err
			}
			return context.Cause(ctx)
		},
	}
	f.add(c.Flags())
	return c
}

var errSilent = errors.New("no proxy answers within 3 s")

func listenOf(w *world) string {
	if address := w.env("ONESLOT_LISTEN"); address != "" {
		return address
	}
	return configs.Default().Listen
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version and how it was built", Args: noArgs,
		Run: func(c *cobra.Command, _ []string) {
			c.Print(about())
		},
	}
}

// about is the version and how it was built.
func about() string {
	counts := "through the engine"
	if tokenizer.Available {
		counts = "natively (tokenizer.json) or through the engine"
	}
	return fmt.Sprintf("oneslot %s %s %s/%s, counts tokens %s\n", versionText(), runtime.Version(), runtime.GOOS, runtime.GOARCH, counts)
}

// versionText is the version set by the build, else what Go knows of it.
func versionText() string {
	if info, ok := debug.ReadBuildInfo(); ok && version == "dev" && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return version
}
