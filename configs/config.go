package configs

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"oneslot/internal/openai"
	"oneslot/proxy/downstream"
)

// Config is every setting. The koanf tags are the keys of the file.
type Config struct {
	// Listen is the address to answer on, host:port.
	Listen string `koanf:"listen"`
	// Data is the folder of the ledger.
	Data string `koanf:"data"`
	// Redis is the address of a shared line; several for Sentinel and Cluster.
	// Empty keeps the line in this process.
	Redis []string `koanf:"redis"`
	// RedisInsecure allows a Redis without a password away from this machine.
	RedisInsecure bool `koanf:"redis_insecure"`
	// InsecureNoAuth allows listening away from this machine without keys.
	InsecureNoAuth bool `koanf:"insecure_no_auth"`
	// Engines are the engines behind the proxy.
	Engines []Engine `koanf:"engines"`
	// Models maps names that clients send to names of engines' models.
	Models map[string]string `koanf:"models"`
	// AcceptAnyModel serves unknown model names with the first engine's model.
	AcceptAnyModel bool `koanf:"accept_any_model"`
	// CORSOrigins are the browser origins that may call.
	CORSOrigins []string `koanf:"cors_origins"`
	// Formats are rows like those of formats.yaml.
	Formats []map[string]any `koanf:"formats"`
	// Keys are the API keys.
	Keys []Key `koanf:"keys"`
	// Queue is how the line is kept.
	Queue Queue `koanf:"queue"`
	// Reasoning is how thinking is shown.
	Reasoning Reasoning `koanf:"reasoning"`
	// Usage is how long the ledger keeps its rows.
	Usage Usage `koanf:"usage"`
	// Limits bound what clients and engines may do.
	Limits Limits `koanf:"limits"`
	// Telemetry is what the program says of itself.
	Telemetry Telemetry `koanf:"telemetry"`
}

// Engine is one engine and how it is used.
type Engine struct {
	Name       string `koanf:"name"`
	URL        string `koanf:"url"`
	Model      string `koanf:"model"`
	Dialect    string `koanf:"dialect"`
	Slots      int    `koanf:"slots"`
	Format     string `koanf:"format"`
	Tokenizer  string `koanf:"tokenizer"`
	APIKey     string `koanf:"api_key"`
	SoleClient *bool  `koanf:"sole_client"`
}

// Key is one API key.
type Key struct {
	Name     string `koanf:"name"`
	SHA256   string `koanf:"sha256"`
	Class    string `koanf:"class"`
	MaxClass string `koanf:"max_class"`
	Admin    bool   `koanf:"admin"`
}

// Queue is how the line is kept and how its clients are kept alive.
type Queue struct {
	MaxWaiting       int             `koanf:"max_waiting"`
	MaxWaitingPerKey int             `koanf:"max_waiting_per_key"`
	MaxWait          Duration        `koanf:"max_wait"`
	CommitAfter      Duration        `koanf:"commit_after"`
	Heartbeat        Duration        `koanf:"heartbeat"`
	HeartbeatMode    downstream.Beat `koanf:"heartbeat_mode"`
	Lease            Duration        `koanf:"lease"`
	OnDisconnect     string          `koanf:"on_disconnect"`
	AbortBound       Duration        `koanf:"abort_bound"`
	PoisonGrace      Duration        `koanf:"poison_grace"`
}

// Reasoning is how thinking is shown.
type Reasoning struct {
	Field openai.ReasoningField `koanf:"field"`
}

// Usage is how long the ledger keeps its rows.
type Usage struct {
	Retention Duration `koanf:"retention"`
	MaxRows   int      `koanf:"max_rows"`
	Sources   bool     `koanf:"include_sources"`
}

// Limits bound what clients and engines may do.
type Limits struct {
	Body          Size     `koanf:"body"`
	Event         Size     `koanf:"event"`
	WriteTimeout  Duration `koanf:"write_timeout"`
	EngineHeaders Duration `koanf:"engine_headers"`
	EngineIdle    Duration `koanf:"engine_idle"`
	FirstToken    Duration `koanf:"first_token"`
	Shutdown      Duration `koanf:"shutdown"`
}

// Telemetry is what the program says of itself.
type Telemetry struct {
	Log           string `koanf:"log"`
	MetricsPublic bool   `koanf:"metrics_public"`
}

// Default returns the settings that hold when nothing is said.
func Default() Config {
	return Config{
		Listen: "127.0.0.1:8080",
		Data:   "./data",
		Queue: Queue{
			MaxWaiting: 64, MaxWaitingPerKey: 16, MaxWait: hours(2), CommitAfter: Duration(500 * time.Millisecond), Heartbeat: seconds(10),
			Lease: seconds(15), OnDisconnect: "abort", AbortBound: seconds(15), PoisonGrace: seconds(60),
		},
		Usage: Usage{Retention: hours(90 * 24), MaxRows: 1_000_000},
		Limits: Limits{
			Body: 32 << 20, Event: 16 << 20, WriteTimeout: seconds(30), EngineHeaders: seconds(15 * 60), EngineIdle: seconds(15 * 60),
			FirstToken: seconds(30 * 60), Shutdown: seconds(5 * 60),
		},
		Telemetry: Telemetry{Log: "info"},
	}
}

func seconds(n int) Duration { return Duration(time.Duration(n) * time.Second) }
func hours(n int) Duration   { return Duration(time.Duration(n) * time.Hour) }

// A Duration is a time.Duration that also reads days, as in 90d.
type Duration time.Duration

// UnmarshalText reads Go's durations and whole days.
func (d *Duration) UnmarshalText(text []byte) error {
	s := string(text)
	if days, ok := strings.CutSuffix(s, "d"); ok {
		if n, err := strconv.Atoi(days); err == nil && n >= 0 && n < 100_000 {
			*d = hours(24 * n)
			return nil
		}
	}
	v, err := time.ParseDuration(s)
	if err != nil || v < 0 {
		return fmt.Errorf("%q is no duration; write it as in 500ms, 10s, 2h or 90d", s)
	}
	*d = Duration(v)
	return nil
}

// MarshalText is the inverse of UnmarshalText.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// A Size is a number of bytes.
type Size int64

// UnmarshalText reads a number of bytes with an optional unit.
func (z *Size) UnmarshalText(text []byte) error {
	s, unit := string(text), int64(1)
	for _, u := range []struct {
		name string
		n    int64
	}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}} {
		if rest, ok := strings.CutSuffix(s, u.name); ok {
			s, unit = strings.TrimSpace(rest), u.n
		}
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 1 || n > (1<<40)/unit {
		return fmt.Errorf("%q is no size; write it as in 1048576, 512KiB or 32MiB", text)
	}
	*z = Size(n * unit)
	return nil
}

// MarshalText is the inverse of UnmarshalText.
func (z Size) MarshalText() ([]byte, error) { return []byte(strconv.FormatInt(int64(z), 10)), nil }
