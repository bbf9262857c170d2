package probe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"

	"oneslot/internal/openai"
	"oneslot/proxy/engine"
	"oneslot/proxy/probe/markers"
	"oneslot/reasoning"

	"github.com/tidwall/gjson"
)

// ErrRefused is returned, wrapped, when the engine answers nobody without a key,
// or not with this one.
var ErrRefused = errors.New("the engine wants another API key")

const (
	defaultTime = 5 * time.Minute
	defaultRaw  = 256 // tokens
)

// Config says which engine is asked, and how much.
type Config struct {
	// URL is the engine's base URL, http or https, with or without /v1.
	URL string
	// APIKey is sent as a bearer token. Zero means none.
	APIKey string
	// Rows are the known formats. Zero means that markers are only reported as
	// they are seen.
	Rows []reasoning.Format
	// BusyOK sends test requests also to an engine that is busy, or does not tell.
	// The one that is long enough to be aborted is kept from a busy engine even so.
	BusyOK bool
	// Time bounds all of it. Zero means 5 minutes.
	Time time.Duration
	// RawTokens is the most tokens of the requests that show markers. Zero means 256.
	RawTokens int
	// Tell is told of each test request before it is sent. Zero means nobody is.
	Tell func(what string)
	// Dial makes the connections. Zero means TCP.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

func (c *Config) engine() engine.Config {
	return engine.Config{Name: "engine", URL: c.URL, APIKey: c.APIKey, Dial: c.Dial}
}

// Validate reports every fault of the configuration at once.
func (c *Config) Validate() error {
	faults := []error{c.engine().Validate()}
	if c.Time < 0 {
		faults = append(faults, errors.New("the time must be positive"))
	}
	if c.RawTokens < 0 {
		faults = append(faults, errors.New("the number of raw tokens must be positive"))
	}
	return errors.Join(faults...)
}

// prober is one run of the probe.
type prober struct {
	cfg    Config
	engine *engine.Engine
	calls  *caller
	info   engine.Info
	model  string // as the engine knows it
	report *Report

	asked    bool          // a test request was sent
	settings gjson.Result  // what the engine tells of itself; does not exist if nothing
	paper    answer        // and where
	sight    markers.Sight // what was seen of its markers
	verdict  markers.Verdict
	prompt   string // what the engine makes of the test question; empty: not known
	plain    *reply // to the test question; nil: not asked
	raw      *reply // the same with markers left in; nil: not asked, or there is no way
}

// Run asks the engine everything. The error wraps engine.ErrUnreachable,
// ErrRefused or the context's, or says what is wrong with cfg; what the engine
// cannot do is no error.
func Run(ctx context.Context, cfg Config) (*Report, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Time == 0 {
		cfg.Time = defaultTime
	}
	if cfg.RawTokens == 0 {
		cfg.RawTokens = defaultRaw
	}
	e, err := engine.New(cfg.engine())
	if err != nil {
		return nil, err
	}
	defer e.Close()
	p := &prober{cfg: cfg, engine: e, calls: newCaller(&cfg), report: &Report{Engine: redacted(cfg.URL)}}
	bound, cancel := context.WithTimeout(ctx, cfg.Time)
	defer cancel()
	if err := p.meet(bound); err != nil {
		return nil, err
	}
	p.steps(bound)
	return p.report, context.Cause(ctx)
}

// redacted is an address without its password. It has been checked before.
func redacted(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Redacted()
}

// meet finds out whether somebody is there, and who.
func (p *prober) meet(ctx context.Context) error {
	info, err := p.engine.Info(ctx)
	if err != nil {
		return err
	}
	list := p.calls.get(ctx, "/v1/models")
	if list.status == http.StatusUnauthorized || list.status == http.StatusForbidden {
		return fmt.Errorf("%w: %s at %s answered %d", ErrRefused, list.call, p.report.Engine, list.status)
	}
	p.info, p.model = info, p.engine.UpstreamModel(info)
	p.report.dialect = info.Dialect.Name
	if len(info.Models) > 0 {
		p.report.model = info.Models[0]
	}
	p.identity(ctx, list)
	return nil
}

// steps asks everything else: first what only reads, then what the model must
// answer.
func (p *prober) steps(ctx context.Context) {
	p.facts()
	p.load(ctx)
	p.tokenizer(ctx)
	p.templates(ctx)
	p.parserSplits(ctx)
	p.plainReply(ctx)
	p.rawReply(ctx)
	p.judge()
	p.markerTokens(ctx)
	p.special(ctx)
	p.tools(ctx)
	p.cache(ctx)
	p.continuous()
	p.prefill(ctx)
	p.abort(ctx)
	p.conclude()
}

// said is a finding without its name and evidence.
type said struct {
	state         State
	value, detail string
}

func found(value, detail string) said { return said{Found, value, detail} }
func absent(detail string) said       { return said{Absent, "", detail} }
func unknown(detail string) said      { return said{Unknown, "", detail} }
func skipped(why string) said         { return said{Skipped, "", why} }

// add puts a finding into the report.
func (p *prober) add(name string, s said, evidence ...Evidence) {
	p.report.add(Finding{Name: name, State: s.state, Value: s.value, Detail: s.detail, Evidence: evidence})
}

// messages is the member of that name.
func messages(list ...string) openai.Member {
	raw := "["
	for i, m := range list {
		if i > 0 {
			raw += ","
		}
		raw += m
	}
	return openai.Member{Key: "messages", Raw: raw + "]"}
}

// user and assistant are messages.
func user(text string) string { return `{"role":"user","content":` + openai.String(text) + `}` }

// assistant leaves thinking out if it is empty, or if field is.
func assistant(text, field, thinking string) string {
	raw := `{"role":"assistant","content":` + openai.String(text)
	if field != "" && thinking != "" {
		raw += `,` + openai.String(field) + `:` + openai.String(thinking)
	}
	return raw + `}`
}
