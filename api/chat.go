package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"oneslot/api/intake"
	"oneslot/api/retry"
	"oneslot/internal/openai"
	"oneslot/internal/telemetry"
	"oneslot/ledger"
	"oneslot/proxy"
	"oneslot/proxy/budget"
	"oneslot/proxy/downstream"
	"oneslot/proxy/engine"
	"oneslot/proxy/surface"
	"oneslot/queue"

	"github.com/labstack/echo/v4"
)

// exchange is one queued request on its way: what was asked and what became of it.
type exchange struct {
	call   *proxy.Call
	pool   *Pool
	job    queue.Job
	ask    retry.Ask
	visit  *retry.Visit                // nil if it repeats no other and will not be repeated
	rest   func(context.Context) error // of the claim, before anything is run; may be nil
	beat   downstream.Beat
	client *downstream.Client // nil until the line is joined
	body   *intake.Body       // its bytes are held until the end
	row    ledger.Row
	asked  string // the name of a model that is unknown
	trace  *telemetry.Request
	began  time.Time
	hold   atomic.Pointer[queue.Hold] // the heartbeat timer looks at it too
	turn   *queue.Turn                // nil before the line is joined, and once the turn is taken
	ahead  func()                     // ends what is prepared while it waits
	remote string                     // the caller's address
	closed bool                       // it has its line in the log
	taken  int64                      // of memory, in bytes
}

// ran reports whether the request got a slot.
func (x *exchange) ran() bool { return x.hold.Load() != nil }

// waited is how long the request has been, or was, in line.
func (x *exchange) waited() time.Duration {
	if hold := x.hold.Load(); hold != nil {
		return hold.Waited
	}
	return time.Since(x.began)
}

// answer returns the whole life of a request of one API.
func (s *Server) answer(a surface.API) echo.HandlerFunc {
	return func(c echo.Context) error { return s.serve(c, a) }
}

func (s *Server) serve(c echo.Context, a surface.API) error {
	x := &exchange{began: time.Now(), row: s.newRow(c), remote: c.Request().RemoteAddr}
	x.trace = s.Telemetry.Begin(c.Request(), c.Path(), x.row.ID, x.began)
	defer s.leave(x)
	c.Set(closedKey, true) // it will have its line in the log
	err := s.decode(c, x, a)
	if err == nil {
		x.body = bodyOf(c) // as long as the exchange lasts, not the handler
		c.Set(bodyKey, nil)
		x.visit, err = s.retries.Meet(c.Request().Context(), x.ask, x.row.ID)
	}
	if err != nil {
		s.close(x, proxy.NotRun(), err)
		return err
	}
	if x.visit.Follows() {
		return s.follow(c, x)
	}
	s.note(s.Ledger.Begin(x.row))
	x.trace.Queued(x.row.Class)
	if err := s.connect(c, x); err != nil {
		s.close(x, proxy.NotRun(), x.settle(err))
		return err
	}
	x.takes(s.slack, handled+int64(x.job.Size))
	x.ahead = s.Proxy.Ahead(context.WithoutCancel(x.client.Context()), x.call, x.pool.Slots())
	x.job.Start = func(slot string) bool { return x.rest == nil && x.trace == nil && s.Proxy.Start(x.call, slot) } // else more comes first
	if x.job.Stead, x.rest, err = x.visit.Claim(x.client.Context(), x.pool.Queue.Claims(), x.ask, x.row.ID); err == nil {
		x.turn, err = x.pool.Queue.Enter(x.client.Context(), x.job)
	}
	if err == nil && x.client.Holds(x.turn.Came()) && s.part(c, x) {
		return nil
	}
	s.finish(x, err)
	return nil
}

// finish runs a request, unless it has failed of err before, and accounts for it.
func (s *Server) finish(x *exchange, err error) {
	defer x.ahead()
	defer func() { x.takes(s.slack, -x.taken) }()
	report := proxy.NotRun()
	if err == nil {
		report, err = s.run(x.client.Context(), x)
	}
	s.used(x, report)
	x.end(err)
	s.close(x, report, x.settle(err))
}

// settle ends the part of the first connection. An answer that nobody has got is
// one whose client is gone, but nobody can tell before the time for a retry is over.
func (x *exchange) settle(err error) error {
	if x.visit == nil {
		return err
	}
	x.visit.End(err)
	if err == nil && !x.visit.Delivered() {
		return proxy.ErrClient
	}
	return err
}

