package configs

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"oneslot/api"
	"oneslot/internal/openai"
	"oneslot/internal/telemetry"
	"oneslot/queue"
	"oneslot/queue/address"
)

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
		if e.Dialect == "" {
			e.Dialect = "auto"
		}
		if e.Format == "" {
			e.Format = autoFormat
		}
		if e.Slots == 0 {
			e.Slots = 1
		}
		if e.SoleClient == nil {
			yes := true
			e.SoleClient = &yes
		}
	}
}

// Check is Load, and reports with the faults those that try finds, which puts the
// settings to use: by key, what came of it.
func Check(src Sources, try func(Config) map[string]error) (Config, error) {
	l := load(src)
	if src.File == "" || l.file != nil {
		tried := try(l.cfg)
		for _, key := range slices.Sorted(maps.Keys(tried)) {
			l.faults = append(l.faults, wrong(key, "%w", tried[key]))
		}
	}
	return l.cfg, l.err()
}

// validate returns every fault of a complete Config, one a line.
func (c *Config) validate() error {
	_, keys := c.APIKeys()
	faults := []error{c.validateEngines(), c.validateListen(), c.validateOrigins(), c.validateRedis(), c.validateModels(), c.validateTelemetry(), keys}
	if c.Limits.Bodies < c.Limits.Body {
		faults = append(faults, wrong("limits.bodies", "is less than limits.body, so that no request could be as large as one may be"))
	}
	if c.Data == "" {
		faults = append(faults, wrong("data", "is empty; name a folder for the ledger"))
	}
	for _, err := range each(c.QueueConfig([]string{"slot"}).Validate()) {
		faults = append(faults, fault{"queue", err})
	}
	return errors.Join(faults...)
}

func (c *Config) validateEngines() error {
	if len(c.Engines) == 0 {
		return wrong("engines", "none is named; give one with --engine http://HOST:PORT or in the file")
	}
	formats, err := c.FormatRows()
	faults := []error{err}
	names := map[string]bool{}
	for i, e := range c.Engines {
		at := fmt.Sprintf("engines[%d].", i)
		faults = append(faults, e.validate(c, at))
		if names[e.Name] {
			faults = append(faults, wrong(at+"name", "%q is taken by another engine", e.Name))
		}
		names[e.Name] = true
		if e.Model == "" && len(c.Engines) > 1 {
			// Without it nobody could tell whose line a request belongs to.
			faults = append(faults, wrong(at+"model", "is missing; with more than one engine each must name its model, and engines of one name share a line"))
		}
		if e.Slots > 1 && strings.Contains(e.Name, "#") {
			faults = append(faults, wrong(at+"name", "%q holds a #, by which the slots of an engine are told apart", e.Name))
		}
		if _, ok := formats[e.Format]; !ok && e.Format != autoFormat {
			faults = append(faults, wrong(at+"format", "no format is named %q; there are %s", e.Format, nameList(formats)))
		}
	}
	return errors.Join(faults...)
}

// validate has the engine's part check itself. Its words repeat the URL, which
// they therefore get without its user and password.
func (e Engine) validate(c *Config, at string) error {
	cfg := e.config(c)
	if _, err := url.Parse(e.URL); err != nil {
		return wrong(at+"url", "cannot be read; write it as http://HOST:PORT")
	}
	cfg.URL = hideUser(e.URL)
	var faults []error
	for _, err := range each(cfg.Validate()) { // all is of the URL: the reader lets no wrong dialect through
		faults = append(faults, fault{at + "url", fmt.Errorf("%s%w", at, err)})
	}
	return errors.Join(faults...)
}

func (c *Config) validateListen() error {
	host, port, err := net.SplitHostPort(c.Listen)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	switch {
	case err != nil:
		return wrong("listen", "%q is no address; write host:port, such as 127.0.0.1:8080", c.Listen)
	case len(c.Keys) == 0 && !c.InsecureNoAuth && !loopback(host):
		return wrong("listen", "%s can be reached from other machines, and no keys are configured: add keys, or say --insecure-no-auth", c.Listen)
	}
	return nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return strings.EqualFold(strings.TrimSuffix(host, "."), "localhost") || ip != nil && ip.IsLoopback()
}

