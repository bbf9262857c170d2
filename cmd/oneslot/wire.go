package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"oneslot/api"
	"oneslot/api/metrics"
	"oneslot/configs"
	"oneslot/internal/telemetry"
	"oneslot/internal/tokenizer"
	"oneslot/ledger"
	shared "oneslot/ledger/redis"
	"oneslot/ledger/sqlite"
	"oneslot/proxy"
	"oneslot/proxy/engine"
	"oneslot/queue"
	"oneslot/queue/address"
	"oneslot/usage"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"
)

// targets makes the engines and what reads their output.
func (p *program) targets(w *world) ([]proxy.Target, error) {
	formats, err := p.cfg.FormatRows()
	if err != nil {
		return nil, err
	}
	var targets []proxy.Target
	for i, cfg := range p.cfg.EngineConfigs() {
		cfg.Dial = w.dial
		e, err := engine.New(cfg)
		if err != nil {
			return nil, fmt.Errorf("engines[%d]: %w", i, err)
		}
		p.engines = append(p.engines, e)
		counter, err := p.counter(p.cfg.Engines[i].TokenizerPath())
		if err != nil {
			return nil, fmt.Errorf("engines[%d].tokenizer: %w", i, err)
		}
		format, other := p.cfg.Engines[i].FormatOf(formats)
		targets = append(targets, proxy.Target{Engine: e, Format: format, Else: other, Counter: counter})
	}
	return targets, nil
}