// end tells the client of err, if it is still there, and notes the status that
// it got: a stream that has begun, or a cancelled run, has its status already.
func (x *exchange) end(err error) {
	if err != nil && judge(err).status != statusClientClosed {
		x.client.Fail(err)
	}
	x.client.Release()
	if told := x.client.Told(); told != 0 {
		x.row.Status = told
	}
}

// leave is the end of a request whose handler panics: it gets its outcome, and
// the panic goes on to where it is logged.
func (s *Server) leave(x *exchange) {
	p := recover()
	if p == nil {
		return
	}
	if x.turn != nil { // nobody takes it
		gone, cancel := context.WithCancel(context.Background())
		cancel()
		_ = x.turn.Take(gone, func(context.Context, *queue.Hold) error { return errPanic }) // if its work has begun
		x.ahead()
	}
	report := proxy.NotRun()
	if x.ran() {
		report = proxy.Report{} // what it used, nobody knows
	}
	if x.client != nil {
		x.end(errPanic)
	}
	if x.visit != nil && !x.visit.Follows() {
		x.visit.End(errPanic)
	}
	if !x.closed {
		s.close(x, report, errPanic)
	}
	panic(p)
}

// errPanic is the error of a request whose handler panicked.
var errPanic = errors.New("api: panic")

// run waits for the slot and has the answer written.
func (s *Server) run(ctx context.Context, x *exchange) (report proxy.Report, err error) {
	report = proxy.NotRun()
	turn := x.turn
	x.turn = nil
	err = turn.Take(ctx, retry.Alone(x.rest, func(ctx context.Context, hold *queue.Hold) error {
		x.hold.Store(hold)
		pace := func() queue.Pace { live, _ := s.Proxy.Live(x.row.ID); return paceOf(live.Pace(x.job.Size)) }
		hold.Shows(pace)
		ended := func(last queue.Pace) { hold.Shows(func() queue.Pace { return last }) }
		x.row.Outcome, x.row.Engine, x.row.QueueWait = ledger.Running, s.engineOf(hold.Slot), hold.Waited
		s.note(s.Ledger.Update(x.row))
		if more := x.trace.Granted(x.row, x.call.Request.Body); more != nil {
			ctx = engine.WithHeader(ctx, more)
		}
		began, took := time.Now(), time.Duration(0)
		x.call.Slot, x.call.Begin, x.call.Explain = hold.Slot, hold.Begin, hold.Explain
		x.call.Idle = func() {
			took = time.Since(began)
			ended(pace())
			hold.Idle()
		}
		defer func() { x.row.Slot += cmp.Or(took, time.Since(began)) }()
		var err error
		before := report
		report, err = s.Proxy.Serve(ctx, x.call, x.client)
		if took == 0 { // else it would speak for the next one's
			ended(paceOf(report.Pace(x.job.Size)))
		}
		report.After(&before.Report)
		if errors.Is(err, queue.ErrPreempted) {
			s.backInLine(x)
			return err
		}
		if p := (*openai.Problem)(nil); errors.As(err, &p) && !errors.Is(err, proxy.ErrEngine) {
			err = fmt.Errorf("%w: %w", errRefused, err)
		}
		return err
	}))
	return report, err
}

// connect makes the client's side, which keeps it alive and informed in line.
func (s *Server) connect(c echo.Context, x *exchange) error {
	cfg := s.cfg.Client
	cfg.Stream, cfg.Beat, cfg.Voice, cfg.Parts = x.call.Request.Stream, x.beat, x.call.Talk, true
	if x.visit != nil {
		cfg.Keep = x.visit.Keeper()
	}
	client, err := downstream.New(c.Response(), c.Request(), cfg)
	if err != nil {
		return err
	}
	client.OnCommit(func(h http.Header) {
		if p, ok := x.pool.Queue.Place(x.row.ID); ok && p.Position > 0 {
			h.Set("X-Oneslot-Position", strconv.Itoa(p.Position))
		}
		h.Set("X-Oneslot-Wait-Ms", strconv.FormatInt(x.waited().Milliseconds(), 10))
	})
	if x.call.Budget.Tokens != budget.NoLimit && s.Proxy.Unsupported(x.call, x.pool.Slots()) {
		client.AddHeader("X-Oneslot-Budget", "unsupported")
	}
	x.client = client
	x.wait()
	if x.visit != nil {
		x.visit.Start(client)
	}
	return nil
}

// engineOf is the name of the engine that has a slot.
func (s *Server) engineOf(slot string) string {
	if e := s.engineWith(slot); e != nil {
		return e.Name()
	}
	return slot
}
