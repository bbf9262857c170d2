package configs

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"

	"oneslot/api"
	"oneslot/queue"
	"oneslot/reasoning"

	"github.com/knadh/koanf/parsers/yaml"
)

//go:embed formats.yaml
var shipped []byte

//go:embed oneslot.example.yaml
var example []byte

// Example returns the commented file that users copy.
func Example() []byte { return bytes.Clone(example) }

// defaultFormat is what an engine without a format gets.
const defaultFormat = "ripple"

// complete fills in what follows from the rest.
func (c *Config) complete() {
	for i := range c.Engines {
		e := &c.Engines[i]
		if e.Name == "" {
			e.Name = "engine"
			if i > 0 {
				e.Name = fmt.Sprintf("engine-%d", i+1)
			}
		}
		if e.Format == "" {
			e.Format = defaultFormat
		}
		if e.Slots == 0 {
			e.Slots = 1
		}
	}
}

// validate returns every fault of a complete Config.
func (c *Config) validate() error {
	faults := []error{c.validateListen(), c.validateRedis()}
	if len(c.Engines) == 0 {
		faults = append(faults, errors.New("engines: none is named; give one with --engine http://HOST:PORT or in the file"))
	}
	formats, err := c.FormatRows()
	faults = append(faults, err)
	names := map[string]bool{}
	for i, e := range c.Engines {
		at := fmt.Sprintf("engines[%d]", i)
		if err := e.config(c).Validate(); err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", at, err))
		}
		if names[e.Name] {
			faults = append(faults, fmt.Errorf("%s.name: %q is taken by another engine", at, e.Name))
		}
		names[e.Name] = true
		if e.Slots != 1 {
			faults = append(faults, fmt.Errorf("%s.slots: %d: an engine has one slot here; name the engine twice for two", at, e.Slots))
		}
		if _, ok := formats[e.Format]; !ok && err == nil {
			faults = append(faults, fmt.Errorf("%s.format: no format is named %q; the formats are %s", at, e.Format, nameList(formats)))
		}
	}
	_, err = c.APIKeys()
	faults = append(faults, err, c.validateRest())
	return errors.Join(faults...)
}

func (c *Config) validateListen() error {
	host, port, err := net.SplitHostPort(c.Listen)
	switch {
	case err != nil || port == "":
		return fmt.Errorf("listen: %q is no address; write host:port, such as 127.0.0.1:8080", c.Listen)
	case len(c.Keys) == 0 && !c.InsecureNoAuth && !loopback(host):
		return fmt.Errorf("listen: %s can be reached from other machines, and no keys are configured: add keys, or say --insecure-no-auth", c.Listen)
	}
	return nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// validateRedis refuses a Redis that anybody on the network could change.
func (c *Config) validateRedis() error {
	var faults []error
	for _, address := range c.Redis {
		u, err := url.Parse(address)
		if err != nil || !slices.Contains([]string{"redis", "rediss"}, u.Scheme) || u.Host == "" {
			faults = append(faults, errors.New("redis: an address must be a URL that begins with redis:// or rediss://"))
			continue
		}
		if _, password := u.User.Password(); !password && !loopback(u.Hostname()) && !c.RedisInsecure {
			faults = append(faults, fmt.Errorf("redis: %s has no password and is not on this machine, so anybody there could take the slot: put a password into the URL, or say redis_insecure: true", u.Hostname()))
		}
	}
	return errors.Join(faults...)
}

func (c *Config) validateRest() error {
	var faults []error
	if c.Queue.OnDisconnect != "abort" && c.Queue.OnDisconnect != "drain" {
		faults = append(faults, fmt.Errorf("queue.on_disconnect: %q is neither abort nor drain", c.Queue.OnDisconnect))
	}
	if !slices.Contains([]string{"debug", "info", "warn", "error"}, c.Telemetry.Log) {
		faults = append(faults, fmt.Errorf("telemetry.log: %q is none of debug, info, warn, error", c.Telemetry.Log))
	}
	if c.Data == "" {
		faults = append(faults, errors.New("data: is empty; name a folder for the ledger"))
	}
	if len(c.Engines) > 0 {
		if err := c.QueueConfig([]string{"slot"}).Validate(); err != nil {
			faults = append(faults, err)
		}
	}
	for alias, name := range c.Models {
		if !slices.ContainsFunc(c.Engines, func(e Engine) bool { return e.Model == name || e.Model == "" }) {
			faults = append(faults, fmt.Errorf("models: %q stands for %q, which is no engine's model", alias, name))
		}
	}
	return errors.Join(faults...)
}

// FormatRows returns the formats by name: the shipped ones, then the user's.
func (c *Config) FormatRows() (map[string]reasoning.Format, error) {
	all := map[string]reasoning.Format{}
	raw, err := yaml.Parser().Unmarshal(shipped)
	if err != nil {
		return nil, fmt.Errorf("the shipped formats: %w", err)
	}
	own := make([]any, len(c.Formats))
	for i, row := range c.Formats {
		own[i] = row
	}
	var faults []error
	for _, list := range []any{raw["formats"], own} {
		var rows []reasoning.Format
		if err := strict(list, &rows); err != nil {
			faults = append(faults, fmt.Errorf("formats: %w", err))
			continue
		}
		for _, f := range rows {
			if err := f.Validate(); err != nil {
				faults = append(faults, fmt.Errorf("formats: %w", err))
			}
			all[f.Name] = f
		}
	}
	return all, errors.Join(faults...)
}

// strict decodes by way of JSON, whose decoder refuses unknown fields.
func strict(from, to any) error {
	text, err := json.Marshal(from)
	if err != nil {
		return err
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	return dec.Decode(to)
}

func nameList(m map[string]reasoning.Format) string {
	var names []string
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// APIKeys returns the keys as the edge wants them.
func (c *Config) APIKeys() ([]api.Key, error) {
	var out []api.Key
	var faults []error
	for i, k := range c.Keys {
		key := api.Key{Name: k.Name, SHA256: k.SHA256, Admin: k.Admin, MaxClass: queue.Interactive}
		var err error
		if key.Class, err = queue.ParseClass(k.Class); err != nil {
			faults = append(faults, fmt.Errorf("keys[%d].class: %w", i, err))
		}
		if k.MaxClass != "" {
			if key.MaxClass, err = queue.ParseClass(k.MaxClass); err != nil {
				faults = append(faults, fmt.Errorf("keys[%d].max_class: %w", i, err))
			}
		}
		if err := key.Validate(); err != nil {
			faults = append(faults, fmt.Errorf("keys[%d]: %w", i, err))
		}
		out = append(out, key)
	}
	return out, errors.Join(faults...)
}