// counter loads a tokenizer. A build that has none says so once and counts
// through the engine.
func (p *program) counter(path string) (usage.Counter, error) {
	if path == "" {
		return nil, nil
	}
	t, err := tokenizer.New(path)
	if errors.Is(err, tokenizer.ErrNotBuilt) {
		p.log.Warn("this build has no tokenizer of its own, so tokens are counted through the engine; build with `make build` and cargo installed to count with tokenizer.json")
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	p.closers = append(p.closers, t.Close)
	return t, nil
}

// tried is what comes, by key, of using what the settings name on this machine.
func tried(cfg configs.Config) map[string]error {
	out := map[string]error{}
	for i, e := range cfg.Engines {
		if e.Tokenizer == "" {
			continue
		}
		t, err := tokenizer.New(e.TokenizerPath())
		if err == nil {
			err = t.Close()
		}
		if err != nil && !errors.Is(err, tokenizer.ErrNotBuilt) {
			out[fmt.Sprintf("engines[%d].tokenizer", i)] = err
		}
	}
	if cfg.Data != "" && (len(cfg.Redis) == 0 || cfg.Responses.Store == "data") {
		if err := sqlite.Usable(cfg.Data); err != nil {
			out["data"] = err
		}
	}
	return out
}

// lines makes one line for each model, with the slots of its engines.
func (p *program) lines(runner *proxy.Proxy) error {
	byModel := map[string]*api.Pool{}
	var models []string // of the pools
	for i, e := range p.engines {
		name := p.cfg.Engines[i].Model
		if byModel[name] == nil {
			byModel[name] = &api.Pool{}
			p.pools, models = append(p.pools, byModel[name]), append(models, name)
		}
		byModel[name].Engines = append(byModel[name].Engines, e)
	}
	for i, pool := range p.pools {
		cfg := p.cfg.QueueConfig(pool.Slots())
		cfg.Name = lineName(models[i])
		store, err := p.store(cfg)
		if err != nil {
			return err
		}
		if pool.Queue, err = queue.New(store, &settler{proxy: runner, poisoned: p.metrics.Poisoned}, cfg); err != nil {
			return err
		}
		q := pool.Queue
		p.closers = append(p.closers, func() error {
			ctx, cancel := context.WithTimeout(context.Background(), lastMoment)
			defer cancel()
			return q.Close(ctx)
		})
	}
	return nil
}

// settler tells the queue of engines in the queue's words, and counts the slots
// that could not be made idle.
type settler struct {
	proxy    *proxy.Proxy
	poisoned func(slot string)
	bad      sync.Map // of slot to whether it was counted
}

// Settle is proxy.Settle.
func (s *settler) Settle(ctx context.Context, slot string) error {
	err := s.proxy.Settle(ctx, slot)
	switch {
	case err == nil:
		s.bad.Delete(slot)
	case errors.Is(err, engine.ErrUnreachable):
		return fmt.Errorf("%w: %w", queue.ErrDown, err)
	case errors.Is(err, context.Canceled): // nobody wants to know any more
	default:
		if _, counted := s.bad.LoadOrStore(slot, true); !counted {
			s.poisoned(slot)
		}
	}
	return err
}

// trace begins to send telemetry, if a collector is configured.
func (p *program) trace(ctx context.Context, w *world) (err error) {
	servers := map[string]string{}
	for _, e := range p.cfg.EngineConfigs() {
		servers[e.Name] = e.URL
	}
	p.traces, err = telemetry.New(ctx, telemetry.Config{
		Endpoint: p.cfg.Telemetry.OTLP, Version: versionText(), Servers: servers, Gatherer: p.metrics.Gatherer(), Dial: w.dial,
		Warn: func(err error) {
			p.log.Warn("telemetry cannot be sent; requests are served all the same", zap.Error(err))
		},
	})
	p.closers = append(p.closers, func() error {
		ctx, cancel := context.WithTimeout(context.Background(), lastMoment)
		defer cancel()
		return p.traces.Close(ctx)
	})
	return err
}

// edge makes the HTTP side.
func (p *program) edge(runner *proxy.Proxy) (*api.Server, error) {
	var lines []metrics.Line
	for _, pool := range p.pools {
		lines = append(lines, pool.Queue)
	}
	p.metrics.Watch(lines...)
	return api.New(api.Deps{
		Pools: p.pools, Proxy: runner, Ledger: p.ledger, Metrics: p.metrics, Telemetry: p.traces, Log: p.log.WithOptions(zap.WithCaller(false)), Started: time.Now(),
	}, p.cfg.APIConfig())
}

// store makes what keeps a line: this process, or the Redis.
func (p *program) store(cfg queue.Config) (queue.Store, error) {
	if p.redis == nil {
		return queue.NewMemory(cfg)
	}
	return queue.NewRedis(p.redis, cfg)
}

// connect makes the client of the Redis, if one is configured. It must answer
// now, since a proxy that cannot join its line would refuse everybody.
func (p *program) connect(ctx context.Context) error {
	if len(p.cfg.Redis) == 0 {
		return nil
	}
	options, err := address.Parse(p.cfg.Redis...)
	if err != nil {
		return fmt.Errorf("%w: redis: %w", configs.ErrConfig, err)
	}
	redis.SetLogger(mute{}) // it writes to standard error, in no format
	p.redis = redis.NewUniversalClient(options)
	p.closers = append(p.closers, p.redis.Close)
	ctx, cancel := context.WithTimeout(ctx, lastMoment)
	defer cancel()
	if err := p.redis.Ping(ctx).Err(); err != nil {
		return fmt.Errorf("the Redis at %s does not answer: %w: start it, or correct --redis", strings.Join(options.Addrs, ", "), err)
	}
	return nil
}

// book opens the ledger: in the Redis if there is one, else in the data folder.
func (p *program) book(ctx context.Context) (err error) {
	cfg := p.cfg.LedgerConfig()
	cfg.Lost = p.lost
	if p.redis == nil {
		p.ledger, err = sqlite.Open(ctx, cfg)
	} else {
		p.ledger, err = shared.Open(ctx, p.redis, shared.Config{Ledger: cfg})
	}
	if err == nil {
		p.closers = append(p.closers, p.ledger.Close)
	}
	return err
}

// lost gives a request its line in the log whose process died before it could.
func (p *program) lost(r ledger.Row) {
	p.log.Warn("request", append(api.LogFields(&r), zap.String("reason", r.Reason), zap.Time("created", r.Created), zap.String("error", "the process that had the request has died"))...)
}

// lineName makes a model's name fit for a line in Redis.
func lineName(model string) string {
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune("{}:; \t\r\n", r) {
			return '-'
		}
		return r
	}, model)
}

// mute is a logger for go-redis: what it would say the queue returns as errors.
type mute struct{}

func (mute) Printf(context.Context, string, ...any) {}
