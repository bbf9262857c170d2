package configs

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"net"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"oneslot/api"
	"oneslot/api/intake"
	"oneslot/api/retry"
	"oneslot/ledger"
	"oneslot/proxy"
	"oneslot/proxy/budget"
	"oneslot/proxy/downstream"
	"oneslot/proxy/engine"
	"oneslot/proxy/surface/responses"
	"oneslot/queue"
	"oneslot/reasoning"

	"github.com/knadh/koanf/parsers/yaml"
)

// config is the engine's part.
func (e Engine) config(c *Config) engine.Config {
	return engine.Config{
		Name: e.Name, URL: e.URL, Model: e.Model, Dialect: e.Dialect, APIKey: e.APIKey, Slots: e.Slots,
		SoleClient: e.SoleClient == nil || *e.SoleClient, Headers: time.Duration(c.Limits.EngineHeaders),
	}
}

// EngineConfigs returns the parts of the engines, in order.
func (c *Config) EngineConfigs() []engine.Config {
	out := make([]engine.Config, len(c.Engines))
	for i, e := range c.Engines {
		out[i] = e.config(c)
	}
	return out
}

// QueueConfig returns the part of a line with the given slots.
func (c *Config) QueueConfig(slots []string) queue.Config {
	q := c.Queue
	return queue.Config{
		Slots: slots, MaxWaiting: q.MaxWaiting, MaxWaitingPerKey: q.MaxWaitingPerKey, MaxWait: time.Duration(q.MaxWait),
		StarvationAfter: time.Duration(q.StarvationAfter), Lease: time.Duration(q.Lease), AbortBound: time.Duration(q.AbortBound), PoisonGrace: time.Duration(q.PoisonGrace),
	}
}

// ProxyConfig returns the part of the proxy.
func (c *Config) ProxyConfig() proxy.Config {
	return proxy.Config{
		MaxEvent: int(c.Limits.Event), FirstToken: time.Duration(c.Limits.FirstToken), Idle: time.Duration(c.Limits.EngineIdle),
		AbortBound: time.Duration(c.Queue.AbortBound), Drain: c.Queue.OnDisconnect == "drain",
	}
}

// LedgerConfig returns the part of the ledger.
func (c *Config) LedgerConfig() ledger.Config {
	return ledger.Config{Dir: c.Data, Retention: time.Duration(c.Usage.Retention), MaxRows: c.Usage.MaxRows}
}

// Loopback reports whether only programs of this machine reach the listener.
func (c *Config) Loopback() bool {
	host, _, _ := net.SplitHostPort(c.Listen)
	return loopback(host)
}

// APIConfig returns the part of the edge, of settings that Load has checked.
func (c *Config) APIConfig() api.Config {
	keys, _ := c.APIKeys()
	out := api.Config{
		Keys: keys, Aliases: c.Models, AcceptAnyModel: c.AcceptAnyModel, CORSOrigins: c.CORSOrigins,
		Bodies:   intake.Config{Body: int64(c.Limits.Body), Total: int64(c.Limits.Bodies)},
		Loopback: c.Loopback(), Hosts: c.Hosts, MetricsPublic: c.Telemetry.MetricsPublic, Sources: c.Usage.Sources,
		Efforts: c.Reasoning.Effort.tokens(), AnswerReserve: c.Reasoning.AnswerReserve, SplitCompletions: c.Reasoning.Completions == "split",
		Responses:      responses.Config{On: c.Responses.Store != "off", Keep: c.Responses.Keep, MaxBytes: int64(c.Responses.MaxBytes), For: time.Duration(c.Responses.Retention)},
		RefuseHopeless: c.Queue.RefuseHopeless,
		ByUser:         c.Queue.ShareBy == "user",
		Retry:          retry.Config{Grace: time.Duration(c.Queue.DetachGrace)},
		Client: downstream.Config{
			CommitAfter: time.Duration(c.Queue.CommitAfter), Heartbeat: time.Duration(c.Queue.Heartbeat), Beat: c.Queue.HeartbeatMode,
			WriteTimeout: time.Duration(c.Limits.WriteTimeout),
		},
	}
	if c.Responses.Store == "data" {
		out.Responses.Dir = filepath.Join(c.Data, "responses")
	}
	// The reader has let none but the known words through.
	_ = out.Field.UnmarshalText([]byte(c.Reasoning.Field))
	return out
}

// tokens is the mapping by word.
func (e Effort) tokens() budget.Efforts {
	return budget.Efforts{"none": e.None, "minimal": e.Minimal, "low": e.Low, "medium": e.Medium, "high": e.High, "xhigh": e.XHigh, "max": e.Max}
}

// TokenizerPath returns where an engine's tokenizer.json is; empty means that
// the engine itself tokenizes. A folder means the file of that name in it.
func (e Engine) TokenizerPath() string {
	if e.Tokenizer == "" || filepath.Ext(e.Tokenizer) == ".json" {
		return e.Tokenizer
	}
	return filepath.Join(e.Tokenizer, "tokenizer.json")
}

//go:embed formats.yaml
var shipped []byte

//go:embed oneslot.example.yaml
var example []byte

// Example returns the commented file that users copy.
func Example() []byte { return bytes.Clone(example) }

// autoFormat is what an engine without a format has: the format of the first
// model if the engine's model bears its name, else the one that needs no
// knowledge of the template.
const (
	autoFormat  = "auto"
	namedFormat = "ripple"
	otherFormat = "think-model"
)

// FormatOf returns the format of an engine and, if it is to be chosen by the name
// of the engine's model, the one for all other names.
func (e Engine) FormatOf(rows map[string]reasoning.Format) (format reasoning.Format, other *reasoning.Format) {
	if e.Format != autoFormat {
		return rows[e.Format], nil
	}
	fallback := rows[otherFormat]
	return rows[namedFormat], &fallback
}

// shippedFormats reads the built-in rows.
func shippedFormats() ([]reasoning.Format, error) {
	raw, err := yaml.Parser().Unmarshal(shipped)
	if err != nil {
		return nil, fmt.Errorf("the shipped formats: %w", err)
	}
	var file struct {
		Formats []reasoning.Format `koanf:"formats"`
	}
	var r reader
	r.read(place{}, raw, reflect.ValueOf(&file).Elem())
	return file.Formats, errors.Join(r.faults...)
}

// FormatRows returns the formats by name: the shipped ones, then the user's.
func (c *Config) FormatRows() (map[string]reasoning.Format, error) {
	rows, err := shippedFormats()
	faults := []error{err}
	all, own := map[string]reasoning.Format{}, map[string]bool{}
	for _, f := range rows {
		faults = append(faults, f.Validate())
		all[f.Name] = f
	}
	for i, f := range c.Formats {
		at := fmt.Sprintf("formats[%d]", i)
		for _, err := range each(f.Validate()) {
			faults = append(faults, wrong(at, "%w", err))
		}
		if own[f.Name] {
			faults = append(faults, wrong(at+".name", "another row is named %q too", f.Name))
		}
		all[f.Name], own[f.Name] = f, true
	}
	return all, errors.Join(faults...)
}

func nameList(m map[string]reasoning.Format) string {
	return strings.Join(slices.Sorted(maps.Keys(m)), ", ")
}
