package main

import (
	"fmt"
	"strings"

	"oneslot/internal/remote"

	"github.com/spf13/pflag"
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
