package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"oneslot/api"
	"oneslot/api/metrics"
	"oneslot/configs"
	"oneslot/internal/telemetry"
	"oneslot/ledger"
	"oneslot/proxy"
	"oneslot/proxy/engine"
	"oneslot/queue"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

func serveCommand(w *world) *cobra.Command {
	c := &cobra.Command{
		Use: "serve", Short: "Run the proxy", Args: noArgs,
		Example: "  oneslot serve --engine http://127.0.0.1:30000",
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, err := settings(c, w)
			if err != nil {
				return err
			}
			return serve(c.Context(), cfg, w)
		},
	}
	settingFlags(c.Flags())
	return c
}

// program is the parts of a running proxy, in the order in which they are built:
// from the engine outwards. They are stopped from the caller inwards.
type program struct {
	cfg     configs.Config
	log     *zap.Logger
	listen  net.Listener
	redis   redis.UniversalClient // nil: none is configured
	ledger  *ledger.Ledger
	metrics *metrics.Metrics
	traces  *telemetry.Telemetry
	engines []*engine.Engine
	pools   []*api.Pool
	server  *api.Server
	closers []func() error // what is left to close, in order of building
}

// serve runs the proxy until ctx ends, then stops it in order.
func serve(ctx context.Context, cfg configs.Config, w *world) error {
	p := &program{cfg: cfg, log: newLogger(cfg.Telemetry.Log, w.errs)}
	defer p.closeAll()
	if err := p.build(ctx, w); err != nil {
		return err
	}
	failed := make(chan error, 1) // buffered: Serve may end after nobody listens any more
	go func() { failed <- p.server.Serve(p.listen) }()
	p.log.Info("listening", zap.String("base_url", "http://"+reachable(p.listen.Addr().String())+"/v1"), zap.String("version", versionText()),
		zap.Int("engines", len(p.engines)), zap.Bool("redis", len(cfg.Redis) > 0), zap.Int("keys", len(cfg.Keys)))
	if cfg.InsecureNoAuth && len(cfg.Keys) == 0 {
		p.log.Warn("anybody who reaches this address may use the engine: no keys are configured")
	}
	ctx, cancel := context.WithCancel(ctx)
	var greeting sync.WaitGroup
	defer greeting.Wait()
	defer cancel()
	greeting.Go(func() { p.greet(ctx) })
	select {
	case err := <-failed:
		return fmt.Errorf("the server failed: %w", err)
	case <-ctx.Done():
	}
	return errors.Join(p.stop(), <-failed)
}

// build makes the parts. What it has built is in closers, also when it fails.
func (p *program) build(ctx context.Context, w *world) error {
	l, err := w.listen("tcp", p.cfg.Listen)
	if err != nil {
		return listenFault(p.cfg.Listen, err)
	}
	p.listen = l
	p.closers = append(p.closers, func() error { return ignoreClosed(l.Close()) })
	if err := p.connect(ctx); err != nil {
		return err
	}
	if err := p.book(ctx); err != nil {
		return err
	}
	p.metrics = metrics.New(p.ledger.Err)
	if err := p.trace(ctx, w); err != nil {
		return err
	}
	targets, err := p.targets(w)
	if err != nil {
		return err
	}
	runner := proxy.New(targets, p.cfg.ProxyConfig())
	p.closers = append(p.closers, func() error { runner.Close(); return nil })
	if err := p.lines(runner); err != nil {
		return err
	}
	p.server, err = p.edge(runner)
	return err
}

// stop ends the program: newcomers and those who wait are told, what runs goes
// on within the limit, then it is cut off with an error and its engine aborted.
func (p *program) stop() error {
	p.log.Info("stopping", zap.Duration("limit", time.Duration(p.cfg.Limits.Shutdown)))
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(p.cfg.Limits.Shutdown))
	defer cancel()
	p.server.Drain()
	var faults []error
	for _, pool := range p.pools {
		faults = append(faults, pool.Queue.Close(ctx))
	}
	// The answers are complete by now; their handlers need a moment to return.
	last, done := context.WithTimeout(context.Background(), lastMoment)
	defer done()
	return errors.Join(append(faults, p.server.Shutdown(last))...)
}

// lastMoment is what handlers have to return after the lines were closed.
const lastMoment = 5 * time.Second

// closeAll closes what build has opened, the last first.
func (p *program) closeAll() {
	for i := len(p.closers) - 1; i >= 0; i-- {
		if err := p.closers[i](); err != nil {
			p.log.Error("closing", zap.Error(err))
		}
	}
	for _, e := range p.engines {
		e.Close()
	}
	// Standard error cannot always be synced, and that is no fault.
	_ = p.log.Sync()
}

// greet says early whether the engines answer; the proxy runs either way.
func (p *program) greet(ctx context.Context) {
	var all sync.WaitGroup
	for i, e := range p.engines {
		all.Go(func() { p.meet(ctx, e, redact(p.cfg.Engines[i].URL)) })
	}
	all.Wait()
}

// meet asks one engine what it is.
func (p *program) meet(ctx context.Context, e *engine.Engine, url string) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	info, err := e.Info(ctx)
	switch {
	case errors.Is(err, context.Canceled):
	case err != nil:
		p.log.Warn("the engine does not answer: a request that finds it gone gets 503 engine_down, those behind it wait until it is back", zap.String("engine", e.Name()), zap.String("url", url), zap.Error(err))
	default:
		p.log.Info("engine", zap.String("engine", e.Name()), zap.String("dialect", info.Dialect.Name), zap.String("version", info.Version),
			zap.Strings("models", info.Models), zap.Int("context", info.ContextLength), zap.Bool("cache_off", info.Cache.Off))
	}
}

func newLogger(level string, w io.Writer) *zap.Logger {
	var at zapcore.Level
	if err := at.UnmarshalText([]byte(level)); err != nil {
		at = zapcore.InfoLevel
	}
	enc := zap.NewProductionEncoderConfig()
	enc.EncodeTime = zapcore.ISO8601TimeEncoder
	enc.EncodeDuration = zapcore.SecondsDurationEncoder
	return zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(enc), zapcore.Lock(zapcore.AddSync(w)), at))
}

func listenFault(address string, err error) error {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("%s is in use by another program: stop that one, or choose another address with --listen", address)
	case errors.Is(err, os.ErrPermission):
		return fmt.Errorf("listening on %s is not permitted: choose a port above 1023 with --listen", address)
	default:
		return fmt.Errorf("cannot listen on %s: %w", address, err)
	}
}

func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// reachable turns an address that stands for every interface into one to call.
func reachable(address string) string {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return address
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port)
}

// redact takes a password out of a URL.
func redact(url string) string {
	if at := strings.LastIndexByte(url, '@'); at >= 0 {
		if scheme, _, ok := strings.Cut(url, "://"); ok {
			return scheme + "://…" + url[at:]
		}
	}
	return url
}

var _ queue.Settler = (*settler)(nil)
