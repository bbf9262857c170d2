package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"oneslot/api/board"
	"oneslot/api/door"
	"oneslot/api/intake"
	"oneslot/api/metrics"
	"oneslot/api/parted"
	"oneslot/api/retry"
	"oneslot/api/slack"
	"oneslot/internal/openai"
	"oneslot/internal/telemetry"
	"oneslot/ledger"
	"oneslot/proxy"
	"oneslot/proxy/budget"
	"oneslot/proxy/downstream"
	"oneslot/proxy/engine"
	"oneslot/proxy/surface"
	"oneslot/proxy/surface/chat"
	"oneslot/proxy/surface/completions"
	"oneslot/proxy/surface/messages"
	"oneslot/proxy/surface/responses"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"
	"go.uber.org/zap"
)

// Config is what the edge may be told.
type Config struct {
	// Keys are the API keys. None means no authentication.
	Keys []Key
	// Aliases maps a model name that clients send to a configured one.
	Aliases map[string]string
	// AcceptAnyModel sends every unknown model name to the first pool.
	AcceptAnyModel bool
	// CORSOrigins are the browser origins that may call. None means no CORS.
	CORSOrigins []string
	// ByUser has those who share a key, or the proxy where there are none, share its
	// slot time by the user that their requests name.
	ByUser bool
	// Loopback says that only programs of this machine reach the listener. It is
	// then answered under names of this machine only, if there are no keys.
	Loopback bool
	// Hosts are further names under which it is answered then.
	Hosts []string
	// Bodies bounds those of requests.
	Bodies intake.Config
	// MetricsPublic opens /metrics to callers without an admin key.
	MetricsPublic bool
	// Efforts says what the words of reasoning_effort mean.
	Efforts budget.Efforts
	// AnswerReserve is how many of a request's max_tokens thinking leaves for the
	// answer. Zero means none.
	AnswerReserve int
	// Sources has every usage object name where its figures come from.
	Sources bool
	// RefuseHopeless refuses a request that is not streamed and whose client would
	// probably leave, by its own word, before its turn.
	RefuseHopeless bool
	// Retry bounds what is kept for clients that come back.
	Retry retry.Config
	// Client times the bytes to a waiting client.
	Client downstream.Config
	// SplitCompletions has thinking split from the text of /v1/completions too.
	// Zero means that all of it is answer.
	SplitCompletions bool
	// Responses says what is kept of answers to /v1/responses.
	Responses responses.Config
	// Field is where thinking goes unless a request says otherwise.
	Field openai.ReasoningField
}

// Deps is what the edge needs of the rest of the program.
type Deps struct {
	// Pools are the lines, at least one.
	Pools []*Pool
	// Proxy runs requests.
	Proxy *proxy.Proxy
	// Ledger keeps what they used.
	Ledger *ledger.Ledger
	// Metrics counts.
	Metrics *metrics.Metrics
	// Telemetry traces; nil does not.
	Telemetry *telemetry.Telemetry
	// Log gets one line a request.
	Log *zap.Logger
	// Started is when the program started.
	Started time.Time
}

// A Server is the HTTP edge. Create it with New.
type Server struct {
	Deps
	cfg       Config
	echo      *echo.Echo
	server    *http.Server
	door      *door.Door
	apis      map[string]surface.API // by route
	board     *board.Board
	retries   *retry.Book
	bodies    *intake.Room
	slack     *slack.Gauge   // of the memory that requests take
	apart     parted.Crowd   // those who have left the server
	responses *responses.API // may keep what it has answered
	salt      []byte         // of users' names, for callers without a key
	// unwritten, unkept: the ledger, the folder of kept responses, was last seen failing.
	draining, unwritten, unkept atomic.Bool
}

