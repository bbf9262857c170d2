package api

import (
	"context"
	"fmt"
	"net/http"
	"runtime/debug"

	"oneslot/api/parted"
	"oneslot/api/slack"
	"oneslot/ledger"
	"oneslot/proxy/downstream"
	"oneslot/proxy/downstream/raw"
	"oneslot/proxy/surface"
	"oneslot/proxy/surface/messages"
	"oneslot/proxy/surface/responses"

	"github.com/labstack/echo/v4"
	"go.uber.org/zap"
)

// partedKey marks a request whose answer goes on when its handler has returned.
const partedKey = "parted"

// part has a request wait on without its handler, whose stack and whose connection's
// buffers are most of what a waiting client costs. It reports whether that is so.
func (s *Server) part(c echo.Context, x *exchange) bool {
	ctx, leave := context.WithCancel(context.Background())
	place := s.apart.Join() // before the server forgets it
	conn, err := x.client.Part(ctx)
	if err != nil {
		place.Leave()
		leave()
		return false
	}
	place.Has(conn)
	x.body.Part()
	x.takes(s.slack, waits-handled)
	c.Set(partedKey, true)
	go s.wait(&apart{exchange: x, conn: conn, place: place, leave: leave, path: c.Path()})
	return true
}

// What a request takes beside its body, roughly: with its handler and the server's
// buffers, or where it waits without them.
const handled, waits = 40 << 10, 8 << 10

// takes notes that a request takes more memory, or less.
func (x *exchange) takes(g *slack.Gauge, n int64) {
	x.taken += n
	g.Add(n)
}

// apart is a request whose handler has returned.
type apart struct {
	*exchange
	conn  *raw.Conn
	place *parted.Member
	leave context.CancelFunc // says that the caller has left
	path  string
}

// wait sits out the wait. Its stack is to stay as small as it is at the start of a
// goroutine.
func (s *Server) wait(x *apart) {
	x.turn.Tell(x.conn.Wake)
	if x.conn.Watch() {
		x.leave()
	}
	s.resume(x)
}

// resume runs the request and ends it.
func (s *Server) resume(x *apart) {
	watched := make(chan struct{})
	x.conn.Again()
	go func() {
		defer close(watched)
		if x.conn.Watch() {
			x.leave()
		}
	}()
	defer func() {
		x.conn.Wake()
		<-watched
		x.client.Close()
		x.leave()
		s.Metrics.Request(x.path, http.StatusOK, x.row.Stream)
		x.place.Leave()
	}()
	defer s.broken(x)
	defer s.leave(x.exchange)
	s.finish(x.exchange, nil)
}

// broken takes a panic behind a wait, which no server would. One that asks for the
// connection to be cut, as of a handler of net/http's, has it cut.
func (s *Server) broken(x *apart) {
	switch p := recover(); p {
	case nil:
	case http.ErrAbortHandler:
		_ = x.conn.Close()
	default:
		s.logPanic(x.row.ID, p)
	}
}

// follow has a retry hear the answer of the request that it repeats, which has its
// own row and its own line in the log.
func (s *Server) follow(c echo.Context, x *exchange) error {
	defer x.body.Close()
	defer x.visit.Leave()
	s.Metrics.Coalesced()
	c.Response().Header().Set("X-Request-Id", x.visit.ID())
	cfg := s.cfg.Client
	cfg.Stream, cfg.Beat, cfg.Voice = x.call.Request.Stream, x.beat, downstream.Echo{Voice: x.call.Talk}
	client, err := downstream.New(c.Response(), c.Request(), cfg)
	if err != nil {
		return err
	}
	defer client.Release()
	err = x.visit.Follow(c.Request().Context(), client)
	s.Log.Info("retry", zap.String("id", x.visit.ID()), zap.String("key", x.row.Key), zap.String("client_request_id", x.row.ClientRequestID),
		zap.Bool("delivered", client.Delivered()), zap.String("remote", c.Request().RemoteAddr), zap.Bool("left", err != nil))
	return nil
}

// panicked is deferred by a handler; err gets the error that stands for its panic.
func (s *Server) panicked(id string, err *error) {
	switch p := recover(); p {
	case nil:
	case http.ErrAbortHandler:
		panic(p)
	default:
		s.logPanic(id, p)
		*err = fmt.Errorf("api: panic of type %T", p)
	}
}

func (s *Server) logPanic(id string, p any) {
	s.Log.Error("panic", zap.String("id", id), zap.String("type", fmt.Sprintf("%T", p)), zap.ByteString("stack", debug.Stack()))
}

// LogFields are those with which every line in the log that ends a request begins.
func LogFields(row *ledger.Row) []zap.Field {
	return []zap.Field{
		zap.String("id", row.ID), zap.String("key", row.Key), zap.String("client_request_id", row.ClientRequestID), zap.String("model", row.Model),
		zap.String("engine", row.Engine), zap.String("class", row.Class), zap.Bool("stream", row.Stream), zap.String("outcome", string(row.Outcome)),
	}
}

// response shows an answer to /v1/responses that is kept, or forgets it. Callers
// have their own.
func (s *Server) response(c echo.Context) error {
	who, do := callerOf(c), s.responses.Get
	if c.Request().Method == http.MethodDelete {
		do = s.responses.Delete
	}
	text, err := do(c.Param("id"), who.name)
	if err != nil {
		return err
	}
	return c.Blob(http.StatusOK, "application/json", text)
}

// cancelResponse ends a response that waits or is being written; one that has
// ended stays as it is.
func (s *Server) cancelResponse(c echo.Context) error {
	if err := s.cancelled(c); err != nil {
		if kept := s.response(c); kept != nil {
			return err
		}
		return nil
	}
	id, _ := requestID(c)
	row, err := s.Ledger.Get(c.Request().Context(), id)
	if err != nil {
		return err
	}
	return c.Blob(http.StatusOK, "application/json", responses.Cancelled(id, row.Model, row.Created))
}

// countPath is where Anthropic's clients have tokens counted.
const countPath = "/messages/count_tokens"

// countTokens says how many tokens the prompt of a request of messages has, and how
// that is known. It needs no slot.
func (s *Server) countTokens(c echo.Context) error {
	body, err := s.body(c)
	if err != nil {
		return err
	}
	req, _, err := messages.API{}.Decode(surface.In{ID: idOf(c), Body: body})
	if err != nil {
		return err
	}
	pool, ok := s.pool(c.Request().Context(), req.Model)
	if !ok {
		return unknownModel(req.Model)
	}
	n, err := s.Proxy.CountPrompt(c.Request().Context(), req, pool.Slots())
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, map[string]any{"input_tokens": n.N, "oneslot": map[string]any{"source": n.Source}})
}