// validateOrigins finds what could never match.
func (c *Config) validateOrigins() error {
	var faults []error
	for i, origin := range c.CORSOrigins {
		u, err := url.Parse(origin)
		if origin != "*" && (err != nil || u.Host == "" || origin != u.Scheme+"://"+u.Host) {
			faults = append(faults, wrong(fmt.Sprintf("cors_origins[%d]", i), "%q is no origin; write scheme://host or scheme://host:port, without a slash at the end, or *", hideUser(origin)))
		}
	}
	for i, host := range c.Hosts {
		if host == "" || strings.ContainsAny(host, ":/@* ") {
			faults = append(faults, wrong(fmt.Sprintf("hosts[%d]", i), "%q is no name; write it without scheme and port, such as llm.example.com", hideUser(host)))
		}
	}
	return errors.Join(faults...)
}

// validateRedis refuses a Redis that anybody on the network could change.
func (c *Config) validateRedis() error {
	if len(c.Redis) == 0 {
		return nil
	}
	if c.Queue.ShareBy == "user" && len(c.Keys) == 0 {
		// Proxies have nothing in common that hides names and is in no Redis.
		return wrong("queue.share_by", "user needs keys where the line is in redis, which holds a hash of users' names made with their key; add keys, or leave share_by at key")
	}
	options, err := address.Parse(c.Redis...)
	if err != nil {
		return wrong("redis", "%w", err)
	}
	open := address.Exposed(options)
	if len(open) == 0 || c.RedisInsecure {
		return nil
	}
	return wrong("redis", "%s is not on this machine, and the (first) address has no password, so anybody there could take the slot: put the password into the URL, as in redis://:PASSWORD@%s, or say redis_insecure: true", open[0], open[0])
}

func (c *Config) validateModels() error {
	var faults []error
	for alias, name := range c.Models {
		served := slices.ContainsFunc(c.Engines, func(e Engine) bool { return e.Model == name || e.Model == "" })
		if !served && len(c.Engines) > 0 {
			faults = append(faults, wrong("models."+alias, "%q is no engine's model", name))
		}
	}
	slices.SortFunc(faults, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(faults...)
}

func (c *Config) validateTelemetry() error {
	if err := (telemetry.Config{Endpoint: c.Telemetry.OTLP}).Validate(); err != nil {
		return wrong("telemetry.otlp", "%w", err)
	}
	return nil
}

// APIKeys returns the keys as the edge wants them. Two keys may have one name:
// they are one caller, who is changing his secret.
func (c *Config) APIKeys() ([]api.Key, error) {
	var out []api.Key
	var faults []error
	secrets := map[string]int{}
	for i, k := range c.Keys {
		at := fmt.Sprintf("keys[%d]", i)
		key := api.Key{Name: k.Name, SHA256: k.SHA256, Admin: k.Admin, MaxWaiting: k.MaxWaiting, MaxClass: queue.Interactive}
		// The reader has let none but the known words through.
		key.Class, _ = queue.ParseClass(k.Class)
		if k.ShareBy != "" {
			byUser := k.ShareBy == "user"
			key.ByUser = &byUser
		}
		if k.ReasoningField != "" {
			key.Field = new(openai.ReasoningField)
			_ = key.Field.UnmarshalText([]byte(k.ReasoningField))
		}
		if k.MaxClass != "" {
			key.MaxClass, _ = queue.ParseClass(k.MaxClass)
		}
		if err := key.Validate(); err != nil {
			faults = append(faults, wrong(at, "%w", err))
		}
		if rank := []string{"batch", "default", "interactive"}; k.MaxClass != "" && slices.Index(rank, k.Class) > slices.Index(rank, k.MaxClass) {
			faults = append(faults, wrong(at+".class", "%s is above max_class: %s", k.Class, k.MaxClass))
		}
		hash := strings.ToLower(k.SHA256)
		if other, taken := secrets[hash]; taken && hash != "" {
			faults = append(faults, wrong(at+".sha256", "is that of keys[%d] too", other))
		}
		secrets[hash] = i
		out = append(out, key)
	}
	return out, errors.Join(faults...)
}