// New returns a Server for the given parts.
func New(deps Deps, cfg Config) (*Server, error) {
	var faults []error
	for i := range cfg.Keys {
		if err := cfg.Keys[i].Validate(); err != nil {
			faults = append(faults, fmt.Errorf("keys[%d]: %w", i, err))
		}
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	cfg.Client.WriteTimeout = cmp.Or(cfg.Client.WriteTimeout, 30*time.Second)
	cfg.Client.Lag, cfg.Client.Rounds = time.Millisecond, &downstream.Rounds{}
	cfg.Client.Problem, cfg.Client.Buffers, cfg.Retry.Final = problem, &downstream.Buffers{}, final
	kept, err := responses.New(cfg.Responses)
	if err != nil {
		return nil, err
	}
	s := &Server{Deps: deps, cfg: cfg, echo: echo.New(), retries: retry.New(cfg.Retry), bodies: intake.New(cfg.Bodies), apis: map[string]surface.API{}, responses: kept, slack: slack.New(nil), salt: newSalt()}
	deps.Metrics.Kept(kept.Err)
	deps.Metrics.Bodies(s.bodies.Held)
	s.echo.HideBanner, s.echo.HidePort, s.echo.IPExtractor = true, true, echo.ExtractIPDirect()
	s.echo.HTTPErrorHandler = func(err error, c echo.Context) {
		if !c.Response().Committed {
			s.refuse(c, err)
		}
	}
	s.board = s.newBoard()
	for _, p := range deps.Pools {
		p.Queue.Claims().Answer(s.retries.Asked)
	}
	s.routes()
	s.server = &http.Server{
		Handler:           s.echo,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          zap.NewStdLog(deps.Log),
	}
	s.door = door.New(s.server, s.unread)
	return s, nil
}

// routes is the whole table. Paths that clients are commonly misconfigured for
// answer too; a slash at the end does not matter.
func (s *Server) routes() {
	s.echo.Pre(middleware.RemoveTrailingSlash())
	s.echo.Use(s.access, s.recover)
	if len(s.cfg.CORSOrigins) > 0 {
		s.echo.Use(s.cors())
	}
	s.echo.Use(s.guard)
	get := []string{http.MethodGet, http.MethodHead}
	open := func(path string, h echo.HandlerFunc) { s.echo.Match(get, path, h, s.bounded) }
	keyed := func(methods []string, h echo.HandlerFunc, paths ...string) {
		for _, path := range paths {
			s.echo.Match(methods, path, h, s.auth, s.bounded)
		}
	}
	open("/healthz", s.health)
	open("/readyz", s.ready)
	open("/openapi.yaml", s.describe)
	queued := func(a surface.API, path string) {
		for _, base := range []string{"/v1", ""} {
			s.apis[base+path] = a
			s.echo.POST(base+path, s.answer(a), s.auth)
		}
	}
	queued(chat.API{}, "/chat/completions")
	queued(completions.API{Split: s.cfg.SplitCompletions}, "/completions")
	queued(messages.API{}, "/messages")
	for _, base := range []string{"/v1", ""} {
		s.apis[base+countPath] = messages.API{}
		keyed([]string{http.MethodPost}, s.countTokens, base+countPath)
	}
	queued(s.responses, "/responses")
	keyed(get, s.response, "/v1/responses/:id", "/responses/:id")
	keyed([]string{http.MethodDelete}, s.response, "/v1/responses/:id", "/responses/:id")
	keyed([]string{http.MethodPost}, s.cancelResponse, "/v1/responses/:id/cancel", "/responses/:id/cancel")
	keyed(get, s.models, "/v1/models", "/models")
	keyed(get, s.model, "/v1/models/*", "/models/*")
	s.lineRoutes(keyed)
	keyed(get, s.usage, "/v1/usage/:id")
	keyed(get, s.usages, "/v1/usage")
	if s.cfg.MetricsPublic {
		open("/metrics", s.metrics)
	} else {
		s.echo.Match(get, "/metrics", s.metrics, s.auth, s.admin, s.bounded)
	}
}

// Serve answers on l until Shutdown. It returns nil after that.
func (s *Server) Serve(l net.Listener) error {
	if err := s.server.Serve(s.door.Listen(l)); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// Drain turns readiness off and ends the waiting requests, and those that do not come
// to their end; they are told. What runs goes on, new requests are refused, and
// whoever watches the line is sent off.
func (s *Server) Drain() {
	s.draining.Store(true)
	s.board.Close()
	s.bodies.Close()
	for _, p := range s.Pools {
		p.Queue.Drain()
	}
}

// Shutdown stops listening and waits for the running responses until ctx ends;
// then it cuts them off, also those that have left the server.
func (s *Server) Shutdown(ctx context.Context) error {
	s.retries.Close()
	s.door.Close()
	return errors.Join(s.server.Shutdown(ctx), s.server.Close(), s.apart.Wait(ctx)) // Close has nothing to do but after a failure
}

func (s *Server) engineWith(slot string) *engine.Engine {
	for _, p := range s.Pools {
		if i := slices.IndexFunc(p.Engines, func(e *engine.Engine) bool { return slices.Contains(e.Slots(), slot) }); i >= 0 {
			return p.Engines[i]
		}
	}
	return nil
}
